package app

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
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
