package cache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
)

const (
	// announceWithin bounds a purge or a hint, which is tried again until then: Redis may be about
	// to name a new master. It goes on where who asked has left.
	announceWithin = 3 * time.Second
	// pollEvery bounds how long a lost message can hide a purge. With the time that
	// the breaker takes to let a poll through it stays under the promised second.
	pollEvery = 250 * time.Millisecond
)

// Scope is what to purge: all lists of one kind, or all lists of one account,
// of either kind. Exactly one field is set.
type Scope struct{ Kind, Account string }

// Purge makes every list of the scope unservable: here at once, on every node
// that can reach Redis within a second, whether or not a message is lost, and
// on a node that is cut off within a second of its return (until then its lists
// age by the policy). Fills that began before cannot bring the old data back.
//
// It returns the epoch of the purge after at most 3 s, whatever becomes of ctx. Without Redis that
// is this node's. After an error Redis has not taken the purge, so that it holds on this node
// only, which tries again at each poll, for as long as it runs. Calling again is harmless.
func (l *Lists) Purge(ctx context.Context, s Scope) (epoch uint64, err error) {
	of := s.Kind
	switch _, known := indexOf(s.Kind); {
	case (s.Kind == "") == (s.Account == ""):
		return 0, errors.New("purge either a kind or an account")
	case s.Account != "":
		of = redistier.Hash(s.Account)
	case !known:
		return 0, ErrUnknownKind
	}
	l.metrics.purges.Inc()
	return l.change(ctx, []string{of}, true)
}

// MaxHintIDs bounds the ids of one hint.
const MaxHintIDs = 1000

// maxHintID is how many bytes one id of a hint may have.
const maxHintID = 1 << 12

// ErrHint is the error of a hint that cannot be meant.
var ErrHint = errors.New("not a hint")

// Hint says whose lists have changed at the legacy system. Together there are at most
// MaxHintIDs ids.
type Hint struct {
	Accounts []string // as they are
	// AccountHashes are as in the keys of Redis: base64url without padding of the first 16
	// bytes of the SHA-256 of the id's length in bytes, as an uvarint, and the id.
	AccountHashes []string
	Kinds         []string
	// Hard: this is a purge. Else the lists may be served for hintStaleFor while they are
	// refreshed, and while the legacy system fails.
	Hard bool
}

// accountHash is what redistier.Hash makes.
var accountHash = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// of are the kinds and the hashes of accounts that the hint names.
func (h Hint) of() (all []string, err error) {
	if n := len(h.Accounts) + len(h.AccountHashes) + len(h.Kinds); n == 0 || n > MaxHintIDs {
		return nil, fmt.Errorf("%w: it names %d accounts and kinds; name 1 to %d", ErrHint, n, MaxHintIDs)
	}
	seen := map[string]bool{}
	add := func(of string) {
		if !seen[of] {
			seen[of], all = true, append(all, of)
		}
	}
	for i, kind := range h.Kinds {
		if _, ok := indexOf(kind); !ok {
			return nil, fmt.Errorf("%w: kinds[%d] must be buyer or seller", ErrHint, i)
		}
		add(kind)
	}
	for i, id := range h.Accounts {
		if id == "" || len(id) > maxHintID {
			return nil, fmt.Errorf("%w: accounts[%d] wants 1 to %d bytes", ErrHint, i, maxHintID)
		}
		add(redistier.Hash(id))
	}
	for i, hash := range h.AccountHashes {
		if !accountHash.MatchString(hash) {
			return nil, fmt.Errorf("%w: account_hashes[%d] is none: 22 characters of base64url", ErrHint, i)
		}
		add(hash)
	}
	return all, nil
}

// Changed gives a hint to the fleet, with the bounds of Purge: a fill that began before does
// not count as fresh after it. It returns how many accounts and kinds are marked in Redis, or
// without Redis on this node: after an error none. Calling again is harmless.
func (l *Lists) Changed(ctx context.Context, h Hint) (marked int, err error) {
	of, err := h.of()
	if err != nil {
		return 0, err
	}
	if _, err = l.change(ctx, of, h.Hard); err == nil {
		marked = len(of)
	}
	how := hintSoft
	if h.Hard {
		how = hintHard
	}
	l.metrics.hints.WithLabelValues(how).Add(float64(marked))
	if err != nil {
		err = fmt.Errorf("%d of %d are marked: %w", marked, len(of), err)
	}
	return marked, err
}

