package introspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"inquiry-gateway/auth"
)

// grant makes an auth.Grant of an introspection answer (RFC 7662, 2.2).
//
// auth.ErrUnknownKey: the token is not active. *auth.UnusableKey: it is active, but it is no access
// token, is bound to its sender, or its claims name no account or kind. auth.ErrMalformedResponse: the answer is
// no JSON object with `active`, or a claim has an impossible type. A missing claim grants nothing.
func grant(c Claims, d auth.Digest, body []byte) (*auth.Grant, error) {
	if !gjson.ValidBytes(body) {
		return nil, fmt.Errorf("%w: it is no JSON", auth.ErrMalformedResponse)
	}
	answer := gjson.ParseBytes(body)
	active := answer.Get("active")
	switch {
	case !answer.IsObject() || !active.IsBool():
		return nil, fmt.Errorf("%w: it has no boolean `active`", auth.ErrMalformedResponse)
	case !active.Bool():
		return nil, auth.ErrUnknownKey
	}
	if err := bearerAccessToken(answer); err != nil {
		return nil, err
	}
	r := claimReader{answer: answer}
	if id := r.claim("jti"); id.IsBool() || id.Type == gjson.JSON {
		return nil, unusable("claim jti of the active token is not a string")
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
	switch {
	case p.Account == "":
		return nil, unusable("the active token has no claim %s, which names the account (auth.introspection.claims.account)", c.Account)
	case !auth.ValidAccount(p.Account):
		return nil, unusable("claim %s of the active token is no account's id: it must be printable text of at most 128 bytes", c.Account)
	case p.Kind == "":
		return nil, unusable("the active token has no claim %s, which says buyer or seller (auth.introspection.claims.kind)", c.Kind)
	case !auth.ValidKind(p.Kind):
		return nil, unusable("claim %s of the active token is neither buyer nor seller", c.Kind)
	}
	if !auth.ValidID(p.KeyID) {
		p.KeyID = "" // it is for logs only
	}
	if p.Plan != "" && !auth.ValidID(p.Plan) {
		return nil, fmt.Errorf("%w: claim %s is no plan's name", errClaim, c.Plan)
	}
	return g, nil
}

// typeClaims are the members by which authorization servers say what a token is, if they do: Hydra
// (token_use), OpenIddict (token_usage), IdentityServer, WSO2 and others (token_type, RFC 7662, 2.2).
var typeClaims = []string{"token_use", "token_usage", "token_type"}

// accessTokenTypes are their values for an access token that is a bearer token, in lower case.
var accessTokenTypes = []string{
	"bearer", "access_token", "access", "client_credentials", "jwt", "at+jwt", "application/at+jwt", "urn:ietf:params:oauth:token-type:access_token",
}

// otherTokenTypes are what Keycloak's typ says of tokens that are none. Elsewhere typ may mean
// something else, so other values are accepted.
var otherTokenTypes = []string{"refresh", "offline", "id", "logout", "dpop", "refresh_token", "offline_token", "id_token", "rt+jwt", "logout+jwt", "dpop+jwt"}

// bearerAccessToken refuses what must not be used as an API key: refresh and ID tokens, which
// live longer or are shown elsewhere, and tokens that are bound to the key of their sender (RFC 8705, RFC
// 9449), whose proof this gateway does not check. The error is an *auth.UnusableKey.
func bearerAccessToken(answer gjson.Result) error {
	for _, name := range typeClaims {
		v := member(answer, name)
		if v.Type != gjson.Null && !(v.Type == gjson.String && slices.Contains(accessTokenTypes, strings.ToLower(v.Str))) {
			return unusable("%s says %q; only bearer access tokens are accepted", name, auth.Clip(v.String()))
		}
	}
	if v := member(answer, "typ"); slices.Contains(otherTokenTypes, strings.ToLower(v.Str)) {
		return unusable("typ says %q; only bearer access tokens are accepted", v.Str)
	}
	if member(answer, "cnf").Type != gjson.Null {
		return unusable("cnf binds the token to its sender (DPoP or mutual TLS), which is not supported; only bearer access tokens are accepted")
	}
	return nil
}

func unusable(format string, args ...any) error {
	return &auth.UnusableKey{Why: fmt.Sprintf(format, args...)}
}

// member is a member of the answer by its name; Null: there is none, or it is null.
func member(answer gjson.Result, name string) gjson.Result { return answer.Get(gjson.Escape(name)) }

// errClaim is auth.ErrMalformedResponse in a claim of one key, which says nothing of the endpoint.
var errClaim = fmt.Errorf("%w", auth.ErrMalformedResponse)

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
	if found := member(r.answer, name); found.Exists() {
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

// time reads seconds since 1970. Absent means never, and so does 0, which Doorkeeper says of tokens
// that do not expire.
func (r *claimReader) time(name string) time.Time {
	v := r.claim(name)
	if v.Type == gjson.Null || v.Type == gjson.Number && v.Num == 0 {
		return time.Time{}
	}
	switch {
	case v.Type != gjson.Number || v.Num < 0:
		r.fail(name, "a time in seconds")
		return time.Time{}
	case v.Num > maxExpiry:
		r.fail(name, "a time in seconds before the year 10000; it may be in milliseconds")
		return time.Time{}
	}
	return time.Unix(int64(v.Num), 0).UTC()
}
