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

// Editor edits the key store in Redis for tools. Each change happens whole or not at all,
// beside other editors, and is effective on every node as Store says. An answer of Redis
// that is lost is asked for again; if that fails too, the error is auth.ErrUncertain. The
// context sets the deadline.
type Editor struct {
	client redis.Cmdable
	keys   names
}

// NewEditor edits the records under prefix.
func NewEditor(client redis.Cmdable, prefix string, h auth.Hasher) *Editor {
	return &Editor{client: client, keys: names{prefix: prefix, sort: h.Field()}}
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

// change reads the cells, lets plan set what they are to be, and commits. plan may be called
// several times. It returns the pairs of a message, or why nothing may be changed.
func (e *Editor) change(ctx context.Context, plan func() (message []string, err error), cells ...*cell) error {
	var lost error    // why it is not known whether sent was committed
	var sent []string // the new value of each cell
	undecided := func() error { return fmt.Errorf("%w: %w", auth.ErrUncertain, lost) }
	for range maxTries {
		if lost != nil {
			select {
			case <-time.After(tryPause):
			case <-ctx.Done():
				return undecided()
			}
		}
		if err := load(ctx, e.client, cells...); err != nil {
			if lost == nil {
				return err
			}
			continue
		}
		if lost != nil && slices.EqualFunc(cells, sent, func(c *cell, now string) bool { return c.old == now }) {
			return nil // the commit whose answer was lost
		}
		message, err := plan()
		if err != nil {
			return err
		}
		keys, args := []string{e.keys.version()}, []any{e.keys.changes(), strings.Join(message, " ")}
		sent = sent[:0]
		for _, c := range cells {
			if sent = append(sent, c.new); c.new != c.old {
				keys, args = append(keys, c.hash), append(args, c.field, c.old, c.new)
			}
		}
		if len(keys) == 1 {
			return nil // it is so already
		}
		version, err := commit.Run(ctx, e.client, keys, args...).Int64()
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
		return undecided()
	}
	return errors.New("other programs change the same keys all the time: try again")
}

func (e *Editor) key(d auth.Digest) *cell { return &cell{hash: e.keys.keys(), field: d.Hex()} }
func (e *Editor) id(id string) *cell      { return &cell{hash: e.keys.ids(), field: id} }
func (e *Editor) account(id string) *cell { return &cell{hash: e.keys.accounts(), field: id} }

// Add stores a key. An account that is not there is added when create is not nil,
// and is auth.ErrNoSuchAccount otherwise. A key whose id or digest is there
// already is auth.ErrDuplicate.
func (e *Editor) Add(ctx context.Context, k auth.KeyRecord, create *auth.Account) error {
	id, key, account := e.id(k.ID), e.key(k.Digest), e.account(k.Account)
	return e.change(ctx, func() ([]string, error) {
		if err := addKey(k, id, key); err != nil {
			return nil, err
		}
		message := []string{changedKey, key.field}
		switch {
		case account.old != "":
		case create == nil:
			return nil, auth.NoSuchAccount(k.Account)
		default:
			a := *create
			a.ID = k.Account
			if err := a.Validate(); err != nil {
				return nil, err
			}
			account.new = encode(a)
			message = append(message, changedAccount, a.ID)
		}
		return message, nil
	}, id, key, account)
}

// addKey plans the two cells of a new key.
func addKey(k auth.KeyRecord, id, key *cell) error {
	k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Second)
	if err := k.Validate(); err != nil {
		return err
	}
	if id.old != "" || key.old != "" {
		return fmt.Errorf("key %s: %w", k.ID, auth.ErrDuplicate)
	}
	id.new, key.new = k.Digest.Hex(), encode(k)
	return nil
}

// Revoke marks a key as revoked, for good. Revoking twice is no error.
func (e *Editor) Revoke(ctx context.Context, id string) error {
	digest, err := digestOf(ctx, e.client, e.keys, id)
	if err != nil {
		return err
	}
	key := e.key(digest)
	return e.change(ctx, func() ([]string, error) {
		k, err := storedKey(id, digest, key)
		k.Revoked = true
		key.new = encode(k)
		return []string{changedKey, key.field}, err
	}, key)
}

