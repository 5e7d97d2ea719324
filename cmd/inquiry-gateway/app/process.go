package app

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/telemetry"
)

const (
	// heapShare of a container's memory is the collector's goal; the rest is for memory outside of the heap.
	heapShare = 0.9
	// tierShare of that goal is for the in-process tier; fetches, requests and the collector's headroom need the other half.
	tierShare = 0.5
	// replyShare of it is the most that upstream.max_total_response_bytes may be; in memory, replies take replyCost times that.
	replyShare = 0.125
	replyCost  = 2
	// Bytes of an idle connection, without and with TLS.
	plainConnection, secureConnection = 20 << 10, 37 << 10
)

// memory is the process's memory limit.
type memory struct {
	limit int64 // of the heap, bytes; math.MaxInt64: none
}

// limitMemory sets the heap's limit from GOMEMLIMIT or, without it, from the memory limit of the process's control group,
// which group returns in bytes.
func limitMemory(logger *slog.Logger, group memlimit.Provider) memory {
	if os.Getenv("GOMEMLIMIT") == "" {
		switch most, err := group(); {
		case err == nil:
			debug.SetMemoryLimit(int64(float64(most) * heapShare))
		case !errors.Is(err, memlimit.ErrNoLimit) && !errors.Is(err, memlimit.ErrNoCgroup) && !errors.Is(err, memlimit.ErrCgroupsNotSupported):
			logger.Warn("the memory limit of the control group cannot be read; set GOMEMLIMIT to nine tenths of it", "error", err.Error())
		}
	}
	return memory{limit: debug.SetMemoryLimit(-1)}
}

// fit lowers cache.max_bytes to the in-process tier's share of the limit, and upstream.max_total_response_bytes to the replies'
// share, but never below twice max_response_bytes. No entry may be larger than the tier. It returns a warning about each lowered
// value that is not the default.
func (m memory) fit(cfg config.Config) (_ config.Config, warnings []string) {
	if m.limit == math.MaxInt64 {
		return cfg, nil
	}
	lower := func(key, share string, value *int64, most, normal int64) {
		if *value <= most {
			return
		}
		if *value != normal {
			warnings = append(warnings, fmt.Sprintf("%s: %d MiB is more than %s of the memory limit; %d MiB are used", key, *value>>20, share, most>>20))
		}
		*value = most
	}
	normal := config.Default()
	lower("cache.max_bytes", "half", &cfg.Cache.MaxBytes, int64(float64(m.limit)*tierShare), normal.Cache.MaxBytes)
	cfg.Cache.MaxEntryBytes = min(cfg.Cache.MaxEntryBytes, cfg.Cache.MaxBytes)
	lower("upstream.max_total_response_bytes", "an eighth", &cfg.Upstream.MaxTotalResponseBytes,
		max(int64(float64(m.limit)*replyShare), 2*cfg.Upstream.MaxResponseBytes), normal.Upstream.MaxTotalResponseBytes)
	return cfg, warnings
}

// CheckMemory returns warnings about a configuration under a memory limit in bytes: values that serve would lower, and cache,
// replies and connections that together may need more than the heap's share of the limit.
func CheckMemory(cfg config.Config, limit int64) []string {
	const mib = 1 << 20
	heap := float64(limit) * heapShare
	cfg, warnings := memory{limit: int64(heap)}.fit(cfg)
	each := plainConnection
	if cfg.TLS != (setting.Pair{}) {
		each = secureConnection
	}
	// In floating point, which does not overflow.
	lists, replies := float64(cfg.Cache.MaxBytes)/mib, replyCost*float64(cfg.Upstream.MaxTotalResponseBytes)/mib
	connections := float64(cfg.MaxConnections) * float64(each) / mib
	if sum := lists + replies + connections; sum > heap/mib {
		warnings = append(warnings, fmt.Sprintf("may need %.0f MiB: cache.max_bytes %.0f, twice upstream.max_total_response_bytes %.0f, max_connections %.0f; "+
			"nine tenths of the memory limit of %.0f MiB are %.0f; lower them or raise the limit", sum, lists, replies, connections, float64(limit)/mib, heap/mib))
	}
	return warnings
}

// otherFiles is how many files are left for the ops listener, the legacy system, Redis, and files that are read.
const otherFiles = 2 * maxOpsConnections

// openFiles returns how many files the process may have open.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return limit.Cur
}

// fitConnections lowers max_connections to what the limit of open files allows. Without a file left, the legacy system and
// Redis could not be reached.
func fitConnections(want int, files uint64, logger *slog.Logger) int {
	n := int(min(files, math.MaxInt))
	most := max(n-otherFiles, n/2)
	if want > most {
		logger.Warn("max_connections is more than the limit of open files allows beside the legacy system, Redis and ops; raise that limit (ulimit -n, LimitNOFILE)",
			"max_connections", want, "open_files", files, "used_connections", most)
	}
	return min(want, most)
}

// newPanics returns the counter of recovered panics, by part of the program.
func newPanics(reg prometheus.Registerer) *prometheus.CounterVec {
	total := telemetry.Panics(reg)
	for _, where := range []string{"auth", "cache", "console", "recheck", "reload", "upstream"} {
		total.WithLabelValues(where)
	}
	return total
}

// catcher recovers panics of a part's goroutines, counts and logs them.
func (a *App) catcher(where string) *telemetry.Catcher {
	return telemetry.NewCatcher(where, a.panics.WithLabelValues(where), a.opts.Logger)
}

// newRegistry returns a registry of this App: tests run several in one process.
func newRegistry(opts Options) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "inquiry_gateway_build_info",
		Help:        "Always 1; the labels have the version.",
		ConstLabels: prometheus.Labels{"version": opts.Version, "revision": opts.Revision},
	})
	build.Set(1)
	registry.MustRegister(build)
	return registry
}

// newProcessRegistry returns the series of the Go runtime and of the process. They have their own registry because the
// console does not read them, and each collection lists all open files.
func newProcessRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}
