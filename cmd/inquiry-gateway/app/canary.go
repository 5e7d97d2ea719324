package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	"inquiry-gateway/cache/ttllab"
	"inquiry-gateway/gateway/ops/canary"
	"inquiry-gateway/internal/secretfile"
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
		files     []secretfile.File
		cache     cache.KindConfig
	}{
		{cache.KindBuyer, "canary.buyer_keys", gen.cfg.Canary.BuyerKeys, gen.cfg.Cache.Buyer},
		{cache.KindSeller, "canary.seller_keys", gen.cfg.Canary.SellerKeys, gen.cfg.Cache.Seller},
	} {
		if len(k.files) == 0 {
			continue
		}
		kind := canary.Kind{
			Name: k.name, Keys: canaryKeys(k.key, k.files), Policy: policies[k.name], ByStatus: map[string]canary.Policy{},
			NoUUIDs: func() bool { return a.running().client.RemovesUUIDs(k.name) },
		}
		for status := range k.cache.ByStatus {
			kind.ByStatus[status] = policies[ttllab.StatusName(k.name, status)]
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
	for _, k := range ttllab.KindsOf(c) {
		policies[k.Name] = canary.Policy(k.Policy)
	}
	return policies
}

// canaryKeys names each key after its place in the configuration.
func canaryKeys(key string, files []secretfile.File) []canary.Key {
	keys := make([]canary.Key, len(files))
	for i, file := range files {
		keys[i] = canary.Key{Name: fmt.Sprintf("%s[%d]", key, i), Secret: canary.Secret(strings.TrimSpace(file.Text()))}
	}
	return keys
}

// ownerBy asks the authenticator of the public API, so that a key is as good
// here as it is there.
func ownerBy(a *auth.Authenticator) func(context.Context, string, canary.Secret) (canary.Owner, error) {
	return func(ctx context.Context, kind string, key canary.Secret) (canary.Owner, error) {
		g, err := a.AuthenticateFrom(ctx, []string{"Bearer " + string(key)}, nil)
		switch {
		case errors.Is(err, auth.ErrUnavailable):
			return canary.Owner{}, fmt.Errorf("%w: %w", canary.ErrUndecided, err)
		case err != nil:
			return canary.Owner{}, err
		}
		return canary.Owner{Account: g.Principal.Account, KeyID: g.Principal.KeyID}, g.Principal.Authorize(kind)
	}
}

// canaryFailure tells the console why a check last failed. A reload that makes
// another canary forgets it.
func (a *App) canaryFailure(kind, check string) []string {
	if c := a.current.Load().canary; c != nil {
		return c.LastFailure(kind, check)
	}
	return nil
}

// startCanary runs the canary of what is in force against the public listener, as any
// caller would reach it: over TCP, with TLS where that is on.
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
