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

// records are the keys and accounts under a prefix. An answer of Redis that is lost is asked
// for again; if that fails too, the error is auth.ErrUncertain. The context sets the deadline.
type records struct {
	client redis.Cmdable
	keys   names
}

// NewEditor edits the records under prefix. A change is effective on every node as Store says.
func NewEditor(client redis.Cmdable, prefix string, h auth.Hasher) *auth.Editor {
	return &auth.Editor{Records: &records{client: client, keys: names{prefix: prefix, sort: h.Field()}}}
}

// commit writes the cells if they are as they were read, raises the version and publishes
// what changed. Nothing fails after the first write: INCR is the one that refuses a version
// that is no number.
//
//	KEYS: version, then the hash of each cell
//	ARGV: channel, what changed, then field, old and new of each cell
var commit = redis.NewScript(`
for i = 2, #KEYS do
  if (redis.call('HGET', KEYS[i], ARGV[3*i-3]) or '') ~= ARGV[3*i-2] then return 0 end
end
local v = redis.call('INCR', KEYS[1])
for i = 2, #KEYS do redis.call('HSET', KEYS[i], ARGV[3*i-3], ARGV[3*i-1]) end
redis.call('PUBLISH', ARGV[1], v .. ' ' .. ARGV[2])
return v`)

const (
	maxTries = 8                      // of one change: beside other editors, or while answers are lost
	tryPause = 150 * time.Millisecond // after a lost answer
)

// Change implements auth.Records: it reads, plans, and commits if what it changes is as it was
// read. A commit whose answer was lost is recognised by what Redis holds then.
func (r *records) Change(ctx context.Context, names auth.Names, change func(*auth.Listing) error) error {
	var lost error // why it is not known whether sent was committed
	var sent []*cell
	for range maxTries {
		if lost != nil {
			select {
			case <-time.After(tryPause):
			case <-ctx.Done():
				return fmt.Errorf("%w: %w", auth.ErrUncertain, lost)
			}
		}
		cells, before, err := r.read(ctx, names)
		whole := false
		if err == nil {
			whole, err = r.whole(ctx)
		}
		if err != nil {
			if lost == nil {
				return err
			}
			continue
		}
		if lost != nil && !slices.ContainsFunc(sent, func(c *cell) bool { return cells.at(c.hash, c.field).old != c.new }) {
			return nil
		}
		after := auth.Listing{Accounts: slices.Clone(before.Accounts), Keys: slices.Clone(before.Keys)}
		if err := change(&after); err != nil {
			return err
		}
		var message []string
		if sent, message = r.plan(&cells, before, after); len(sent) == 0 {
			return nil // it is so already
		}
		if !whole && slices.ContainsFunc(sent, func(c *cell) bool { return c.old == "" }) {
			if lost != nil {
				break
			}
			return errors.New("keys or accounts are lost in Redis, perhaps by its maxmemory-policy: restore them first, and see docs/redis.md")
		}
		version, err := r.commit(ctx, sent, message)
		var refused redis.Error
		switch {
		case err == nil && version > 0:
			return nil
		case errors.As(err, &refused):
			return redisError(err)
		case err != nil:
			lost = redisError(err)
		}
	}
	if lost != nil {
		return fmt.Errorf("%w: %w", auth.ErrUncertain, lost)
	}
	return errors.New("other programs change the same keys all the time: try again")
}

// read reads what is named, in two round trips: what an id stands for is not known before.
func (r *records) read(ctx context.Context, names auth.Names) (all cells, l auth.Listing, err error) {
	for _, id := range names.Keys {
		all.at(r.keys.ids(), id)
	}
	if err := load(ctx, r.client, all...); err != nil {
		return nil, l, err
	}
	var rest cells
	for _, c := range all {
		if c.old != "" {
			rest.at(r.keys.keys(), c.old)
		}
	}
	for _, d := range names.Digests {
		rest.at(r.keys.keys(), d.Hex())
	}
	for _, id := range names.Accounts {
		rest.at(r.keys.accounts(), id)
	}
	if err := load(ctx, r.client, rest...); err != nil {
		return nil, l, err
	}
	for _, c := range rest {
		if c.old == "" {
			continue
		}
		if c.hash == r.keys.accounts() {
			a, err := parseAccount(c.field, c.old)
			if err != nil {
				return nil, l, err
			}
			l.Accounts = append(l.Accounts, a)
			continue
		}
		k, err := parseStored(c.field, c.old)
		if err != nil {
			return nil, l, err
		}
		l.Keys = append(l.Keys, k)
	}
	return append(all, rest...), l, nil
}

