package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// KeyAdmin is a store of keys and accounts as tools read and change it.
type KeyAdmin interface {
	// Keys gives all keys to page, some at a time, with the accounts that these have. Records
	// that cannot be read are left out, and an ErrMalformedResponse names them.
	Keys(ctx context.Context, page func(KeySet) error) error
	// Accounts gives all accounts to page in the same way.
	Accounts(ctx context.Context, page func([]Account) error) error
	// Change lets change edit what about selects, and stores it, beside other
	// writers. What change gets holds those that there are, and may hold others; it may edit
	// them and append, and may be called several times. ErrOutcomeUnknown: it may have been stored, or
	// a part of it; it can be repeated. An error of change is returned as it is, and nothing is stored.
	Change(ctx context.Context, about Selector, change func(*KeySet) error) error
}

// Selector names the keys, by id or digest, and the accounts that a change is about.
type Selector struct {
	KeyIDs   []string
	Digests  []Digest
	Accounts []string
}

// Editor changes keys and accounts of a store for tools. The context bounds the wait for the store and for
// other writers.
type Editor struct{ KeyAdmin }

// NewEditor returns the Editor of a store.
func NewEditor(store KeyAdmin) *Editor { return &Editor{store} }

// errUnchanged ends a change that has only read.
var errUnchanged = errors.New("nothing is to be changed")

// Get returns the record of a key. Errors: ErrNoSuchKey.
func (e *Editor) Get(ctx context.Context, id string) (k KeyRecord, err error) {
	err = e.Change(ctx, Selector{KeyIDs: []string{id}}, func(l *KeySet) error {
		found, err := l.Key(id)
		if err != nil {
			return err
		}
		k = *found
		return errUnchanged
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return k, err
}

// Add adds a key. An account that is not there is added when create is not nil, and is
// ErrNoSuchAccount otherwise; one that is there must have the access of create. A key whose id or
// digest is there already is ErrDuplicate.
func (e *Editor) Add(ctx context.Context, k KeyRecord, create *Account) error {
	about := Selector{[]string{k.ID}, []Digest{k.Digest}, []string{k.Account}}
	return e.Change(ctx, about, func(l *KeySet) error {
		if err := l.add(k); err != nil {
			return err
		}
		old := l.Account(k.Account)
		if create == nil {
			if old == nil {
				return NoSuchAccount(k.Account)
			}
			return nil
		}
		a := *create
		a.ID = k.Account
		if err := a.Validate(); err != nil {
			return err
		}
		if old == nil {
			l.Accounts = append(l.Accounts, a)
		} else if old.APIAccess != a.APIAccess {
			return fmt.Errorf("account %s is there already with api access %s: leave --api-access out, or change it with keys account %[1]s --api-access %[3]s",
				Clip(a.ID), old.APIAccess, a.APIAccess)
		}
		return nil
	})
}

// add appends a key, unless an earlier attempt of the same change has stored it.
func (l *KeySet) add(k KeyRecord) error {
	k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Second)
	if slices.ContainsFunc(l.Keys, k.Equal) {
		return nil
	}
	if slices.ContainsFunc(l.Keys, func(old KeyRecord) bool { return old.ID == k.ID || old.Digest == k.Digest }) {
		return fmt.Errorf("key %s: %w", Clip(k.ID), ErrDuplicate)
	}
	l.Keys = append(l.Keys, k)
	return k.Validate()
}

// Revoke marks a key as revoked, for good. It stays in the store, so that its id is not used
// again and its use is recognised. Revoking twice is no error.
func (e *Editor) Revoke(ctx context.Context, id string) error {
	return e.Change(ctx, Selector{KeyIDs: []string{id}}, func(l *KeySet) error {
		k, err := l.Key(id)
		if err == nil {
			k.Revoked = true
		}
		return err
	})
}

// Rotate adds the key that follows another one, of the same account, and lets the old one
// expire at a time, unless it does so earlier. It returns the old key as it is then. A revoked key
// is ErrRevoked. In a file both happen or neither. In Redis the new key comes first, so that both are valid if the command
// is cut off in between. If the old key is revoked in between, the new one is revoked, too.
func (e *Editor) Rotate(ctx context.Context, oldID string, next KeyRecord, oldExpires time.Time) (old KeyRecord, err error) {
	at := oldExpires.UTC().Truncate(time.Second)
	var revoked error
	err = e.Change(ctx, Selector{KeyIDs: []string{oldID, next.ID}, Digests: []Digest{next.Digest}}, func(l *KeySet) error {
		k, err := l.Key(oldID)
		if err != nil {
			return err
		}
		revoked = nil
		if k.Revoked {
			revoked = fmt.Errorf("key %s: %w", Clip(oldID), ErrRevoked)
			stored, err := l.Key(next.ID)
			if err != nil || stored.Digest != next.Digest {
				return revoked
			}
			stored.Revoked = true // an earlier attempt stored it, and nobody has been shown the key
			return nil
		}
		if k.ExpiresAt.IsZero() || k.ExpiresAt.After(at) {
			k.ExpiresAt = at
		}
		old = *k
		return l.add(next)
	})
	return old, cmp.Or(err, revoked)
}

// AccountChange is what to change of an account.
type AccountChange struct {
	ID        string
	APIAccess string  // AccessPaid or AccessNone; empty: leave it
	Plan      *string // nil: leave it; empty: the default plan
	Create    bool    // make the account when there is none, with AccessNone unless APIAccess says otherwise
}

// SetAccount changes an account, or adds it when that is asked for, and returns it as it is then.
func (e *Editor) SetAccount(ctx context.Context, c AccountChange) (changed Account, err error) {
	if c.APIAccess == "" && c.Plan == nil && !c.Create {
		return Account{}, ErrNothingToChange
	}
	err = e.Change(ctx, Selector{Accounts: []string{c.ID}}, func(l *KeySet) error {
		if l.Account(c.ID) == nil {
			if !c.Create {
				return NoSuchAccount(c.ID)
			}
			l.Accounts = append(l.Accounts, Account{ID: c.ID, APIAccess: AccessNone})
		}
		a := l.Account(c.ID)
		if c.APIAccess != "" {
			a.APIAccess = c.APIAccess
		}
		if c.Plan != nil {
			a.Plan = *c.Plan
		}
		changed = *a
		return a.Validate()
	})
	return changed, err
}

// Errors of the tools that edit a store. Test for them with errors.Is.
var (
	ErrNoSuchKey       = errors.New("there is no such key")
	ErrNoSuchAccount   = errors.New("there is no such account")
	ErrDuplicate       = errors.New("the key is there already")
	ErrNothingToChange = errors.New("nothing to change: give api_access or a plan")
	ErrRevoked         = errors.New("the key is revoked; make a new one with keys new")
	// ErrOutcomeUnknown: a change may have been made, or a part of it.
	ErrOutcomeUnknown = errors.New("outcome unknown: the key store may have made the change, or a part of it; repeat it")
)

// NoSuchKey is ErrNoSuchKey with the id, cut short.
func NoSuchKey(id string) error { return fmt.Errorf("key %s: %w", Clip(id), ErrNoSuchKey) }

// NoSuchAccount is ErrNoSuchAccount with the id, cut short.
func NoSuchAccount(id string) error { return fmt.Errorf("account %s: %w", Clip(id), ErrNoSuchAccount) }
