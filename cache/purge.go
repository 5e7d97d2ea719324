package cache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/redisclient"
)

// raiseWithin bounds a purge or a hint, which is tried again until then: Redis may be about to
// name a new master. It goes on where who asked has left.
const raiseWithin = 3 * time.Second

// Scope is what to purge: all lists of one kind, or all lists of one account,
// of either kind. Exactly one field is set.
type Scope struct{ Kind, Account string }

// Purge makes every list of the scope unservable: here at once, on every node
// that can reach Redis within a second, whether or not a message is lost, and
// on a node that is cut off within a second of its return (until then its lists
// age by the policy). Fills that began before cannot bring the old data back.
//
// It returns the new epoch after at most 3 s, whatever becomes of ctx: lists of an older one
// are not served any more. Without Redis that is this node's. An epoch of 0 comes with an
// error: Redis has not taken the purge, so that it holds on this node only. An epoch
// and an error: Redis has it, but not all nodes may know at once. After either error this node
// tries again at each poll, for as long as it runs. Calling again is harmless.
func (l *Lists) Purge(ctx context.Context, s Scope) (epoch uint64, err error) {
	one := redistier.Change{Kind: s.Kind}
	switch _, known := indexOf(s.Kind); {
	case (s.Kind == "") == (s.Account == ""):
		return 0, errors.New("purge either a kind or an account")
	case s.Account != "":
		one.Account = redistier.Hash(s.Account)
	case !known:
		return 0, ErrUnknownKind
	}
	l.metrics.purges.Inc()
	raised, err := l.purge(ctx, []redistier.Change{one})
	if raised == 1 {
		epoch = l.cellOf(one).epoch.Load()
	}
	return epoch, err
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
	// Hard: the lists are not served any more, as after a purge. Else they may be served
	// for hintStaleFor while they are refreshed, and while the legacy system fails.
	Hard bool
}

// accountHash is what redistier.Hash makes.
var accountHash = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// changes are the accounts and kinds of the hint, without repetitions.
func (h Hint) changes() (all []redistier.Change, err error) {
	if n := len(h.Accounts) + len(h.AccountHashes) + len(h.Kinds); n == 0 || n > MaxHintIDs {
		return nil, fmt.Errorf("%w: it names %d accounts and kinds; name 1 to %d", ErrHint, n, MaxHintIDs)
	}
	seen := map[redistier.Change]bool{}
	add := func(c redistier.Change) {
		if !seen[c] {
			seen[c], all = true, append(all, c)
		}
	}
	for i, kind := range h.Kinds {
		if _, ok := indexOf(kind); !ok {
			return nil, fmt.Errorf("%w: kinds[%d] must be buyer or seller", ErrHint, i)
		}
		add(redistier.Change{Kind: kind})
	}
	for i, id := range h.Accounts {
		if id == "" || len(id) > maxHintID {
			return nil, fmt.Errorf("%w: accounts[%d] wants 1 to %d bytes", ErrHint, i, maxHintID)
		}
		add(redistier.Change{Account: redistier.Hash(id)})
	}
	for i, hash := range h.AccountHashes {
		if !accountHash.MatchString(hash) {
			return nil, fmt.Errorf("%w: account_hashes[%d] is none: 22 characters of base64url", ErrHint, i)
		}
		add(redistier.Change{Account: hash})
	}
	return all, nil
}

// Changed marks the lists of a hint as changed over the fleet, with the bounds of Purge:
// a fill that began before does not count as fresh after it. It returns how many
// accounts and kinds are marked in Redis, or without Redis on this node. After an error the
// rest is not marked, but for a hard hint, which is a purge; or the other nodes may not know
// at once. Calling again is harmless.
func (l *Lists) Changed(ctx context.Context, h Hint) (marked int, err error) {
	some, err := h.changes()
	if err != nil {
		return 0, err
	}
	how := hintSoft
	if h.Hard {
		how = hintHard
		marked, err = l.purge(ctx, some)
	} else {
		marked, err = l.hint(ctx, some)
	}
	l.metrics.hints.WithLabelValues(how).Add(float64(marked))
	if err != nil {
		err = fmt.Errorf("%d of %d are marked: %w", marked, len(some), err)
	}
	return marked, err
}

// purge hides the lists of changes on this node, and has Redis and the other nodes know of it.
// It returns how many Redis has.
func (l *Lists) purge(ctx context.Context, some []redistier.Change) (raised int, err error) {
	if l.redis == nil {
		return l.raiseHere(some, false), nil
	}
	all := make([]unfinished, len(some))
	for i, c := range some {
		all[i] = unfinished{Change: c, cell: l.cellOf(c)}
	}
	at := l.moment(l.opts.Now())
	l.changes.mu.Lock()
	for i, p := range all {
		l.changes.purge(p.Account, p.cell, at)
		all[i].upTo = p.cell.asked
	}
	l.changes.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), raiseWithin)
	defer cancel()
	told := 0
	err = redisclient.Retry(ctx, func() error {
		_, err := l.finishPurges(ctx)
		if raised, told = l.changes.progress(all); told == len(all) {
			return nil // others may still be under way
		}
		return cmp.Or(err, errTooManyPurges)
	})
	switch {
	case err == nil:
	case raised < len(all):
		err = fmt.Errorf("write it to Redis: %w", err)
	default:
		err = fmt.Errorf("tell the other nodes: %w", err)
	}
	return raised, err
}

