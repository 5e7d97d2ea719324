// Package app builds the gateway of one configuration and runs it.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/rate"
	"inquiry-gateway/cache"
	"inquiry-gateway/cache/ttl"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway"
	"inquiry-gateway/gateway/front"
	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/gateway/ops/console"
	"inquiry-gateway/internal/ceiling"
	"inquiry-gateway/internal/connlimit"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/upstream"
)

// maxOpsConnections is the limit of the ops listener, more than probes, Prometheus and people need.
const maxOpsConnections = 256

// closeTime is how long the parts may take to close after shutdown_grace.
const closeTime = time.Second

// writeSlack is how long writing a response may take beyond request_timeout.
const writeSlack = 10 * time.Second

// App is the whole program; Run serves. A reload replaces the generation; everything else lives as long as the process.
type App struct {
	opts        Options
	public      *server
	connections *connlimit.Listener // under public
	ops         *server
	memory      memory
	registry    *prometheus.Registry // of what lives as long as the process
	traces      *traces              // with no provider where they are off
	redis       *redisclient.Client  // nil without Redis
	lists       *cache.Cache
	panics      *prometheus.CounterVec // where
	ceiling     *ceiling.Limiter
	sampler     *ttl.Sampler
	accounts    *console.TopAccounts
	console     *console.Console
	rate        *rate.Limiter
	invalidKeys *auth.InvalidKeyLimiter // lasts as long as the process: no reload gives a client its attempts anew
	tokens      *ops.Tokens             // of the ops listener
	generation  atomic.Pointer[generation]
	gateway     gateway.Handler // that of current
	reloads     *reloader
	draining    atomic.Bool

	errorLog *log.Logger // of both listeners
}

// Options are what a program is given besides its configuration.
type Options struct {
	Logger   *slog.Logger
	Requests io.Writer // of one line per request; the same log as Logger's
	// LostRecords is how many lines the log had no room for; nil: none is lost.
	LostRecords func() uint64
	// Traces sends spans where the variables OTEL_* of the environment say so.
	Traces bool
	// Each signal of Hangup has all files read again; nil: there are none.
	Hangup <-chan os.Signal
	// Now is the clock of this node; nil: the system's.
	Now func() time.Time
	// Dial opens the connections to Redis, to the legacy system and to the
	// authorization server; nil: a [net.Dialer] does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// PollFiles is how often files are polled for changes; 0: every 250 ms.
	PollFiles time.Duration
	// Version and Revision say what runs, in the log, the metrics and the console.
	Version, Revision string
}

// Listeners are the two open addresses of an App, which owns and closes them.
type Listeners struct{ Public, Ops net.Listener }

// OpenListeners opens the addresses that cfg names.
func OpenListeners(cfg config.Config) (Listeners, error) {
	public, err := Listen("listen", cfg.Listen)
	if err != nil {
		return Listeners{}, err
	}
	private, err := Listen("ops.listen", cfg.Ops.Listen)
	if err != nil {
		return Listeners{}, errors.Join(err, public.Close())
	}
	return Listeners{public, private}, nil
}

// Close closes both.
func (l Listeners) Close() error { return errors.Join(l.Public.Close(), l.Ops.Close()) }

// New puts the parts together. On an error it closes all that is open, the listeners
// included.
func New(cfg config.Config, l Listeners, opts Options) (*App, error) {
	a := &App{opts: opts, invalidKeys: auth.NewInvalidKeyLimiter(opts.Now), memory: limitMemory(opts.Logger, memlimit.FromCgroup), registry: newRegistry(opts)}
	a.generation.Store(&generation{})
	if err := a.assemble(cfg, l); err != nil {
		return nil, errors.Join(err, l.Close(), a.closeParts(context.Background()))
	}
	return a, nil
}

