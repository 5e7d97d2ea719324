package introspect

import (
	"errors"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/auth"
)

const everyClaim = `{"active":true,"sub":"acme","kind":"buyer","scope":"a inquiries:read","api_access":"paid",
	"plan":"pro","jti":"t1","exp":1800000000}`

// Only what the claims say in so many words is granted. An answer that makes no sense says nothing
// about the key; one that names no account or kind is about a key of another service.
func TestClaims(t *testing.T) {
	claims := DefaultConfig().Claims
	elsewhere := Claims{Account: "org.id", Kind: "https://acme.example/kind", APIAccess: "org.paid"}
	grants := func(names Claims, answer string, want auth.Principal, expires time.Time) {
		t.Helper()
		g, err := grant(names, auth.Digest{1}, []byte(answer))
		if err != nil || g.Principal != want || !g.ExpiresAt.Equal(expires) || g.Digest != (auth.Digest{1}) || g.Revoked {
			t.Errorf("%s grants %+v, %v", answer, g, err)
		}
	}
	buyer, never := auth.Principal{Kind: auth.KindBuyer, Account: "a"}, time.Time{}
	grants(claims, everyClaim, auth.Principal{
		Kind: auth.KindBuyer, Account: "acme", KeyID: "t1", Scopes: "a inquiries:read", PaidAccess: true, Plan: "pro",
	}, time.Unix(1800000000, 0))
	grants(elsewhere, `{"active":true,"org":{"id":"acme","paid":true},"https://acme.example/kind":"buyer","scope":["a","b c"]}`,
		auth.Principal{Kind: auth.KindBuyer, Account: "acme", Scopes: "a b c", PaidAccess: true}, never)
	grants(claims, `{"active":true,"sub":4711,"kind":"seller"}`, auth.Principal{Kind: auth.KindSeller, Account: "4711"}, never)
	grants(claims, `{"active":true,"sub":"a","kind":"buyer","exp":1800000000.9}`, buyer, time.Unix(1800000000, 0))
	grants(claims, `{"active":true,"sub":"a","kind":"buyer","exp":253402300799}`, buyer, time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))
	for _, rest := range []string{`"api_access":"none"`, `"api_access":false`, `"api_access":"yes"`, `"jti":"a\nb"`, `"exp":null`} {
		grants(claims, `{"active":true,"sub":"a","kind":"buyer",`+rest+`}`, buyer, never)
	}
	grants(claims, `{"active":true,"sub":"한강 무역","kind":"buyer"}`, auth.Principal{Kind: auth.KindBuyer, Account: "한강 무역"}, never)
	grants(claims, `{"active":true,"sub":"a","kind":"buyer","exp":0}`, buyer, never) // Doorkeeper
	for _, says := range []string{                                                   // Hydra, OpenIddict, IdentityServer, RFC 6749, Keycloak
		`"token_use":"access_token"`, `"token_use":"access"`, `"token_usage":"access_token"`, `"token_type":"access_token"`, `"token_type":"Bearer"`, `"token_type":"bearer"`,
		`"token_type":null`, `"typ":"Bearer"`, `"typ":"JWT"`, `"typ":"customer"`, `"cnf":null`,
	} {
		grants(claims, `{"active":true,"sub":"a","kind":"buyer",`+says+`}`, buyer, never)
	}
	for says, why := range map[string]string{
		`"token_use":"refresh_token"`: "token_use", `"token_use":"id"`: "token_use", `"token_use":""`: "token_use", `"token_use":["access_token"]`: "token_use", `"token_use":true`: "token_use",
		`"token_usage":"refresh_token"`: "token_usage", `"token_type":"refresh_token"`: "token_type", `"token_type":"Refresh"`: "token_type", `"token_type":"DPoP"`: "token_type",
		`"token_type":"N_A"`: "token_type", `"token_type":"mac"`: "token_type",
		`"typ":"Refresh"`: "typ", `"typ":"Offline"`: "typ", `"typ":"ID"`: "typ", `"typ":"DPoP"`: "typ",
		`"token_type":"Bearer","cnf":{"jkt":"x"}`: "cnf", `"cnf":{"x5t#S256":"x"}`: "cnf", `"cnf":{}`: "cnf", `"cnf":"x"`: "cnf",
		`"sub":null`: "claims.account", `"kind":null`: "claims.kind", `"sub":""`: "claims.account", `"kind":"admin"`: "claim kind", `"sub":"a\u0000b"`: "claim sub", `"jti":{}`: "claim jti",
	} {
		_, err := grant(claims, auth.Digest{1}, []byte(`{"active":true,`+says+`,"sub":"a","kind":"buyer"}`))
		if unusable, ok := errors.AsType[*auth.UnusableKey](err); !ok || !errors.Is(err, auth.ErrUnknownKey) || !strings.Contains(unusable.Why, why) {
			t.Errorf("%s: %v", says, err)
		}
	}
	for answer, want := range map[string]error{
		`{"active":false,"sub":"acme","kind":"buyer"}`:            auth.ErrUnknownKey,
		`{"active":false,"active":true,"sub":"a","kind":"buyer"}`: auth.ErrUnknownKey,
		`{"active":true,"kind":"buyer"}`:                          auth.ErrUnknownKey,
		`{"active":true,"sub":"a"}`:                               auth.ErrUnknownKey,
		`{"active":true,"sub":"a","kind":"admin"}`:                auth.ErrUnknownKey,
		`{"active":true,"sub":null,"kind":"buyer"}`:               auth.ErrUnknownKey,
		`{"active":true,"sub":"a","kind":"buyer","jti":{}}`:       auth.ErrUnknownKey,
		`{"active":true,"sub":"a","kind":"buyer","jti":[1]}`:      auth.ErrUnknownKey,
		`{"active":true,"sub":"a","kind":"buyer","jti":true}`:     auth.ErrUnknownKey,
		`{"active":true,"sub":{},"kind":"buyer"}`:                 auth.ErrMalformedResponse,
		`{"active":true,"sub":"a","kind":"buyer","scope":[1]}`:    auth.ErrMalformedResponse,
		`{"active":true,"sub":"a","kind":"buyer","plan":"a b"}`:   auth.ErrMalformedResponse,
		`{"active":true,"sub":"a","kind":"buyer","exp":"soon"}`:   auth.ErrMalformedResponse,
		`{"active":true,"sub":"a","kind":"buyer","exp":-1}`:       auth.ErrMalformedResponse,
		`{"active":true,"sub":"a","kind":"buyer","exp":1e300}`:    auth.ErrMalformedResponse,
		// Milliseconds, which would be good for 50,000 years.
		`{"active":true,"sub":"a","kind":"buyer","exp":1800000000000}`: auth.ErrMalformedResponse,
		`{"active":"true","sub":"a","kind":"buyer"}`:                   auth.ErrMalformedResponse,
		`{"sub":"a","kind":"buyer"}`:                                   auth.ErrMalformedResponse,
		`[{"active":true}]`:                                            auth.ErrMalformedResponse,
		`{"active":true,"sub":"a","kind":"buy`:                         auth.ErrMalformedResponse,
		``:                                                             auth.ErrMalformedResponse,
	} {
		if g, err := grant(claims, auth.Digest{1}, []byte(answer)); g != nil || !errors.Is(err, want) {
			t.Errorf("%s: %+v, %v; want %v", answer, g, err, want)
		}
	}
}

func FuzzClaims(f *testing.F) {
	f.Add(everyClaim)
	f.Add(`{"active":true,"sub":1,"kind":"seller","scope":["x"]}`)
	f.Add(`{"active":false}`)
	f.Add(`{"a\u0063tive":true,"exp":-1e999}`)
	claims := DefaultConfig().Claims
	f.Fuzz(func(t *testing.T, answer string) {
		g, err := grant(claims, auth.Digest{}, []byte(answer))
		if err != nil {
			if g != nil || !errors.Is(err, auth.ErrUnknownKey) && !errors.Is(err, auth.ErrMalformedResponse) {
				t.Fatalf("%+v, %v", g, err)
			}
			return
		}
		p := g.Principal
		if !auth.ValidKind(p.Kind) || !auth.ValidAccount(p.Account) || p.Plan != "" && !auth.ValidID(p.Plan) || !strings.Contains(answer, "true") {
			t.Fatalf("%q grants %+v", answer, p)
		}
		if p.PaidAccess && !strings.Contains(answer, "paid") && strings.Count(answer, "true") < 2 && !strings.Contains(answer, `\u`) {
			t.Fatalf("%q grants paid access", answer)
		}
	})
}
