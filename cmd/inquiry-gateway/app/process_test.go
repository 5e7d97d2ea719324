package app

import (
	"bytes"
	"io/fs"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"inquiry-gateway/cache"
	"inquiry-gateway/upstream"
)

// A process that may open few files takes fewer connections, and says so.
func TestConnectionsFitIntoOpenFiles(t *testing.T) {
	for files, want := range map[uint64]int{65_536: 10_000, 10_512: 10_000, 10_511: 9_999, 1024: 512, 100: 50, math.MaxUint64: 10_000} {
		var log bytes.Buffer
		got := fitConnections(10_000, files, slog.New(slog.NewTextHandler(&log, nil)))
		if got != want || strings.Contains(log.String(), "ulimit -n") != (want < 10_000) {
			t.Errorf("of %d files: %d connections, log: %s", files, got, &log)
		}
	}
}

// The limit of a container counts where GOMEMLIMIT does not say another one; a limit that
// cannot be read is said.
func TestLimitOfTheControlGroup(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for _, c := range []struct {
		env    string
		limit  uint64
		err    error
		want   int64
		warned bool
	}{
		{limit: 1 << 30, want: 1 << 30 * 9 / 10},
		{limit: 1 << 30, env: "1GiB", want: before},
		{err: memlimit.ErrNoLimit, want: before},
		{err: memlimit.ErrNoCgroup, want: before},
		{err: memlimit.ErrCgroupsNotSupported, want: before},
		{err: fs.ErrPermission, want: before, warned: true},
	} {
		debug.SetMemoryLimit(before)
		t.Setenv("GOMEMLIMIT", c.env)
		var log bytes.Buffer
		got := limitMemory(slog.New(slog.NewTextHandler(&log, nil)), func() (uint64, error) { return c.limit, c.err })
		if got.limit != c.want || strings.Contains(log.String(), "set GOMEMLIMIT") != c.warned {
			t.Errorf("%+v: limit %d, log: %s", c, got.limit, &log)
		}
	}
}

// Lists may take half of the memory limit at most, less than configured is said, and what is
// used is good however small the limit is.
func TestTheTierFitsTheMemoryLimit(t *testing.T) {
	for limit, want := range map[int64]int64{math.MaxInt64: 256 << 20, 512 << 20: 256 << 20, 200 << 20: 100 << 20, 8 << 20: 4 << 20} {
		var log bytes.Buffer
		m := memory{limit: limit, logger: slog.New(slog.NewTextHandler(&log, nil))}
		got := m.fit(cache.DefaultConfig())
		if err := got.Validate(); err != nil || got.MaxBytes != want || strings.Contains(log.String(), "cache.max_bytes") != (want < 256<<20) {
			t.Errorf("of %d bytes: %d for lists, %v, log: %s", limit, got.MaxBytes, err, &log)
		}
	}
}

// Replies in progress may have an eighth of the memory limit, and room for one list in any case.
func TestRepliesFitTheMemoryLimit(t *testing.T) {
	for limit, want := range map[int64]int64{math.MaxInt64: 256 << 20, 2 << 30: 256 << 20, 1 << 30: 128 << 20, 64 << 20: 32 << 20} {
		var log bytes.Buffer
		m := memory{limit: limit, logger: slog.New(slog.NewTextHandler(&log, nil))}
		if got := m.fitReplies(upstream.DefaultConfig()).MaxTotalResponseBytes; got != want || strings.Contains(log.String(), "max_total_response_bytes") != (want < 256<<20) {
			t.Errorf("of %d bytes: %d for replies, log: %s", limit, got, &log)
		}
	}
}
