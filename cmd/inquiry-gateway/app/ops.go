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
	"inquiry-gateway/internal/yamlfile"
)

// opsWriteTimeout bounds a response of the ops listener. Profiles may take as much longer as the request asks for.
const opsWriteTimeout = 10 * time.Second

const ttlReportEvery = 10 * time.Second

// ttlReport returns a function that reports what other ttls would have done. The report is at most ttlReportEvery old,
// because it may take a second of CPU time.
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

// buildOps builds the server of the ops listener.
func (a *App) buildOps(l *connlimit.Listener) error {
	err := a.registry.Register(keyringCollector{a})
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
	a.ops.http.Protocols.SetUnencryptedHTTP2(false) // one connection could hold a hundred requests
	return nil
}

// keyringCollector collects the series of the current keyring. It describes none, because a reload may replace them.
type keyringCollector struct{ a *App }

func (keyringCollector) Describe(chan<- *prometheus.Desc) {}

func (c keyringCollector) Collect(to chan<- prometheus.Metric) {
	if keyring := c.a.current().keyring; keyring != nil {
		keyring.registry.Collect(to)
	}
}

// facts returns what the console shows besides metrics: files and addresses of this gateway, incidents of the legacy system,
// and the last error of each other part.
func (a *App) facts() console.Facts {
	running := a.current()
	cfg := running.cfg
	facts := a.reloads.facts()
	facts.Kinds, facts.File, facts.Breakers = cfg.Upstream.Kinds(), cfg.Path(), map[string]string{}
	for _, kind := range facts.Kinds {
		facts.Incidents = append(facts.Incidents, running.client.Incidents(kind)...)
		facts.Breakers[kind] = running.client.BreakerState(kind, "")
	}
	if a.redis != nil {
		facts.Redis = cfg.Redis.Addrs[0]
		if at, err := a.redis.LastError(); err != nil {
			facts.Last["redis"] = console.Failure{Text: err.Error(), At: at}
			if cfg.Auth.Redis != nil {
				facts.Last["keystore"] = facts.Last["redis"]
			}
		}
	}
	if server := running.keyring.server; server != nil {
		facts.Introspection = keysFrom(cfg)
		_, failed, unusable := server.State()
		for id, f := range map[string]introspect.Failure{"keystore": failed, "tokens": unusable} {
			if f.Err != nil {
				facts.Last[id] = console.Failure{Text: f.Err.Error(), At: f.At}
			}
		}
	}
	return facts
}

// readiness is degraded, but ready, while Redis, the legacy system or the authorization server fails: cached lists can still be
// served.
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

// legacyHealthy reports whether all breakers are closed.
func (a *App) legacyHealthy() bool {
	client := a.current().client
	for kind := range client.Fingerprints() {
		if client.BreakerState(kind, "") != "closed" {
			return false
		}
	}
	return true
}

// checkKind returns an error if the configuration has no lists of a kind.
func (a *App) checkKind(kind string) error {
	if a.current().client.BreakerState(kind, "") == "" {
		return fmt.Errorf("%w: the configuration has no upstream.%s, so there are no such lists", ops.ErrNoSuchList, kind)
	}
	return nil
}

// purge purges lists on all nodes.
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
	about := []any{"soft", r.Soft, "accounts", len(r.Accounts) + len(r.AccountHashes), "kinds", r.Kinds}
	if err != nil {
		a.opts.Logger.Warn("purge failed", append(about, "error", err)...)
		return reply, err
	}
	a.opts.Logger.Info("lists purged", about...)
	return reply, nil
}

// summary returns the log attributes of the start: where keys come from, where lists are stored, and the limits. Variables are
// shown as ${NAME}, files by their names.
func (a *App) summary() []any {
	cfg := a.current().cfg
	var redis []string
	for i, addr := range cfg.Redis.Addrs {
		redis = append(redis, cfg.Shown(yamlfile.Item("redis.addrs", i), addr))
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
		"listen", a.public.url(), "ops", a.ops.url(), "keys_from", keysFrom(cfg),
		slog.Group("lists", "local_bytes", cfg.Cache.MaxBytes, "redis", redis, "redis_mode", cfg.Redis.Mode, "sealed", cfg.Cache.SealingKeysFile.Set()),
		slog.Group("limits", "per_second", cfg.RateLimit.PerSecond, "burst", cfg.RateLimit.Burst, "plans", len(cfg.RateLimit.Plans),
			"connections", cfg.MaxConnections, "request_timeout", cfg.RequestTimeout.String(), "heap_bytes", memory),
		slog.Group("legacy", "lists", cfg.Upstream.Kinds(), "base_url", cfg.Shown("upstream.base_url", cfg.Upstream.BaseURL), "timeout", cfg.Upstream.Timeout.String(), "concurrent", cfg.Upstream.MaxConcurrent, "credentials", cmp.Or(cfg.Upstream.Auth.Type, "none")),
		"tls", a.public.tls, "traces", a.traces.provider != nil,
	}
}

// keysFrom names the key store: the URL of the authorization server, "redis", or the keys file.
func keysFrom(cfg config.Config) string {
	switch {
	case cfg.Auth.Introspection != nil:
		return cfg.Shown("auth.introspection.url", cfg.Auth.Introspection.URL)
	case cfg.Auth.Redis != nil:
		return "redis"
	}
	return cfg.Shown("auth.keys_file", cfg.Auth.KeysFile.Path())
}
