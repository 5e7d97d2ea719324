package auth

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestClaims(t *testing.T) {
	claims := DefaultIntrospectionConfig().Claims
	nested := ClaimsConfig{Account: "org.id", Kind: "https://acme.example/kind", Scope: "scp", APIAccess: "org.paid", KeyID: "jti"}
	tests := map[string]struct {
		claims ClaimsConfig
		answer string
		want   Principal
		exp    time.Time
		err    error
	}{
		"all": {claims, `{"active":true,"sub":"acme","kind":"buyer","scope":"a inquiries:read","api_access":"paid","plan":"pro","jti":"t1","exp":1800000000}`,
			Principal{KindBuyer, "acme", "t1", "a inquiries:read", true, "pro"}, time.Unix(1800000000, 0), nil},
		"the least":         {claims, `{"active":true,"sub":4711,"kind":"seller"}`, Principal{Kind: KindSeller, Account: "4711"}, time.Time{}, nil},
		"other places":      {nested, `{"active":true,"org":{"id":"acme","paid":true},"https://acme.example/kind":"buyer","scp":["a","b c"]}`, Principal{KindBuyer, "acme", "", "a b c", true, ""}, time.Time{}, nil},
		"a fraction of exp": {claims, `{"active":true,"sub":"a","kind":"buyer","exp":1800000000.9}`, Principal{Kind: KindBuyer, Account: "a"}, time.Unix(1800000000, 0), nil},
		"access none":       {claims, `{"active":true,"sub":"a","kind":"buyer","api_access":"none"}`, Principal{Kind: KindBuyer, Account: "a"}, time.Time{}, nil},
		"access false":      {claims, `{"active":true,"sub":"a","kind":"buyer","api_access":false}`, Principal{Kind: KindBuyer, Account: "a"}, time.Time{}, nil},
		"access in words":   {claims, `{"active":true,"sub":"a","kind":"buyer","api_access":"yes"}`, Principal{Kind: KindBuyer, Account: "a"}, time.Time{}, nil},
		"an odd key id":     {claims, `{"active":true,"sub":"a","kind":"buyer","jti":"a\nb"}`, Principal{Kind: KindBuyer, Account: "a"}, time.Time{}, nil},
		"inactive":          {claims, `{"active":false,"sub":"acme","kind":"buyer"}`, Principal{}, time.Time{}, ErrUnknownKey},
		"no account":        {claims, `{"active":true,"kind":"buyer"}`, Principal{}, time.Time{}, ErrUnknownKey},
		"no kind":           {claims, `{"active":true,"sub":"a"}`, Principal{}, time.Time{}, ErrUnknownKey},
		"another kind":      {claims, `{"active":true,"sub":"a","kind":"admin"}`, Principal{}, time.Time{}, ErrUnknownKey},
		"a null account":    {claims, `{"active":true,"sub":null,"kind":"buyer"}`, Principal{}, time.Time{}, ErrUnknownKey},
		"an account object": {claims, `{"active":true,"sub":{},"kind":"buyer"}`, Principal{}, time.Time{}, errGarbage},
		"a scope of 1":      {claims, `{"active":true,"sub":"a","kind":"buyer","scope":[1]}`, Principal{}, time.Time{}, errGarbage},
		"a plan with blank": {claims, `{"active":true,"sub":"a","kind":"buyer","plan":"a b"}`, Principal{}, time.Time{}, errGarbage},
		"exp a text":        {claims, `{"active":true,"sub":"a","kind":"buyer","exp":"soon"}`, Principal{}, time.Time{}, errGarbage},
		"exp 0":             {claims, `{"active":true,"sub":"a","kind":"buyer","exp":0}`, Principal{}, time.Time{}, errGarbage},
		"exp too large":     {claims, `{"active":true,"sub":"a","kind":"buyer","exp":1e300}`, Principal{}, time.Time{}, errGarbage},
		"active a text":     {claims, `{"active":"true","sub":"a","kind":"buyer"}`, Principal{}, time.Time{}, errGarbage},
		"no active":         {claims, `{"sub":"a","kind":"buyer"}`, Principal{}, time.Time{}, errGarbage},
		"active twice":      {claims, `{"active":false,"active":true,"sub":"a","kind":"buyer"}`, Principal{}, time.Time{}, ErrUnknownKey},
		"a list":            {claims, `[{"active":true}]`, Principal{}, time.Time{}, errGarbage},
		"no JSON":           {claims, `<html>`, Principal{}, time.Time{}, errGarbage},
		"cut off":           {claims, `{"active":true,"sub":"a","kind":"buy`, Principal{}, time.Time{}, errGarbage},
		"nothing":           {claims, ``, Principal{}, time.Time{}, errGarbage},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g, err := tt.claims.grant(Digest{1}, []byte(tt.answer))
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || (g == nil) != (err != nil) {
				t.Fatalf("%+v, %v; want %v", g, err, tt.err)
			}
			if g != nil && (g.Principal != tt.want || !g.ExpiresAt.Equal(tt.exp) || g.Digest != Digest{1} || g.Revoked) {
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
	claims := DefaultIntrospectionConfig().Claims
	f.Fuzz(func(t *testing.T, answer string) {
		g, err := claims.grant(Digest{}, []byte(answer))
		if err != nil {
			if g != nil || !errors.Is(err, ErrUnknownKey) && !errors.Is(err, errGarbage) {
				t.Fatalf("%+v, %v", g, err)
			}
			return
		}
		p := g.Principal
		if checkKind(p.Kind) != "" || checkID(p.Account) != "" || checkPlan(p.Plan) != "" || !strings.Contains(answer, "true") {
			t.Fatalf("%q grants %+v", answer, p)
		}
		if p.PaidAccess && !strings.Contains(answer, "paid") && strings.Count(answer, "true") < 2 && !strings.Contains(answer, `\u`) {
			t.Fatalf("%q grants paid access", answer)
		}
	})
}
