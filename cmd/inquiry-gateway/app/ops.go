package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/cache"
	"inquiry-gateway/cache/ttl"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/gateway/ops/console"
	"inquiry-gateway/internal/connlimit"
)

// opsWriteTimeout bounds an answer of the ops listener. Profiles add the time that they are
// asked for.
const opsWriteTimeout = 10 * time.Second

const ttlReportEvery = 10 * time.Second

// ttlReport returns a function that reports what other ttls would have done, as of at most
// ttlReportEvery ago: a report may take a second of a processor.
func (a *App) ttlReport() func() any {
	var mu sync.Mutex
	var at time.Time
	var report ttl.Report
	return func() any {
		mu.Lock()
		defer mu.Unlock()
		if at.IsZero() || time.Since(at) > ttlReportEvery {
			report, at = ttl.Replay(a.sampler.Sample()), time.Now()
			report.Judge(ttl.Goals{})
		}
		return report
	}
}

// lookups writes the node's sample of look-ups.
func (a *App) lookups(w io.Writer) error {
	return a.sampler.Sample().Write(w)
}

// buildOps builds the ops listener's server. It is given functions, because a reload may replace
// what they read.
func (a *App) buildOps(l *connlimit.Listener) error {
	err := a.registry.Register(replaced{a})
	if err != nil {
		return err
	}
	node, err := os.Hostname()
	if err != nil {
		return err
	}
	if a.console, err = console.New(console.Options{
		Gatherer: a.registry, Facts: a.facts, TopAccounts: a.accounts, Version: a.opts.Version, Node: node,
	}); err != nil {
		return err
	}
	a.ops = newServer(l, ops.New(ops.Options{
		Gatherer: prometheus.Gatherers{a.registry, newProcessRegistry()}, Ready: a.readiness, Tokens: a.tokens, Console: a.console, Logger: a.opts.Logger,
		Purge: a.purge, TTL: a.ttlReport(), Lookups: a.lookups, Explain: a.explain,
		Config: func() string { return a.current().cfg.Redacted() },
	}), opsWriteTimeout, a.errorLog)
	a.ops.http.Protocols.SetUnencryptedHTTP2(false) // nobody needs it, and one connection would do for a hundred
	return nil
}

// replaced collects the series of the parts that a reload may replace, which begin at zero
// with the part. It describes none, as they come and go.
type replaced struct{ a *App }

func (replaced) Describe(chan<- *prometheus.Desc) {}

func (r replaced) Collect(to chan<- prometheus.Metric) {
	s := r.a.current()
	if s.keyring != nil {
		s.keyring.registry.Collect(to)
	}
}

// facts are what the console's lines name: the files and addresses of this gateway, what
// is known of the legacy system, and the newest errors of other parts.
func (a *App) facts() console.Facts {
	running := a.current()
	cfg := running.cfg
	if a.redis != nil {
		if at, err := a.redis.LastError(); err != nil {
			a.lastErrors.record("redis", at, err)
		}
	}
	facts := a.lastErrors.snapshot()
	facts.Kinds, facts.File, facts.Breakers = cfg.Upstream.Kinds(), cfg.Path(), map[string]string{}
	for _, kind := range facts.Kinds {
		facts.Incidents = append(facts.Incidents, running.client.Incidents(kind)...)
		facts.Breakers[kind] = running.client.BreakerState(kind, "")
	}
	if a.redis != nil {
		facts.Redis = cfg.Redis.Addrs[0]
	}
	if failed, ok := facts.Last["redis"]; ok && cfg.Auth.Redis != nil {
		facts.Last["keystore"] = failed
	}
	if server := running.keyring.server; server != nil {
		facts.Introspection = running.introspection
		_, failed, unusable := server.State()
		for id, f := range map[string]introspect.Failure{"keystore": failed, "tokens": unusable} {
			if f.Err != nil {
				facts.Last[id] = console.Failure{Text: f.Err.Error(), At: f.At}
			}
		}
	}
	return facts
}

