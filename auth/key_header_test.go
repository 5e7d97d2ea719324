package auth

import (
	"errors"
	"strings"
	"testing"
)

func TestBearer(t *testing.T) {
	longest := strings.Repeat("k", MaxKeyLength)
	tests := map[string]struct {
		values []string
		key    string
		reason string // of a Denial
		err    error
	}{
		"none":                     {values: nil, err: ErrMissingKey},
		"empty value":              {values: []string{""}, err: ErrMissingKey},
		"scheme alone":             {values: []string{"Bearer"}, err: ErrMissingKey},
		"scheme and blanks":        {values: []string{"Bearer   "}, err: ErrMissingKey},
		"another scheme":           {values: []string{"Basic dXNlcjpwYXNz"}, err: ErrMissingKey},
		"a scheme that begins so":  {values: []string{"Bearers abc"}, err: ErrMissingKey},
		"the key alone":            {values: []string{"iqb_abc"}, err: ErrMissingKey},
		"two headers":              {values: []string{"Bearer a", "Bearer b"}, err: ErrMultipleCredentials},
		"two equal headers":        {values: []string{"Bearer a", "Bearer a"}, err: ErrMultipleCredentials},
		"two headers, one empty":   {values: []string{"Bearer a", ""}, err: ErrMultipleCredentials},
		"two joined by a proxy":    {values: []string{"Bearer a, Bearer b"}, err: ErrInvalidKey, reason: ReasonMalformed},
		"a blank inside":           {values: []string{"Bearer a b"}, err: ErrInvalidKey, reason: ReasonMalformed},
		"a tab as separator":       {values: []string{"Bearer\tabc"}, err: ErrInvalidKey, reason: ReasonMalformed},
		"a tab before the key":     {values: []string{"Bearer \tabc"}, err: ErrInvalidKey, reason: ReasonMalformed},
		"a control character":      {values: []string{"Bearer a\x00b"}, err: ErrInvalidKey, reason: ReasonMalformed},
		"not ASCII":                {values: []string{"Bearer schlüssel"}, err: ErrInvalidKey, reason: ReasonMalformed},
		"too long":                 {values: []string{"Bearer " + longest + "k"}, err: ErrInvalidKey, reason: ReasonMalformed},
		"the longest":              {values: []string{"Bearer " + longest}, key: longest},
		"plain":                    {values: []string{"Bearer abc"}, key: "abc"},
		"scheme in lower case":     {values: []string{"bearer abc"}, key: "abc"},
		"scheme in mixed case":     {values: []string{"bEaReR abc"}, key: "abc"},
		"several blanks":           {values: []string{"Bearer    abc"}, key: "abc"},
		"blanks around":            {values: []string{"\t Bearer abc \t"}, key: "abc"},
		"b64token":                 {values: []string{"Bearer aA0-._~+/=="}, key: "aA0-._~+/=="},
		"opaque visible ASCII":     {values: []string{"Bearer !\"#$%&'()*,:;<>?@[\\]^`{|}"}, key: "!\"#$%&'()*,:;<>?@[\\]^`{|}"},
		"a key that is the scheme": {values: []string{"Bearer Bearer"}, key: "Bearer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			key, err := bearer(tt.values)
			if key != tt.key || !errors.Is(err, tt.err) {
				t.Fatalf("bearer = %q, %v; want %q, %v", key, err, tt.key, tt.err)
			}
			var denial *Denial
			if errors.As(err, &denial) != (tt.reason != "") || denial != nil && denial.Reason != tt.reason {
				t.Fatalf("denial %+v, want reason %q", denial, tt.reason)
			}
		})
	}
}

func FuzzBearer(f *testing.F) {
	for _, s := range []string{"", "Bearer", "Bearer a", "bearer  a ", "Basic a", "Bearer a, Bearer b", "Bearer \x7f", "Bearer ü", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := bearer([]string{value})
		if err != nil {
			if key != "" {
				t.Fatalf("a key %q along with %v", key, err)
			}
			if !errors.Is(err, ErrMissingKey) && !errors.Is(err, ErrInvalidKey) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if key == "" || len(key) > MaxKeyLength || !visible(key) || !strings.HasSuffix(strings.TrimRight(value, " \t"), key) {
			t.Fatalf("key %q of %q", key, value)
		}
	})
}