// assemble makes the parts in the order in which they need each other. If it fails, New closes them.
func (a *App) assemble(cfg config.Config, l Listeners) error {
	var err error
	if a.traces, err = openTraces(a.opts); err != nil {
		return err
	}
	a.reloads = newReloader(cfg, a.opts, a.registry)
	a.panics = newPanics(a.registry)
	a.tokens = ops.NewTokens(a.opts.Logger, a.registry) // until apply knows them, there are none
	a.accounts = console.NewTopAccounts()
	if lost := a.opts.LostRecords; lost != nil {
		a.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "inquiry_gateway_log_lost_records_total",
			Help: "Log records lost because the log is not read fast enough.",
		}, func() float64 { return float64(lost()) }))
	}
	if a.redis, err = redisclient.Open(cfg.Redis, redisclient.Options{Registerer: a.registry, Logger: a.opts.Logger, Dial: a.opts.Dial}); err != nil {
		return err
	}
	a.ceiling = ceiling.New(ceiling.Options{
		Redis: a.redis.Commands(), Prefix: cfg.Redis.KeyPrefix(), Timeout: cfg.Redis.Timeout, Logger: a.opts.Logger, Registerer: a.registry,
	})
	a.sampler = ttl.NewSampler(ttlGroups(cfg), cfg.Cache.RechecksPerSecond, a.opts.Now)
	if err = a.registry.Register(a.sampler); err != nil {
		return err
	}
	if a.lists, err = cache.New(cfg.Cache, cache.Options{
		Fill:       gateway.NewFill(a.fetch, a.traces.tracers()),
		Observer:   a.sampler,
		Failing:    func(kind, account string) bool { return a.current().client.BreakerState(kind, account) != "closed" },
		Redis:      a.redis,
		Prefix:     cfg.Redis.KeyPrefix(),
		Derivation: gateway.Derivation(),
		Traces:     a.traces.tracers(),
		Logger:     a.opts.Logger,
		Registerer: a.registry,
		Panics:     a.catcher("cache"),
		Now:        a.opts.Now,
	}); err != nil {
		return err
	}
	a.rate = rate.New(cfg.RateLimit, rate.Options{
		Redis: a.redis.Commands(), Prefix: cfg.Redis.KeyPrefix(), Timeout: cfg.Redis.Timeout, Logger: a.opts.Logger, Registerer: a.registry, Now: a.opts.Now,
	})
	first, err := a.build(cfg)
	if err != nil {
		return err
	}
	a.apply(first)
	return a.buildServers(cfg, l)
}

// fetch fetches a list with the client of the current generation, so that a fetch after a reload uses the new mapping.
func (a *App) fetch(ctx context.Context, r upstream.Request) (upstream.List, error) {
	defer a.accounts.Filled(r.Account)
	return a.current().client.Fetch(ctx, r)
}

// buildServers makes the servers of the two listeners. Until they run, connections wait in the kernel's queue.
func (a *App) buildServers(cfg config.Config, l Listeners) error {
	a.errorLog = gateway.NewErrorLog(maxRejectionLogs, a.opts.Logger, a.registry)
	a.connections = connlimit.New(l.Public, "public", fitConnections(cfg.MaxConnections, openFiles(), a.opts.Logger), a.registry)
	a.public = newServer(a.connections, &a.gateway, cfg.RequestTimeout+writeSlack, a.errorLog)
	a.public.http.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: writeSlack}
	fast := front.Options{Serves: a.gateway.OnFastPath, Fields: gateway.Fields()}
	if cfg.TLS.CertFile.Set() {
		a.public.tls = true
		certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.current().certificate, nil }
		fast.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate, NextProtos: []string{"h2", "http/1.1"}}
	}
	a.public.front = front.NewListener(a.connections, a.public.http, fast)
	return a.buildOps(connlimit.New(l.Ops, "ops", maxOpsConnections, a.registry))
}

// URL is where callers reach the lists, once New has returned.
func (a *App) URL() string { return a.public.url() }

// OpsURL is where people and Prometheus reach the ops listener.
func (a *App) OpsURL() string { return a.ops.url() }

// Check builds what New would build, without listening and without any connection, to find mistakes in the files that cfg names.
func Check(cfg config.Config) (err error) {
	dial := func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("a check opens no connection")
	}
	a := &App{opts: Options{Logger: slog.New(slog.DiscardHandler), Dial: dial}, memory: memory{limit: math.MaxInt64}, registry: prometheus.NewRegistry()}
	a.generation.Store(&generation{})
	a.panics = newPanics(a.registry)
	defer func() { err = errors.Join(err, a.closeParts(context.Background())) }()
	if a.redis, err = redisclient.Open(cfg.Redis, redisclient.Options{Registerer: a.registry, Logger: a.opts.Logger, Dial: a.opts.Dial}); err != nil {
		return err
	}
	first, err := a.build(cfg)
	if err == nil {
		a.generation.Store(first) // for closeParts
	}
	return err
}

