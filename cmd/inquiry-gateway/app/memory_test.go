package app

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"

	"inquiry-gateway/cache"
)

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
			c.Local.MaxBytes = tt.max
			if got := m.fit(c).Local.MaxBytes; got != tt.fit {
				t.Errorf("%d bytes, want %d", got, tt.fit)
			}
			if said := strings.Contains(log.String(), "cache.local.max_bytes"); said != (tt.fit < tt.max) {
				t.Errorf("the log says %q", log.String())
			}
		})
	}
}
