package auth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"inquiry-gateway/auth"
)

var errAway = errors.New("connection refused")

// fewKeys are the keys of an issuer: all that begin with good, lasting, expired and revoked. He
// cannot be asked about the keys away, garbage and left.
func fewKeys(_ context.Context, key string) (*auth.Grant, error) {
	g := &auth.Grant{Principal: auth.Principal{Kind: auth.KindBuyer, Account: "account of " + key, KeyID: "id of " + key}}
	if strings.HasPrefix(key, "good") {
		return g, nil
	}
	switch key {
	case "lasting":
		g.ExpiresAt = testNow.Add(time.Nanosecond)
	case "expired":
		g.ExpiresAt = testNow
	case "revoked":
		g.Revoked, g.ExpiresAt = true, testNow.Add(-time.Hour)
	case "away":
		return nil, fmt.Errorf("about %s: %w", key, errAway)
	case "refresh-token":
		return nil, &auth.UnusableKey{Why: "token_use says refresh_token"}
	case "garbage":
		return nil, auth.ErrMalformedResponse
	case "left":
		return nil, context.Canceled
	default:
		return nil, auth.ErrUnknownKey
	}
	return g, nil
}

// Each outcome has its error, its metrics, its record in the security log, and its spans, which
// tell neither keys nor accounts.
func TestAuthenticate(t *testing.T) {
	const (
		refused = `level=INFO msg="authentication refused" security.event=auth_failed security.reason=`
		expired = `expired security.key_id="id of expired"`
		revoked = `level=WARN msg="authentication refused" security.event=revoked_key_used security.reason=revoked ` +
			`security.key_id="id of revoked"`
	)
	for name, tt := range map[string]struct {
		header []string
		err    error
		result string
		lookup string // its result; empty: the store is not asked
		keyID  string // of the principal or of the denial
		log    string // empty: nothing
	}{
		"good":            {[]string{"Bearer good"}, nil, "ok", "found", "id of good", ""},
		"not yet expired": {[]string{"Bearer lasting"}, nil, "ok", "found", "id of lasting", ""},
		"expired now":     {[]string{"Bearer expired"}, auth.ErrInvalidKey, "expired", "found", "id of expired", refused + expired},
		"revoked first":   {[]string{"Bearer revoked"}, auth.ErrInvalidKey, "revoked", "found", "id of revoked", revoked},
		"unknown":         {[]string{"Bearer other"}, auth.ErrInvalidKey, "unknown", "unknown", "", refused + "unknown"},
		"no header":       {nil, auth.ErrMissingKey, "missing", "", "", refused + "missing"},
		"two headers":     {[]string{"Bearer good", "Bearer good"}, auth.ErrMultipleCredentials, "multiple", "", "", refused + "multiple"},
		"one is empty":    {[]string{"Bearer good", ""}, auth.ErrMultipleCredentials, "multiple", "", "", refused + "multiple"},
		"malformed":       {[]string{"Bearer a b"}, auth.ErrInvalidKey, "malformed", "", "", refused + "malformed"},
		"mistyped":        {[]string{"Bearer " + mistyped(t)}, auth.ErrInvalidKey, "checksum", "", "", refused + "checksum"},
		"store away":      {[]string{"Bearer away"}, auth.ErrUnavailable, "unavailable", "failed", "", ""},
		"store confused":  {[]string{"Bearer garbage"}, auth.ErrUnavailable, "unavailable", "garbage", "", ""},
		"caller left":     {[]string{"Bearer left"}, auth.ErrUnavailable, "canceled", "failed", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			reg, spans := prometheus.NewPedanticRegistry(), tracetest.NewSpanRecorder()
			traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
			opts := auth.Options{Registerer: reg, Now: fixedNow, Logger: slog.New(slog.NewTextHandler(&log, nil)), Traces: traces}
			s := newCached(t, opts, fewKeys)
			a := auth.NewAuthenticator(s, auth.Hasher{}, opts)
			ctx, request := traces.Tracer("").Start(t.Context(), "request")
			g, err := a.AuthenticateFrom(ctx, tt.header, caller("192.0.2.1"))
			request.End()
			if !errors.Is(err, tt.err) || (g != nil) != (tt.err == nil) || g != nil && g.Principal.KeyID != tt.keyID {
				t.Fatalf("%+v, %v; want %s, %v", g, err, tt.keyID, tt.err)
			}
			denial, refused := errors.AsType[*auth.Denial](err)
			if refused != errors.Is(tt.err, auth.ErrInvalidKey) || refused && *denial != (auth.Denial{Reason: tt.result, KeyID: tt.keyID}) {
				t.Errorf("denial %+v", denial)
			}
			want := map[string]string{"auth": tt.result}
			if n := counted(t, reg, "inquiry_gateway_auth_requests_total"); n[tt.result] != 1 {
				t.Errorf("requests by result: %v", n)
			}
			if tt.lookup != "" {
				want["auth.lookup"] = tt.lookup
				if n := counted(t, reg, "inquiry_gateway_auth_lookups_total"); n[tt.lookup+"test"] != 1 {
					t.Errorf("lookups by result: %v", n)
				}
			}
			if _, got, _ := strings.Cut(strings.TrimSuffix(log.String(), "\n"), " "); got != tt.log { // less the time
				t.Errorf("logged %s, want %s", got, tt.log)
			}
			for _, s := range spans.Ended() {
				text := fmt.Sprint(s.Attributes(), s.Status(), s.Events())
				word, is := want[s.Name()]
				delete(want, s.Name())
				failed := slices.Contains([]string{"failed", "garbage", "unavailable"}, word)
				if is && !strings.Contains(text, `"auth.result":"`+word+`"`) || (s.Status().Code == codes.Error) != failed {
					t.Errorf("%s says %s", s.Name(), text)
				}
				if strings.Contains(text, " of ") || strings.Contains(text, "away") {
					t.Errorf("%s tells %s", s.Name(), text)
				}
			}
			if len(want) > 0 {
				t.Errorf("no spans %v", want)
			}
		})
	}
}

