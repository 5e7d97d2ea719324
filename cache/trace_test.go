package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// recorded is a cache whose spans are kept.
type recorded struct {
	*Lists
	provider *sdktrace.TracerProvider
	spans    *tracetest.SpanRecorder
}

func record(t *testing.T, fill Fill, now func() time.Time) recorded {
	t.Helper()
	r := recorded{spans: tracetest.NewSpanRecorder()}
	r.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans), sdktrace.WithoutPanicRecording())
	var err error
	if r.Lists, err = New(testConfig(), Options{Fill: fill, Now: now, Traces: r.provider}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLists(t, r.Lists) })
	return r
}

// ask is Get on behalf of a request that is recorded.
func (r recorded) ask(ctx context.Context) (Result, error) {
	ctx, span := r.provider.Tracer("").Start(ctx, "request")
	defer span.End()
	return r.Get(ctx, aKey)
}

func (r recorded) mustAsk(t *testing.T) Result {
	t.Helper()
	got, err := r.ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// paths names each span by those above it, sorted.
func (r recorded) paths() []string {
	settled(r.Lists)
	spans := map[string]sdktrace.ReadOnlySpan{}
	for _, s := range r.spans.Ended() {
		spans[s.SpanContext().SpanID().String()] = s
	}
	var all []string
	for _, s := range r.spans.Ended() {
		path := s.Name()
		for up, ok := spans[s.Parent().SpanID().String()]; ok; up, ok = spans[up.Parent().SpanID().String()] {
			path = up.Name() + " > " + path
		}
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

// named are the spans of a name that have ended.
func (r recorded) named(name string) []sdktrace.ReadOnlySpan {
	settled(r.Lists)
	return slices.DeleteFunc(r.spans.Ended(), func(s sdktrace.ReadOnlySpan) bool { return s.Name() != name })
}

// attribute is the value of one attribute as text; empty: there is none.
func attributeOf(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func TestSpansOfAMissAndAHit(t *testing.T) {
	g := &legacy{clock: newClock()}
	r := record(t, g.fill, g.clock.Now)
	r.mustAsk(t)
	want := []string{
		"request",
		"request > cache.lookup",
		"request > cache.lookup > cache.flight",
		"request > cache.lookup > cache.flight > cache.fill",
		"request > cache.lookup > cache.local",
	}
	if got := r.paths(); !slices.Equal(got, want) {
		t.Errorf("a miss:\n%s", strings.Join(got, "\n"))
	}
	r.spans.Reset()
	r.mustAsk(t)
	if got := r.paths(); !slices.Equal(got, []string{"request", "request > cache.lookup", "request > cache.lookup > cache.local"}) {
		t.Errorf("a hit:\n%s", strings.Join(got, "\n"))
	}
	if s := r.named("cache.lookup")[0]; attributeOf(s, "cache.outcome") != "hit" || attributeOf(s, "cache.tier") != TierLocal {
		t.Errorf("a hit has %v", s.Attributes())
	}
	if s := r.named("cache.local")[0]; attributeOf(s, "cache.result") != "fresh" {
		t.Errorf("the tier has %v", s.Attributes())
	}
	for _, s := range r.spans.Ended() {
		if text := fmt.Sprint(s.Attributes()); strings.Contains(text, aKey.Account) || strings.Contains(text, aKey.Status) {
			t.Errorf("%s says for whom: %s", s.Name(), text)
		}
	}
}

// Who waits for another's flight has a link to it.
func TestSpansOfWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &legacy{clock: newClock(), hold: make(chan struct{})}
		r := record(t, g.fill, g.clock.Now)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { r.mustAsk(t) })
		}
		impatient, leave := context.WithCancel(t.Context())
		wg.Go(func() { _, _ = r.ask(impatient) })
		synctest.Wait()
		leave()
		synctest.Wait()
		close(g.hold)
		wg.Wait()
		flights, waits := r.named("cache.flight"), r.named("cache.wait")
		if len(flights) != 1 || len(waits) < 2 || len(waits) > 3 { // the impatient one may have been the first
			t.Fatalf("%d flights, %d waits", len(flights), len(waits))
		}
		for _, w := range waits {
			if links := w.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != flights[0].SpanContext().SpanID() {
				t.Errorf("a wait has the links %v", links)
			}
			if left := w.Status().Code == codes.Error; left != (w.Status().Description == "canceled") {
				t.Errorf("a wait ended with %+v", w.Status())
			}
		}
	})
}

// A refresh outlives what caused it: it is a trace of its own, with a link.
func TestSpansOfARefresh(t *testing.T) {
	g := &legacy{clock: newClock()}
	r := record(t, g.fill, g.clock.Now)
	r.mustAsk(t)
	g.clock.Add(15 * time.Second)
	settled(r.Lists)
	r.spans.Reset()
	if got := r.mustAsk(t); got.Outcome != StaleRevalidate {
		t.Fatalf("outcome %s", got.Outcome)
	}
	cause, flight := r.named("cache.lookup")[0], r.named("cache.flight")[0]
	if flight.Parent().IsValid() || flight.SpanContext().TraceID() == cause.SpanContext().TraceID() {
		t.Error("the refresh is part of its cause's trace")
	}
	if links := flight.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != cause.SpanContext().SpanID() {
		t.Errorf("the refresh has the links %v", links)
	}
	if s := r.named("cache.local")[0]; attributeOf(s, "cache.result") != "stale" {
		t.Errorf("the tier has %v", s.Attributes())
	}
}

// A failed span has one of few words, not the error's text.
func TestSpansOfFailures(t *testing.T) {
	for _, tc := range []struct {
		fill Fill
		want string
	}{
		{func(context.Context, Key) (Content, error) {
			return Content{}, errors.New("ticket 4711: secret")
		}, "fill"},
		{func(context.Context, Key) (Content, error) {
			return Content{}, fmt.Errorf("secret: %w", context.DeadlineExceeded)
		}, "timeout"},
		{panicking, "panic"},
	} {
		t.Run(tc.want, func(t *testing.T) {
			r := record(t, tc.fill, nil)
			if _, err := r.ask(t.Context()); err == nil {
				t.Fatal("no error")
			}
			for _, name := range []string{"cache.lookup", "cache.flight"} {
				s := r.named(name)[0]
				if s.Status().Code != codes.Error || s.Status().Description != tc.want || attributeOf(s, "error.type") != tc.want {
					t.Errorf("%s: %+v %v", name, s.Status(), s.Attributes())
				}
			}
			for _, s := range r.spans.Ended() {
				if text := fmt.Sprint(s.Attributes(), s.Status(), s.Events()); strings.Contains(text, "secret") || strings.Contains(text, "mapping bug") {
					t.Errorf("%s quotes the error: %s", s.Name(), text)
				}
			}
		})
	}
}
