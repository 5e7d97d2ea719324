package auth

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// maxReported bounds the memory of first uses. When it is full it is emptied,
// so a process that serves more keys may report a first use again.
const maxReported = 100_000

// securityLog writes what a SIEM wants to know of authentication: records with
// one group "security" {event, reason, kind, account, key_id}, of which an
// event carries what is known. Keys and digests are never in it.
//
//	auth_failed       a request was not authenticated; reason as in the metrics.
//	                  The caller decides how many of them are written
//	revoked_key_used  the same, for a key that had been taken back
//	key_first_used    the first good use of a key in this process
type securityLog struct {
	log *slog.Logger

	mu       sync.Mutex
	reported map[Digest]struct{} // keys whose first use has been
}

func newSecurityLog(log *slog.Logger) *securityLog {
	return &securityLog{log: log, reported: make(map[Digest]struct{})}
}

// failed reports a refused request. An unreachable store and a caller that
// left are not the caller's failure and are reported elsewhere.
func (s *securityLog) failed(ctx context.Context, reason string, err error, from Caller) {
	level, event := slog.LevelInfo, "auth_failed"
	switch reason {
	case resultUnavailable, resultCanceled:
		return
	case ReasonRevoked:
		level, event = slog.LevelWarn, "revoked_key_used"
	}
	if from != nil && !from.LogRefusal(reason) {
		return
	}
	if !s.log.Enabled(ctx, level) {
		return
	}
	attrs := []any{slog.String("event", event), slog.String("reason", reason)}
	if denial, ok := errors.AsType[*Denial](err); ok && denial.KeyID != "" {
		attrs = append(attrs, slog.String("key_id", denial.KeyID))
	}
	s.log.LogAttrs(ctx, level, "authentication refused", slog.Group("security", attrs...))
}

// used reports the first good use of a key, once per process even when the
// store makes new grants for it on every reload.
func (s *securityLog) used(ctx context.Context, g *Grant) {
	if g.used.Load() || g.used.Swap(true) || !s.firstUse(g.Digest) {
		return
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "key used for the first time", slog.Group("security",
		slog.String("event", "key_first_used"),
		slog.String("kind", g.Principal.Kind),
		slog.String("account", g.Principal.Account),
		slog.String("key_id", g.Principal.KeyID)))
}

// firstUse stores a digest and reports whether it was not there yet.
func (s *securityLog) firstUse(d Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.reported[d]; ok {
		return false
	}
	if len(s.reported) >= maxReported {
		clear(s.reported)
	}
	s.reported[d] = struct{}{}
	return true
}