// A store that answers with another key's grant lets nobody in.
func TestAnothersGrantIsRefused(t *testing.T) {
	a := auth.NewAuthenticator(storeFunc(func(auth.Credential) (*auth.Grant, error) {
		return &auth.Grant{Digest: digestOf("good")}, nil
	}), auth.Hasher{}, auth.Options{})
	if g, err := a.AuthenticateFrom(t.Context(), []string{"Bearer bad"}, caller("192.0.2.1")); !errors.Is(err, auth.ErrInvalidKey) {
		t.Errorf("%+v, %v", g, err)
	}
}

// decision is one combination of all that a request's fate depends on.
type decision struct {
	header string // none, two, malformed, checksum, or a key: unknown, expired, revoked, good
	kind   string // of the key
	scopes auth.Scopes
	paid   bool
	store  error // nil: it answers; context.DeadlineExceeded: never
	warm   bool  // the store's answer is stored
}

// want is the table of the contract, written down independently of the code: the first row
// that applies decides.
func (d decision) want() error {
	named := strings.Contains("unknown expired revoked good", d.header)
	for _, row := range []struct {
		applies bool
		err     error
	}{
		{d.header == "none", auth.ErrMissingKey},
		{d.header == "two", auth.ErrMultipleCredentials},
		{!named, auth.ErrInvalidKey},
		{d.store != nil && (!d.warm || d.header == "unknown"), auth.ErrUnavailable}, // unknown keys are not cached
		{d.header != "good", auth.ErrInvalidKey},
		{d.kind != auth.KindBuyer, auth.ErrWrongKind},
		{d.scopes != "other inquiries:read", auth.ErrInsufficientScope},
		{!d.paid, auth.ErrAccessRequired},
	} {
		if row.applies {
			return row.err
		}
	}
	return nil
}

