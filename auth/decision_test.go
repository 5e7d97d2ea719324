package auth

import (
	"context"
	"errors"
	"testing"
	"time"
)

// The states that a key store can be in.
const (
	storeUp      = "up"
	storeDown    = "down"
	storeSlow    = "slow"
	storeGarbage = "garbage"
)

// decision is one cell of everything a request's fate depends on.
type decision struct {
	header string // none, malformed, two, checksum, or a key: unknown, expired, revoked, good
	kind   string // of the key
	scope  bool
	paid   bool
	store  string // up, slow, down, garbage
	warm   bool   // the store's answer is stored
}

// want is the table of the contract, written down independently of the code:
// the first row that applies decides.
func (d decision) want() error {
	keyed := d.header == "unknown" || d.header == "expired" || d.header == "revoked" || d.header == "good"
	rows := []struct {
		applies bool
		err     error
	}{
		{d.header == "none", ErrMissingKey},
		{d.header == "two", ErrMultipleCredentials},
		{d.header == "malformed" || d.header == "checksum", ErrInvalidKey},
		{keyed && d.store != storeUp && !d.warm, ErrUnavailable},
		{d.header != "good", ErrInvalidKey},
		{d.kind != KindBuyer, ErrWrongKind},
		{!d.scope, ErrInsufficientScope},
		{!d.paid, ErrAccessRequired},
	}
	for _, row := range rows {
		if row.applies {
			return row.err
		}
	}
	return nil
}

// decisions are all cells.
func decisions() []decision {
	var all []decision
	bools := []bool{false, true}
	for _, header := range []string{"none", "malformed", "two", "checksum", "unknown", "expired", "revoked", "good"} {
		for _, kind := range []string{KindBuyer, KindSeller} {
			for _, scope := range bools {
				for _, paid := range bools {
					for _, store := range []string{storeUp, storeSlow, storeDown, storeGarbage} {
						for _, warm := range bools {
							all = append(all, decision{header, kind, scope, paid, store, warm})
						}
					}
				}
			}
		}
	}
	return all
}

// decide asks for the buyers' list under the conditions of a cell.
func (d decision) decide(t *testing.T) error {
	t.Helper()
	state := storeUp
	r := NewCachedStore("test", func(ctx context.Context, c Credential) (*Grant, error) {
		switch state {
		case storeSlow:
			<-ctx.Done()
			return nil, ctx.Err()
		case storeDown:
			return nil, errors.New("refused")
		case storeGarbage:
			return nil, ErrGarbage
		}
		return d.grant(c)
	}, CachePolicy{TTL: time.Minute, NegativeTTL: time.Minute, Timeout: time.Millisecond, MaxKeys: 10}, Options{Now: fixedNow})
	defer r.Close()
	a := NewAuthenticator(r, Hasher{}, Options{Now: fixedNow})
	headers := map[string][]string{
		"malformed": {"Bearer a b"}, "two": {"Bearer good", "Bearer good"}, "checksum": {"Bearer " + mistyped(t)},
		"unknown": {"Bearer unknown"}, "expired": {"Bearer expired"}, "revoked": {"Bearer revoked"}, "good": {"Bearer good"},
	}
	if d.warm {
		_, _ = r.Find(t.Context(), credential(d.header)) // what it says is asked below
	}
	state = d.store
	g, err := a.AuthenticateFrom(t.Context(), headers[d.header], nil)
	if err != nil {
		if g != nil {
			t.Errorf("%+v: %+v along with %v", d, g, err)
		}
		return err
	}
	return g.Principal.Authorize(KindBuyer)
}

func (d decision) grant(c Credential) (*Grant, error) {
	if c.Key == "unknown" {
		return nil, ErrUnknownKey
	}
	g := &Grant{Digest: c.Digest, Principal: Principal{Kind: d.kind, Account: "acme", KeyID: "k", PaidAccess: d.paid}, Revoked: c.Key == "revoked"}
	if d.scope {
		g.Principal.Scopes = ScopeInquiriesRead
	}
	if c.Key == "expired" {
		g.ExpiresAt = testNow.Add(-time.Second)
	}
	return g, nil
}

func TestEveryDecision(t *testing.T) {
	sentinels := []error{
		ErrMissingKey, ErrMultipleCredentials, ErrInvalidKey, ErrUnavailable, ErrWrongKind, ErrInsufficientScope, ErrAccessRequired,
	}
	for _, d := range decisions() {
		got, want := d.decide(t), d.want()
		if got == nil && want != nil {
			t.Errorf("%+v is let in instead of %v", d, want)
		}
		for _, sentinel := range sentinels {
			if errors.Is(got, sentinel) != (sentinel == want) {
				t.Errorf("%+v: %v, want %v", d, got, want)
			}
		}
	}
}
