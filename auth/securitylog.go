package auth

import (
	"context"
	"errors"
	"log/slog"
)

// logRefusal writes what a SIEM wants to know of a request that was not authenticated: a record with a
// group "security" {event, reason, key_id}. reason is the result in the metrics; key_id is there if it is
// known. The caller decides how many refusals are written. The events are
//
//	auth_failed       a request was not authenticated
//	revoked_key_used  its key has been revoked
//
// An unavailable store and a caller that left are not the caller's failure and are reported elsewhere.
func (a *Authenticator) logRefusal(ctx context.Context, reason string, err error, from Caller) {
	level, event := slog.LevelInfo, "auth_failed"
	switch reason {
	case resultUnavailable, resultCanceled:
		return
	case ReasonRevoked:
		level, event = slog.LevelWarn, "revoked_key_used"
	}
	if !from.LogRefusal(reason) || !a.log.Enabled(ctx, level) {
		return
	}
	attrs := []any{slog.String("event", event), slog.String("reason", reason)}
	if denial, ok := errors.AsType[*Denial](err); ok && denial.KeyID != "" {
		attrs = append(attrs, slog.String("key_id", denial.KeyID))
	}
	a.log.LogAttrs(ctx, level, "authentication refused", slog.Group("security", attrs...))
}
