package auth

import (
	"crypto/subtle"
	"strings"
	"time"
)

// The kinds of keys, accounts' roles and endpoints.
const (
	KindBuyer  = "buyer"
	KindSeller = "seller"
)

// ScopeInquiriesRead is the scope that reading inquiries needs.
const ScopeInquiriesRead = "inquiries:read"

// Principal is who a request acts for. It is a plain value: handlers get a
// copy, and nothing in it can be used to change what others see. The zero
// Principal is nobody and may read nothing.
type Principal struct {
	Kind       string // KindBuyer or KindSeller
	Account    string // the account whose inquiries may be read; never taken from the request
	KeyID      string // names the key in logs; not a secret
	Scopes     Scopes
	PaidAccess bool   // the account has paid for API access
	Plan       string // the account's plan for rate limits; empty is the default plan
}

// Authorize reports whether the principal may list inquiries of a kind. The
// order is fixed: ErrWrongKind, then ErrInsufficientScope, then
// ErrAccessRequired. It does not allocate.
func (p *Principal) Authorize(kind string) error {
	switch {
	case kind == "" || p.Kind != kind:
		return ErrWrongKind
	case !p.Scopes.Has(ScopeInquiriesRead):
		return ErrInsufficientScope
	case !p.PaidAccess:
		return ErrAccessRequired
	}
	return nil
}

// Scopes is a set of scope tokens in the notation of RFC 6749, 3.3: separated
// by single spaces. It is a string so that it is immutable and comparable.
type Scopes string

// JoinScopes makes Scopes of single tokens.
func JoinScopes(tokens []string) Scopes { return Scopes(strings.Join(tokens, " ")) }

// Has reports whether the set holds a scope. Scopes are case-sensitive.
func (s Scopes) Has(scope string) bool {
	if scope == "" {
		return false
	}
	rest, more := string(s), true
	for more {
		var token string
		token, rest, more = strings.Cut(rest, " ")
		if token == scope {
			return true
		}
	}
	return false
}

// List returns the tokens in a new slice.
func (s Scopes) List() []string { return strings.Fields(string(s)) }

// Grant is what a key gives, flattened from the key's record and its account.
type Grant struct {
	Digest    Digest    // of the key this grant belongs to
	Principal Principal // given out when the grant is neither revoked nor expired
	ExpiresAt time.Time // zero: never
	Revoked   bool
}

// belongsTo tells whether it is the grant of the key with that digest.
func (g *Grant) belongsTo(d Digest) bool { return subtle.ConstantTimeCompare(g.Digest[:], d[:]) == 1 }
