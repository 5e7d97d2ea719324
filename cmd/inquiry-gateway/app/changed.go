package app

import (
	"context"
	"errors"
	"fmt"

	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/ops"
)

// changed marks lists as changed, as the legacy system has told.
func (a *App) changed(ctx context.Context, r ops.ChangedRequest) (ops.ChangedReply, error) {
	marked, err := a.lists.Changed(ctx, cache.Hint{
		Accounts: r.Accounts, AccountHashes: r.AccountHashes, Records: r.Records, RecordHashes: r.RecordHashes, Kinds: r.Kinds, Hard: r.Hard,
	})
	if errors.Is(err, cache.ErrHint) {
		err = fmt.Errorf("%w: %w", ops.ErrChanged, err)
	}
	// Ids of records are internal, and stay out of the log.
	a.opts.Logger.Info("lists marked as changed", "hard", r.Hard, "accounts", len(r.Accounts)+len(r.AccountHashes),
		"records", len(r.Records)+len(r.RecordHashes), "kinds", r.Kinds, "marked", marked, "error", err)
	return ops.ChangedReply{Marked: marked}, err
}
