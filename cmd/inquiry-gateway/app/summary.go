package app

import (
	"cmp"
	"log/slog"
	"math"

	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// summary says in the log what was started: where keys come from, where lists are
// kept, and what is limited. It holds no secret: addresses have none, and files
// are named, not shown.
func (a *App) summary() []any {
	cfg := a.current.Load().cfg
	memory := a.memory.limit
	if memory == math.MaxInt64 {
		memory = 0
	}
	return []any{
		"version", a.opts.Version, "revision", a.opts.Revision, "configuration", cfg.Path(),
		"listen", a.public.url(), "ops", a.ops.url(), "keys_from", keysFrom(cfg),
		slog.Group("lists", "local_bytes", cfg.Cache.Local.MaxBytes, "redis", cfg.Redis.Addrs, "redis_mode", redisMode(cfg), "sealed", cfg.Cache.SealingKeysFile.Set()),
		slog.Group("limits", "per_second", cfg.RateLimit.PerSecond, "burst", cfg.RateLimit.Burst, "plans", len(cfg.RateLimit.Plans),
			"connections", cfg.MaxConnections, "request_timeout", cfg.RequestTimeout.String(), "heap_bytes", memory),
		slog.Group("legacy", "base_url", cfg.Upstream.BaseURL, "timeout", cfg.Upstream.Timeout.String(), "concurrent", cfg.Upstream.MaxConcurrent, "credentials", cmp.Or(cfg.Upstream.Auth.Type, "none")),
		"tls", a.public.tls, "canary", a.current.Load().canary != nil, "traces", a.traces.provider != nil,
	}
}

func keysFrom(cfg config.Config) string {
	switch {
	case cfg.Auth.Introspection != nil:
		return cfg.Auth.Introspection.URL
	case cfg.Auth.Redis != nil:
		return "redis"
	}
	return cfg.Auth.KeysFile
}

// redisMode is empty without Redis.
func redisMode(cfg config.Config) string {
	if len(cfg.Redis.Addrs) == 0 {
		return ""
	}
	return cfg.Redis.Mode
}
