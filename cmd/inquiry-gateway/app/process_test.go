package app

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"inquiry-gateway/cache"
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

// The limit of a container counts where GOMEMLIMIT does not say another one.
func TestLimitOfTheControlGroup(t *testing.T) {
	root := t.TempDir()
	self := filepath.Join(root, "self")
	for _, c := range []struct {
		self, max string
		want      int64
	}{
		{"0::/a/b\n", "536870912\n", 536870912}, {"0::/a/b\n", "max\n", 0}, {"12:memory:/a/b\n", "1\n", 0}, {"0::/none\n", "1\n", 0},
	} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "a/b"), 0o700), os.WriteFile(self, []byte(c.self), 0o600),
			os.WriteFile(filepath.Join(root, "a/b/memory.max"), []byte(c.max), 0o600)); err != nil {
			t.Fatal(err)
		}
		if got := groupMemory(self, root); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Lists may take half of the memory limit at most; less than configured is said.
func TestTheTierFitsTheMemoryLimit(t *testing.T) {
	for limit, want := range map[int64]int64{math.MaxInt64: 256 << 20, 512 << 20: 256 << 20, 200 << 20: 100 << 20} {
		var log bytes.Buffer
		m := memory{limit: limit, logger: slog.New(slog.NewTextHandler(&log, nil))}
		got := m.fit(cache.DefaultConfig()).MaxBytes
		if got != want || strings.Contains(log.String(), "cache.max_bytes") != (want < 256<<20) {
			t.Errorf("of %d bytes: %d for lists, log: %s", limit, got, &log)
		}
	}
}
