package main

import (
	"crypto/tls"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway"
	"inquiry-gateway/gateway/ops/canary"
	"inquiry-gateway/upstream"
)

// generation is everything that a reload replaces, as a whole: one configuration
// and what is made of it. Its series have a registry of their own and begin at
// zero with it, as at a restart.
type generation struct {
	cfg           config.Config
	registry      *prometheus.Registry
	keys          keySource
	authenticator *auth.Authenticator
	client        *upstream.Client
	public        *gateway.Gateway
	certificate   *tls.Certificate // nil without TLS
	canary        *canary.Canary   // nil where it is off
}

// keySource is a store of keys with its care: reload reads it again where it is
// a file, close ends what it runs.
type keySource struct {
	auth.Store
	reload func() error
	close  func()
}

// newGeneration builds the parts that cfg describes. On an error nothing of it is
// left running.
func (a *app) newGeneration(cfg config.Config) (gen *generation, err error) {
	gen = &generation{cfg: cfg, registry: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			gen.close()
		}
	}()
	if gen.client, err = upstream.New(cfg.Upstream, upstream.Options{
		Logger: a.logger, Registerer: gen.registry, UserAgent: "inquiry-gateway/" + version, Traces: a.traces.tracers(), Fleet: a.advice,
		Panics: a.panics.WithLabelValues("upstream"), Now: a.now,
	}); err != nil {
		return gen, err
	}
	if gen.authenticator, err = a.newAuthenticator(gen); err != nil {
		return gen, err
	}
	if gen.canary, err = a.newCanary(gen); err != nil {
		return gen, err
	}
	proxies, err := cfg.Gateway.Proxies()
	if err != nil {
		return gen, err
	}
	if gen.certificate, err = loadCertificate(cfg.TLS); err != nil {
		return gen, err
	}
	gen.public = gateway.New(gateway.Options{
		Auth:                    gen.authenticator,
		Lists:                   a.lists,
		Rate:                    a.rate,
		Draining:                &a.draining,
		RequestTimeout:          cfg.RequestTimeout,
		IgnoreUnknownParameters: cfg.Gateway.UnknownParameters == config.IgnoreUnknown,
		Docs:                    cfg.Gateway.Docs,
		TrustedProxies:          proxies,
		RequestLog:              a.requests,
		SampleHits:              cfg.Log.SampleHits,
		LogListKeys:             cfg.Log.AccessKeys == config.LogHashedKeys,
		LogRefusals:             cfg.Log.RefusedKeys,
		Traces:                  a.traces.tracers(),
		Logger:                  a.logger,
		Registerer:              gen.registry,
	})
	return gen, nil
}

func (a *app) newAuthenticator(gen *generation) (*auth.Authenticator, error) {
	hasher, err := auth.ReadHasher(gen.cfg.Auth.PepperFile)
	if err != nil {
		return nil, err
	}
	opts := auth.Options{
		Logger: a.logger, Registerer: gen.registry, Traces: a.traces.tracers(), Panics: a.panics.WithLabelValues("auth"), UnknownKeys: gen.cfg.Auth.Attempts(),
	}
	if gen.keys, err = a.openKeys(gen.cfg, hasher, opts); err != nil {
		return nil, err
	}
	return auth.NewAuthenticator(gen.keys.Store, hasher, opts)
}

// openKeys opens the one source of keys that the configuration names.
func (a *app) openKeys(cfg config.Config, hasher auth.Hasher, opts auth.Options) (keySource, error) {
	switch {
	case cfg.Auth.Introspection != nil:
		s, err := auth.NewIntrospectionStore(*cfg.Auth.Introspection, opts)
		if err != nil {
			return keySource{}, err
		}
		return keySource{Store: s, close: s.Close}, nil
	case cfg.Auth.Redis != nil:
		s, err := auth.NewRedisStore(a.redis, cfg.Redis.Prefix, hasher, *cfg.Auth.Redis, opts)
		if err != nil {
			return keySource{}, err
		}
		return keySource{Store: s, close: s.Close}, nil
	}
	s, err := auth.NewFileStore(cfg.Auth.KeysFile, hasher, opts)
	if err != nil {
		return keySource{}, err
	}
	return keySource{Store: s, reload: s.Reload}, nil
}

// close ends what the parts run by themselves. Requests that still use them
// finish with what they have.
func (gen *generation) close() {
	if gen.keys.close != nil {
		gen.keys.close()
	}
	if gen.client != nil {
		gen.client.Close()
	}
	if gen.public != nil {
		gen.public.Close()
	}
}

func loadCertificate(c config.TLS) (*tls.Certificate, error) {
	if c.CertFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return &pair, nil
}