// Rotate adds the key that follows another one and lets the old one expire at
// a time, unless it does so earlier. It returns the old key as it is then. A revoked
// key is auth.ErrRevoked.
func (e *Editor) Rotate(ctx context.Context, oldID string, next auth.KeyRecord, oldExpires time.Time) (auth.KeyRecord, error) {
	digest, err := digestOf(ctx, e.client, e.keys, oldID)
	if err != nil {
		return auth.KeyRecord{}, err
	}
	var old auth.KeyRecord
	oldKey, id, key := e.key(digest), e.id(next.ID), e.key(next.Digest)
	at := oldExpires.UTC().Truncate(time.Second)
	err = e.change(ctx, func() (message []string, err error) {
		if old, err = storedKey(oldID, digest, oldKey); err != nil {
			return nil, err
		}
		if old.Revoked {
			return nil, auth.Revoked(oldID)
		}
		if old.ExpiresAt.IsZero() || old.ExpiresAt.After(at) {
			old.ExpiresAt = at
			oldKey.new = encode(old)
		}
		return []string{changedKey, oldKey.field, changedKey, key.field}, addKey(next, id, key)
	}, oldKey, id, key)
	return old, err
}

// storedKey reads the record of a key that the index names.
func storedKey(id string, d auth.Digest, c *cell) (auth.KeyRecord, error) {
	k, err := parseKey(d, c.old)
	if errors.Is(err, auth.ErrUnknownKey) {
		err = auth.NoSuchKey(id)
	}
	return k, err
}

// Get returns the record of a key. Errors: auth.ErrNoSuchKey.
func (e *Editor) Get(ctx context.Context, id string) (auth.KeyRecord, error) {
	digest, err := digestOf(ctx, e.client, e.keys, id)
	if err != nil {
		return auth.KeyRecord{}, err
	}
	key := e.key(digest)
	if err := load(ctx, e.client, key); err != nil {
		return auth.KeyRecord{}, err
	}
	return storedKey(id, digest, key)
}

// SetAccount changes an account, or adds it when that is asked for.
func (e *Editor) SetAccount(ctx context.Context, c auth.AccountChange) error {
	if c.APIAccess == "" && c.Plan == nil && !c.Create {
		return auth.ErrNothingToChange
	}
	account := e.account(c.ID)
	return e.change(ctx, func() ([]string, error) {
		if account.old == "" && !c.Create {
			return nil, auth.NoSuchAccount(c.ID)
		}
		a, err := parseAccount(c.ID, account.old)
		if err != nil {
			return nil, err
		}
		c.Apply(&a)
		account.new = encode(a)
		return []string{changedAccount, c.ID}, a.Validate()
	}, account)
}

// List returns what the store holds, sorted by id.
func (e *Editor) List(ctx context.Context) (auth.Listing, error) {
	l := auth.Listing{Accounts: []auth.Account{}, Keys: []auth.KeyRecord{}}
	err := e.scan(ctx, e.keys.accounts(), func(id, text string) error {
		a, err := parseAccount(id, text)
		l.Accounts = append(l.Accounts, a)
		return err
	})
	if err != nil {
		return auth.Listing{}, err
	}
	err = e.scan(ctx, e.keys.keys(), func(hex, text string) error {
		digest, err := auth.ParseDigest(hex)
		if err != nil {
			return fmt.Errorf("%w: a key's digest is not valid", auth.ErrGarbage)
		}
		k, err := parseKey(digest, text)
		l.Keys = append(l.Keys, k)
		return err
	})
	if err != nil {
		return auth.Listing{}, err
	}
	// What is changed during a scan may come twice.
	slices.SortFunc(l.Accounts, func(a, b auth.Account) int { return cmp.Compare(a.ID, b.ID) })
	l.Accounts = slices.CompactFunc(l.Accounts, func(a, b auth.Account) bool { return a.ID == b.ID })
	slices.SortFunc(l.Keys, func(a, b auth.KeyRecord) int { return cmp.Compare(a.ID, b.ID) })
	l.Keys = slices.CompactFunc(l.Keys, func(a, b auth.KeyRecord) bool { return a.ID == b.ID })
	return l, nil
}

// maxListed bounds what List reads of Redis.
const maxListed = 1_000_000

// scan reads a hash in bounded steps, which do not hold Redis up.
func (e *Editor) scan(ctx context.Context, hash string, each func(field, value string) error) error {
	for cursor, n := uint64(0), 0; ; {
		some, next, err := e.client.HScan(ctx, hash, cursor, "", 500).Result()
		if err != nil {
			return redisError(err)
		}
		if n += len(some) / 2; n > maxListed {
			return fmt.Errorf("there are more than %d entries", maxListed)
		}
		for pair := range slices.Chunk(some, 2) {
			if err := each(pair[0], pair[len(pair)-1]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
