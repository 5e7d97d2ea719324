package app

import (
	"crypto/tls"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway"
	"inquiry-gateway/upstream"
)

// generation is what one configuration comes down to. A reload replaces it as a
// whole, by one that shares with it the parts that do not change.
type generation struct {
	cfg         config.Config
	keys        *keyring
	client      *upstream.Client
	public      *gateway.Gateway
	certificate *tls.Certificate // nil without TLS
	canary      *canaryRun       // nil where it is off
}

// keyring is a source of keys with what judges them. All that it remembers and
// counts lasts until a reload changes the source.
type keyring struct {
	*auth.Authenticator
	registry *prometheus.Registry
	known    *auth.Known  // what the node knows of keys of Redis or an authorization server
	reload   func() error // reads a keys file again; nil: another store, which is asked for each key
	close    func()       // ends what the store runs; nil: nothing
}

// newGeneration builds the parts that cfg describes and what runs does not have
// already. On an error nothing new is left running.
func (a *App) newGeneration(cfg config.Config) (gen *generation, err error) {
	old := a.running()
	gen = &generation{cfg: cfg}
	defer func() {
		if err != nil {
			gen.close(old)
		}
	}()
	if gen.client, err = upstream.New(cfg.Upstream, upstream.Options{
		Logger: a.opts.Logger, Registerer: a.registry, UserAgent: "inquiry-gateway/" + a.opts.Version, Traces: a.traces.tracers(), Ceiling: a.ceiling,
		Panics: a.catcher("upstream"), Now: a.opts.Now, Dial: a.opts.Dial, Redis: a.redis.Commands(), Prefix: cfg.Redis.Prefix, Before: old.client,
	}); err != nil {
		return gen, err
	}
	if gen.keys = old.keys; gen.keys == nil || !cfg.Same(old.cfg, "auth") {
		if gen.keys, err = a.newKeyring(cfg, old); err != nil {
			return gen, err
		}
	}
	if gen.canary = old.canary; gen.keys != old.keys || !cfg.Same(old.cfg, "canary", "request_timeout", "tls") {
		gen.canary = a.newCanary(gen)
	}
	proxies, err := cfg.Gateway.Proxies()
	if err != nil {
		return gen, err
	}
	if gen.certificate, err = cfg.TLS.Certificate(); err != nil {
		return gen, err
	}
	gen.public = gateway.New(gateway.Options{
		Auth:                    gen.keys,
		Kinds:                   gateway.Kinds(gen.client),
		Lists:                   a.lists,
		Rate:                    a.rate,
		Draining:                &a.draining,
		RequestTimeout:          cfg.RequestTimeout,
		HitLane:                 cfg.Gateway.HitLane == config.On,
		IgnoreUnknownParameters: cfg.Gateway.UnknownParameters == config.IgnoreUnknown,
		Docs:                    cfg.Gateway.Docs,
		TrustedProxies:          proxies,
		RequestLog:              a.opts.Requests,
		SampleHits:              cfg.Log.SampleHits,
		LogListKeys:             cfg.Log.AccessKeys == config.LogHashedKeys,
		LogRefusals:             cfg.Log.RefusedKeys,
		Traces:                  a.traces.tracers(),
		Logger:                  a.opts.Logger,
		Registerer:              a.registry,
	})
	return gen, nil
}

// running is the generation in force; empty before the first. What must not change in the
// middle of its use is taken from one call.
func (a *App) running() *generation {
	if gen := a.current.Load(); gen != nil {
		return gen
	}
	return &generation{}
}

// newKeyring opens the store of keys. What is known of keys and counted lasts while the sort of
// store and the pepper do: a reload while the store is away must not take good keys away. With
// another store the series begin anew, so they have a registry of their own.
func (a *App) newKeyring(cfg config.Config, old *generation) (*keyring, error) {
	hasher, err := auth.HasherOf(cfg.Auth.PepperFile)
	if err != nil {
		return nil, err
	}
	keys := &keyring{registry: prometheus.NewRegistry(), known: auth.NewKnown()}
	if old.keys != nil && cfg.Auth.SameSource(old.cfg.Auth) {
		keys.registry, keys.known = old.keys.registry, old.keys.known
	}
	opts := auth.Options{
		Logger: a.opts.Logger, Registerer: keys.registry, Traces: a.traces.tracers(), Panics: a.catcher("auth"),
		Guesses: auth.NewGuesses(cfg.Auth.UnknownKeys, a.opts.Now), Known: keys.known, Now: a.opts.Now, Dial: a.opts.Dial,
	}
	var store auth.Store
	switch {
	case cfg.Auth.Introspection != nil:
		s := introspect.New(*cfg.Auth.Introspection, cfg.Auth.CachePolicy(), opts)
		store, keys.close = s, s.Close
	case cfg.Auth.Redis != nil:
		s := keysredis.New(a.redis, cfg.Redis.Prefix, hasher, *cfg.Auth.Redis, cfg.Auth.CachePolicy(), opts)
		store, keys.close = s, s.Close
	default:
		s, err := keysfile.New(cfg.Auth.KeysFile, hasher, opts)
		if err != nil {
			return nil, err
		}
		store, keys.reload = s, s.Reload
	}
	keys.Authenticator = auth.NewAuthenticator(store, hasher, opts)
	return keys, nil
}

// close ends what the parts run by themselves and next does not go on with.
// Requests that still use them finish with what they have.
func (gen *generation) close(next *generation) {
	for _, end := range gen.ends(next) {
		end()
	}
}

// ends is what close has to do.
func (gen *generation) ends(next *generation) (all []func()) {
	if gen.keys != nil && gen.keys != next.keys && gen.keys.close != nil {
		all = append(all, gen.keys.close)
	}
	if gen.client != nil && !gen.client.GoesOnIn(next.client) {
		all = append(all, gen.client.Close)
	}
	if gen.public != nil {
		all = append(all, gen.public.Close)
	}
	return all
}
