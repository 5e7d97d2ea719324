package gateway

import (
	"log"
	"log/slog"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// maxLogReasons bounds the reasons that are told apart. Further ones share a limit.
const maxLogReasons = 64

// logLimiter bounds the log records of refused requests or failed connections on this node: each reason gets so many
// per second. It is safe for concurrent use.
type logLimiter struct {
	perSecond  int // 0: no bound
	suppressed prometheus.Counter

	mu      sync.Mutex
	reasons map[string]*rate.Limiter
}

func newLogLimiter(perSecond int, suppressed prometheus.Counter) *logLimiter {
	return &logLimiter{perSecond: perSecond, suppressed: suppressed, reasons: map[string]*rate.Limiter{}}
}

// allow reports whether a record is written. Otherwise it is counted.
func (l *logLimiter) allow(reason string) bool {
	if l.perSecond == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reasons[reason] == nil && len(l.reasons) >= maxLogReasons {
		reason = ""
	}
	if l.reasons[reason] == nil {
		l.reasons[strings.Clone(reason)] = rate.NewLimiter(rate.Limit(l.perSecond), l.perSecond)
	}
	if l.reasons[reason].Allow() {
		return true
	}
	l.suppressed.Inc()
	return false
}

// NewErrorLog returns the log for http.Server and front.Listener, whose lines are about connections: unauthenticated
// clients choose how many fail. Each line becomes a record of level WARN, at most perSecond of each sort; 0: all.
func NewErrorLog(perSecond int, logger *slog.Logger, reg prometheus.Registerer) *log.Logger {
	return log.New(errorLines{newLogLimiter(perSecond, newMetrics(reg).logSuppressed), logger}, "", 0)
}

type errorLines struct {
	limiter *logLimiter
	logger  *slog.Logger
}

// reasonWords is how many words at the start of a line are net/http's own. They tell the sorts of lines
// apart; what follows may hold a client's address.
const reasonWords = 3

// Write takes one line.
func (l errorLines) Write(line []byte) (int, error) {
	text := strings.TrimSuffix(string(line), "\n")
	words := strings.Fields(text)
	if l.limiter.allow(strings.Join(words[:min(len(words), reasonWords)], " ")) {
		l.logger.Warn(text)
	}
	return len(line), nil
}
