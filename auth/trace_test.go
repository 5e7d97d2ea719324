package auth

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// Authentication is a span with its result, a lookup in a remote store one
// below it, and neither tells the key.
func TestSpansOfAuthentication(t *testing.T) {
	key, err := Generate(KindBuyer)
	if err != nil {
		t.Fatal(err)
	}
	digest := Hasher{}.Hash(key)
	grant := &Grant{Digest: digest, Principal: Principal{Kind: KindBuyer, Account: "acme", KeyID: "k1"}}
	for _, tc := range []struct {
		result, lookup string
		failed         bool
		ask            Lookup
	}{
		{"ok", "found", false, func(context.Context, Credential) (*Grant, error) { return grant, nil }},
		{"unknown", "unknown", false, func(context.Context, Credential) (*Grant, error) { return nil, ErrUnknownKey }},
		{"unavailable", "failed", true, func(context.Context, Credential) (*Grant, error) { return nil, errors.New("secret " + key) }},
		{"unavailable", "garbage", true, func(context.Context, Credential) (*Grant, error) { return nil, ErrGarbage }},
	} {
		t.Run(tc.lookup, func(t *testing.T) {
			spans := tracetest.NewSpanRecorder()
			provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
			opts := Options{Traces: provider}
			store := NewCachedStore("introspection", tc.ask, CachePolicy{
				TTL: time.Minute, NegativeTTL: time.Minute, Timeout: time.Second, MaxKeys: 10,
			}, opts)
			a := NewAuthenticator(store, Hasher{}, opts)
			for range 2 { // the second time the answer is stored, if there was one
				ctx, request := provider.Tracer("").Start(t.Context(), "request")
				_, _ = a.AuthenticateFrom(ctx, []string{"Bearer " + key}, nil)
				request.End()
			}
			_, _ = a.AuthenticateFrom(t.Context(), []string{"Bearer " + key}, nil) // is not recorded
			store.Close()
			ended := map[string][]sdktrace.ReadOnlySpan{}
			for _, s := range spans.Ended() {
				ended[s.Name()] = append(ended[s.Name()], s)
				text := fmt.Sprint(s.Attributes(), s.Status(), s.Events())
				if strings.Contains(text, key) || strings.Contains(text, digest.Hex()) || strings.Contains(text, "secret") || strings.Contains(text, "acme") {
					t.Errorf("%s says %s", s.Name(), text)
				}
				if (s.Status().Code == codes.Error) != tc.failed && s.Name() != "request" {
					t.Errorf("%s has the status %+v", s.Name(), s.Status())
				}
			}
			if len(ended["auth"]) != 2 || tc.failed != (len(ended["auth.lookup"]) == 2) {
				t.Fatalf("spans: %v", ended)
			}
			auth, ask := ended["auth"][0], ended["auth.lookup"][0]
			if !strings.Contains(fmt.Sprint(auth.Attributes()), `"auth.result":"`+tc.result+`"`) || !strings.Contains(fmt.Sprint(ask.Attributes()), `"auth.result":"`+tc.lookup+`"`) {
				t.Errorf("auth %v, auth.lookup %v", auth.Attributes(), ask.Attributes())
			}
			if ask.Parent().SpanID() != auth.SpanContext().SpanID() {
				t.Error("the lookup is not below the authentication")
			}
		})
	}
}
