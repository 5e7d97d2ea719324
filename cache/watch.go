package cache

import (
	"context"
	"fmt"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
)

// pollEvery bounds how long a lost message can hide a purge. With the time that
// the breaker takes to let a poll through it stays under the promised second.
const pollEvery = 250 * time.Millisecond

// messageDelay is how long a message may be on its way after its number was polled.
const messageDelay = 20 * time.Millisecond

// watch runs until the cache is closed: one goroutine polls, one listens.
func (l *Lists) watch() {
	l.watchers.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			_ = l.poll(redisclient.Probing(l.life)) // an error is counted, and the next tick is the retry
			select {
			case <-l.life.Done():
				return
			case <-tick.C:
			}
		}
	})
	l.watchers.Go(func() { l.redis.Listen(l.life, l.apply) })
}

// apply takes in a notice of another node. The epoch comes before the count of notices: who
// sees the number must see what it counts.
func (l *Lists) apply(n redistier.Notice) {
	if i, ok := indexOf(n.Kind); ok {
		l.epochs.kinds[i].rise(n.Epoch)
	} else {
		c := l.epochs.of(n.Account)
		c.rise(n.Epoch)
		if n.Floor == n.Last {
			l.epochs.remember(n.Account, c, false)
		}
	}
	l.epochs.heard(n)
}

// poll reads the kinds' epochs and the number of the last purge. When it moved
// without a message, every account's epoch is suspect.
func (l *Lists) poll(ctx context.Context) (err error) {
	defer l.opts.Panics.Catch(func(p any) { err = fmt.Errorf("cache: panic: %v", p) })
	before := l.epochs.known()
	seq, kinds, err := l.redis.Poll(ctx, kindNames[:]...)
	if err != nil {
		return err
	}
	for i := range kinds {
		if l.epochs.kinds[i].learn(kinds[i], l.epochs.suspectEpoch.Load()) {
			l.restoreEpoch(ctx, l.redis.EpochKey(kindNames[i], ""), l.epochs.kinds[i].known())
		}
	}
	for start := time.Now(); l.redis.Connected() && l.epochs.known() < seq && time.Since(start) < messageDelay; {
		time.Sleep(messageDelay / 10)
	}
	l.epochs.polled(before, seq) // after the kinds: the number stands for all that it counts
	if missed, lost := l.epochs.losses(); missed || lost {
		return l.restoreOwn(ctx, lost)
	}
	return nil
}

// restoreOwn gives a Redis that may have lost its memory the purges of accounts that
// this node made, and tells the others of those that it had lost, or of all: they may
// have missed them.
func (l *Lists) restoreOwn(ctx context.Context, all bool) error {
	for _, r := range l.epochs.own() {
		n := redistier.Notice{Account: r.account, Epoch: r.cell.known()}
		raised, err := l.redis.Restore(ctx, l.redis.EpochKey("", r.account), n.Epoch)
		if err == nil && (raised || all) {
			err = l.announce(ctx, n)
		}
		if err != nil {
			l.epochs.setLost() // the next poll tries again
			return err
		}
	}
	return nil
}

// announce tells the nodes of a purge. This node counts as told at once: its
// message, and the number in Redis, may be lost before it has read either.
func (l *Lists) announce(ctx context.Context, n redistier.Notice) error {
	told, err := l.redis.Announce(ctx, n)
	if err == nil {
		l.epochs.heard(told)
	}
	return err
}

// restoreEpoch gives a purge back to a Redis that has lost it.
func (l *Lists) restoreEpoch(ctx context.Context, key string, epoch redistier.Epoch) {
	l.epochs.setLost() // there may be more
	if _, err := l.redis.Restore(ctx, key, epoch); err != nil {
		l.opts.Logger.Warn("a purge that Redis has lost could not be given back", "error", err)
		return
	}
	l.opts.Logger.Warn("Redis had lost a purge and has it back")
}
