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

const (
	// purgeTimeout bounds a purge, which is tried again until then: Redis may be about to name a new
	// master. It goes on if the caller leaves.
	purgeTimeout = 3 * time.Second
	// pollEvery is how often a node reads the purges of others: with the time that the breaker takes to
	// let a poll through they hold within the promised second.
	pollEvery = 250 * time.Millisecond
	// The node that made a purge checks at every such poll whether Redis still has it, for repeatFor: a
	// replica may have become the master that had not got it yet.
	repeatEvery = 4 // polls
	repeatFor   = 10 * time.Second
)

// MaxPurgeIDs bounds the ids of one purge.
const MaxPurgeIDs = 1000

// maxPurgeID is how many bytes one id of a purge may have.
const maxPurgeID = 1 << 12

// ErrPurge is the error of a purge that cannot be meant.
var ErrPurge = errors.New("not a purge")

// Purge says which lists to purge: all of each account, and all of each kind. Together there are 1 to
// MaxPurgeIDs ids.
type Purge struct {
	Accounts []string // as they are
	// AccountHashes are as in the keys of Redis: base64url without padding of the first 16
	// bytes of the SHA-256 of the id's length in bytes, as an uvarint, and the id.
	AccountHashes []string
	Kinds         []string
	// Soft ends the ttl of the lists instead: they are served stale within their stale windows, which
	// count from the purge.
	Soft bool
}

// accountHash is what redistier.Hash makes.
var accountHash = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// scopes are what Redis is told.
func (p Purge) scopes() (all []redistier.Purge, err error) {
	if n := len(p.Accounts) + len(p.AccountHashes) + len(p.Kinds); n == 0 || n > MaxPurgeIDs {
		return nil, fmt.Errorf("%w: it names %d accounts and kinds; name 1 to %d", ErrPurge, n, MaxPurgeIDs)
	}
	for i, kind := range p.Kinds {
		if _, ok := indexOf(kind); !ok {
			return nil, fmt.Errorf("%w: kinds[%d] must be buyer or seller", ErrPurge, i)
		}
		all = append(all, redistier.Purge{Scope: kind, Soft: p.Soft})
	}
	for i, id := range p.Accounts {
		if id == "" || len(id) > maxPurgeID {
			return nil, fmt.Errorf("%w: accounts[%d] must have 1 to %d bytes", ErrPurge, i, maxPurgeID)
		}
		all = append(all, redistier.Purge{Scope: redistier.Hash(id), Soft: p.Soft})
	}
	for i, hash := range p.AccountHashes {
		if !accountHash.MatchString(hash) {
			return nil, fmt.Errorf("%w: account_hashes[%d] must be 22 characters of base64url", ErrPurge, i)
		}
		all = append(all, redistier.Purge{Scope: hash, Soft: p.Soft})
	}
	slices.SortFunc(all, func(a, b redistier.Purge) int { return cmp.Compare(a.Scope, b.Scope) })
	return slices.Compact(all), nil
}

// Purge purges lists: here at once, and on every node that reaches Redis within a second. A fetch that
// began before does not bring the old data back. A node that is cut off learns of it within a second of
// its return; until then its lists age by the policy.
//
// It returns how many accounts and kinds were purged, after at most 3 s, regardless of cancellation.
// After an error Redis has not taken the purge, which then holds on this node only and is not tried
// again. To repeat it is harmless.
func (c *Cache) Purge(ctx context.Context, p Purge) (purged int, err error) {
	purges, err := p.scopes()
	if err != nil {
		return 0, err
	}
	mode := purgeHard
	if p.Soft {
		mode = purgeSoft
	}
	c.metrics.purges.WithLabelValues(mode).Add(float64(len(purges)))
	_, late := c.clock()
	here := c.invalidations.purge(purges, late, c.opts.Now(), c.redis != nil)
	if c.redis == nil {
		return len(purges), nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), purgeTimeout)
	defer cancel()
	var moment uint64
	err = redisclient.Retry(ctx, func() (err error) {
		moment, err = c.redis.Purge(ctx, purges, c.invalidations.newestFetch())
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("write the purge to Redis: %w", err)
	}
	c.invalidations.confirm(purges, here, moment, c.opts.Now())
	return len(purges), nil
}

// clock is what the clock of Redis says now, or without Redis this node's: at least early, at most late.
// Both are zero until Redis was read.
func (c *Cache) clock() (early, late time.Time) {
	if c.redis == nil {
		now := c.opts.Now()
		return now, now
	}
	return c.redis.Now()
}

// watch reads purges, and has Redis take again what it has lost of those of this node, until the cache is
// closed.
func (c *Cache) watch() {
	c.watchers.Go(func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for polls := 1; ; polls++ {
			err := c.poll(c.life) // errors are counted, and the next tick is the retry
			if mine := c.invalidations.mine(c.opts.Now()); err == nil && polls%repeatEvery == 0 && len(mine) > 0 {
				_ = c.redis.Repeat(c.life, mine)
			}
			select {
			case <-c.life.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// poll reads the purges that this node has not read. If Redis remembers none, as it is new or has lost
// its memory, it is made to begin.
func (c *Cache) poll(ctx context.Context) (err error) {
	defer c.opts.Panics.Catch(func(p any) { err = fmt.Errorf("cache: panic: %v", p) })
	for more := true; more; {
		cursor, _ := c.invalidations.position()
		found, err := c.redis.PurgesSince(ctx, cursor, c.policy.Load().retention())
		if err == nil && !found.Remembered {
			if _, err = c.redis.Purge(ctx, nil, c.invalidations.newestFetch()); err == nil {
				found, err = c.redis.PurgesSince(ctx, cursor, c.policy.Load().retention())
			}
		}
		if err != nil {
			return err
		}
		early, _ := c.redis.Now()
		c.invalidations.read(found, c.opts.Now(), early)
		more = found.More && found.Newest > cursor
	}
	return nil
}
