package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxListed bounds what List reads of Redis.
const maxListed = 1_000_000

// RedisKeys edits the key store in Redis for tools. Each change is effective
// on every node as RedisStore says. A change that failed half-way may be
// repeated. The context sets the deadline.
type RedisKeys struct {
	client redis.UniversalClient
	keys   redisKeys
	hasher Hasher
}

// NewRedisKeys edits the records under prefix.
func NewRedisKeys(client redis.UniversalClient, prefix string, h Hasher) *RedisKeys {
	return &RedisKeys{client: client, keys: redisKeys{prefix: prefix, sort: h.Field()}, hasher: h}
}

// raise raises the version and tells everybody what changed, in one step, so
// that messages come in the order of versions.
var raise = redis.NewScript(`
local v = redis.call('INCR', KEYS[1])
redis.call('PUBLISH', ARGV[1], v .. ' ' .. ARGV[2])
return v`)

// insert writes a record unless there is one: what is revoked stays revoked.
var insert = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1`)

// update sets fields of a record that is there.
var update = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV))
return 1`)

func (r *RedisKeys) changed(ctx context.Context, what, id string) error {
	return raise.Run(ctx, r.client, []string{r.keys.version()}, r.keys.changes(), what+" "+id).Err()
}

// Add stores a key. See KeysFile.Add.
func (r *RedisKeys) Add(ctx context.Context, k KeyRecord, create *Account) error {
	k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Second)
	if err := k.validate(); err != nil {
		return err
	}
	if err := r.ensureAccount(ctx, k.Account, create); err != nil {
		return err
	}
	hex := k.Digest.Hex()
	claimed, err := r.client.HSetNX(ctx, r.keys.ids(), k.ID, hex).Result()
	if err != nil {
		return err
	}
	if !claimed { // unless an earlier try got no further than this
		owner, err := r.client.HGet(ctx, r.keys.ids(), k.ID).Result()
		if err != nil {
			return err
		}
		if owner != hex {
			return fmt.Errorf("key %s: %w", k.ID, ErrDuplicate)
		}
	}
	written, err := insert.Run(ctx, r.client, []string{r.keys.key(hex)}, keyValues(k)...).Int()
	if err != nil {
		return err
	}
	if written == 0 {
		if claimed {
			err = r.client.HDel(ctx, r.keys.ids(), k.ID).Err()
		}
		return errors.Join(fmt.Errorf("key %s: %w", k.ID, ErrDuplicate), err)
	}
	return r.changed(ctx, changedKey, hex)
}

func (r *RedisKeys) ensureAccount(ctx context.Context, id string, create *Account) error {
	known, err := r.client.SIsMember(ctx, r.keys.accounts(), id).Result()
	if err != nil || known {
		return err
	}
	if create == nil {
		return fmt.Errorf("account %s: %w", id, ErrNoSuchAccount)
	}
	a := *create
	a.ID = id
	return r.writeAccount(ctx, a)
}

// writeAccount writes the record before the index, which Add looks at.
func (r *RedisKeys) writeAccount(ctx context.Context, a Account) error {
	if err := a.validate(); err != nil {
		return err
	}
	if err := r.client.HSet(ctx, r.keys.account(a.ID), fieldAPIAccess, a.APIAccess, fieldPlan, a.Plan).Err(); err != nil {
		return err
	}
	if err := r.client.SAdd(ctx, r.keys.accounts(), a.ID).Err(); err != nil {
		return err
	}
	return r.changed(ctx, fieldAccount, a.ID)
}

// Revoke marks a key as revoked, for good. See KeysFile.Revoke.
func (r *RedisKeys) Revoke(ctx context.Context, id string) error {
	return r.set(ctx, id, fieldRevoked, revokedMark)
}

// Rotate adds the key that follows another one and lets the old one expire at
// a time, unless it does so earlier. When the second step fails the old key
// stays good as it was.
func (r *RedisKeys) Rotate(ctx context.Context, oldID string, next KeyRecord, oldExpires time.Time) error {
	old, err := r.get(ctx, oldID)
	if err != nil {
		return err
	}
	if err := r.Add(ctx, next, nil); err != nil {
		return err
	}
	at := oldExpires.UTC().Truncate(time.Second)
	if !old.ExpiresAt.IsZero() && !old.ExpiresAt.After(at) {
		return nil
	}
	return r.set(ctx, oldID, fieldExpiresAt, at.Format(time.RFC3339))
}

