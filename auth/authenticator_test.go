package auth

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

var testNow = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func fixedNow() time.Time { return testNow }

// storeFunc is a Store of one function.
type storeFunc func(context.Context, Credential) (*Grant, error)

func (f storeFunc) Find(ctx context.Context, c Credential) (*Grant, error) { return f(ctx, c) }
func (storeFunc) Recall(Digest) (*Grant, bool)                             { return nil, false }

// grants is a Store over grants made for plain keys.
type grants map[string]*Grant

func (g grants) Find(_ context.Context, c Credential) (*Grant, error) {
	for _, grant := range g {
		if grant.Digest == c.Digest {
			return grant, nil
		}
	}
	return nil, ErrUnknownKey
}

func (grants) Recall(Digest) (*Grant, bool) { return nil, false }

func (g grants) add(key string, change func(*Grant)) {
	grant := &Grant{Digest: Hasher{}.Hash(key), Principal: Principal{
		Kind: KindBuyer, Account: "acme", KeyID: "id-of-" + key, Scopes: ScopeInquiriesRead, PaidAccess: true, Plan: "pro",
	}}
	if change != nil {
		change(grant)
	}
	g[key] = grant
}

func testGrants() grants {
	g := grants{}
	g.add("good", nil)
	g.add("expired", func(g *Grant) { g.ExpiresAt = testNow })
	g.add("lasting", func(g *Grant) { g.ExpiresAt = testNow.Add(time.Nanosecond) })
	g.add("revoked", func(g *Grant) { g.Revoked = true; g.ExpiresAt = testNow.Add(-time.Hour) })
	return g
}

// mistyped is a key in own format with a wrong last character.
func mistyped(t testing.TB) string {
	t.Helper()
	key, err := Generate(KindBuyer)
	if err != nil {
		t.Fatal(err)
	}
	last := byte('0')
	if key[len(key)-1] == last {
		last = '1'
	}
	return key[:len(key)-1] + string(last)
}

func TestAuthenticate(t *testing.T) {
	down := storeFunc(func(context.Context, Credential) (*Grant, error) { return nil, errors.New("connection refused") })
	left := storeFunc(func(ctx context.Context, _ Credential) (*Grant, error) { return nil, context.Canceled })
	wrong := storeFunc(func(context.Context, Credential) (*Grant, error) { return testGrants()["good"], nil })
	tests := map[string]struct {
		store  Store
		header []string
		keyID  string // of the principal or of the denial
		err    error
		result string
	}{
		"good":              {header: []string{"Bearer good"}, keyID: "id-of-good", result: "ok"},
		"not yet expired":   {header: []string{"Bearer lasting"}, keyID: "id-of-lasting", result: "ok"},
		"expired now":       {header: []string{"Bearer expired"}, keyID: "id-of-expired", err: ErrInvalidKey, result: "expired"},
		"revoked, expired":  {header: []string{"Bearer revoked"}, keyID: "id-of-revoked", err: ErrInvalidKey, result: "revoked"},
		"unknown":           {header: []string{"Bearer nobody's"}, err: ErrInvalidKey, result: "unknown"},
		"no header":         {err: ErrMissingKey, result: "missing"},
		"two headers":       {header: []string{"Bearer good", "Bearer good"}, err: ErrMultipleCredentials, result: "multiple"},
		"malformed":         {header: []string{"Bearer a b"}, err: ErrInvalidKey, result: "malformed"},
		"checksum":          {store: down, header: []string{"Bearer " + mistyped(t)}, err: ErrInvalidKey, result: "checksum"},
		"store down":        {store: down, header: []string{"Bearer good"}, err: ErrUnavailable, result: "unavailable"},
		"caller left":       {store: left, header: []string{"Bearer good"}, err: ErrUnavailable, result: "canceled"},
		"another's grant":   {store: wrong, header: []string{"Bearer bad"}, err: ErrInvalidKey, result: "unknown"},
		"missing, not down": {store: down, err: ErrMissingKey, result: "missing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.store == nil {
				tt.store = testGrants()
			}
			reg := prometheus.NewPedanticRegistry()
			a := NewAuthenticator(tt.store, Hasher{}, Options{Registerer: reg, Now: fixedNow})
			g, err := a.AuthenticateFrom(t.Context(), tt.header, nil)
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) || tt.result == "canceled" && !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v, want %v with its cause", err, tt.err)
			}
			var denial *Denial
			switch {
			case err == nil:
				if p := &g.Principal; p.KeyID != tt.keyID || p.Account != "acme" || p.Authorize(KindBuyer) != nil {
					t.Errorf("principal %+v", p)
				}
			case g != nil:
				t.Errorf("grant %+v along with %v", g, err)
			case errors.As(err, &denial):
				if denial.Reason != tt.result || denial.KeyID != tt.keyID {
					t.Errorf("denial %+v", denial)
				}
			case errors.Is(err, ErrInvalidKey):
				t.Errorf("%v is no Denial", err)
			}
			if n := testutil.ToFloat64(a.results[tt.result]); n != 1 {
				t.Errorf("%s counted %v times", tt.result, n)
			}
		})
	}
}

