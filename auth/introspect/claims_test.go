package introspect

import (
	"errors"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/auth"
)

func TestClaims(t *testing.T) {
	claims := auth.DefaultIntrospectionConfig().Claims
	nested := auth.ClaimsConfig{Account: "org.id", Kind: "https://acme.example/kind", APIAccess: "org.paid"}
	tests := map[string]struct {
		claims auth.ClaimsConfig
		answer string
		want   auth.Principal
		exp    time.Time
		err    error
	}{
		"all": {claims, `{"active":true,"sub":"acme","kind":"buyer","scope":"a inquiries:read","api_access":"paid","plan":"pro","jti":"t1","exp":1800000000}`,
			auth.Principal{Kind: auth.KindBuyer, Account: "acme", KeyID: "t1", Scopes: "a inquiries:read", PaidAccess: true, Plan: "pro"}, time.Unix(1800000000, 0), nil},
		"the least":         {claims, `{"active":true,"sub":4711,"kind":"seller"}`, auth.Principal{Kind: auth.KindSeller, Account: "4711"}, time.Time{}, nil},
		"other places":      {nested, `{"active":true,"org":{"id":"acme","paid":true},"https://acme.example/kind":"buyer","scope":["a","b c"]}`, auth.Principal{Kind: auth.KindBuyer, Account: "acme", Scopes: "a b c", PaidAccess: true}, time.Time{}, nil},
		"a fraction of exp": {claims, `{"active":true,"sub":"a","kind":"buyer","exp":1800000000.9}`, auth.Principal{Kind: auth.KindBuyer, Account: "a"}, time.Unix(1800000000, 0), nil},
		"access none":       {claims, `{"active":true,"sub":"a","kind":"buyer","api_access":"none"}`, auth.Principal{Kind: auth.KindBuyer, Account: "a"}, time.Time{}, nil},
		"access false":      {claims, `{"active":true,"sub":"a","kind":"buyer","api_access":false}`, auth.Principal{Kind: auth.KindBuyer, Account: "a"}, time.Time{}, nil},
		"access in words":   {claims, `{"active":true,"sub":"a","kind":"buyer","api_access":"yes"}`, auth.Principal{Kind: auth.KindBuyer, Account: "a"}, time.Time{}, nil},
		"an odd key id":     {claims, `{"active":true,"sub":"a","kind":"buyer","jti":"a\nb"}`, auth.Principal{Kind: auth.KindBuyer, Account: "a"}, time.Time{}, nil},
		"inactive":          {claims, `{"active":false,"sub":"acme","kind":"buyer"}`, auth.Principal{}, time.Time{}, auth.ErrUnknownKey},
		"no account":        {claims, `{"active":true,"kind":"buyer"}`, auth.Principal{}, time.Time{}, auth.ErrUnknownKey},
		"no kind":           {claims, `{"active":true,"sub":"a"}`, auth.Principal{}, time.Time{}, auth.ErrUnknownKey},
		"another kind":      {claims, `{"active":true,"sub":"a","kind":"admin"}`, auth.Principal{}, time.Time{}, auth.ErrUnknownKey},
		"a null account":    {claims, `{"active":true,"sub":null,"kind":"buyer"}`, auth.Principal{}, time.Time{}, auth.ErrUnknownKey},
		"an account object": {claims, `{"active":true,"sub":{},"kind":"buyer"}`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"a scope of 1":      {claims, `{"active":true,"sub":"a","kind":"buyer","scope":[1]}`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"a plan with blank": {claims, `{"active":true,"sub":"a","kind":"buyer","plan":"a b"}`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"exp a text":        {claims, `{"active":true,"sub":"a","kind":"buyer","exp":"soon"}`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"exp 0":             {claims, `{"active":true,"sub":"a","kind":"buyer","exp":0}`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"exp too large":     {claims, `{"active":true,"sub":"a","kind":"buyer","exp":1e300}`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"active a text":     {claims, `{"active":"true","sub":"a","kind":"buyer"}`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"no active":         {claims, `{"sub":"a","kind":"buyer"}`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"active twice":      {claims, `{"active":false,"active":true,"sub":"a","kind":"buyer"}`, auth.Principal{}, time.Time{}, auth.ErrUnknownKey},
		"a list":            {claims, `[{"active":true}]`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"no JSON":           {claims, `<html>`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"cut off":           {claims, `{"active":true,"sub":"a","kind":"buy`, auth.Principal{}, time.Time{}, auth.ErrGarbage},
		"nothing":           {claims, ``, auth.Principal{}, time.Time{}, auth.ErrGarbage},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, err := grant(tt.claims, auth.Digest{1}, []byte(tt.answer))
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || (g == nil) != (err != nil) {
				t.Fatalf("%+v, %v; want %v", g, err, tt.err)
			}
			if g != nil && (g.Principal != tt.want || !g.ExpiresAt.Equal(tt.exp) || g.Digest != auth.Digest{1} || g.Revoked) {
				t.Errorf("grant %+v", g)
			}
		})
	}
}

func FuzzClaims(f *testing.F) {
	f.Add(`{"active":true,"sub":"acme","kind":"buyer","scope":"a inquiries:read","api_access":"paid","plan":"pro","jti":"t1","exp":1800000000}`)
	f.Add(`{"active":true,"sub":1,"kind":"seller","scope":["x"]}`)
	f.Add(`{"active":false}`)
	f.Add(`{"a\u0063tive":true,"exp":-1e999}`)
	claims := auth.DefaultIntrospectionConfig().Claims
	f.Fuzz(func(t *testing.T, answer string) {
		g, err := grant(claims, auth.Digest{}, []byte(answer))
		if err != nil {
			if g != nil || !errors.Is(err, auth.ErrUnknownKey) && !errors.Is(err, auth.ErrGarbage) {
				t.Fatalf("%+v, %v", g, err)
			}
			return
		}
		p := g.Principal
		if !auth.ValidKind(p.Kind) || !auth.ValidID(p.Account) || p.Plan != "" && !auth.ValidID(p.Plan) || !strings.Contains(answer, "true") {
			t.Fatalf("%q grants %+v", answer, p)
		}
		if p.PaidAccess && !strings.Contains(answer, "paid") && strings.Count(answer, "true") < 2 && !strings.Contains(answer, `\u`) {
			t.Fatalf("%q grants paid access", answer)
		}
	})
}
