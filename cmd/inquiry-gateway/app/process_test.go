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

	"inquiry-gateway/cmd/inquiry-gateway/config"
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

// Lists may take half of the memory limit, and replies in progress an eighth, with room for one list in any case. Values that
// are lowered are warned of, but for the defaults, and what is used is valid however small the limit is.
func TestTheMemoryLimitIsShared(t *testing.T) {
	const mib, normal = 1 << 20, 256
	for _, tt := range []struct{ limit, lists, replies, wantLists, wantReplies, warnings int64 }{
		{math.MaxInt64, normal, 1000, normal, 1000, 0},
		{2 << 30, normal, normal, normal, normal, 0}, {1 << 30, normal, normal, normal, 128, 0}, {200 * mib, normal, normal, 100, 32, 0}, {8 * mib, normal, normal, 4, 32, 0},
		{2 << 30, 1024, 257, 1024, 256, 1}, {1 << 30, 513, 64, 512, 64, 1}, {200 * mib, 257, 255, 100, 32, 2},
	} {
		cfg := config.Default()
		cfg.Cache.MaxBytes, cfg.Upstream.MaxTotalResponseBytes = tt.lists*mib, tt.replies*mib
		got, warnings := memory{limit: tt.limit}.fit(cfg)
		lists, replies := got.Cache.MaxBytes/mib, got.Upstream.MaxTotalResponseBytes/mib
		if err := got.Cache.Validate(); err != nil || lists != tt.wantLists || replies != tt.wantReplies || int64(len(warnings)) != tt.warnings {
			t.Errorf("%+v: %d MiB for lists, %d for replies, %v, %q", tt, lists, replies, err, warnings)
		}
	}
}
