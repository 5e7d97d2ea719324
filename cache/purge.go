package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
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

// purgeWithin bounds a purge, which is tried again until then: Redis may be about
// to name a new master, or its replicas may be behind.
const purgeWithin = 3 * time.Second

// Purge makes every list of the scope unservable: here at once, on every node
// that can reach Redis within a second, whether or not a message is lost, and
// on a node that is cut off within a second of its return (until then its lists
// age by the policy). Fills that began before cannot bring the old data back.
// It takes at most 3 s. An error means that the fleet may not know
// of it, but this node does. Calling again is harmless. It returns the new epoch: lists
// of an older one are not served any more; 0: Redis has not taken it.
func (l *Lists) Purge(ctx context.Context, s Scope) (epoch uint64, err error) {
	if err := s.validate(); err != nil {
		return 0, err
	}
	l.metrics.purges.Inc()
	t := target{kind: s.Kind}
	if s.Kind == "" {
		t.account = redistier.Hash(s.Account)
	}
	return l.outdate(ctx, t, false)
}

// target is a kind, or an account by its hash, whose lists are outdated.
type target struct{ kind, account string }

// cellOf is where the epoch of a target is kept.
func (l *Lists) cellOf(t target) *cell {
	if i, ok := indexOf(t.kind); ok {
		return &l.epochs.kinds[i]
	}
	return l.epochs.of(t.account)
}

// outdate raises the target's epoch over the fleet, by a purge or softly. The errors
// are Purge's; after one of a soft change nothing may be marked, here neither.
func (l *Lists) outdate(ctx context.Context, t target, soft bool) (epoch uint64, err error) {
	c, now := l.cellOf(t), l.opts.Now()
	if l.redis == nil {
		if soft {
			return c.changeHere(now), nil
		}
		return c.purgeHere().Last, nil
	}
	ctx, cancel := context.WithTimeout(ctx, purgeWithin)
	defer cancel()
	key, raise := l.redis.EpochKey(t.kind, t.account), l.redis.Raise
	gone := sync.OnceFunc(func() { c.purgeHere() }) // what this node holds, in any case
	if soft {
		raise = func(ctx context.Context, key string) (redistier.Epoch, error) { return l.redis.Soften(ctx, key, now) }
		gone = func() {}
	} else {
		l.epochs.remember(t.account, c, true) // also if Redis does not take it: its old list must not come back here
	}
	var e redistier.Epoch
	err = redisclient.Retry(ctx, func() (err error) {
		if e, err = raise(ctx, key); err != nil {
			gone()
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("raise the epoch: %w", err)
	}
	c.rise(e)
	if err := redisclient.Retry(ctx, func() error { return l.announce(ctx, redistier.Notice{Kind: t.kind, Account: t.account, Epoch: e}) }); err != nil {
		return e.Last, fmt.Errorf("tell the other nodes: %w", err)
	}
	return e.Last, nil
}