func TestSecurityLog(t *testing.T) {
	var out bytes.Buffer
	a := NewAuthenticator(testGrants(), Hasher{}, Options{Logger: slog.New(slog.NewTextHandler(&out, nil)), Now: fixedNow})
	events := map[string]string{
		"Bearer good":    "security.event=key_first_used security.kind=buyer security.account=acme security.key_id=id-of-good",
		"Bearer revoked": "level=WARN msg=\"authentication refused\" security.event=revoked_key_used security.reason=revoked security.key_id=id-of-revoked",
		"Bearer other":   "level=INFO msg=\"authentication refused\" security.event=auth_failed security.reason=unknown",
	}
	for header, want := range events {
		out.Reset()
		_, _ = a.AuthenticateFrom(t.Context(), []string{header}, nil) // the outcome is another test's
		if !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
			t.Errorf("%s: logged %q, want %q", header, out.String(), want)
		}
	}
	out.Reset()
	if _, err := a.AuthenticateFrom(t.Context(), []string{"Bearer good"}, nil); err != nil || out.Len() != 0 {
		t.Errorf("a second use logged %q, %v", out.String(), err)
	}
}

// A reload makes new grants; the first use of a key is still only one.
func TestFirstUseSurvivesReload(t *testing.T) {
	var out bytes.Buffer
	s := newSecurityLog(slog.New(slog.NewTextHandler(&out, nil)))
	for range 3 {
		s.used(t.Context(), testGrants()["good"])
	}
	if n := strings.Count(out.String(), "key_first_used"); n != 1 {
		t.Fatalf("logged %d times", n)
	}
	for i := range maxSeenKeys + 10 {
		s.known(Digest{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	if len(s.seen) > maxSeenKeys {
		t.Fatalf("stores %d keys", len(s.seen))
	}
}

func TestAuthenticateDoesNotAllocate(t *testing.T) {
	for name, h := range testHashers(t) {
		a, header := benchAuthenticator(t, h)
		fewest := math.Inf(1)
		for range 50 { // the pool of HMAC states may be emptied at any time, so the best run counts
			fewest = min(fewest, testing.AllocsPerRun(1, func() {
				if _, err := a.AuthenticateFrom(context.Background(), header, nil); err != nil {
					t.Fatal(err)
				}
			}))
		}
		if fewest > 0 {
			t.Errorf("%s: %v allocations", name, fewest)
		}
	}
}

// BenchmarkAuthenticate supports the decision to hash on every request rather
// than to store them: a hit must stay far below the 26 us of a bare handler.
func BenchmarkAuthenticate(b *testing.B) {
	for name, h := range testHashers(b) {
		b.Run(name, func(b *testing.B) {
			a, header := benchAuthenticator(b, h)
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.AuthenticateFrom(ctx, header, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func testHashers(tb testing.TB) map[string]Hasher {
	peppered, err := NewHasher([]byte(testPepper))
	if err != nil {
		tb.Fatal(err)
	}
	return map[string]Hasher{"sha256": {}, "hmac": peppered}
}

// benchAuthenticator holds a thousand own keys, one of which is in the header.
func benchAuthenticator(tb testing.TB, h Hasher) (*Authenticator, []string) {
	s := make(map[Digest]*Grant)
	var key string
	for range 1000 {
		var err error
		if key, err = Generate(KindBuyer); err != nil {
			tb.Fatal(err)
		}
		s[h.Hash(key)] = &Grant{Digest: h.Hash(key), Principal: Principal{Kind: KindBuyer, Account: "acme", KeyID: key[:12]}, ExpiresAt: time.Now().Add(time.Hour)}
	}
	find := storeFunc(func(_ context.Context, c Credential) (*Grant, error) { return s[c.Digest], nil })
	a := NewAuthenticator(find, h, Options{Registerer: prometheus.NewRegistry()})
	return a, []string{"Bearer " + key}
}
