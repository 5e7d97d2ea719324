package app

import (
	"crypto/tls"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/cache"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway"
	"inquiry-gateway/upstream"
)

// maxRejectionLogs is how many records per second each reason has, of refused requests or failed connections.
const maxRejectionLogs = 20

// generation is all that is built from one configuration. A reload replaces it as a whole, by
// another one that shares the parts which do not change. It is not changed once it
// is made. The zero value is what runs before the first.
type generation struct {
	cfg           config.Config
	keyring       *keyring
	client        *upstream.Client
	gateway       *gateway.Gateway
	certificate   *tls.Certificate // nil without TLS
	policy        func()           // sets the policy of the cache; cannot fail any more
	introspection string           // URL of the authorization server, as the console shows it
}

// keyring is the authenticator over one key store. The store, with the keys that it has cached, and its series last until a
// reload names another one.
type keyring struct {
	*auth.Authenticator
	registry *prometheus.Registry
	file     *keysfile.Store // one of these three
	redis    *keysredis.Store
	server   *introspect.Store
	close    func() // ends the store; nil: it runs nothing
}

// current is the generation in force, an empty one until the first is there. What must not change in
// the middle of its use is taken from one call.
func (a *App) current() *generation { return a.generation.Load() }

// build makes the generation of a configuration, with the parts of the current one that do not change.
// After an error or a panic nothing new is left running, and the current generation is as before: all
// that can fail comes before what changes something that both generations use.
func (a *App) build(cfg config.Config) (next *generation, err error) {
	old := a.current()
	next = &generation{cfg: cfg}
	built := false
	defer func() {
		if !built {
			next.close(old)
		}
	}()
	if next.certificate, err = cfg.Certificate(); err != nil {
		return next, err
	}
	if err = cfg.Cache.Validate(); err != nil {
		return next, err
	}
	openKeyring, err := a.newKeyring(cfg, old)
	if err != nil {
		return next, err
	}
	if next.client, err = upstream.New(a.memory.fitReplies(cfg.Upstream), upstream.Options{
		Logger: a.opts.Logger, Registerer: a.registry, UserAgent: "inquiry-gateway/" + a.opts.Version, Traces: a.traces.tracers(), Ceiling: a.ceiling,
		Panics: a.catcher("upstream"), Now: a.opts.Now, Dial: a.opts.Dial, LongestFetch: cfg.RequestTimeout, Before: old.client,
		KeepFor: map[string]time.Duration{"buyer": cfg.Cache.Buyer.TTL + cfg.Cache.Buyer.StaleIfError, "seller": cfg.Cache.Seller.TTL + cfg.Cache.Seller.StaleIfError},
	}); err != nil {
		return next, err
	}
	if a.lists != nil { // a check has none
		fills := cache.Fills{Timeout: cfg.RequestTimeout, Mappings: gateway.Mappings(next.client)}
		if next.policy, err = a.lists.Prepare(a.memory.fit(cfg.Cache), fills); err != nil {
			return next, err
		}
	}
	if cfg.Auth.Introspection != nil {
		next.introspection = cfg.Flatten()["auth.introspection.url"]
	}
	next.keyring = openKeyring()
	next.gateway = gateway.New(gateway.Options{
		Auth:                    next.keyring,
		Kinds:                   gateway.Kinds(next.client),
		Lists:                   a.lists,
		Rate:                    a.rate,
		Draining:                &a.draining,
		RequestTimeout:          cfg.RequestTimeout,
		WriteTimeout:            cfg.RequestTimeout + writeSlack,
		FastPath:                cfg.Gateway.FastPath == config.On,
		IgnoreUnknownParameters: cfg.Gateway.UnknownParameters == config.IgnoreUnknown,
		Docs:                    cfg.Gateway.Docs,
		TrustedProxies:          cfg.Gateway.Proxies(),
		RequestLog:              a.opts.Requests,
		SampleHits:              cfg.Log.SampleHits,
		LogListKeys:             cfg.Log.AccessKeys == config.LogHashedKeys,
		LogRefusals:             maxRejectionLogs,
		Traces:                  a.traces.tracers(),
		Logger:                  a.opts.Logger,
		Registerer:              a.registry,
	})
	built = true
	return next, nil
}

// apply puts next in force. Cache, limiter, sampler and ceiling keep what they know and change
// their policies. Nothing here can fail.
func (a *App) apply(next *generation) {
	cfg := next.cfg
	a.sampler.SetGroups(ttlGroups(cfg))
	a.sampler.SetRate(cfg.Cache.RechecksPerSecond)
	a.rate.SetConfig(cfg.RateLimit)
	next.policy()
	a.ceiling.Set(cfg.Upstream.MaxRequestsPerSecond, cfg.Upstream.MaxNodes)
	a.tokens.Set(cfg.Ops.Tokens())
	if a.public != nil { // not at the start
		a.connections.SetMax(fitConnections(cfg.MaxConnections, openFiles(), a.opts.Logger))
	}
	a.gateway.Set(next.gateway)
	a.generation.Store(next)
}

// newKeyring reads what the key store needs; start, which cannot fail, opens it. A reload that keeps the key store goes on with
// the keys that it has cached: while the key store is unavailable, or while the keys file has a mistake, it must not lock
// valid keys out. The series have a registry of their own, as they begin anew with another key store.
func (a *App) newKeyring(cfg config.Config, old *generation) (start func() *keyring, err error) {
	if old.keyring != nil && cfg.Auth.SameStore(old.cfg.Auth) {
		return func() *keyring {
			switch {
			case cfg.Auth.Introspection != nil:
				old.keyring.server.SetConfig(*cfg.Auth.Introspection, cfg.Auth.TTL())
			case cfg.Auth.Redis != nil:
				old.keyring.redis.SetTTL(cfg.Auth.TTL())
			}
			return old.keyring
		}, nil
	}
	hasher, err := auth.HasherOf(cfg.Auth.PepperFile)
	if err != nil {
		return nil, err
	}
	keys := &keyring{registry: prometheus.NewRegistry()}
	opts := auth.Options{
		Logger: a.opts.Logger, Registerer: keys.registry, Traces: a.traces.tracers(), Panics: a.catcher("auth"),
		InvalidKeys: a.invalidKeys, Now: a.opts.Now, Dial: a.opts.Dial,
	}
	if cfg.Auth.KeysFile != "" {
		if keys.file, err = keysfile.New(cfg.Auth.KeysFile, hasher, opts); err != nil {
			return nil, err
		}
	}
	return func() *keyring {
		var store auth.Store = keys.file
		switch {
		case cfg.Auth.Introspection != nil:
			keys.server = introspect.New(*cfg.Auth.Introspection, cfg.Auth.TTL(), opts)
			store, keys.close = keys.server, keys.server.Close
		case cfg.Auth.Redis != nil:
			keys.redis = keysredis.New(a.redis, cfg.Redis.KeyPrefix(), hasher, cfg.Auth.TTL(), opts)
			store, keys.close = keys.redis, keys.redis.Close
		}
		keys.Authenticator = auth.NewAuthenticator(store, hasher, opts)
		return keys
	}, nil
}

// close stops the goroutines of parts that next does not share. Requests that still use the
// parts finish with what they have.
func (s *generation) close(next *generation) {
	if s.keyring != nil && s.keyring != next.keyring && s.keyring.close != nil {
		s.keyring.close()
	}
	if s.client != nil && !s.client.GoesOnIn(next.client) {
		s.client.Close()
	}
}
