package cache

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// epochLife is how long Redis remembers a purge. It is longer than any entry
// can live, so an entry never outlives the purge that hides it.
const epochLife = maxLifetime + 24*time.Hour

// Scope is what to purge: all lists of one kind, or all lists of one account,
// of either kind. Exactly one field is set.
type Scope struct{ Kind, Account string }

// validate wants exactly one known scope.
func (s Scope) validate() error {
	if (s.Kind == "") == (s.Account == "") {
		return errors.New("purge either a kind or an account")
	}
	if s.Kind == "" {
		return nil
	}
	if _, ok := indexOf(s.Kind); !ok {
		return ErrUnknownKind
	}
	return nil
}

// Purge makes every list of the scope unservable: here at once, on every node
// that can reach Redis within a second, whether or not a message is lost, and
// on a node that is cut off within a second of its return (until then its lists
// age by the policy). Fills that began before cannot bring the old data back.
// It returns the new epoch. An error means that the fleet may not know; this
// node does, and calling again is harmless.
func (l *Lists) Purge(ctx context.Context, s Scope) (uint64, error) {
	if err := s.validate(); err != nil {
		return 0, err
	}
	c, account := l.cellOf(s)
	l.metrics.purges.Inc()
	if l.redis == nil {
		return c.epoch.Add(1), nil
	}
	key := l.redis.epochKey(s)
	epoch, err := l.redis.raise(ctx, key)
	if err != nil {
		c.epoch.Add(1) // what this node holds is gone in any case
		return 0, fmt.Errorf("raise the epoch: %w", err)
	}
	c.rise(epoch)
	if err := l.redis.announce(ctx, notice{Kind: s.Kind, Account: account, Epoch: epoch}); err != nil {
		return epoch, fmt.Errorf("tell the other nodes: %w", err)
	}
	return epoch, nil
}

// cellOf returns the scope's cell, and the account's hash.
func (l *Lists) cellOf(s Scope) (*cell, string) {
	if s.Kind != "" {
		i, _ := indexOf(s.Kind)
		return &l.epochs.kinds[i], ""
	}
	account := hashOf(s.Account)
	return l.epochs.of(account), account
}
