package ops

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"inquiry-gateway/internal/series"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

const (
	wrongTokenDelay = time.Second
	// wrongTokenWaiters may be delayed at a time; further ones are refused at once,
	// and their connections closed.
	wrongTokenWaiters = 32
	// wrongTokenLogEvery is the shortest time between two log records.
	wrongTokenLogEvery = time.Second
)

// WrongTokens counts, logs and slows down requests with a wrong token. It is asked
// only after the token was compared, so whoever has the right one never waits. It
// is safe for concurrent use; nil does nothing.
type WrongTokens struct {
	logger   *slog.Logger
	total    prometheus.Counter
	waiters  chan struct{}
	records  rate.Sometimes
	unlogged atomic.Int64 // since the last record
}

// NewWrongTokens registers its metric.
func NewWrongTokens(logger *slog.Logger, reg prometheus.Registerer) *WrongTokens {
	return &WrongTokens{
		logger: logger, waiters: make(chan struct{}, wrongTokenWaiters), records: rate.Sometimes{Interval: wrongTokenLogEvery},
		total: series.In(reg, "ops").Counter("wrong_tokens_total", "Requests to the ops listener with a wrong token."),
	}
}

// delay waits before the refusal of a wrong token. If it returns false it has
// answered itself, because too many wait already.
func (t *WrongTokens) delay(w http.ResponseWriter, r *http.Request) bool {
	if t == nil {
		return true
	}
	t.total.Inc()
	t.unlogged.Add(1)
	t.records.Do(func() {
		before := t.unlogged.Swap(0) - 1
		t.logger.Warn("a wrong token was sent to the ops listener",
			slog.Group("security", "event", "ops_token_refused"), "remote", r.RemoteAddr, "path", r.URL.Path, "not_logged_before", before)
	})
	select {
	case t.waiters <- struct{}{}:
		defer func() { <-t.waiters }()
	default:
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "1")
		http.Error(w, "many wrong tokens are sent now; the right one is taken at any time", http.StatusTooManyRequests)
		return false
	}
	timer := time.NewTimer(wrongTokenDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
	return true
}
