package auth

import (
	"fmt"
	"strings"
	"time"
)

// newKeysFile is what the first key is added to.
const newKeysFile = `# API keys of the inquiry gateway: digests only, a key itself is shown once when it is made.
accounts: []
keys: []
`

// change is one edit of a keys file, told twice: what the file shall say
// afterwards, and how the text gets there.
type change struct {
	model func(*Listing) (changed bool, err error)
	text  func(*keysDocument, *keysText) error
}

func addKey(k KeyRecord, h Hasher) change {
	k.ExpiresAt = k.ExpiresAt.UTC().Truncate(time.Second)
	return change{
		model: func(l *Listing) (bool, error) {
			if err := k.validate(); err != nil {
				return false, err
			}
			for _, old := range l.Keys {
				if old.ID == k.ID || old.Digest == k.Digest {
					return false, fmt.Errorf("key %s: %w", k.ID, ErrDuplicate)
				}
			}
			if l.account(k.Account) == nil {
				return false, fmt.Errorf("account %s: %w", k.Account, ErrNoSuchAccount)
			}
			l.Keys = append(l.Keys, k)
			return true, nil
		},
		text: func(doc *keysDocument, t *keysText) error {
			return t.appendItem(doc.root, fieldKeys, keyLine(k, h))
		},
	}
}

func addAccount(a Account) change {
	return change{
		model: func(l *Listing) (bool, error) {
			if err := a.validate(); err != nil {
				return false, err
			}
			if l.account(a.ID) != nil {
				return false, nil
			}
			l.Accounts = append(l.Accounts, a)
			return true, nil
		},
		text: func(doc *keysDocument, t *keysText) error {
			return t.appendItem(doc.root, fieldAccounts, accountLine(a))
		},
	}
}

// setKey changes one field of a key to a value; update does the same to the
// record.
func setKey(id, field, value string, update func(*KeyRecord)) change {
	return change{
		model: func(l *Listing) (bool, error) {
			for i := range l.Keys {
				if k := &l.Keys[i]; k.ID == id {
					revoked, expires := k.Revoked, k.ExpiresAt
					update(k)
					return k.Revoked != revoked || !k.ExpiresAt.Equal(expires), nil
				}
			}
			return false, fmt.Errorf("key %s: %w", clip(id), ErrNoSuchKey)
		},
		text: func(doc *keysDocument, t *keysText) error {
			for _, k := range doc.keys {
				if k.ID == id {
					return t.setField(k.at, field, value)
				}
			}
			return ErrLayout
		},
	}
}

// setAccount is setKey for accounts.
func setAccount(id, field, value string, update func(*Account)) change {
	return change{
		model: func(l *Listing) (bool, error) {
			a := l.account(id)
			if a == nil {
				return false, fmt.Errorf("account %s: %w", clip(id), ErrNoSuchAccount)
			}
			old := *a
			update(a)
			return *a != old, a.validate()
		},
		text: func(doc *keysDocument, t *keysText) error {
			for _, a := range doc.accounts {
				if a.ID == id {
					return t.setField(a.at, field, quoteYAML(value))
				}
			}
			return ErrLayout
		},
	}
}

func (l *Listing) account(id string) *Account {
	for i := range l.Accounts {
		if l.Accounts[i].ID == id {
			return &l.Accounts[i]
		}
	}
	return nil
}

// keyLine writes a key as one line, so that a file can be read as a table.
func keyLine(k KeyRecord, h Hasher) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{id: %s, kind: %s, account: %s, scopes: [`, quoteYAML(k.ID), k.Kind, quoteYAML(k.Account))
	for i, scope := range k.Scopes {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", scope)
	}
	b.WriteString("]")
	if !k.ExpiresAt.IsZero() {
		fmt.Fprintf(&b, ", expires_at: %s", k.ExpiresAt.Format(time.RFC3339))
	}
	if k.Revoked {
		b.WriteString(", revoked: true")
	}
	fmt.Fprintf(&b, `, %s: "%s"}`, h.Field(), k.Digest.Hex())
	return b.String()
}

func accountLine(a Account) string {
	if a.Plan == "" {
		return fmt.Sprintf("{id: %s, api_access: %s}", quoteYAML(a.ID), a.APIAccess)
	}
	return fmt.Sprintf("{id: %s, api_access: %s, plan: %s}", quoteYAML(a.ID), a.APIAccess, quoteYAML(a.Plan))
}

// quoteYAML writes visible ASCII as a YAML scalar that is a string whatever it
// looks like.
func quoteYAML(s string) string {
	if plainYAML(s) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func plainYAML(s string) bool {
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	for i := range len(s) {
		letter := 'A' <= s[i] && s[i] <= 'Z' || 'a' <= s[i] && s[i] <= 'z'
		if !letter && (i == 0 || !isBase62(s[i]) && s[i] != '-' && s[i] != '_') {
			return false
		}
	}
	return true
}