// Run serves until asked ends. Then it stops in order: for shutdown_delay it serves but is not ready; it waits for a reload in
// progress, accepts no new requests, waits for those in flight, and closes refreshes, connections, and last the ops listener, so
// that the stop can be watched. If a part fails there is no delay.
func (a *App) Run(asked context.Context) error {
	ctx, end := context.WithCancel(context.WithoutCancel(asked))
	defer end()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(a.public.serve)
	group.Go(a.ops.serve)
	watched := make(chan struct{})
	group.Go(func() error {
		defer close(watched)
		return a.watch(ctx)
	})
	recheck := func(ctx context.Context) { a.recheck(ctx, gateway.NewFill(a.fetch, a.traces.tracers())) }
	for _, work := range []struct {
		where string
		run   func(context.Context)
	}{{"console", a.console.Run}, {"recheck", recheck}} {
		group.Go(func() error {
			defer a.catcher(work.where).Catch(nil)
			work.run(ctx)
			return nil
		})
	}
	a.opts.Logger.Info("serving", a.summary()...)
	group.Go(func() error {
		select {
		case <-asked.Done():
			a.drain(ctx)
		case <-ctx.Done():
		}
		end()
		<-watched // or the generation of a reload would be left open
		return a.stop()
	})
	return group.Wait()
}

// drain serves for shutdown_delay without being ready, so that a load balancer notices before anything is closed. Another SIGTERM or
// Ctrl-C ends it.
func (a *App) drain(ctx context.Context) {
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)
	a.draining.Store(true)
	delay := a.current().cfg.ShutdownDelay
	a.opts.Logger.Info("draining", "delay_seconds", delay.Seconds())
	select {
	case <-time.After(delay):
	case <-again:
	case <-ctx.Done():
	}
}

// ttlGroups returns the groups of lists of the kinds that are configured.
func ttlGroups(cfg config.Config) []ttl.Group {
	return ttl.GroupsOf(cfg.Cache, true, cfg.Upstream.Kinds()...)
}

// recheck compares lists with what fill gets, until ctx ends.
func (a *App) recheck(ctx context.Context, fill cache.Fill) {
	fetch := func(ctx context.Context, k cache.Key) (uint64, time.Time, error) {
		c, err := fill(ctx, k, cache.FillInfo{Background: true, Failing: true}) // it is no new failure if it fails
		return cache.BodySum(k.Kind, c.Body), c.AnsweredAt, err
	}
	timeout := func() time.Duration { return a.current().cfg.RequestTimeout }
	a.sampler.Recheck(ctx, fetch, timeout, a.legacyHealthy, a.catcher("recheck"))
}

// stop closes the parts within shutdown_grace, which begins here, after shutdown_delay. If requests or traces need all of it, the
// parts still have closeTime.
func (a *App) stop() error {
	a.draining.Store(true)
	grace := a.current().cfg.ShutdownGrace
	a.opts.Logger.Info("stopping", "grace_seconds", grace.Seconds())
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	err := a.public.shutdown(ctx)
	closed := make(chan error, 1)
	go func() { closed <- a.closeParts(ctx) }()
	deadline, _ := ctx.Deadline()
	select {
	case failed := <-closed:
		err = errors.Join(err, failed)
	case <-time.After(closeTime + max(0, time.Until(deadline))):
		err = errors.Join(err, errors.New("not all parts had closed at the end of shutdown_grace"))
	}
	return errors.Join(err, a.ops.shutdown(ctx))
}

// closeParts closes the parts: the lists with their refreshes first, then what these use.
func (a *App) closeParts(ctx context.Context) error {
	var errs []error
	if a.lists != nil {
		errs = append(errs, a.lists.Close(ctx))
	}
	a.current().close(&generation{})
	if a.rate != nil {
		a.rate.Close()
	}
	if a.redis != nil {
		errs = append(errs, a.redis.Close())
	}
	a.traces.close(ctx)
	return errors.Join(errs...)
}
