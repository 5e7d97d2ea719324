package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/ops/canary"
)

// canarySlack is how much longer than request_timeout the canary waits: so it gets
// the gateway's own answer.
const canarySlack = time.Second

// canaryRun is a canary with its series, which are there while it is on. A nil one does
// nothing.
type canaryRun struct {
	*canary.Canary
	registry *prometheus.Registry
	cancel   context.CancelFunc // nil: it does not run
	done     chan struct{}
}

// newCanary makes the canary that the configuration asks for; nil: none. Each key is
// called by its place in the configuration.
func (a *App) newCanary(s *setup) *canaryRun {
	var kinds []canary.Kind
	for _, name := range []string{cache.KindBuyer, cache.KindSeller} {
		kind := canary.Kind{Name: name}
		key, files := s.cfg.Canary.Keys(name)
		for i, file := range files {
			kind.Keys = append(kind.Keys, canary.Key{Name: fmt.Sprintf("%s[%d]", key, i), Secret: canary.Secret(strings.TrimSpace(file.Text()))})
		}
		if len(kind.Keys) > 0 {
			kinds = append(kinds, kind)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	registry := prometheus.NewRegistry()
	return &canaryRun{registry: registry, Canary: canary.New(canary.Options{
		Kinds: kinds, Every: s.cfg.Canary.Every, Timeout: s.cfg.RequestTimeout + canarySlack, Version: a.opts.Version,
		Owner: ownerBy(s.keyring.Authenticator), Logger: a.opts.Logger, Registerer: registry,
	})}
}

// ownerBy asks the authenticator of the public API, so that a key is as good
// here as it is there.
func ownerBy(a *auth.Authenticator) func(context.Context, string, canary.Secret) (canary.Owner, error) {
	return func(ctx context.Context, kind string, key canary.Secret) (canary.Owner, error) {
		g, err := a.AuthenticateFrom(ctx, []string{"Bearer " + string(key)}, nil)
		if err != nil {
			return canary.Owner{}, err
		}
		return canary.Owner{Account: g.Principal.Account, KeyID: g.Principal.KeyID}, g.Principal.Authorize(kind)
	}
}

// canaryResults are those of the last round; nil: the canary is off.
func (a *App) canaryResults() []canary.Result {
	if c := a.running().canary; c != nil {
		return c.Last()
	}
	return nil
}

// startCanary runs the canary of s, unless it runs already, against the public listener, as
// any caller would reach it: over TCP, with TLS where that is on.
func (a *App) startCanary(ctx context.Context, s *setup) {
	c := s.canary
	if c == nil || c.cancel != nil {
		return
	}
	var certificate []byte
	if a.public.tls {
		certificate = s.certificate.Certificate[0]
	}
	ctx, c.cancel = context.WithCancel(ctx)
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		defer a.catcher("canary").Catch(nil)
		c.Run(ctx, a.public.listener.Addr(), certificate)
	}()
}

// stop cuts the canary off and waits for its end.
func (c *canaryRun) stop() {
	if c != nil && c.cancel != nil {
		c.cancel()
		<-c.done
	}
}
