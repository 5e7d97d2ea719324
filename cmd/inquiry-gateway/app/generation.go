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

// maxRejectionLogs is the maximum number of log records per second and reason about refused requests or failed connections.
const maxRejectionLogs = 20

// generation is everything that is built from one configuration. A reload replaces it as a whole by another, which shares
// the parts that do not change. It is immutable. The zero value runs before the first.
type generation struct {
	cfg              config.Config
	keyring          *keyring
	client           *upstream.Client
	gateway          *gateway.Gateway
	certificate      *tls.Certificate // nil without TLS
	applyCachePolicy func()           // cannot fail
}

// keyring is the authenticator over one key store. The store, the keys that it has cached and its series last until a
// reload names another store.
type keyring struct {
	*auth.Authenticator
	registry *prometheus.Registry
	file     *keysfile.Store // one of these three
	redis    *keysredis.Store
	server   *introspect.Store
	close    func() // closes the store; nil if there is nothing to close
}

// current returns the generation in force, before the first an empty one. A function that needs parts of one and the same
// generation calls it once.
func (a *App) current() *generation { return a.generation.Load() }

// build returns the generation of a configuration, with the parts of the current one that do not change. After an error or a
// panic nothing new is left running, and the current generation is unchanged: everything that can fail comes before changes
// of parts that both generations use.
func (a *App) build(cfg config.Config) (next *generation, err error) {
	old := a.current()
	next = &generation{cfg: cfg}
	fitted, warnings := a.memory.fit(cfg)
	built := false
	defer func() {
		if !built {
			next.close(old)
		}
	}()
	if next.certificate, err = cfg.Certificate(); err != nil {
		return next, err
	}
	openKeyring, err := a.newKeyring(cfg, old)
	if err != nil {
		return next, err
	}
	if next.client, err = upstream.New(fitted.Upstream, upstream.Options{
		Logger: a.opts.Logger, Registerer: a.registry, UserAgent: "inquiry-gateway/" + a.opts.Version, Traces: a.traces.tracers(), Ceiling: a.ceiling,
		Panics: a.catcher("upstream"), Now: a.opts.Now, Dial: a.opts.Dial, LongestFetch: cfg.RequestTimeout, Before: old.client,
		KeepFor: map[string]time.Duration{cache.KindBuyer: cfg.Cache.Buyer.TTL + cfg.Cache.Buyer.StaleIfError, cache.KindSeller: cfg.Cache.Seller.TTL + cfg.Cache.Seller.StaleIfError},
	}); err != nil {
		return next, err
	}
	if a.lists != nil { // a check has none
		fills := cache.Fills{Timeout: cfg.RequestTimeout, Mappings: gateway.Mappings(next.client)}
		if next.applyCachePolicy, err = a.lists.Prepare(fitted.Cache, fills); err != nil {
			return next, err
		}
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
	for _, warning := range warnings {
		a.opts.Logger.Warn("configuration", "warning", warning)
	}
	return next, nil
}

// apply puts next in force. Cache, limiter, sampler and ceiling keep their state and get new policies. It cannot fail.
func (a *App) apply(next *generation) {
	cfg := next.cfg
	a.sampler.SetGroups(ttlGroups(cfg))
	a.sampler.SetRate(cfg.Cache.RechecksPerSecond)
	a.rate.SetConfig(cfg.RateLimit)
	next.applyCachePolicy()
	a.ceiling.Set(cfg.Upstream.MaxRequestsPerSecond, cfg.Upstream.MaxNodes)
	a.tokens.Set(cfg.Ops.Tokens())
	if a.public != nil { // not at the start
		a.connections.SetMax(fitConnections(cfg.MaxConnections, openFiles(), a.opts.Logger))
	}
	a.gateway.Set(next.gateway)
	a.generation.Store(next)
}

// newKeyring reads what the key store needs; start, which cannot fail, opens it. If a reload keeps the key store, its cached keys
// stay: while the key store is unavailable, or the keys file has a mistake, valid keys must not be refused. The series have
// their own registry, because they start at zero with another key store.
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
	if cfg.Auth.KeysFile.Set() {
		if keys.file, err = keysfile.New(cfg.Auth.KeysFile.Path(), hasher, opts); err != nil {
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

// close closes the parts that next does not share. Requests in flight may finish.
func (s *generation) close(next *generation) {
	if s.keyring != nil && s.keyring != next.keyring && s.keyring.close != nil {
		s.keyring.close()
	}
	if s.client != nil && !s.client.GoesOnIn(next.client) {
		s.client.Close()
	}
}
