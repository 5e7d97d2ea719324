package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// purgeWithin bounds a purge: Redis may be about to name a new master, or its
// replicas may be behind. It is tried again every purgeRetry until then.
const (
	purgeWithin = 3 * time.Second
	purgeRetry  = 50 * time.Millisecond
)

// Purged is what a purge has reached.
type Purged struct {
	Epoch    uint64 // lists of an older one are not served any more
	Replicas int    // of Redis that have it; counted only where some are wanted
	Wanted   int    // redis.min_replicas
}

// ErrTooFewReplicas is returned for a purge that is in force but that fewer
// replicas of Redis have taken than wanted: a fail-over could lose it.
var ErrTooFewReplicas = errors.New("fewer replicas of Redis than redis.min_replicas have taken the purge")

// Purge makes every list of the scope unservable: here at once, on every node
// that can reach Redis within a second, whether or not a message is lost, and
// on a node that is cut off within a second of its return (until then its lists
// age by the policy). Fills that began before cannot bring the old data back.
// It takes at most 3 s. [ErrTooFewReplicas] means that it is in force; any other
// error that the fleet may not know, but this node does. Calling again is
// harmless.
func (l *Lists) Purge(ctx context.Context, s Scope) (Purged, error) {
	if err := s.validate(); err != nil {
		return Purged{}, err
	}
	c, account := l.cellOf(s)
	l.metrics.purges.Inc()
	if l.redis == nil {
		return Purged{Epoch: c.epoch.Add(1)}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, purgeWithin)
	defer cancel()
	p := Purged{Wanted: l.redis.minReplicas}
	key := l.redis.epochKey(s)
	gone := sync.OnceFunc(func() { c.epoch.Add(1) }) // what this node holds, in any case
	err := retry(ctx, func() (err error) {
		if p.Epoch, err = l.redis.raise(ctx, key); err != nil {
			gone()
		}
		return err
	})
	if err != nil {
		return p, fmt.Errorf("raise the epoch: %w", err)
	}
	c.rise(p.Epoch)
	l.epochs.remember(account, c, true)
	n := notice{Kind: s.Kind, Account: account, Epoch: p.Epoch}
	if err := retry(ctx, func() error { return l.announce(ctx, n) }); err != nil {
		return p, fmt.Errorf("tell the other nodes: %w", err)
	}
	if p.Wanted == 0 {
		return p, nil
	}
	err = retry(ctx, func() (err error) {
		if p.Replicas, err = l.redis.replicate(ctx, key, p.Epoch); err == nil && p.Replicas < p.Wanted {
			err = ErrTooFewReplicas
		}
		return err
	})
	if err != nil && !errors.Is(err, ErrTooFewReplicas) {
		err = fmt.Errorf("%w: %w", ErrTooFewReplicas, err)
	}
	return p, err
}

// retry repeats a write that does no harm twice, until it works, fails for good
// or ctx ends. It returns the last error of the write.
func retry(ctx context.Context, write func() error) error {
	for {
		err := write()
		if err == nil || !isPassing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(purgeRetry):
		}
	}
}

// isPassing tells whether a write may work soon: Redis is away, or another
// server is about to take it.
func isPassing(err error) bool {
	if isOutage(err) || errors.Is(err, ErrTooFewReplicas) {
		return true
	}
	for _, code := range []string{"READONLY", "MOVED", "ASK", "TRYAGAIN", "NOREPLICAS"} {
		if strings.HasPrefix(err.Error(), code) {
			return true
		}
	}
	return false
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
