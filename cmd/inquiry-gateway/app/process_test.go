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

func TestConnectionsFitIntoOpenFiles(t *testing.T) {
	for _, c := range []struct {
		want  int
		files uint64
		used  int
	}{
		{10_000, 65_536, 10_000}, {10_000, 10_512, 10_000}, {10_000, 10_511, 9_999}, {10_000, 1024, 512}, {10_000, 100, 50}, {10_000, math.MaxUint64, 10_000},
	} {
		var log bytes.Buffer
		used := fitConnections(c.want, c.files, slog.New(slog.NewTextHandler(&log, nil)))
		if used != c.used || strings.Contains(log.String(), "ulimit -n") != (used < c.want) {
			t.Errorf("%+v: %d used, log: %s", c, used, &log)
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

func TestTheTierFitsTheMemoryLimit(t *testing.T) {
	for _, tt := range []struct {
		name            string
		limit, max, fit int64
	}{
		{"no limit", math.MaxInt64, 256 << 20, 256 << 20},
		{"room enough", 1 << 30, 256 << 20, 256 << 20},
		{"just room enough", 512 << 20, 256 << 20, 256 << 20},
		{"too little", 200 << 20, 256 << 20, 100 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			m := memory{limit: tt.limit, logger: slog.New(slog.NewTextHandler(&log, nil))}
			c := cache.DefaultConfig()
			c.MaxBytes = tt.max
			if got := m.fit(c).MaxBytes; got != tt.fit {
				t.Errorf("%d bytes, want %d", got, tt.fit)
			}
			if said := strings.Contains(log.String(), "cache.max_bytes"); said != (tt.fit < tt.max) {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}
