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

	"inquiry-gateway/cache"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/upstream"
)

const (
	// heapShare of a container's memory is the collector's goal; the rest is for
	// what is not on the heap.
	heapShare = 0.9
	// tierShare of that goal is what the in-process tier may take: fills, requests
	// and the collector's headroom need the other half.
	tierShare = 0.5
	// replyShare of it is what upstream.max_total_response_bytes may be: in memory replies take twice that.
	replyShare = 0.125
	// replyCost is that factor.
	replyCost = 2
	// An idle connection takes that many bytes.
	plainConnection, secureConnection = 20 << 10, 37 << 10
)

// memory is the process's memory limit.
type memory struct {
	limit  int64 // of the heap, bytes; math.MaxInt64: none
	logger *slog.Logger
}

// limitMemory takes the heap's limit from GOMEMLIMIT or, without it, from group: what the
// control group that the process is in may use, in bytes, or an error where there is no such
// limit.
func limitMemory(logger *slog.Logger, group memlimit.Provider) memory {
	if os.Getenv("GOMEMLIMIT") == "" {
		switch most, err := group(); {
		case err == nil:
			debug.SetMemoryLimit(int64(float64(most) * heapShare))
		case !errors.Is(err, memlimit.ErrNoLimit) && !errors.Is(err, memlimit.ErrNoCgroup) && !errors.Is(err, memlimit.ErrCgroupsNotSupported):
			logger.Warn("the memory limit of the control group cannot be read; set GOMEMLIMIT to nine tenths of it", "error", err.Error())
		}
	}
	return memory{limit: debug.SetMemoryLimit(-1), logger: logger}
}

// fit keeps the in-process tier within its share: a tier that fills the limit
// would leave the process to the collector, or to the kernel. One entry is never larger
// than the tier.
func (m memory) fit(c cache.Config) cache.Config {
	if m.limit == math.MaxInt64 {
		return c
	}
	if most := int64(float64(m.limit) * tierShare); c.MaxBytes > most {
		m.logger.Warn("cache.max_bytes is more than half of the memory limit; the half is used, and at most that for one entry",
			"max_bytes", c.MaxBytes, "memory_limit_bytes", m.limit, "used_bytes", most)
		c.MaxBytes, c.MaxEntryBytes = most, min(c.MaxEntryBytes, most)
	}
	return c
}

// fitReplies keeps the replies in progress within their share, but for two of the largest lists that the configuration allows.
func (m memory) fitReplies(c upstream.Config) upstream.Config {
	if m.limit == math.MaxInt64 {
		return c
	}
	if most := max(int64(float64(m.limit)*replyShare), 2*c.MaxResponseBytes); c.MaxTotalResponseBytes > most {
		m.logger.Warn("upstream.max_total_response_bytes is more than an eighth of the memory limit; the eighth is used, or twice max_response_bytes if that is more",
			"max_total_response_bytes", c.MaxTotalResponseBytes, "memory_limit_bytes", m.limit, "used_bytes", most)
		c.MaxTotalResponseBytes = most
	}
	return c
}

// CheckMemory adds up what the configuration lets cache, replies and connections take. It is an error if that is more than
// the heap's share of a memory limit in bytes.
func CheckMemory(cfg config.Config, limit int64) error {
	const mib = 1 << 20
	each := plainConnection
	if cfg.TLS != (setting.Pair{}) {
		each = secureConnection
	}
	// Not in whole numbers, which may overflow.
	lists, replies := float64(cfg.Cache.MaxBytes)/mib, replyCost*float64(cfg.Upstream.MaxTotalResponseBytes)/mib
	connections, heap := float64(cfg.MaxConnections)*float64(each)/mib, float64(limit)*heapShare/mib
	if sum := lists + replies + connections; sum > heap {
		return fmt.Errorf("may need %.0f MiB: cache.max_bytes %.0f, twice upstream.max_total_response_bytes %.0f, max_connections %.0f; of a memory limit of %.0f MiB it has %.0f; lower them or raise the limit",
			sum, lists, replies, connections, float64(limit)/mib, heap)
	}
	return nil
}

// otherFiles are left for the ops listener, the legacy system, Redis, and files that
// are read.
const otherFiles = 2 * maxOpsConnections

// openFiles is how many files the process may have open.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64
	}
	return limit.Cur
}

// fitConnections keeps max_connections below the limit of open files, as each connection is one:
// without a file left the legacy system and Redis could not be reached.
func fitConnections(want int, files uint64, logger *slog.Logger) int {
	n := int(min(files, math.MaxInt))
	most := max(n-otherFiles, n/2)
	if want > most {
		logger.Warn("max_connections is more than the files that this process may have open, less those for the legacy system, Redis and ops; raise the limit (ulimit -n, LimitNOFILE)",
			"max_connections", want, "open_files", files, "used_connections", most)
	}
	return min(want, most)
}

// newPanics counts panics by the part whose goroutine would have ended the process.
func newPanics(reg prometheus.Registerer) *prometheus.CounterVec {
	total := telemetry.Panics(reg)
	for _, where := range []string{"auth", "cache", "console", "recheck", "reload", "upstream"} {
		total.WithLabelValues(where)
	}
	return total
}

// catcher catches the panics of a part's goroutines: they are counted and logged, and
// the process goes on.
func (a *App) catcher(where string) *telemetry.Catcher {
	return telemetry.NewCatcher(where, a.panics.WithLabelValues(where), a.opts.Logger)
}

// newRegistry is not the default registry of Prometheus: several programs run in one
// process in tests, and each has series of its own.
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

// newProcessRegistry has the series of the Go runtime and of the process. They are apart
// because nothing of the program reads them, and because each collection of them lists all
// open files.
func newProcessRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return registry
}
