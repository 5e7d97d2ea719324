package gateway

import (
	"cmp"
	"log"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
)

const (
	// refusalWindow is how long refusals are counted before a summary is written.
	refusalWindow = 10 * time.Second
	// maxRefusalCounts bounds the counts of one window. Clients and accounts beyond it are
	// counted together, each as "others".
	maxRefusalCounts = 4096
)

// refusals bounds the log lines of requests that were refused, and of those for documents. In each window a client,
// or an account, gets most of them for each reason; the others are counted,
// and the end of the window leaves one line that says how many they were.
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
	authenticated bool         // there was a good key: its account counts, else the client
	account       string       // empty: others
	client        netip.Prefix // zero: others
	reason        string       // of a fixed set
	document      bool         // a document was served, nothing was refused; reason is the endpoint
}

func newRefusals(most int, logger *slog.Logger, suppressed prometheus.Counter) *refusals {
	return &refusals{most: most, logger: logger, suppressed: suppressed, counts: make(map[refusal]int)}
}

// logged counts a refusal and reports whether it gets a line of its own.
func (r *refusals) logged(key refusal) bool {
	if r.most == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.counts[key] == 0 && len(r.counts) >= maxRefusalCounts {
		key.account, key.client = "", netip.Prefix{}
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
		if n <= r.most {
			continue
		}
		who, event := slog.String("client_address", key.address()), "unauthenticated_suppressed"
		if key.authenticated {
			who, event = slog.String("account", cmp.Or(key.account, "others")), "refused_suppressed"
		}
		if key.document {
			r.logger.Info("requests for documents that have no record of their own", who, "endpoint", key.reason, "suppressed", n-r.most)
			continue
		}
		r.logger.Info("what was refused and has no record of its own", who,
			slog.Group("security", slog.String("event", event), slog.String("reason", key.reason), slog.Int("suppressed", n-r.most)))
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

// NewErrorLog gives the log for http.Server and front.Listener, whose lines are about
// connections: unauthenticated clients choose how many fail. Each becomes a line of level WARN. One client
// gets most of each sort within 10 s; one more counts the others. flush writes what
// is still to be said.
func NewErrorLog(most int, logger *slog.Logger, reg prometheus.Registerer) (l *log.Logger, flush func()) {
	r := newRefusals(most, logger, newMetrics(reg).logSuppressed)
	return log.New(errorLines{r}, "", 0), r.flush
}

type errorLines struct{ *refusals }

// sortWords is how many words of a line at least come from the source of net/http.
const sortWords = 3

// Write takes one line.
func (l errorLines) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	words := strings.Fields(text)
	key := refusal{reason: strings.Join(words[:min(len(words), sortWords)], " ")}
	for _, word := range words {
		if peer, err := netip.ParseAddrPort(strings.TrimSuffix(word, ":")); err == nil {
			key.client = auth.Network(peer.Addr().Unmap())
			break
		}
	}
	if l.logged(key) {
		l.logger.Warn(text)
	}
	return len(line), nil
}
