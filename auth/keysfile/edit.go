package keysfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"inquiry-gateway/auth"
)

// Editor edits a keys file for tools. Every change keeps the comments, the
// order and the lay-out of the file, is decoded again and compared with what
// was meant before it replaces the file in one step, and excludes other
// writers meanwhile. The context bounds the wait for another writer.
type Editor struct {
	path   string
	hasher auth.Hasher
}

// NewEditor names the file to edit; it is not touched before it is needed. A
// symbolic link is followed: the file it points to is replaced.
func NewEditor(path string, h auth.Hasher) *Editor { return &Editor{path: path, hasher: h} }

// ErrLayout means that the file is written in a way that cannot be edited without
// the risk of spoiling it. It has not been touched.
var ErrLayout = errors.New("this lay-out cannot be edited by the program, please edit the file by hand")

// List returns what the file holds, in its order.
func (e *Editor) List(context.Context) (auth.Listing, error) {
	data, err := readBounded(e.path)
	if err != nil {
		return auth.Listing{}, err
	}
	doc, err := decode(e.path, data, e.hasher)
	if err != nil {
		return auth.Listing{}, err
	}
	return doc.Listing, nil
}

// Get returns the record of a key. Errors: auth.ErrNoSuchKey.
func (e *Editor) Get(ctx context.Context, id string) (auth.KeyRecord, error) {
	l, err := e.List(ctx)
	if err != nil {
		return auth.KeyRecord{}, err
	}
	k, err := l.Key(id)
	if err != nil {
		return auth.KeyRecord{}, err
	}
	return *k, nil
}

// Add appends a key. The file is made, for its owner only, when there is none.
// An account that the file lacks is added when create is not nil, and is
// auth.ErrNoSuchAccount otherwise. A key whose id or digest is there already is
// auth.ErrDuplicate.
func (e *Editor) Add(ctx context.Context, k auth.KeyRecord, create *auth.Account) error {
	return e.edit(ctx, func(l *auth.Listing) error { return add(l, k, create) })
}

// add does to a listing what Editor.Add does to the file.
func add(l *auth.Listing, k auth.KeyRecord, create *auth.Account) error {
	k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Second)
	if err := k.Validate(); err != nil {
		return err
	}
	if slices.ContainsFunc(l.Keys, func(old auth.KeyRecord) bool { return old.ID == k.ID || old.Digest == k.Digest }) {
		return fmt.Errorf("key %s: %w", k.ID, auth.ErrDuplicate)
	}
	if l.Account(k.Account) == nil {
		if create == nil {
			return auth.NoSuchAccount(k.Account)
		}
		a := *create
		a.ID = k.Account
		if err := a.Validate(); err != nil {
			return err
		}
		l.Accounts = append(l.Accounts, a)
	}
	l.Keys = append(l.Keys, k)
	return nil
}

// Revoke marks a key as revoked. It stays in the file, so that its id is not
// used again and its use is recognised. Revoking twice is no error.
func (e *Editor) Revoke(ctx context.Context, id string) error {
	return e.edit(ctx, func(l *auth.Listing) error {
		k, err := l.Key(id)
		if err == nil {
			k.Revoked = true
		}
		return err
	})
}

// Rotate appends the key that follows another one and lets the old one expire
// at a time, unless it does so earlier. Both happen or neither. It returns the old key as
// it is then. A revoked key is auth.ErrRevoked.
func (e *Editor) Rotate(ctx context.Context, oldID string, next auth.KeyRecord, oldExpires time.Time) (old auth.KeyRecord, err error) {
	at := oldExpires.UTC().Truncate(time.Second)
	err = e.edit(ctx, func(l *auth.Listing) error {
		if err := add(l, next, nil); err != nil {
			return err
		}
		k, err := l.Key(oldID)
		if err != nil {
			return err
		}
		if k.Revoked {
			return auth.Revoked(oldID)
		}
		if k.ExpiresAt.IsZero() || k.ExpiresAt.After(at) {
			k.ExpiresAt = at
		}
		old = *k
		return nil
	})
	return old, err
}

// SetAccount changes an account, or adds it when that is asked for.
func (e *Editor) SetAccount(ctx context.Context, c auth.AccountChange) error {
	if c.APIAccess == "" && c.Plan == nil && !c.Create {
		return auth.ErrNothingToChange
	}
	return e.edit(ctx, func(l *auth.Listing) error { return setAccount(l, c) })
}

// setAccount does to a listing what Editor.SetAccount does to the file.
func setAccount(l *auth.Listing, c auth.AccountChange) error {
	if l.Account(c.ID) == nil {
		if !c.Create {
			return auth.NoSuchAccount(c.ID)
		}
		l.Accounts = append(l.Accounts, auth.Account{ID: c.ID, APIAccess: auth.AccessNone})
	}
	a := l.Account(c.ID)
	c.Apply(a)
	return a.Validate()
}

// newFile is what the first key is added to.
const newFile = `# API keys of the inquiry gateway: digests only, a key itself is shown once when it is made.
accounts: []
keys: []
`

// edit changes what the file says and replaces it once.
func (e *Editor) edit(ctx context.Context, change func(*auth.Listing) error) error {
	path, err := resolve(e.path)
	if err != nil {
		return err
	}
	unlock, err := lockFolder(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer unlock()
	before, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		before, err = []byte(newFile), nil
	}
	if err != nil {
		return err
	}
	after, err := e.apply(before, change)
	if err != nil {
		return err
	}
	if len(after) > MaxSize {
		return fmt.Errorf("%s would be larger than %d bytes: keep this many keys in Redis", e.path, MaxSize)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	return replaceFile(path, after)
}

// apply makes a change in the text and proves that the text then says what was
// meant and nothing else.
func (e *Editor) apply(data []byte, change func(*auth.Listing) error) ([]byte, error) {
	doc, err := decode(e.path, data, e.hasher)
	if err != nil {
		return nil, err
	}
	want := auth.Listing{Accounts: slices.Clone(doc.Accounts), Keys: slices.Clone(doc.Keys)}
	if err := change(&want); err != nil || want.Equal(doc.Listing) {
		return data, err
	}
	t := newText(data)
	if err := t.write(doc, want, e.hasher); err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, err)
	}
	after := t.bytes()
	got, err := decode(e.path, after, e.hasher)
	if err != nil || !got.Equal(want) {
		return nil, fmt.Errorf("%s: %w", e.path, ErrLayout)
	}
	return after, nil
}
