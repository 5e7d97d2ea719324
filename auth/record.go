package auth

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// What an account has paid for.
const (
	AccessPaid = "paid"
	AccessNone = "none"
)

// KeyRecord is one key as issuers write it. The key itself is not in it.
type KeyRecord struct {
	ID        string    `json:"id"` // names the key in logs and commands
	Digest    Digest    `json:"-"`  // made with the gateway's Hasher
	Kind      string    `json:"kind"`
	Account   string    `json:"account"` // the id of an Account
	Scopes    []string  `json:"scopes"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: never
	Revoked   bool      `json:"revoked"`
}

// Account is whom keys belong to.
type Account struct {
	ID        string `json:"id"`
	APIAccess string `json:"api_access"`     // AccessPaid or AccessNone
	Plan      string `json:"plan,omitempty"` // of the rate limit; empty: the default plan
}

// Listing is what a key store holds, for tools. The order is the store's.
type Listing struct {
	Accounts []Account   `json:"accounts"`
	Keys     []KeyRecord `json:"keys"`
}

// grant flattens a key and its account.
func (r KeyRecord) grant(a Account) *Grant {
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

// State is "revoked", "expired" or "active" at a time.
func (r KeyRecord) State(now time.Time) string {
	switch {
	case r.Revoked:
		return stateRevoked
	case !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt):
		return stateExpired
	}
	return stateActive
}

const (
	stateActive  = "active"
	stateExpired = "expired"
	stateRevoked = "revoked"
)

const maxIDLength = 128

// The check functions return what is wrong with a value and what to do, or
// nothing.

func checkID(id string) string {
	switch {
	case id == "":
		return "is missing"
	case len(id) > maxIDLength:
		return fmt.Sprintf("is longer than %d bytes", maxIDLength)
	case !visible(id):
		return "may hold visible ASCII characters only, and no blanks"
	}
	return ""
}

func checkKind(kind string) string {
	if kind != KindBuyer && kind != KindSeller {
		return fmt.Sprintf("is %q: use %s or %s", clip(kind), KindBuyer, KindSeller)
	}
	return ""
}

func checkAccess(access string) string {
	if access != AccessPaid && access != AccessNone {
		return fmt.Sprintf("is %q: use %s or %s", clip(access), AccessPaid, AccessNone)
	}
	return ""
}

// checkScope knows the scopes that mean something here: a misspelt one would
// only show as a 403 later.
func checkScope(scope string) string {
	if scope != ScopeInquiriesRead {
		return fmt.Sprintf("is %q: the only scope there is is %s", clip(scope), ScopeInquiriesRead)
	}
	return ""
}

func checkScopes(scopes []string) string {
	for i, scope := range scopes {
		if msg := checkScope(scope); msg != "" {
			return "scope " + msg
		}
		if slices.Contains(scopes[:i], scope) {
			return fmt.Sprintf("scope %s stands here twice", scope)
		}
	}
	return ""
}

// checkExpiry refuses times that RFC 3339 cannot write.
func checkExpiry(t time.Time) string {
	if t.UTC().Year() > 9999 {
		return "is after the year 9999: leave it out for a key that never expires"
	}
	return ""
}

func checkPlan(plan string) string {
	if plan == "" {
		return ""
	}
	return checkID(plan)
}

// validate checks a record that a tool is about to store.
func (r KeyRecord) validate() error {
	return firstProblem(
		[2]string{"key id", checkID(r.ID)},
		[2]string{"kind", checkKind(r.Kind)},
		[2]string{"account", checkID(r.Account)},
		[2]string{"scopes", checkScopes(r.Scopes)},
		[2]string{"expires_at", checkExpiry(r.ExpiresAt)},
	)
}

// validate checks an account that a tool is about to store.
func (a Account) validate() error {
	return firstProblem(
		[2]string{"account id", checkID(a.ID)},
		[2]string{"api_access", checkAccess(a.APIAccess)},
		[2]string{"plan", checkPlan(a.Plan)},
	)
}

// firstProblem makes an error of the first {name, problem} with a problem.
func firstProblem(checks ...[2]string) error {
	for _, c := range checks {
		if c[1] != "" {
			return fmt.Errorf("%s %s", c[0], c[1])
		}
	}
	return nil
}

// clip keeps a quoted value short: what stands where a kind or a time should
// may be a pasted key.
func clip(s string) string {
	const most = 16
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