// set changes one field of a key.
func (r *RedisKeys) set(ctx context.Context, id, field, value string) error {
	hex, err := r.digestOf(ctx, id)
	if err != nil {
		return err
	}
	written, err := update.Run(ctx, r.client, []string{r.keys.key(hex)}, field, value).Int()
	if err != nil {
		return err
	}
	if written == 0 {
		return fmt.Errorf("key %s: %w", clip(id), ErrNoSuchKey)
	}
	return r.changed(ctx, changedKey, hex)
}

func (r *RedisKeys) digestOf(ctx context.Context, id string) (string, error) {
	hex, err := r.client.HGet(ctx, r.keys.ids(), id).Result()
	if errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("key %s: %w", clip(id), ErrNoSuchKey)
	}
	return hex, err
}

func (r *RedisKeys) get(ctx context.Context, id string) (KeyRecord, error) {
	hex, err := r.digestOf(ctx, id)
	if err != nil {
		return KeyRecord{}, err
	}
	return r.record(ctx, hex)
}

func (r *RedisKeys) record(ctx context.Context, hex string) (KeyRecord, error) {
	digest, err := ParseDigest(hex)
	if err != nil {
		return KeyRecord{}, fmt.Errorf("%w: the index of ids holds no digest", errGarbage)
	}
	values, err := r.client.HMGet(ctx, r.keys.key(hex), keyFields[:]...).Result()
	if err != nil {
		return KeyRecord{}, redisError(err)
	}
	return parseKey(digest, values)
}

// SetAccount changes an account, or adds it when that is asked for.
func (r *RedisKeys) SetAccount(ctx context.Context, c AccountChange) error {
	if c.APIAccess == "" && c.Plan == nil && !c.Create {
		return errNothingToChange
	}
	if msg := checkID(c.ID); msg != "" {
		return fmt.Errorf("account id %s", msg)
	}
	known, err := r.client.SIsMember(ctx, r.keys.accounts(), c.ID).Result()
	if err != nil {
		return err
	}
	if !known && !c.Create {
		return fmt.Errorf("account %s: %w", clip(c.ID), ErrNoSuchAccount)
	}
	a, err := r.account(ctx, c.ID)
	if err != nil {
		return err
	}
	if c.APIAccess != "" {
		a.APIAccess = c.APIAccess
	}
	if c.Plan != nil {
		a.Plan = *c.Plan
	}
	return r.writeAccount(ctx, a)
}

func (r *RedisKeys) account(ctx context.Context, id string) (Account, error) {
	values, err := r.client.HMGet(ctx, r.keys.account(id), accountFields[:]...).Result()
	if err != nil {
		return Account{}, redisError(err)
	}
	return parseAccount(id, values)
}

// List returns what the index names, sorted by id. Records that issuers wrote
// without an entry in the index are not in it.
func (r *RedisKeys) List(ctx context.Context) (Listing, error) {
	l := Listing{Accounts: []Account{}, Keys: []KeyRecord{}}
	ids, err := r.scan(func(cursor uint64) ([]string, uint64, error) {
		return r.client.SScan(ctx, r.keys.accounts(), cursor, "", 500).Result()
	})
	if err != nil {
		return Listing{}, err
	}
	for _, id := range ids {
		a, err := r.account(ctx, id)
		if err != nil {
			return Listing{}, fmt.Errorf("account %s: %w", clip(id), err)
		}
		l.Accounts = append(l.Accounts, a)
	}
	pairs, err := r.scan(func(cursor uint64) ([]string, uint64, error) {
		return r.client.HScan(ctx, r.keys.ids(), cursor, "", 500).Result()
	})
	if err != nil {
		return Listing{}, err
	}
	for pair := range slices.Chunk(pairs, 2) {
		k, err := r.record(ctx, pair[len(pair)-1])
		if errors.Is(err, ErrUnknownKey) {
			continue // an Add that got no further than the index
		}
		if err != nil {
			return Listing{}, fmt.Errorf("key %s: %w", clip(pair[0]), err)
		}
		l.Keys = append(l.Keys, k)
	}
	return l.sorted(), nil
}

// scan collects a set or a hash in bounded steps.
func (*RedisKeys) scan(step func(cursor uint64) ([]string, uint64, error)) ([]string, error) {
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

// sorted orders by id and drops what a scan showed twice.
func (l Listing) sorted() Listing {
	slices.SortFunc(l.Accounts, func(a, b Account) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(l.Keys, func(a, b KeyRecord) int { return strings.Compare(a.ID, b.ID) })
	l.Accounts = slices.CompactFunc(l.Accounts, func(a, b Account) bool { return a.ID == b.ID })
	l.Keys = slices.CompactFunc(l.Keys, func(a, b KeyRecord) bool { return a.ID == b.ID })
	return l
}
