package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway"
	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/upstream"
)

// writeSlack is what writing an answer may take beyond the time to find it.
const writeSlack = 10 * time.Second

// app is the whole program, put together but not yet serving; run serves.
type app struct {
	cfg      config.Config
	logger   *slog.Logger
	public   *server
	ops      *server
	cert     *certificate // nil without TLS
	keys     *auth.FileStore
	lists    *cache.Lists
	client   *upstream.Client
	redis    redis.UniversalClient // nil without Redis
	draining atomic.Bool
}

// listeners are the two open addresses of an app, which owns and closes them.
type listeners struct{ public, ops net.Listener }

func openListeners(cfg config.Config) (listeners, error) {
	public, err := listen("listen", cfg.Listen)
	if err != nil {
		return listeners{}, err
	}
	private, err := listen("ops.listen", cfg.Ops.Listen)
	if err != nil {
		return listeners{}, errors.Join(err, public.Close())
	}
	return listeners{public, private}, nil
}

func (l listeners) close() error { return errors.Join(l.public.Close(), l.ops.Close()) }

// newApp puts the parts together. On an error everything already opened is
// closed again, the listeners included.
func newApp(cfg config.Config, l listeners, logger *slog.Logger) (*app, error) {
	a := &app{cfg: cfg, logger: logger}
	registry := newRegistry()
	err := a.build(l, registry)
	if err != nil {
		return nil, errors.Join(err, l.close(), a.closeParts(context.Background()))
	}
	return a, nil
}

func (a *app) build(l listeners, registry *prometheus.Registry) error {
	authenticator, err := a.buildAuth(registry)
	if err != nil {
		return err
	}
	if err := a.buildLists(registry); err != nil {
		return err
	}
	proxies, err := parseProxies(a.cfg.Gateway.TrustedProxies)
	if err != nil {
		return err
	}
	handler := gateway.New(gateway.Options{
		Auth:                    authenticator,
		Lists:                   a.lists,
		RequestTimeout:          a.cfg.RequestTimeout,
		IgnoreUnknownParameters: a.cfg.Gateway.UnknownParameters == config.IgnoreUnknown,
		Docs:                    a.cfg.Gateway.Docs,
		TrustedProxies:          proxies,
		Logger:                  a.logger,
		Registerer:              registry,
	})
	return a.buildServers(l, handler, registry)
}

func (a *app) buildAuth(registry *prometheus.Registry) (*auth.Authenticator, error) {
	hasher, err := auth.ReadHasher(a.cfg.Auth.PepperFile)
	if err != nil {
		return nil, err
	}
	opts := auth.Options{Logger: a.logger, Registerer: registry}
	if a.keys, err = auth.NewFileStore(a.cfg.Auth.KeysFile, hasher, opts); err != nil {
		return nil, err
	}
	return auth.NewAuthenticator(a.keys, hasher, opts)
}

func (a *app) buildLists(registry *prometheus.Registry) error {
	var err error
	if a.client, err = upstream.New(a.cfg.Upstream, upstream.Options{
		Logger: a.logger, Registerer: registry, UserAgent: "inquiry-gateway/" + version,
	}); err != nil {
		return err
	}
	if a.redis, err = cache.OpenRedis(a.cfg.Redis, registry, a.logger); err != nil {
		return err
	}
	a.lists, err = cache.New(a.cfg.Cache, cache.Options{
		Fill:        gateway.NewFill(a.client),
		FillTimeout: a.cfg.RequestTimeout,
		Redis:       a.redis,
		Prefix:      a.cfg.Redis.Prefix,
		Fingerprint: a.client.Fingerprint,
		Logger:      a.logger,
		Registerer:  registry,
	})
	return err
}

func (a *app) buildServers(l listeners, handler http.Handler, registry *prometheus.Registry) error {
	a.public = newServer(l.public, handler, a.cfg.RequestTimeout+writeSlack, a.logger)
	if a.cfg.TLS.CertFile != "" {
		var err error
		if a.cert, err = loadCertificate(a.cfg.TLS.CertFile, a.cfg.TLS.KeyFile); err != nil {
			return err
		}
		a.public.withTLS(a.cert)
	}
	token, err := readToken(a.cfg.Ops.TokenFile)
	if err != nil {
		return err
	}
	// Profiles take as long as they are asked to, so the ops listener's writes
	// have no bound of their own.
	a.ops = newServer(l.ops, ops.New(ops.Options{
		Gatherer: registry, Ready: a.readiness, Token: token, Logger: a.logger,
	}), 0, a.logger)
	return nil
}

func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "inquiry_gateway_build_info",
		Help:        "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision},
	})
	build.Set(1)
	registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}

func readToken(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	token, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("ops.token_file: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// readiness is ready or degraded as long as requests are welcome: with Redis or
// the legacy system away there are still lists to serve, and errors that say so.
func (a *app) readiness() ops.Readiness {
	state := ops.Readiness{Status: ops.StatusReady, Parts: map[string]string{
		"redis":           a.lists.RedisState(),
		"upstream_buyer":  a.client.BreakerState("buyer"),
		"upstream_seller": a.client.BreakerState("seller"),
	}}
	if state.Parts["redis"] == "down" || state.Parts["upstream_buyer"] == "open" || state.Parts["upstream_seller"] == "open" {
		state.Status = ops.StatusDegraded
	}
	if a.draining.Load() {
		state.Status = ops.StatusDraining
	}
	return state
}

// run serves until ctx ends, then stops in order: no new requests, those under
// way to their end, background refreshes, connections, and the ops listener
// last, so that the stop itself can be watched.
func (a *app) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(a.public.serve)
	group.Go(a.ops.serve)
	group.Go(func() error { return a.watch(ctx) })
	a.logger.Info("serving", "listen", a.public.url(), "ops", a.ops.url(), "version", version)
	group.Go(func() error {
		<-ctx.Done()
		return a.stop()
	})
	return group.Wait()
}

func (a *app) stop() error {
	a.draining.Store(true)
	a.logger.Info("stopping", "grace", a.cfg.ShutdownGrace)
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.ShutdownGrace)
	defer cancel()
	err := a.public.shutdown(ctx)
	return errors.Join(err, a.closeParts(ctx), a.ops.shutdown(ctx))
}

// closeParts ends what the parts own: refreshes first, then what they use.
func (a *app) closeParts(ctx context.Context) error {
	var errs []error
	if a.lists != nil {
		errs = append(errs, a.lists.Close(ctx))
	}
	if a.client != nil {
		a.client.Close()
	}
	if a.redis != nil {
		errs = append(errs, a.redis.Close())
	}
	return errors.Join(errs...)
}

// parseProxies reads trusted_proxies: networks, or single addresses.
func parseProxies(entries []string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(entries))
	for _, entry := range entries {
		prefix, err := netip.ParsePrefix(entry)
		if err != nil {
			addr, addrErr := netip.ParseAddr(entry)
			if addrErr != nil {
				return nil, fmt.Errorf("gateway.trusted_proxies: %q is neither an address nor a network", entry)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}