// change purges lists, or gives a hint about them. A purge holds on this node from here on,
// whatever becomes of it.
func (l *Lists) change(ctx context.Context, of []string, hard bool) (epoch uint64, err error) {
	all := make([]redistier.Change, len(of))
	for i := range of {
		all[i] = redistier.Change{Of: of[i], Hard: hard}
	}
	serial := uint64(0)
	if hard {
		serial = l.changes.begin(of)
	}
	if l.redis == nil {
		epoch = l.changes.mark("").epoch + 1
		l.changes.done(all, epoch, serial, l.opts.Now())
		return epoch, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceWithin)
	defer cancel()
	err = redisclient.Retry(ctx, func() error {
		epoch, err = l.announce(ctx, all, serial)
		return err
	})
	if err != nil {
		l.changes.leaveToPoll(of, serial)
		return 0, fmt.Errorf("write it to Redis: %w", err)
	}
	return epoch, nil
}

// announce has Redis take changes, which gives them an epoch, and tells the nodes.
func (l *Lists) announce(ctx context.Context, all []redistier.Change, serial uint64) (epoch uint64, err error) {
	epoch, lost, err := l.redis.Announce(ctx, all, l.changes.mark("").epoch)
	if lost {
		l.changes.lost.Store(true)
	}
	if err == nil {
		l.changes.done(all, epoch, serial, l.opts.Now())
	}
	return epoch, err
}

// watch runs until the cache is closed: one goroutine polls, one listens.
func (l *Lists) watch() {
	news := make(chan struct{}, 1)
	l.watchers.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			// Errors are counted, and the next tick is the retry.
			if l.poll(l.life) == nil {
				l.announcePending(l.life)
			}
			select {
			case <-l.life.Done():
				return
			case <-tick.C:
			case <-news:
			}
		}
	})
	l.watchers.Go(func() {
		l.redis.Listen(l.life, func() {
			select {
			case news <- struct{}{}:
			default: // one poll is enough for all
			}
		})
	})
}

// announcePending gives Redis the purges that it has not taken from who asked for them.
func (l *Lists) announcePending(ctx context.Context) {
	defer l.opts.Panics.Catch(nil)
	all, serial := l.changes.forPoll()
	if len(all) == 0 {
		return
	}
	if _, err := l.announce(ctx, all, serial); err == nil {
		l.opts.Logger.Info("purges that had waited for Redis are known to the fleet", "purges", len(all))
	}
}

// poll reads the changes that this node has not read. Where Redis has not had the newest that the
// node knows, it has lost some, in a fail-over or with its memory: then all are compared, and what is
// lost is given back, with the epoch that it had. So they are where another node has given some back,
// of which this one may not know.
func (l *Lists) poll(ctx context.Context) (err error) {
	lost := l.changes.lost.Swap(false)
	defer func() {
		if lost && err != nil {
			l.changes.lost.Store(true)
		}
	}()
	defer l.opts.Panics.Catch(func(p any) { err = fmt.Errorf("cache: panic: %v", p) })
	cursor, _ := l.changes.polled()
	_, all, err := l.readChanges(ctx, cursor)
	if err != nil || all && !lost {
		return err
	}
	there, _, err := l.readChanges(ctx, 0)
	if err != nil {
		return err
	}
	restored, err := l.redis.Restore(ctx, l.changes.lacking(there), l.changes.mark("").epoch)
	if restored > 0 {
		l.opts.Logger.Warn("Redis had lost purges or hints and has them back", "number", restored)
	}
	return err
}

// readChanges reads those from an epoch on. all: Redis and this node know the same now.
func (l *Lists) readChanges(ctx context.Context, from uint64) (there redistier.Epochs, all bool, err error) {
	there, all = redistier.Epochs{}, true
	for more := true; more; {
		n, err := l.redis.Poll(ctx, from, l.changes.mark("").epoch, l.changes.interest())
		if err != nil {
			return nil, false, err
		}
		maps.Copy(there, n.Changes)
		early, _ := l.redis.Now()
		l.changes.take(n, l.opts.Now(), early)
		all = all && !n.Lost && !n.Back
		from, more = n.Last, n.More
	}
	return there, all, nil
}
