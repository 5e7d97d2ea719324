package auth

import (
	"errors"
	"testing"
)

func TestAuthorize(t *testing.T) {
	read := JoinScopes([]string{"other", ScopeInquiriesRead})
	tests := map[string]struct {
		principal Principal
		kind      string
		want      error
	}{
		"all is well":               {Principal{Kind: KindBuyer, Scopes: read, PaidAccess: true}, KindBuyer, nil},
		"a seller too":              {Principal{Kind: KindSeller, Scopes: read, PaidAccess: true}, KindSeller, nil},
		"other kind":                {Principal{Kind: KindBuyer, Scopes: read, PaidAccess: true}, KindSeller, ErrWrongKind},
		"other kind before scope":   {Principal{Kind: KindBuyer}, KindSeller, ErrWrongKind},
		"no scope":                  {Principal{Kind: KindBuyer, PaidAccess: true}, KindBuyer, ErrInsufficientScope},
		"no scope before no access": {Principal{Kind: KindBuyer}, KindBuyer, ErrInsufficientScope},
		"part of a scope":           {Principal{Kind: KindBuyer, Scopes: "inquiries:readonly inquiries", PaidAccess: true}, KindBuyer, ErrInsufficientScope},
		"scope in capitals":         {Principal{Kind: KindBuyer, Scopes: "INQUIRIES:READ", PaidAccess: true}, KindBuyer, ErrInsufficientScope},
		"no access":                 {Principal{Kind: KindBuyer, Scopes: read}, KindBuyer, ErrAccessRequired},
		"nobody":                    {Principal{}, KindBuyer, ErrWrongKind},
		"nobody for nothing":        {Principal{Scopes: read, PaidAccess: true}, "", ErrWrongKind},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tt.principal.Authorize(tt.kind); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Fatalf("Authorize = %v, want %v", err, tt.want)
			}
		})
	}
}
