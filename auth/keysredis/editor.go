package keysredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
)

// editor changes and lists the keys and accounts under a prefix. An answer of Redis that is lost
// is asked for again; if that fails too, the error is auth.ErrUncertain. The context sets the
// deadline.
type editor struct {
	client redis.Cmdable
	layout layout
}

// NewEditor edits the records under prefix. A change is effective on every node as Store says.
func NewEditor(client redis.Cmdable, prefix string, h auth.Hasher) *auth.Editor {
	return auth.NewEditor(&editor{client, layout{prefix: prefix, sort: h.Field()}})
}

// commit writes the cells of a shard if they are as they were read, raises its version and
// publishes what changed. Nothing fails after the first write: HINCRBY is the one that refuses a
// version that is no number.
//
//	KEYS: the shard
//	ARGV: channel, its digit, what changed, then field, old and new of each cell
var commit = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], 'version') == 0 then return -1 end
for i = 4, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') ~= ARGV[i+1] then return 0 end
end
local v = redis.call('HINCRBY', KEYS[1], 'version', 1)
for i = 4, #ARGV, 3 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i+2]) end
redis.call('PUBLISH', ARGV[1], ARGV[2] .. ' ' .. v .. ' ' .. ARGV[3])
return v`)

const (
	maxTries = 8                      // of one change: beside other editors, or while answers are lost
	tryPause = 150 * time.Millisecond // after a lost answer
	pageSize = 500                    // records that are read at once

	maxUnreadable = 50 // records that are named
)

var errSomeLost = errors.New("keys or accounts are lost in Redis, perhaps by its maxmemory-policy: restore them first, and see docs/redis.md")

// Change implements auth.Editable: it reads, plans, and commits if what it changes is as it was
// read. A commit whose answer was lost is recognised by what Redis holds then. All of one shard
// is committed at once. A new account, which may be in another shard, is before its key: alone it
// lets nobody in.
func (e *editor) Change(ctx context.Context, about auth.Subjects, change func(*auth.Listing) error) error {
	var lost error // why it is not known whether sent was committed
	var sent []shardChange
	for range maxTries {
		if lost != nil {
			select {
			case <-time.After(tryPause):
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", auth.ErrUncertain, lost)
			}
		}
		all, versions, before, err := e.read(ctx, about)
		if err != nil {
			if lost == nil {
				return err
			}
			continue
		}
		if lost != nil && !slices.ContainsFunc(sent, func(c shardChange) bool { return !c.isIn(all) }) {
			return nil
		}
		after := auth.Listing{Accounts: slices.Clone(before.Accounts), Keys: slices.Clone(before.Keys)}
		if err := change(&after); err != nil {
			return err
		}
		if sent = e.plan(&all, before, after); len(sent) == 0 {
			return nil // it is so already
		}
		if slices.ContainsFunc(sent, shardChange.adds) {
			if err := e.setUp(ctx, versions); err != nil {
				return err
			}
		}
		var refused redis.Error
		switch done, err := e.commit(ctx, sent); {
		case done:
			return nil
		case errors.Is(err, errSomeLost), errors.Is(err, auth.ErrGarbage), errors.As(err, &refused):
			return err
		case err != nil:
			lost = err
		}
	}
	if lost != nil {
		return fmt.Errorf("%w: %w", auth.ErrUncertain, lost)
	}
	return errors.New("other programs change the same keys all the time: try again")
}

// read reads what is named, in two round trips: what an id stands for is not known before.
func (e *editor) read(ctx context.Context, about auth.Subjects) (all cells, versions [shards]string, l auth.Listing, err error) {
	ids := everyShard()
	for _, id := range about.KeyIDs {
		ids = append(ids, withID(id)...)
	}
	if versions, err = ids.read(ctx, e.client, e.layout); err != nil {
		return nil, versions, l, err
	}
	digests := slices.Clone(about.Digests)
	for _, c := range ids {
		if c.old != "" {
			d, err := parseDigest(c.old)
			if err != nil {
				return nil, versions, l, err
			}
			digests = append(digests, d)
		}
	}
	for _, d := range digests {
		all.at(e.layout.key(d))
	}
	keys := len(all)
	for _, id := range about.Accounts {
		all.at(e.layout.account(id))
	}
	if _, err = all.read(ctx, e.client, e.layout); err != nil {
		return nil, versions, l, err
	}
	for i, c := range all {
		_, name, _ := strings.Cut(c.field, ":")
		switch {
		case c.old == "":
		case i < keys:
			k, err := parseStored(name, c.old)
			if err != nil {
				return nil, versions, l, err
			}
			l.Keys = append(l.Keys, k)
		default:
			a, err := parseAccount(name, c.old)
			if err != nil {
				return nil, versions, l, err
			}
			l.Accounts = append(l.Accounts, a)
		}
	}
	return append(all, ids...), versions, l, nil
}

// lost is errSomeLost where a shard is missing although there have been keys or accounts, and
// errOlder where they are in another layout. Where all shards that had any are missing at once, it looks
// as if there never were any.
func (e *editor) lost(ctx context.Context, versions [shards]string) error {
	missing, used := false, false
	for _, v := range versions {
		missing = missing || v == ""
		used = used || v != "" && v != "0"
	}
	switch {
	case missing && used:
		return errSomeLost
	case missing && isOlder(ctx, e.client, e.layout):
		return errOlder
	}
	return nil
}

// setUp gives all shards a version where there has never been a key or an account. Of one that has
// been lost it would look as if all of it never was.
func (e *editor) setUp(ctx context.Context, versions [shards]string) error {
	if err := e.lost(ctx, versions); err != nil || !slices.Contains(versions[:], "") {
		return err
	}
	_, err := e.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n := range shards {
			p.HSetNX(ctx, e.layout.hash(n), fieldVersion, 0)
		}
		return nil
	})
	if err != nil {
		return redisError(err)
	}
	return nil
}

// shardChange is what a change changes in one shard.
type shardChange struct {
	shard   int
	rank    int // the order of commits
	cells   []*cell
	message []string // pairs of what is changed
}

// isIn says that the cells as they were read are as the change was to make them.
func (c shardChange) isIn(read cells) bool {
	return !slices.ContainsFunc(c.cells, func(w *cell) bool { return read.at(cell{shard: w.shard, field: w.field}).old != w.new })
}

// adds says that it adds a record.
func (c shardChange) adds() bool {
	return slices.ContainsFunc(c.cells, func(c *cell) bool { return c.old == "" })
}

// The order of commits: an account without a key lets nobody in, and two keys are better than none.
const (
	rankAccount = iota
	rankNewKey
	rankKey
)

// plan gives what a change changes, by shard.
func (e *editor) plan(all *cells, before, after auth.Listing) (changes []shardChange) {
	set := func(c cell, value string, rank int, message ...string) {
		into := all.at(c)
		into.new = value
		i := slices.IndexFunc(changes, func(s shardChange) bool { return s.shard == c.shard })
		if i < 0 {
			i = len(changes)
			changes = append(changes, shardChange{shard: c.shard, rank: rank})
		}
		s := &changes[i]
		s.rank, s.cells, s.message = min(s.rank, rank), append(s.cells, into), append(s.message, message...)
	}
	for i, a := range after.Accounts {
		if i >= len(before.Accounts) || a != before.Accounts[i] {
			set(e.layout.account(a.ID), encode(a), rankAccount, changedAccount, a.ID)
		}
	}
	for i, k := range after.Keys {
		hex, rank := k.Digest.Hex(), rankKey
		if i < len(before.Keys) && k.Equal(before.Keys[i]) {
			continue
		}
		if i >= len(before.Keys) {
			rank = rankNewKey
			set(cell{shard: shardOf(k.Digest), field: fieldID + k.ID}, hex, rank)
		}
		set(e.layout.key(k.Digest), encode(k), rank, changedKey, hex)
	}
	slices.SortStableFunc(changes, func(a, b shardChange) int { return cmp.Compare(a.rank, b.rank) })
	return changes
}

// commit commits shard by shard, until one is not as it was read.
func (e *editor) commit(ctx context.Context, changes []shardChange) (done bool, err error) {
	for _, c := range changes {
		args := []any{e.layout.changes(), digits[c.shard : c.shard+1], strings.Join(c.message, " ")}
		for _, w := range c.cells {
			args = append(args, w.field, w.old, w.new)
		}
		v, err := commit.Run(ctx, e.client, []string{e.layout.hash(c.shard)}, args...).Int64()
		switch {
		case err != nil:
			return false, redisError(err)
		case v < 0:
			return false, errSomeLost
		case v == 0:
			return false, nil
		}
	}
	return true, nil
}

// Keys implements auth.Editable. Each page is sorted by id.
func (e *editor) Keys(ctx context.Context, page func(auth.Listing) error) error {
	var unreadable notes
	id := func(k auth.KeyRecord) string { return k.ID }
	err := paged(ctx, e, e.layout.sort+":", parseStored, id, func(keys []auth.KeyRecord) error {
		l, all := auth.Listing{Keys: keys}, cells{}
		for _, k := range keys {
			all.at(e.layout.account(k.Account))
		}
		if _, err := all.read(ctx, e.client, e.layout); err != nil {
			return err
		}
		for _, c := range all {
			a, err := parseAccount(strings.TrimPrefix(c.field, fieldAccount), c.old)
			if unreadable.add(c.field, err); err == nil {
				l.Accounts = append(l.Accounts, a)
			}
		}
		return page(l)
	})
	return errors.Join(err, errors.Join(unreadable...))
}

// Accounts implements auth.Editable. Each page is sorted by id.
func (e *editor) Accounts(ctx context.Context, page func([]auth.Account) error) error {
	return paged(ctx, e, fieldAccount, parseAccount, func(a auth.Account) string { return a.ID }, page)
}

// notes are records that cannot be read, of which maxUnreadable are named.
type notes []error

// add notes the record of a field. Of a digest it names the beginning.
func (n *notes) add(field string, err error) {
	if sort, name, _ := strings.Cut(field, ":"); err != nil && len(*n) < maxUnreadable {
		*n = append(*n, fmt.Errorf("%s %s: %w", sort, auth.Clip(name), err))
	}
}

// paged reads all records of one sort in bounded steps, which do not hold Redis up, and gives them
// on in pages, each sorted by id. What is changed meanwhile may come twice.
func paged[R any](ctx context.Context, e *editor, sort string, parse func(name, text string) (R, error), id func(R) string, page func([]R) error) error {
	var unreadable notes
	var some []R
	flush := func() error {
		slices.SortFunc(some, func(a, b R) int { return cmp.Compare(id(a), id(b)) })
		err := page(slices.CompactFunc(some, func(a, b R) bool { return id(a) == id(b) }))
		some = some[:0]
		return err
	}
	versions, err := everyShard().read(ctx, e.client, e.layout)
	if err != nil {
		return err
	}
	for n := range shards {
		for cursor := uint64(0); ; {
			found, next, err := e.client.HScan(ctx, e.layout.hash(n), cursor, sort+"*", pageSize).Result()
			if err != nil {
				return redisError(err)
			}
			for pair := range slices.Chunk(found, 2) {
				record, err := parse(strings.TrimPrefix(pair[0], sort), pair[len(pair)-1])
				if unreadable.add(pair[0], err); err == nil {
					some = append(some, record)
				}
			}
			if len(some) >= pageSize {
				if err := flush(); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return errors.Join(append(unreadable, e.lost(ctx, versions))...)
}
