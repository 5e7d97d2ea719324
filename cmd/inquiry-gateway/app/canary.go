package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway/ops/canary"
)

// canarySlack is how much longer the canary waits than a request may take, so
// that it gets the error that says so.
const canarySlack = time.Second

// canaryRun is a canary with its series, which are there while it is on.
type canaryRun struct {
	*canary.Canary
	registry *prometheus.Registry
}

// newCanary makes the canary that the configuration asks for; nil: none.
func (a *App) newCanary(gen *generation) (run *canaryRun, err error) {
	var kinds []canary.Kind
	policies := canaryPolicies(gen.cfg.Cache)
	for _, k := range []struct {
		name, key string
		files     []config.File
		cache     cache.KindConfig
	}{
		{cache.KindBuyer, "canary.buyer_keys", gen.cfg.Canary.BuyerKeys, gen.cfg.Cache.Buyer},
		{cache.KindSeller, "canary.seller_keys", gen.cfg.Canary.SellerKeys, gen.cfg.Cache.Seller},
	} {
		if len(k.files) == 0 {
			continue
		}
		keys, err := readCanaryKeys(k.key, k.files)
		if err != nil {
			return nil, err
		}
		kind := canary.Kind{
			Name: k.name, Keys: keys, Policy: policies[k.name], ByStatus: map[string]canary.Policy{},
			NoUUIDs: func() bool { return a.running().client.RemovesUUIDs(k.name) },
		}
		for status := range k.cache.ByStatus {
			kind.ByStatus[status] = policies[cache.LabKind(k.name, status)]
		}
		kinds = append(kinds, kind)
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	run = &canaryRun{registry: prometheus.NewRegistry()}
	run.Canary, err = canary.New(canary.Options{
		Kinds: kinds, Every: gen.cfg.Canary.Every, Timeout: gen.cfg.RequestTimeout + canarySlack, Version: a.opts.Version,
		Owner: ownerBy(gen.keys.Authenticator), Logger: a.opts.Logger, Registerer: run.registry,
	})
	return run, err
}

// canaryPolicies are those of all groups of lists that have a ttl of their own,
// by the group's name.
func canaryPolicies(c cache.Config) map[string]canary.Policy {
	policies := map[string]canary.Policy{}
	for _, k := range c.LabKinds() {
		policies[k.Name] = canary.Policy(k.Policy)
	}
	return policies
}

// readCanaryKeys reads one key from each file.
func readCanaryKeys(key string, files []config.File) ([]canary.Key, error) {
	var keys []canary.Key
	for i, file := range files {
		secret, err := readCanaryKey(string(file))
		name := fmt.Sprintf("%s[%d]", key, i)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", name, file, err)
		}
		if j := slices.IndexFunc(keys, func(k canary.Key) bool { return k.Secret == secret }); j >= 0 {
			return nil, fmt.Errorf("%s: %s holds the same key as %s[%d]; use a key of another account", name, file, key, j)
		}
		keys = append(keys, canary.Key{Name: name, Secret: secret})
	}
	return keys, nil
}

func readCanaryKey(file string) (canary.Secret, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 2*auth.MaxKeyLength))
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(text))
	if key == "" || len(key) > auth.MaxKeyLength || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("wants one API key and nothing else")
	}
	return canary.Secret(key), nil
}

// ownerBy asks the authenticator of the public API, so that a key is as good
// here as it is there.
func ownerBy(a *auth.Authenticator) func(context.Context, string, canary.Secret) (string, error) {
	return func(ctx context.Context, kind string, key canary.Secret) (string, error) {
		p, err := a.Authenticate(ctx, []string{"Bearer " + string(key)})
		if err == nil {
			err = p.Authorize(kind)
		}
		if errors.Is(err, auth.ErrUnavailable) {
			return "", fmt.Errorf("%w: %w", canary.ErrUndecided, err)
		}
		return p.Account, err
	}
}

// startCanary runs the canary of what is in force against the public listener.
// The function it returns cuts it off and waits for its end.
func (a *App) startCanary(ctx context.Context) (stop func()) {
	gen := a.current.Load()
	if gen.canary == nil {
		return func() {}
	}
	var certificate []byte
	if a.public.tls {
		certificate = gen.certificate.Certificate[0]
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer a.catcher("canary").Catch(nil)
		gen.canary.Run(ctx, canary.Dial(a.public.listener.Addr(), certificate))
	}()
	return func() { cancel(); <-done }
}
