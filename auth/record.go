package auth

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"inquiry-gateway/internal/setting"
)

// What an account has paid for.
const (
	AccessPaid = "paid"
	AccessNone = "none"
)

// KeyRecord is one key as issuers write it. The key itself is not in it.
type KeyRecord struct {
	ID        string    `json:"id" yaml:"id"` // names the key in logs and commands
	Digest    Digest    `json:"-"`            // made with the gateway's Hasher
	Kind      string    `json:"kind" yaml:"kind"`
	Account   string    `json:"account" yaml:"account"` // the id of an Account
	Scopes    []string  `json:"scopes" yaml:"scopes"`
	ExpiresAt time.Time `json:"expires_at,omitzero" yaml:"expires_at"` // zero: never
	Revoked   bool      `json:"revoked" yaml:"revoked"`
}

// Account is whom keys belong to.
type Account struct {
	ID        string `json:"id" yaml:"id"`
	APIAccess string `json:"api_access" yaml:"api_access"` // AccessPaid or AccessNone
	Plan      string `json:"plan,omitempty" yaml:"plan"`   // of the rate limit; empty: the default plan
}

// KeySet is keys and accounts of a store, in its order.
type KeySet struct {
	Accounts []Account   `json:"accounts"`
	Keys     []KeyRecord `json:"keys"`
}

// Grant is what the key of account a gives.
func (r KeyRecord) Grant(a Account) *Grant {
	return &Grant{
		Digest: r.Digest,
		Principal: Principal{
			Kind:       r.Kind,
			Account:    r.Account,
			KeyID:      r.ID,
			Scopes:     JoinScopes(r.Scopes),
			PaidAccess: a.APIAccess == AccessPaid,
			Plan:       a.Plan,
		},
		ExpiresAt: r.ExpiresAt,
		Revoked:   r.Revoked,
	}
}

// The states of a key.
const (
	StateActive  = "active"
	StateExpired = "expired"
	StateRevoked = "revoked"
)

// State is one of the State constants, at a time.
func (r KeyRecord) State(now time.Time) string {
	switch {
	case r.Revoked:
		return StateRevoked
	case !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt):
		return StateExpired
	}
	return StateActive
}

// Equal tells whether two records say the same.
func (r KeyRecord) Equal(o KeyRecord) bool {
	return r.ID == o.ID && r.Digest == o.Digest && r.Kind == o.Kind && r.Account == o.Account &&
		slices.Equal(r.Scopes, o.Scopes) && r.ExpiresAt.Equal(o.ExpiresAt) && r.Revoked == o.Revoked
}

// Equal tells whether two sets say the same in the same order.
func (l KeySet) Equal(o KeySet) bool {
	return slices.Equal(l.Accounts, o.Accounts) && slices.EqualFunc(l.Keys, o.Keys, KeyRecord.Equal)
}

// Key finds a key of the set by its id; what it returns may be changed there. Errors:
// ErrNoSuchKey.
func (l KeySet) Key(id string) (*KeyRecord, error) {
	i := slices.IndexFunc(l.Keys, func(k KeyRecord) bool { return k.ID == id })
	if i < 0 {
		return nil, NoSuchKey(id)
	}
	return &l.Keys[i], nil
}

// Account finds an account of the set by its id; what it returns may be changed
// there. nil: there is none.
func (l KeySet) Account(id string) *Account {
	i := slices.IndexFunc(l.Accounts, func(a Account) bool { return a.ID == id })
	if i < 0 {
		return nil
	}
	return &l.Accounts[i]
}

// Problems says what is wrong with a record, each at the name that its field has
// in stores. The digest is not checked.
func (r KeyRecord) Problems() setting.Problems {
	var p setting.Problems
	check(&p, "id", idProblem(r.ID))
	p.AddIf(!ValidKind(r.Kind), "kind", "is %q: use %s or %s", Clip(r.Kind), KindBuyer, KindSeller)
	check(&p, "account", accountProblem(r.Account))
	for i, scope := range r.Scopes {
		// A scope that means nothing here may be another service's: it is kept, and gives nothing.
		if text := idProblem(scope); text != "" {
			p.Add(fmt.Sprintf("scopes[%d]", i), "%s", text)
		} else if strings.ContainsAny(scope, `"\`) { // RFC 6749, 3.3
			p.Add(fmt.Sprintf("scopes[%d]", i), "may hold neither quotation marks nor backslashes")
		} else if slices.Contains(r.Scopes[:i], scope) {
			p.Add(fmt.Sprintf("scopes[%d]", i), "stands here twice")
		}
	}
	// RFC 3339 cannot write a later year.
	p.AddIf(r.ExpiresAt.UTC().Year() > 9999, "expires_at", "is after the year 9999: leave it out for a key that never expires")
	return p
}

// Problems says what is wrong with an account, each at the name that its field
// has in stores.
func (a Account) Problems() setting.Problems {
	var p setting.Problems
	check(&p, "id", accountProblem(a.ID))
	if a.APIAccess != AccessPaid && a.APIAccess != AccessNone {
		p.Add("api_access", "is %q: use %s or %s", Clip(a.APIAccess), AccessPaid, AccessNone)
	}
	if a.Plan != "" {
		check(&p, "plan", idProblem(a.Plan))
	}
	return p
}

// Validate checks a record that a tool is about to store. It names the first
// problem only.
func (r KeyRecord) Validate() error { return first("key", r.Problems()) }

// Validate checks an account that a tool is about to store. It names the first
// problem only.
func (a Account) Validate() error { return first("account", a.Problems()) }

// first makes the first problem a sentence about a key or an account.
func first(thing string, p setting.Problems) error {
	if len(p) == 0 {
		return nil
	}
	key := p[0].Key
	if key == "id" {
		key = thing + " id"
	}
	return fmt.Errorf("%s %s", key, p[0].Message)
}

// ValidID tells whether a text may be the id of a key or a plan.
func ValidID(id string) bool { return idProblem(id) == "" }

// ValidAccount tells whether a text may be the id of an account.
func ValidAccount(id string) bool { return accountProblem(id) == "" }

// ValidKind tells whether a text is one of the kinds.
func ValidKind(kind string) bool { return kind == KindBuyer || kind == KindSeller }

const maxIDLength = 128

// check adds what is wrong with a field, unless it is empty.
func check(p *setting.Problems, field, problem string) {
	p.AddIf(problem != "", field, "%s", problem)
}

// idProblem says what is wrong with an id; empty: nothing. Ids stand in logs, in names of
// Redis and in files, so they are short and visible.
func idProblem(id string) string {
	return problem(id, visible, "may hold visible ASCII characters only, and no blanks")
}

// accountProblem says what is wrong with the id of an account; empty: nothing. It is what the legacy system calls the account:
// any text that can be printed, in any script, with blanks.
func accountProblem(id string) string {
	return problem(id, printable, "must be printable text in UTF-8, without control characters")
}

// problem says what is wrong with an id: it is missing, too long, or refused by valid, for which the text is
// otherwise. Empty: nothing.
func problem(id string, valid func(string) bool, otherwise string) string {
	switch {
	case id == "":
		return "is missing"
	case len(id) > maxIDLength:
		return fmt.Sprintf("is longer than %d bytes", maxIDLength)
	case !valid(id):
		return otherwise
	}
	return ""
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		const joiner, nonJoiner = '\u200d', '\u200c' // some scripts need them
		return !unicode.IsGraphic(r) && r != joiner && r != nonJoiner
	})
}

// Clip keeps a quoted value short: what stands where a kind or a time should
// may be a pasted key.
func Clip(s string) string {
	const most = 16
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