// whole is false where all accounts are gone although there have been changes, or all keys although
// the index has their ids. A record that is added would make a new hash, and all others would
// look as if they never were. With a new pepper there are keys of the other sort only.
func (r *records) whole(ctx context.Context) (bool, error) {
	var version, ids, keys, accounts *redis.IntCmd
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		version, ids = p.Exists(ctx, r.keys.version()), p.Exists(ctx, r.keys.ids())
		keys = p.Exists(ctx, names{r.keys.prefix, auth.FieldSHA256}.keys(), names{r.keys.prefix, auth.FieldHMAC}.keys())
		accounts = p.Exists(ctx, r.keys.accounts())
		return nil
	})
	if err != nil {
		return false, redisError(err)
	}
	return accounts.Val() >= max(version.Val(), ids.Val()) && keys.Val() >= ids.Val(), nil
}

// plan gives the cells that a change changes, and the pairs of its message.
func (r *records) plan(all *cells, before, after auth.Listing) (changed []*cell, message []string) {
	set := func(hash, field, value string) {
		c := all.at(hash, field)
		c.new = value
		changed = append(changed, c)
	}
	for i, k := range after.Keys {
		if i < len(before.Keys) && k.Equal(before.Keys[i]) {
			continue
		}
		hex := k.Digest.Hex()
		if i >= len(before.Keys) {
			set(r.keys.ids(), k.ID, hex)
		}
		set(r.keys.keys(), hex, encode(k))
		message = append(message, changedKey, hex)
	}
	for i, a := range after.Accounts {
		if i < len(before.Accounts) && a == before.Accounts[i] {
			continue
		}
		set(r.keys.accounts(), a.ID, encode(a))
		message = append(message, changedAccount, a.ID)
	}
	return changed, message
}

func (r *records) commit(ctx context.Context, changed []*cell, message []string) (version int64, err error) {
	keys, args := []string{r.keys.version()}, []any{r.keys.changes(), strings.Join(message, " ")}
	for _, c := range changed {
		keys, args = append(keys, c.hash), append(args, c.field, c.old, c.new)
	}
	return commit.Run(ctx, r.client, keys, args...).Int64()
}

// List implements auth.Records, sorted by id.
func (r *records) List(ctx context.Context) (auth.Listing, error) {
	l := auth.Listing{Accounts: []auth.Account{}, Keys: []auth.KeyRecord{}}
	var unreadable []error
	err := r.scan(ctx, r.keys.accounts(), func(id, text string) {
		if a, err := parseAccount(id, text); err == nil {
			l.Accounts = append(l.Accounts, a)
		} else if len(unreadable) < maxUnreadable {
			unreadable = append(unreadable, fmt.Errorf("account %s: %w", auth.Clip(id), err))
		}
	})
	if err != nil {
		return auth.Listing{}, err
	}
	err = r.scan(ctx, r.keys.keys(), func(hex, text string) {
		if k, err := parseStored(hex, text); err == nil {
			l.Keys = append(l.Keys, k)
		} else if len(unreadable) < maxUnreadable {
			unreadable = append(unreadable, fmt.Errorf("the key whose %s begins with %.12s: %w", r.keys.sort, hex, err))
		}
	})
	if err != nil {
		return auth.Listing{}, err
	}
	// What is changed during a scan may come twice.
	slices.SortFunc(l.Accounts, func(a, b auth.Account) int { return cmp.Compare(a.ID, b.ID) })
	l.Accounts = slices.CompactFunc(l.Accounts, func(a, b auth.Account) bool { return a.ID == b.ID })
	slices.SortFunc(l.Keys, func(a, b auth.KeyRecord) int { return cmp.Compare(a.ID, b.ID) })
	l.Keys = slices.CompactFunc(l.Keys, func(a, b auth.KeyRecord) bool { return a.ID == b.ID })
	return l, errors.Join(unreadable...)
}

const (
	maxListed     = 1_000_000 // what List reads of Redis
	maxUnreadable = 50        // records that it names
)

// scan reads a hash in bounded steps, which do not hold Redis up.
func (r *records) scan(ctx context.Context, hash string, each func(field, value string)) error {
	for cursor, n := uint64(0), 0; ; {
		some, next, err := r.client.HScan(ctx, hash, cursor, "", 500).Result()
		if err != nil {
			return redisError(err)
		}
		if n += len(some) / 2; n > maxListed {
			return fmt.Errorf("there are more than %d entries", maxListed)
		}
		for pair := range slices.Chunk(some, 2) {
			each(pair[0], pair[len(pair)-1])
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
