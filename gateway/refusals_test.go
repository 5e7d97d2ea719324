package gateway

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"inquiry-gateway/internal/testkit"
)

// Each client has its own first records for each reason, and each window ends
// with one record per client of what was left out.
func TestRefusalsAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testkit.Log
		suppressed := prometheus.NewCounter(prometheus.CounterOpts{Name: "suppressed"})
		r := newRefusals(3, slog.New(slog.NewJSONHandler(&log, nil)), suppressed)
		logged := func(n int, client, reason string) (records int) {
			for range n {
				if r.logged(netip.MustParseAddr(client), reason) {
					records++
				}
			}
			return records
		}
		for _, c := range []struct {
			client, reason string
			n, records     int
		}{
			{"192.0.2.1", "unknown", 100, 3}, {"192.0.2.1", "revoked", 1, 1}, {"192.0.2.2", "unknown", 1, 1},
			{"2001:db8::1", "unknown", 3, 3}, {"2001:db8::2", "unknown", 5, 0}, {"2001:db8:0:1::2", "unknown", 1, 1},
		} {
			if got := logged(c.n, c.client, c.reason); got != c.records {
				t.Errorf("%s, %s: %d records, want %d", c.client, c.reason, got, c.records)
			}
		}
		summaries := func(want ...string) {
			t.Helper()
			text := log.Take()
			for _, s := range want {
				if !strings.Contains(text, s) {
					t.Errorf("no record has %s:\n%s", s, text)
				}
			}
			if n := strings.Count(text, "\n"); n != len(want) {
				t.Errorf("%d records, want %d:\n%s", n, len(want), text)
			}
		}
		summaries()
		time.Sleep(refusalWindow)
		synctest.Wait()
		summaries(`"client_address":"192.0.2.1","security":{"event":"unauthenticated_suppressed","reason":"unknown","suppressed":97}`,
			`"client_address":"2001:db8::/64","security":{"event":"unauthenticated_suppressed","reason":"unknown","suppressed":5}`)
		if got := logged(4, "192.0.2.1", "unknown"); got != 3 {
			t.Errorf("%d records in the next window, want 3", got)
		}
		r.flush()
		summaries(`"suppressed":1}`)
		time.Sleep(2 * refusalWindow)
		synctest.Wait()
		summaries() // nothing more, and no empty ones
		if n := testutil.ToFloat64(suppressed); n != 103 {
			t.Errorf("counted %v, want 103", n)
		}
	})
}

func TestRefusalsAreBounded(t *testing.T) {
	var log bytes.Buffer
	r := newRefusals(1, slog.New(slog.NewJSONHandler(&log, nil)), prometheus.NewCounter(prometheus.CounterOpts{Name: "suppressed"}))
	for i := range 2 * maxRefusalCounts {
		r.logged(netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", i/256, i%256)), "unknown")
	}
	if n := len(r.counts); n != maxRefusalCounts+1 {
		t.Errorf("%d counts", n)
	}
	r.flush()
	if want := fmt.Sprintf(`"client_address":"others","security":{"event":"unauthenticated_suppressed","reason":"unknown","suppressed":%d}`, maxRefusalCounts-1); !strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("%.500s", log.String())
	}
}
