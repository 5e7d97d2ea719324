package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// ErrNoKeyIDs means that the source of keys cannot find a key by its id. Only the keys
// file and Redis can.
var ErrNoKeyIDs = errors.New("this source of keys cannot find a key by its id")

// byID is a Store that knows which digest has an id. An error of digestOf
// other than ErrNoSuchKey means that it could not find out.
type byID interface {
	digestOf(ctx context.Context, id string) (Digest, error)
}

// ByID says what Authenticate would answer to the key of that id, for tools
// that explain it: the same store is asked, but nothing is counted or logged,
// and the principal is there with a Denial, too. Further errors: ErrNoSuchKey,
// ErrNoKeyIDs, and ErrUnavailable as for Authenticate.
func (a *Authenticator) ByID(ctx context.Context, id string) (Principal, error) {
	store, ok := a.store.(byID)
	if !ok {
		return Principal{}, ErrNoKeyIDs
	}
	digest, err := store.digestOf(ctx, id)
	if errors.Is(err, ErrNoSuchKey) {
		return Principal{}, err
	}
	if err != nil {
		return Principal{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	grant, err := a.store.Find(ctx, Credential{Digest: digest})
	if errors.Is(err, ErrUnknownKey) {
		return Principal{}, fmt.Errorf("key %s: %w", clip(id), ErrNoSuchKey)
	}
	if err != nil {
		return Principal{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return grant.Principal, a.judge(grant)
}

func (s *FileStore) digestOf(_ context.Context, id string) (Digest, error) {
	keys := s.current.Load().keys
	i := slices.IndexFunc(keys, func(k KeyRecord) bool { return k.ID == id })
	if i < 0 {
		return Digest{}, fmt.Errorf("key %s: %w", clip(id), ErrNoSuchKey)
	}
	return keys[i].Digest, nil
}

func (s *RedisStore) digestOf(ctx context.Context, id string) (Digest, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	hex, err := (&RedisKeys{client: s.client, keys: s.keys}).digestOf(ctx, id)
	if err != nil {
		return Digest{}, err
	}
	digest, err := ParseDigest(hex)
	if err != nil {
		return Digest{}, fmt.Errorf("%w: the index of ids holds no digest", errGarbage)
	}
	return digest, nil
}

// Get returns the record of a key. Errors: ErrNoSuchKey.
func (f *KeysFile) Get(ctx context.Context, id string) (KeyRecord, error) {
	l, err := f.List(ctx)
	if err != nil {
		return KeyRecord{}, err
	}
	i := slices.IndexFunc(l.Keys, func(k KeyRecord) bool { return k.ID == id })
	if i < 0 {
		return KeyRecord{}, fmt.Errorf("key %s: %w", clip(id), ErrNoSuchKey)
	}
	return l.Keys[i], nil
}

// Get returns the record of a key. Errors: ErrNoSuchKey.
func (r *RedisKeys) Get(ctx context.Context, id string) (KeyRecord, error) {
	k, err := r.get(ctx, id)
	if errors.Is(err, ErrUnknownKey) {
		err = fmt.Errorf("key %s: %w", clip(id), ErrNoSuchKey)
	}
	return k, err
}