// decide asks for the buyers' list under the conditions of a decision.
func (d decision) decide(t *testing.T) error {
	var away error
	s := newCached(t, auth.Options{Now: fixedNow}, func(ctx context.Context, key string) (*auth.Grant, error) {
		if errors.Is(away, context.DeadlineExceeded) {
			<-ctx.Done()
		}
		g, err := fewKeys(ctx, key)
		if g != nil {
			g.Principal.Kind, g.Principal.Scopes, g.Principal.PaidAccess = d.kind, d.scopes, d.paid
		}
		if away != nil {
			return nil, away
		}
		return g, err
	})
	if d.warm {
		_, _ = s.find(d.header) // its answer is compared below
	}
	away = d.store
	header := map[string][]string{
		"none": nil, "two": {"Bearer good", "Bearer good"}, "malformed": {"Bearer a b"}, "checksum": {"Bearer " + mistyped(t)},
		"unknown": {"Bearer unknown"}, "expired": {"Bearer expired"}, "revoked": {"Bearer revoked"}, "good": {"Bearer good"},
	}[d.header]
	g, err := auth.NewAuthenticator(s, auth.Hasher{}, auth.Options{Now: fixedNow}).AuthenticateFrom(t.Context(), header, caller("192.0.2.1"))
	if err != nil {
		return err
	}
	return g.Principal.Authorize(auth.KindBuyer)
}

// Nobody is let in, refused or told to come back otherwise than the contract says; above all,
// a store that is away makes no good key a bad one.
func TestEveryDecision(t *testing.T) {
	sentinels := []error{
		auth.ErrMissingKey, auth.ErrMultipleCredentials, auth.ErrInvalidKey, auth.ErrUnavailable,
		auth.ErrWrongKind, auth.ErrInsufficientScope, auth.ErrAccessRequired,
	}
	check := func(t *testing.T, d decision) {
		got, want := d.decide(t), d.want()
		wrong := (got == nil) != (want == nil)
		for _, sentinel := range sentinels {
			wrong = wrong || errors.Is(got, sentinel) != (sentinel == want)
		}
		if wrong {
			t.Errorf("%+v: %v, want %v", d, got, want)
		}
	}
	bools := []bool{false, true}
	synctest.Test(t, func(t *testing.T) {
		for _, header := range []string{"none", "two", "malformed", "checksum", "unknown", "expired", "revoked", "good"} {
			for _, kind := range []string{auth.KindBuyer, auth.KindSeller, ""} {
				for _, scopes := range []auth.Scopes{"", "inquiries:readonly inquiries", "INQUIRIES:READ", "other inquiries:read"} {
					for _, paid := range bools {
						for _, store := range []error{nil, errAway, context.DeadlineExceeded, auth.ErrMalformedResponse} {
							for _, warm := range bools {
								check(t, decision{header, kind, scopes, paid, store, warm})
							}
						}
					}
				}
			}
		}
	})
	if err := new(auth.Principal).Authorize(""); err == nil {
		t.Error("nobody may read what has no kind")
	}
}

// hashers are those that a gateway may have.
func hashers(t *testing.T) map[string]auth.Hasher {
	peppered, err := auth.NewHasher([]byte(testPepper))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]auth.Hasher{"sha256": {}, "hmac": peppered}
}

func TestAKnownKeyAllocatesNothing(t *testing.T) {
	for name, h := range hashers(t) {
		a := auth.NewAuthenticator(newCached(t, auth.Options{Now: fixedNow}, fewKeys), h, auth.Options{Now: fixedNow})
		fewest := math.Inf(1)
		for range 50 { // the pool of HMAC states may be emptied at any time, so the best run counts
			fewest = min(fewest, testing.AllocsPerRun(1, func() {
				if _, err := a.AuthenticateFrom(context.Background(), []string{"Bearer good"}, caller("192.0.2.1")); err != nil {
					t.Fatal(err)
				}
			}))
		}
		if fewest > 0 {
			t.Errorf("%s: %v allocations", name, fewest)
		}
	}
}
