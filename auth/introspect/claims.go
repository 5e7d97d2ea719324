package introspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"inquiry-gateway/auth"
)

// grant makes an auth.Grant of an introspection answer (RFC 7662, 2.2).
//
// auth.ErrUnknownKey: the key is not active, or the answer does not name an account and a
// kind, as that of another service's key, or its jti is no string. auth.ErrGarbage: the answer is
// no JSON object with `active`, or another claim is of an impossible type. A missing
// claim grants nothing.
func grant(c Claims, d auth.Digest, body []byte) (*auth.Grant, error) {
	if !gjson.ValidBytes(body) {
		return nil, fmt.Errorf("%w: it is no JSON", auth.ErrGarbage)
	}
	answer := gjson.ParseBytes(body)
	active := answer.Get("active")
	switch {
	case !answer.IsObject() || !active.IsBool():
		return nil, fmt.Errorf("%w: it has no boolean `active`", auth.ErrGarbage)
	case !active.Bool():
		return nil, auth.ErrUnknownKey
	}
	r := claimReader{answer: answer}
	if id := r.claim("jti"); id.IsBool() || id.Type == gjson.JSON {
		return nil, fmt.Errorf("%w: claim jti is not a string", auth.ErrUnknownKey)
	}
	g := &auth.Grant{
		Digest: d,
		Principal: auth.Principal{
			Kind:       r.text(c.Kind),
			Account:    r.text(c.Account),
			KeyID:      r.text("jti"),
			Scopes:     r.scopes("scope"),
			PaidAccess: r.paid(c.APIAccess),
			Plan:       r.text(c.Plan),
		},
		ExpiresAt: r.time("exp"),
	}
	if r.err != nil {
		return nil, r.err
	}
	p := &g.Principal
	if !auth.ValidKind(p.Kind) || !auth.ValidID(p.Account) {
		return nil, fmt.Errorf("%w: the claims name no kind or no account", auth.ErrUnknownKey)
	}
	if !auth.ValidID(p.KeyID) {
		p.KeyID = "" // it is for logs only
	}
	if p.Plan != "" && !auth.ValidID(p.Plan) {
		return nil, fmt.Errorf("%w: claim %s is no plan's name", errClaim, c.Plan)
	}
	return g, nil
}

// errClaim is auth.ErrGarbage in a claim of one key, which says nothing of the endpoint.
var errClaim = fmt.Errorf("%w", auth.ErrGarbage)

// claimReader reads claims and keeps the first error.
type claimReader struct {
	answer gjson.Result
	err    error
}

// claim is a member of the answer by its name, which may hold dots, or by a
// path.
func (r *claimReader) claim(name string) gjson.Result {
	if name == "" {
		return gjson.Result{}
	}
	var found gjson.Result
	r.answer.ForEach(func(key, value gjson.Result) bool {
		if key.Str == name {
			found = value
		}
		return !found.Exists()
	})
	if found.Exists() {
		return found
	}
	return r.answer.Get(name)
}

// fail keeps the first error. It names the claim and never its value.
func (r *claimReader) fail(name, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: claim %s is not %s", errClaim, name, want)
	}
}

// text reads a string, or a number as it is written. Absent is empty.
func (r *claimReader) text(name string) string {
	v := r.claim(name)
	switch v.Type {
	case gjson.Null:
		return ""
	case gjson.String:
		return strings.Clone(v.Str) // else the grant would keep the whole answer
	case gjson.Number:
		return strings.Clone(v.Raw)
	}
	r.fail(name, "a string")
	return ""
}

// scopes reads a string with blanks, or an array of strings. Scopes that this gateway does
// not know are kept: they are another service's.
func (r *claimReader) scopes(name string) auth.Scopes {
	v := r.claim(name)
	if !v.IsArray() {
		return auth.JoinScopes(strings.Fields(r.text(name)))
	}
	var tokens []string
	for _, t := range v.Array() {
		if t.Type != gjson.String {
			r.fail(name, "a list of strings")
			return ""
		}
		tokens = append(tokens, strings.Fields(t.Str)...)
	}
	return auth.JoinScopes(tokens)
}

// paid reads true, or the word for it. Anything else has not paid.
func (r *claimReader) paid(name string) bool {
	v := r.claim(name)
	if v.IsBool() {
		return v.Bool()
	}
	return r.text(name) == auth.AccessPaid
}

// maxExpiry is the last second that RFC 3339 can write, in 9999: what issuers of key records
// may say, too. Milliseconds that are taken for seconds are always beyond it.
const maxExpiry = 253402300799

// time reads seconds since 1970. Absent means never.
func (r *claimReader) time(name string) time.Time {
	v := r.claim(name)
	if v.Type == gjson.Null {
		return time.Time{}
	}
	switch {
	case v.Type != gjson.Number || v.Num <= 0:
		r.fail(name, "a time in seconds")
		return time.Time{}
	case v.Num > maxExpiry:
		r.fail(name, "a time in seconds before the year 10000; it may be in milliseconds")
		return time.Time{}
	}
	return time.Unix(int64(v.Num), 0).UTC()
}
