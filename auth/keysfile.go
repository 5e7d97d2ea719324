package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// KeysFile edits a keys file for tools. Every change keeps the comments, the
// order and the lay-out of the file, is decoded again and compared with what
// was meant before it replaces the file in one step, and excludes other
// writers meanwhile. The context bounds the wait for another writer.
type KeysFile struct {
	path   string
	hasher Hasher
}

// NewKeysFile names the file to edit; it is not touched before it is needed. A
// symbolic link is followed: the file it points to is replaced.
func NewKeysFile(path string, h Hasher) *KeysFile { return &KeysFile{path: path, hasher: h} }

// AccountChange is what to change of an account.
type AccountChange struct {
	ID        string
	APIAccess string  // AccessPaid or AccessNone; empty: leave it
	Plan      *string // nil: leave it; empty: the default plan
	Create    bool    // make the account when there is none, with AccessNone unless APIAccess says otherwise
}

// Errors of the tools. Test for them with errors.Is.
var (
	ErrNoSuchKey     = errors.New("there is no such key")
	ErrNoSuchAccount = errors.New("there is no such account")
	ErrDuplicate     = errors.New("the key is there already")
	// ErrLayout: the file is written in a way that cannot be edited without
	// the risk of spoiling it. It has not been touched.
	ErrLayout = errors.New("this lay-out cannot be edited by the program, please edit the file by hand")
)

var errNothingToChange = errors.New("nothing to change: give api_access or a plan")

// List returns what the file holds, in its order.
func (f *KeysFile) List(context.Context) (Listing, error) {
	data, err := readBounded(f.path)
	if err != nil {
		return Listing{}, err
	}
	doc, err := decodeKeys(f.path, data, f.hasher)
	if err != nil {
		return Listing{}, err
	}
	return doc.listing(), nil
}

// Add appends a key. The file is made, for its owner only, when there is none.
// An account that the file lacks is added when create is not nil, and is
// ErrNoSuchAccount otherwise. A key whose id or digest is there already is
// ErrDuplicate.
func (f *KeysFile) Add(ctx context.Context, k KeyRecord, create *Account) error {
	return f.edit(ctx, f.adding(k, create)...)
}

func (f *KeysFile) adding(k KeyRecord, create *Account) []change {
	changes := []change{addKey(k, f.hasher)}
	if create != nil {
		a := *create
		a.ID = k.Account
		changes = []change{addAccount(a), changes[0]}
	}
	return changes
}

// Revoke marks a key as revoked. It stays in the file, so that its id is not
// used again and its use is recognised. Revoking twice is no error.
func (f *KeysFile) Revoke(ctx context.Context, id string) error {
	return f.edit(ctx, setKey(id, fieldRevoked, "true", func(k *KeyRecord) { k.Revoked = true }))
}

// Rotate appends the key that follows another one and lets the old one expire
// at a time, unless it does so earlier. Both happen or neither.
func (f *KeysFile) Rotate(ctx context.Context, oldID string, next KeyRecord, oldExpires time.Time) error {
	at := oldExpires.UTC().Truncate(time.Second)
	changes := append(f.adding(next, nil), setKey(oldID, fieldExpiresAt, at.Format(time.RFC3339), func(k *KeyRecord) {
		if k.ExpiresAt.IsZero() || k.ExpiresAt.After(at) {
			k.ExpiresAt = at
		}
	}))
	return f.edit(ctx, changes...)
}

// SetAccount changes an account, or adds it when that is asked for.
func (f *KeysFile) SetAccount(ctx context.Context, c AccountChange) error {
	var changes []change
	if c.Create {
		changes = append(changes, addAccount(Account{ID: c.ID, APIAccess: AccessNone}))
	}
	if c.APIAccess != "" {
		changes = append(changes, setAccount(c.ID, fieldAPIAccess, c.APIAccess, func(a *Account) { a.APIAccess = c.APIAccess }))
	}
	if c.Plan != nil {
		changes = append(changes, setAccount(c.ID, fieldPlan, *c.Plan, func(a *Account) { a.Plan = *c.Plan }))
	}
	if len(changes) == 0 {
		return errNothingToChange
	}
	return f.edit(ctx, changes...)
}

// edit applies the changes in order and replaces the file once.
func (f *KeysFile) edit(ctx context.Context, changes ...change) error {
	path, err := resolve(f.path)
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
		before, err = []byte(newKeysFile), nil
	}
	if err != nil {
		return err
	}
	after := before
	for _, c := range changes {
		if after, err = f.apply(after, c); err != nil {
			return err
		}
	}
	if len(after) > MaxKeysFile {
		return fmt.Errorf("%s would be larger than %d bytes: keep this many keys in Redis", f.path, MaxKeysFile)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	return replaceFile(path, after)
}

// apply makes one change to the text and proves that the text then says what
// was meant and nothing else.
func (f *KeysFile) apply(data []byte, c change) ([]byte, error) {
	doc, err := decodeKeys(f.path, data, f.hasher)
	if err != nil {
		return nil, err
	}
	want := doc.listing()
	changed, err := c.model(&want)
	if err != nil || !changed {
		return data, err
	}
	t := newKeysText(data)
	if err := c.text(doc, t); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	after := t.bytes()
	got, err := decodeKeys(f.path, after, f.hasher)
	if err != nil || !got.listing().equal(want) {
		return nil, fmt.Errorf("%s: %w", f.path, ErrLayout)
	}
	return after, nil
}

func (l Listing) equal(other Listing) bool {
	return slices.Equal(l.Accounts, other.Accounts) && slices.EqualFunc(l.Keys, other.Keys, func(a, b KeyRecord) bool {
		return a.ID == b.ID && a.Digest == b.Digest && a.Kind == b.Kind && a.Account == b.Account &&
			slices.Equal(a.Scopes, b.Scopes) && a.ExpiresAt.Equal(b.ExpiresAt) && a.Revoked == b.Revoked
	})
}
