package app

import (
	"errors"
	"log/slog"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"inquiry-gateway/cache"
)

const (
	// heapShare of a container's memory is the collector's goal; the rest is for
	// what is not on the heap.
	heapShare = 0.9
	// tierShare of that goal is what the in-process tier may take: fills, requests
	// and the collector's headroom need the other half.
	tierShare = 0.5
)

// memory is the process's memory limit.
type memory struct {
	limit  int64 // of the heap, bytes; math.MaxInt64: none
	logger *slog.Logger
}

// limitMemory takes the heap's limit from GOMEMLIMIT or, without it, from the
// control group that the process is in.
func limitMemory(logger *slog.Logger) memory {
	_, err := memlimit.SetGoMemLimitWithOpts(memlimit.WithRatio(heapShare), memlimit.WithProvider(memlimit.FromCgroup))
	if err != nil && !errors.Is(err, memlimit.ErrNoLimit) && !errors.Is(err, memlimit.ErrNoCgroup) && !errors.Is(err, memlimit.ErrCgroupsNotSupported) {
		logger.Warn("the control group's memory limit cannot be read; set GOMEMLIMIT", "error", err)
	}
	return memory{limit: debug.SetMemoryLimit(-1), logger: logger}
}

// fit keeps the in-process tier within its share: a tier that fills the limit
// would leave the process to the collector, or to the kernel.
func (m memory) fit(c cache.Config) cache.Config {
	if m.limit == math.MaxInt64 {
		return c
	}
	if most := int64(float64(m.limit) * tierShare); c.Local.MaxBytes > most {
		m.logger.Warn("cache.local.max_bytes is more than half of the memory limit; the half is used",
			"max_bytes", c.Local.MaxBytes, "memory_limit_bytes", m.limit, "used_bytes", most)
		c.Local.MaxBytes = most
	}
	return c
}