// hint raises epochs softly. What Redis does not take is not marked here either. It returns
// how many are marked.
func (l *Lists) hint(ctx context.Context, some []redistier.Change) (marked int, err error) {
	if l.redis == nil {
		return l.raiseHere(some, true), nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), raiseWithin)
	defer cancel()
	left, untold := slices.Clone(some), []redistier.Change(nil)
	err = redisclient.Retry(ctx, func() error {
		err := l.raise(ctx, left, true)
		left = slices.DeleteFunc(left, func(c redistier.Change) bool {
			if c.Last > 0 {
				untold = append(untold, c)
			}
			return c.Last > 0
		})
		if len(untold) > 0 {
			told := l.announce(ctx, untold)
			if told == nil {
				untold = nil
			}
			err = cmp.Or(err, told)
		}
		return err
	})
	return len(some) - len(left), err
}

// raiseHere raises epochs on this node, which is all where there is no Redis.
func (l *Lists) raiseHere(some []redistier.Change, soft bool) (raised int) {
	for _, c := range some {
		l.cellOf(c).raiseHere(l.moment(l.opts.Now()), soft)
	}
	return len(some)
}

// raise raises epochs in Redis, by a purge or softly, and fills in what they are: 0 where Redis
// has not taken it.
func (l *Lists) raise(ctx context.Context, some []redistier.Change, soft bool) error {
	for i := range some {
		some[i].Epoch = l.cellOf(some[i]).known()
	}
	err := l.redis.Raise(ctx, some, soft)
	at := l.moment(l.opts.Now())
	for _, c := range some {
		l.cellOf(c).raise(c.Epoch, at)
	}
	return err
}

// unfinished is a kind or an account of which not all nodes know that it was purged here.
type unfinished struct {
	redistier.Change // without the epoch
	cell             *cell
	upTo             uint32 // of the purges that this node was asked for: later ones are not part of it
}

var errTooManyPurges = errors.New("too many purges wait for Redis; it has become one of both kinds")

// purge begins a purge on this node: all that it has is hidden, and what Redis has until that
// has taken the purge. c.mu is held.
func (c *changes) purge(account string, x *cell, at int64) {
	x.pending.Store(true)
	x.raiseHere(at, false)
	x.asked++
	c.remember(account, x, true, at)
}

// unfinished are the purges that Redis has not taken, and those that the nodes are to be told of.
func (c *changes) unfinished() (pending, untold []unfinished) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add := func(kind, account string, x *cell) {
		p := unfinished{redistier.Change{Kind: kind, Account: account}, x, x.asked}
		if x.raised != x.asked {
			pending = append(pending, p)
		} else if x.told != x.asked {
			untold = append(untold, p)
		}
	}
	for i := range c.kinds {
		add(kindNames[i], "", &c.kinds[i])
	}
	for _, r := range c.recent {
		add("", r.account, r.cell)
	}
	return pending, untold
}

// raised notes that Redis has a purge. Its epoch is known before: then the lists that Redis
// has are judged by that again.
func (c *changes) raised(p unfinished) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.cell.raised = p.upTo; p.cell.asked == p.upTo {
		p.cell.pending.Store(false)
	}
}

// told notes that the nodes were told of purges.
func (c *changes) told(all []unfinished) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range all {
		p.cell.told = p.upTo
	}
}

// progress tells how many purges Redis has, and of how many the nodes were told.
func (c *changes) progress(all []unfinished) (raised, told int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range all {
		if p.cell.raised >= p.upTo {
			raised++
		}
		if p.cell.told >= p.upTo {
			told++
		}
	}
	return raised, told
}

// finishPurges gives Redis the purges of this node that it has not taken, and tells the nodes
// of those that it has. It returns how many are finished by that.
func (l *Lists) finishPurges(ctx context.Context) (finished int, err error) {
	defer l.opts.Panics.Catch(func(p any) { err = fmt.Errorf("cache: panic: %v", p) })
	select {
	case l.changes.finishing <- struct{}{}:
		defer func() { <-l.changes.finishing }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	pending, untold := l.changes.unfinished()
	some := make([]redistier.Change, len(pending))
	for i, p := range pending {
		some[i] = p.Change
	}
	err = l.raise(ctx, some, false)
	for i, p := range pending {
		if some[i].Last > 0 {
			l.changes.raised(p)
			untold = append(untold, p)
		}
	}
	if len(untold) == 0 {
		return 0, err
	}
	notice := make([]redistier.Change, len(untold))
	for i, p := range untold {
		notice[i] = l.changeOf(p.Kind, p.Account, p.cell)
	}
	if failed := l.announce(ctx, notice); failed != nil {
		return 0, cmp.Or(err, failed)
	}
	l.changes.told(untold)
	return len(untold), err
}
