package keysredis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
)

// maxListed bounds what List reads of Redis.
const maxListed = 1_000_000

// Editor edits the key store in Redis for tools. Each change is effective
// on every node as Store says. A change that failed half-way may be
// repeated. The context sets the deadline.
type Editor struct {
	client redis.Cmdable
	keys   names
}

// NewEditor edits the records under prefix.
func NewEditor(client redis.Cmdable, prefix string, h auth.Hasher) *Editor {
	return &Editor{client: client, keys: names{prefix: prefix, sort: h.Field()}}
}

// raise raises the version and tells everybody what changed, in one step, so
// that messages come in the order of versions.
var raise = redis.NewScript(`
local v = redis.call('INCR', KEYS[1])
redis.call('PUBLISH', ARGV[1], v .. ' ' .. ARGV[2])
return v`)

// write sets fields of a record, if the record is there (ARGV[1] is 1) or is not
// (0). What is revoked stays revoked: a new key never overwrites one.
var write = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return 1`)

// The first argument of write.
const (
	ifAbsent  = 0
	ifPresent = 1
)

// write runs the script for one key.
func (e *Editor) write(ctx context.Context, d auth.Digest, when int, values ...any) (written bool, err error) {
	return write.Run(ctx, e.client, []string{e.keys.key(d.Hex())}, append([]any{when}, values...)...).Bool()
}

// changed tells every node what to look up again: a key by its digest, or an
// account by its id.
func (e *Editor) changed(ctx context.Context, what, id string) error {
	return raise.Run(ctx, e.client, []string{e.keys.version()}, e.keys.changes(), what+" "+id).Err()
}

// Add stores a key. An account that is not there is added when create is not nil,
// and is auth.ErrNoSuchAccount otherwise. A key whose id or digest is there
// already is auth.ErrDuplicate.
func (e *Editor) Add(ctx context.Context, k auth.KeyRecord, create *auth.Account) error {
	k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Second)
	if err := k.Validate(); err != nil {
		return err
	}
	if err := e.ensureAccount(ctx, k.Account, create); err != nil {
		return err
	}
	duplicate := fmt.Errorf("key %s: %w", k.ID, auth.ErrDuplicate)
	claimed, err := e.client.HSetNX(ctx, e.keys.ids(), k.ID, k.Digest.Hex()).Result()
	if err != nil {
		return err
	}
	if !claimed { // unless an earlier try got no further than this
		owner, err := digestOf(ctx, e.client, e.keys, k.ID)
		if err != nil {
			return err
		}
		if owner != k.Digest {
			return duplicate
		}
	}
	written, err := e.write(ctx, k.Digest, ifAbsent, keyValues(k)...)
	if err != nil {
		return err
	}
	if !written {
		if claimed {
			err = e.client.HDel(ctx, e.keys.ids(), k.ID).Err()
		}
		return errors.Join(duplicate, err)
	}
	return e.changed(ctx, changedKey, k.Digest.Hex())
}

// ensureAccount makes the account from create, unless it is there.
func (e *Editor) ensureAccount(ctx context.Context, id string, create *auth.Account) error {
	known, err := e.client.SIsMember(ctx, e.keys.accounts(), id).Result()
	if err != nil || known {
		return err
	}
	if create == nil {
		return auth.NoSuchAccount(id)
	}
	a := *create
	a.ID = id
	return e.writeAccount(ctx, a)
}

// writeAccount writes the record before the index, which Add looks at.
func (e *Editor) writeAccount(ctx context.Context, a auth.Account) error {
	if err := a.Validate(); err != nil {
		return err
	}
	if err := e.client.HSet(ctx, e.keys.account(a.ID), fieldAPIAccess, a.APIAccess, fieldPlan, a.Plan).Err(); err != nil {
		return err
	}
	if err := e.client.SAdd(ctx, e.keys.accounts(), a.ID).Err(); err != nil {
		return err
	}
	return e.changed(ctx, changedAccount, a.ID)
}

// Revoke marks a key as revoked, for good. Revoking twice is no error.
func (e *Editor) Revoke(ctx context.Context, id string) error {
	return e.set(ctx, id, fieldRevoked, revokedMark)
}

// Rotate adds the key that follows another one and lets the old one expire at
// a time, unless it does so earlier. When the second step fails the old key
// stays good as it was.
func (e *Editor) Rotate(ctx context.Context, oldID string, next auth.KeyRecord, oldExpires time.Time) error {
	old, err := e.find(ctx, oldID)
	if err != nil {
		return err
	}
	if err := e.Add(ctx, next, nil); err != nil {
		return err
	}
	at := oldExpires.UTC().Truncate(time.Second)
	if !old.ExpiresAt.IsZero() && !old.ExpiresAt.After(at) {
		return nil
	}
	return e.set(ctx, oldID, fieldExpiresAt, at.Format(time.RFC3339))
}

// set writes one field of a key that is there, and tells every node to look the key up
// again. Errors: auth.ErrNoSuchKey.
func (e *Editor) set(ctx context.Context, id, field, value string) error {
	digest, err := digestOf(ctx, e.client, e.keys, id)
	if err != nil {
		return err
	}
	written, err := e.write(ctx, digest, ifPresent, field, value)
	if err != nil {
		return err
	}
	if !written {
		return auth.NoSuchKey(id)
	}
	return e.changed(ctx, changedKey, digest.Hex())
}

// Get returns the record of a key. Errors: auth.ErrNoSuchKey.
func (e *Editor) Get(ctx context.Context, id string) (auth.KeyRecord, error) {
	k, err := e.find(ctx, id)
	if errors.Is(err, auth.ErrUnknownKey) {
		err = auth.NoSuchKey(id)
	}
	return k, err
}

// find reads a key by its id. auth.ErrUnknownKey means that the index names a key
// that is not there.
func (e *Editor) find(ctx context.Context, id string) (auth.KeyRecord, error) {
	digest, err := digestOf(ctx, e.client, e.keys, id)
	if err != nil {
		return auth.KeyRecord{}, err
	}
	return readKey(ctx, e.client, e.keys, digest)
}

// SetAccount changes an account, or adds it when that is asked for.
func (e *Editor) SetAccount(ctx context.Context, c auth.AccountChange) error {
	if c.APIAccess == "" && c.Plan == nil && !c.Create {
		return auth.ErrNothingToChange
	}
	if err := (auth.Account{ID: c.ID, APIAccess: auth.AccessNone}).Validate(); err != nil {
		return err
	}
	known, err := e.client.SIsMember(ctx, e.keys.accounts(), c.ID).Result()
	if err != nil {
		return err
	}
	if !known && !c.Create {
		return auth.NoSuchAccount(c.ID)
	}
	a, err := readAccount(ctx, e.client, e.keys, c.ID)
	if err != nil {
		return err
	}
	c.Apply(&a)
	return e.writeAccount(ctx, a)
}

// List returns what the index names, sorted by id. Records that issuers wrote
// without an entry in the index are not in it.
func (e *Editor) List(ctx context.Context) (auth.Listing, error) {
	l := auth.Listing{Accounts: []auth.Account{}, Keys: []auth.KeyRecord{}}
	ids, err := scan(func(cursor uint64) ([]string, uint64, error) {
		return e.client.SScan(ctx, e.keys.accounts(), cursor, "", 500).Result()
	})
	if err != nil {
		return auth.Listing{}, err
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) { // a scan may show one twice
		a, err := readAccount(ctx, e.client, e.keys, id)
		if err != nil {
			return auth.Listing{}, fmt.Errorf("account %s: %w", auth.Clip(id), err)
		}
		l.Accounts = append(l.Accounts, a)
	}
	pairs, err := scan(func(cursor uint64) ([]string, uint64, error) {
		return e.client.HScan(ctx, e.keys.ids(), cursor, "", 500).Result()
	})
	if err != nil {
		return auth.Listing{}, err
	}
	digests := make(map[string]string, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		digests[pair[0]] = pair[len(pair)-1]
	}
	for _, id := range slices.Sorted(maps.Keys(digests)) {
		digest, err := parseDigest(digests[id])
		var k auth.KeyRecord
		if err == nil {
			k, err = readKey(ctx, e.client, e.keys, digest)
		}
		if errors.Is(err, auth.ErrUnknownKey) {
			continue // an Add that got no further than the index
		}
		if err != nil {
			return auth.Listing{}, fmt.Errorf("key %s: %w", auth.Clip(id), err)
		}
		l.Keys = append(l.Keys, k)
	}
	return l, nil
}

// scan collects a set or a hash in bounded steps, which do not hold Redis up. What is
// changed meanwhile may be in it or not, and an entry may be in it twice.
func scan(step func(cursor uint64) ([]string, uint64, error)) ([]string, error) {
	var all []string
	for cursor := uint64(0); ; {
		some, next, err := step(cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(all) > maxListed {
			return nil, fmt.Errorf("there are more than %d entries", maxListed)
		}
		if cursor = next; cursor == 0 {
			return all, nil
		}
	}
}
