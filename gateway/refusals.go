package gateway

import (
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
)

const (
	// refusalWindow is how long refusals are counted before a summary is written.
	refusalWindow = 10 * time.Second
	// maxRefusalCounts bounds the counts of one window. Clients beyond it are
	// counted together, as "others".
	maxRefusalCounts = 4096
)

// refusals bounds the log records of requests that were not authenticated. In
// each window a client gets most of them for each reason; the others are counted,
// and the end of the window leaves one record that says how many they were.
type refusals struct {
	most       int // 0: no bound
	logger     *slog.Logger
	suppressed prometheus.Counter

	mu     sync.Mutex
	counts map[refusal]int // of the current window
	timer  *time.Timer     // ends the window; nil: nothing has been counted
}

// refusal is what is counted together.
type refusal struct {
	client netip.Prefix // zero: others
	reason string       // of a fixed set
}

func newRefusals(most int, logger *slog.Logger, suppressed prometheus.Counter) *refusals {
	return &refusals{most: most, logger: logger, suppressed: suppressed, counts: make(map[refusal]int)}
}

// logged counts a refusal and reports whether it gets records of its own.
func (r *refusals) logged(client netip.Addr, reason string) bool {
	if r.most == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := refusal{auth.Network(client), reason}
	if r.counts[key] == 0 && len(r.counts) >= maxRefusalCounts {
		key.client = netip.Prefix{}
	}
	r.counts[key]++
	if r.timer == nil {
		r.timer = time.AfterFunc(refusalWindow, r.flush)
	}
	if r.counts[key] <= r.most {
		return true
	}
	r.suppressed.Inc()
	return false
}

// flush ends the window and writes its summaries.
func (r *refusals) flush() {
	r.mu.Lock()
	counts := r.counts
	r.counts = make(map[refusal]int)
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	r.mu.Unlock()
	for key, n := range counts {
		if n > r.most {
			r.logger.Info("requests without a good key that have no record of their own", slog.String("client_address", key.address()),
				slog.Group("security", slog.String("event", "unauthenticated_suppressed"), slog.String("reason", key.reason), slog.Int("suppressed", n-r.most)))
		}
	}
}

// address is an address, a network of IPv6, or "others".
func (k refusal) address() string {
	switch {
	case !k.client.IsValid():
		return "others"
	case k.client.IsSingleIP():
		return k.client.Addr().String()
	}
	return k.client.String()
}