// readiness is degraded, but ready, while Redis, the legacy system or the authorization server
// fails: there are still lists to serve.
func (a *App) readiness() ops.Readiness {
	running := a.current()
	client := running.client
	state := ops.Readiness{Status: ops.StatusReady, Parts: map[string]string{"redis": a.lists.RedisState()}}
	if state.Parts["redis"] == "down" {
		state.Status = ops.StatusDegraded
	}
	for kind := range client.Fingerprints() {
		breaker := client.BreakerState(kind, "")
		if state.Parts["upstream_"+kind] = breaker; breaker != "closed" {
			state.Status = ops.StatusDegraded
		}
	}
	if running.keyring.server != nil {
		server, _, _ := running.keyring.server.State()
		if state.Parts["introspection"] = server; server != introspect.StateOK {
			state.Status = ops.StatusDegraded
		}
	}
	if a.draining.Load() {
		state.Status = ops.StatusDraining
	}
	return state
}

// legacyHealthy tells whether all breakers are closed.
func (a *App) legacyHealthy() bool {
	client := a.current().client
	for kind := range client.Fingerprints() {
		if client.BreakerState(kind, "") != "closed" {
			return false
		}
	}
	return true
}

// checkKind refuses a question about a list that the configuration does not have.
func (a *App) checkKind(kind string) error {
	if a.current().client.BreakerState(kind, "") == "" {
		return fmt.Errorf("%w: the configuration has no upstream.%s, so there are no such lists", ops.ErrNoSuchList, kind)
	}
	return nil
}

// purge purges lists over the fleet.
func (a *App) purge(ctx context.Context, r ops.PurgeRequest) (reply ops.PurgeReply, err error) {
	for _, kind := range r.Kinds {
		if err := a.checkKind(kind); err != nil {
			return reply, err
		}
	}
	if reply.Reached = ops.ReachedFleet; a.redis == nil {
		reply.Reached = ops.ReachedNode
	}
	reply.Purged, err = a.lists.Purge(ctx, cache.Purge{Accounts: r.Accounts, AccountHashes: r.AccountHashes, Kinds: r.Kinds, Soft: r.Soft})
	if errors.Is(err, cache.ErrPurge) {
		err = fmt.Errorf("%w: %w", ops.ErrPurge, err)
	}
	a.opts.Logger.Info("lists purged", "soft", r.Soft, "accounts", len(r.Accounts)+len(r.AccountHashes), "kinds", r.Kinds, "error", err)
	return reply, err
}

// summary says in the log what was started: where keys come from, where lists are
// kept, and what is limited. It holds no secret: values of variables are shown by their
// names, and files are named, not shown.
func (a *App) summary() []any {
	cfg := a.current().cfg
	shown := cfg.Flatten()
	var redis []string
	for i := range cfg.Redis.Addrs {
		redis = append(redis, shown[fmt.Sprintf("redis.addrs[%d]", i)])
	}
	memory := a.memory.limit
	if memory == math.MaxInt64 {
		memory = 0
	}
	if len(cfg.Redis.Addrs) == 0 {
		cfg.Redis.Mode = ""
	}
	return []any{
		"version", a.opts.Version, "revision", a.opts.Revision, "configuration", cfg.Path(),
		"listen", a.public.url(), "ops", a.ops.url(), "keys_from", keysFrom(cfg, shown),
		slog.Group("lists", "local_bytes", cfg.Cache.MaxBytes, "redis", redis, "redis_mode", cfg.Redis.Mode, "sealed", cfg.Cache.SealingKeysFile.Set()),
		slog.Group("limits", "per_second", cfg.RateLimit.PerSecond, "burst", cfg.RateLimit.Burst, "plans", len(cfg.RateLimit.Plans),
			"connections", cfg.MaxConnections, "request_timeout", cfg.RequestTimeout.String(), "heap_bytes", memory),
		slog.Group("legacy", "lists", cfg.Upstream.Kinds(), "base_url", shown["upstream.base_url"], "timeout", cfg.Upstream.Timeout.String(), "concurrent", cfg.Upstream.MaxConcurrent, "credentials", cmp.Or(cfg.Upstream.Auth.Type, "none")),
		"tls", a.public.tls, "traces", a.traces.provider != nil,
	}
}

// keysFrom names the key store: the URL of the authorization server, "redis", or the
// keys file.
func keysFrom(cfg config.Config, shown map[string]string) string {
	switch {
	case cfg.Auth.Introspection != nil:
		return shown["auth.introspection.url"]
	case cfg.Auth.Redis != nil:
		return "redis"
	}
	return shown["auth.keys_file"]
}
