package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/filters"
	"inquiry-gateway/internal/testkit/redistest"
)

// byGateway is a mapping where nothing but the status "sent" is sent to the legacy,
// and "never" is a status that no record can have.
var byGateway = map[string]Mapping{KindBuyer: {
	Status:      filters.Filter{Values: map[string]filters.Asked{"never": filters.NoRecord, "sent": filters.AskedFor}, Other: filters.SelectedHere},
	InquiryType: filters.Filter{Other: filters.SelectedHere},
}}

// byLines selects from a list that has the records that its name says, see lines.
var byLines = Derivation{
	Select: func(k Key, body []byte) ([]byte, error) {
		var out []byte
		for line := range bytes.Lines(body) {
			if bytes.HasPrefix(line, []byte("broken")) {
				return nil, errors.New("not a list")
			}
			if bytes.HasPrefix(line, []byte(k.Status)) && bytes.Contains(line, []byte(k.InquiryType)) {
				out = append(out, line...)
			}
		}
		return out, nil
	},
	Empty: []byte{},
}

// lines answers with one record of each of a few statuses, and the call's number.
func (g *legacy) lines(ctx context.Context, k Key) (Content, error) {
	c, err := g.fill(ctx, k)
	if err != nil {
		return c, err
	}
	c.Body = nil
	for _, status := range []string{"pending", "answered", "sent"} {
		if k.Status == "" || k.Status == status {
			c.Body = fmt.Appendf(c.Body, "%s of %s #%d\n", status, k.Account, g.calls.Load())
		}
	}
	return c, nil
}

func startDerived(t testing.TB, s setup) *Lists {
	t.Helper()
	s.mappings, s.derivation = byGateway, byLines
	return s.start(t)
}

func acmes(status string) Key { return Key{Kind: KindBuyer, Account: "acme", Status: status} }

func TestAFilteredListIsSelectedFromItsBase(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	l := startDerived(t, setup{fill: g.lines, now: c.Now})
	r := mustGet(t, l, acmes("pending"))
	if r.Outcome != Miss || !r.Stored || body(r) != "pending of acme #1\n" || r.Entry.Key != acmes("pending") {
		t.Fatalf("%s, stored %t: %q", r.Outcome, r.Stored, body(r))
	}
	c.Add(3 * time.Second)
	r = mustGet(t, l, acmes("answered"))
	if r.Outcome != Hit || r.Tier != TierLocal || r.Age != 3*time.Second || r.TTL != 7*time.Second || body(r) != "answered of acme #1\n" {
		t.Errorf("%s from %q, age %s, ttl %s: %q", r.Outcome, r.Tier, r.Age, r.TTL, body(r))
	}
	for _, k := range []Key{acmes(""), acmes("pending"), acmes("answered")} {
		if r, ok := l.Lookup(k); !ok || r.Age != 3*time.Second {
			t.Errorf("%q: in the process %t, age %s", k.Status, ok, r.Age)
		}
	}
	for i := range 200 {
		r := mustGet(t, l, acmes(fmt.Sprint("x", i)))
		if r.Outcome != Hit || body(r) != "" || r.Age != 3*time.Second {
			t.Fatalf("%s, age %s: %q", r.Outcome, r.Age, body(r))
		}
	}
	if n := g.calls.Load(); n != 1 {
		t.Errorf("%d requests to the legacy, want 1", n)
	}
	l.tier.CleanUp()
	if n := l.tier.EstimatedSize(); n != 3 {
		t.Errorf("%d lists in the process, want the base and two selections", n)
	}
	// A filter that the legacy is sent makes another base.
	if r := mustGet(t, l, acmes("sent")); r.Outcome != Miss || body(r) != "sent of acme #2\n" {
		t.Errorf("%s: %q", r.Outcome, body(r))
	}
}

func TestAnImpossibleListAsksNobody(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	reg := prometheus.NewRegistry()
	l := startDerived(t, setup{fill: g.lines, now: c.Now, reg: reg})
	for range 3 {
		r := mustGet(t, l, acmes("never"))
		if r.Outcome != Impossible || body(r) != "" || r.Stored || r.Age != 0 || r.Entry.Key != acmes("never") {
			t.Fatalf("%s %+v", r.Outcome, r)
		}
	}
	if n := g.calls.Load(); n != 0 || l.tier.EstimatedSize() != 0 || len(l.flights) != 0 {
		t.Errorf("%d requests, %d lists kept", n, l.tier.EstimatedSize())
	}
	if n := counter(t, l.metrics.derived.WithLabelValues(KindBuyer, derivedImpossible)); n != 3 {
		t.Errorf("%v counted, want 3", n)
	}
	x, err := l.Explain(t.Context(), acmes("never"))
	if err != nil || x.Outcome != Impossible {
		t.Errorf("explained as %s, %v", x.Outcome, err)
	}
}

// by_status makes terms of its own for a list, whatever list it is selected from.
func TestADerivedListsOwnTTLDecides(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	cfg := testConfig()
	short, long, none, never := 4*time.Second, 40*time.Second, time.Duration(0), time.Duration(0)
	cfg.Buyer.ByStatus = map[string]StatusConfig{
		"pending":  {TTL: &short, StaleWhileRevalidate: &none},
		"answered": {TTL: &long, StaleWhileRevalidate: &none},
		"x":        {TTL: &never, StaleWhileRevalidate: &none},
	}
	l := startDerived(t, setup{cfg: cfg, fill: g.lines, now: c.Now})
	step := func(after time.Duration, status string, want Outcome, age time.Duration, calls int64) {
		t.Helper()
		c.Add(after)
		r := mustGet(t, l, acmes(status))
		settled(l)
		if r.Outcome != want || r.Age != age || g.calls.Load() != calls {
			t.Errorf("%q: %s, age %s, after %d requests, want %s, %s, %d", status, r.Outcome, r.Age, g.calls.Load(), want, age, calls)
		}
	}
	step(0, "", Miss, 0, 1)
	step(2*time.Second, "pending", Hit, 2*time.Second, 1)
	step(3*time.Second, "", Hit, 5*time.Second, 1)
	step(0, "pending", Miss, 0, 2) // a base of 5 s is too old for it
	step(0, "", Hit, 0, 2)         // and is replaced for all
	step(5*time.Second, "answered", Hit, 5*time.Second, 2)
	step(30*time.Second, "answered", Hit, 35*time.Second, 2)
	step(0, "", Miss, 0, 3)
	step(5*time.Second, "answered", Hit, 5*time.Second, 3) // fresh still, but the base is newer
	for n := range int64(3) {                              // a ttl of 0 asks each time, and once
		step(0, "x", Miss, 0, 4+n)
	}
}

func TestDerivedListsAreServedStaleAndRefreshedByTheirBase(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	l := startDerived(t, setup{fill: g.lines, now: c.Now})
	pending, answered := acmes("pending"), acmes("answered")
	mustGet(t, l, pending)
	mustGet(t, l, answered)
	c.Add(12 * time.Second)
	if r := mustGet(t, l, pending); r.Outcome != StaleRevalidate || r.Age != 12*time.Second || r.TTL != -2*time.Second || body(r) != "pending of acme #1\n" {
		t.Errorf("%s, age %s, ttl %s: %q", r.Outcome, r.Age, r.TTL, body(r))
	}
	settled(l)
	for _, k := range []Key{pending, answered} {
		if r := mustGet(t, l, k); r.Outcome != Hit || r.Age != 0 || !strings.HasSuffix(body(r), "#2\n") {
			t.Errorf("%s, age %s: %q after one refresh", r.Outcome, r.Age, body(r))
		}
	}
	g.failWith(errLegacy)
	c.Add(30 * time.Second)
	if r := mustGet(t, l, pending); r.Outcome != StaleError || r.Age != 30*time.Second || r.TTL > 0 || body(r) != "pending of acme #2\n" {
		t.Errorf("%s, age %s: %q", r.Outcome, r.Age, body(r))
	}
	for range 20 { // the base fails, whichever list of it is asked for
		if r := mustGet(t, l, answered); r.Outcome != StaleError || body(r) != "answered of acme #2\n" {
			t.Errorf("%s: %q", r.Outcome, body(r))
		}
		if r := mustGet(t, l, acmes("y")); r.Outcome != StaleError || body(r) != "" {
			t.Errorf("%s: %q, of a list that nobody has asked for before", r.Outcome, body(r))
		}
		settled(l)
	}
	if n := g.calls.Load(); n != 3 {
		t.Errorf("%d requests, want 2 and one that failed", n)
	}
	// The base is gone from the process: what was selected from it is still served.
	l.tier.Invalidate(acmes(""))
	if r := mustGet(t, l, pending); r.Outcome != StaleError || body(r) != "pending of acme #2\n" {
		t.Errorf("%s: %q without the base", r.Outcome, body(r))
	}
	c.Add(time.Hour)
	if _, err := l.Get(t.Context(), pending); !errors.Is(err, errLegacy) {
		t.Errorf("past stale_if_error: %v", err)
	}
}

func TestAPurgeHidesDerivedLists(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	l := startDerived(t, setup{fill: g.lines, now: c.Now})
	for n, scope := range []Scope{{Account: "acme"}, {Kind: KindBuyer}} {
		mustGet(t, l, acmes("pending"))
		if _, err := l.Purge(t.Context(), scope); err != nil {
			t.Fatal(err)
		}
		if _, ok := l.Lookup(acmes("pending")); ok {
			t.Errorf("%+v: a hit after the purge", scope)
		}
		if r := mustGet(t, l, acmes("pending")); r.Outcome != Miss || g.calls.Load() != int64(n+2) {
			t.Errorf("%+v: %s after %d requests", scope, r.Outcome, g.calls.Load())
		}
	}
}

func TestAListThatCannotBeSelectedIsAskedForByItself(t *testing.T) {
	c := newClock()
	var asked []Key
	l := startDerived(t, setup{now: c.Now, fill: func(_ context.Context, k Key) (Content, error) {
		asked = append(asked, k)
		return Content{Body: fmt.Appendf(nil, "broken %s", k.Status), AnsweredAt: c.Now()}, nil
	}})
	r := mustGet(t, l, acmes("pending"))
	if body(r) != "broken pending" || r.Outcome != Miss || len(asked) != 2 || asked[1] != acmes("pending") {
		t.Errorf("%s %q after asking for %v", r.Outcome, body(r), asked)
	}
	if r, ok := l.Lookup(acmes("pending")); !ok || body(r) != "broken pending" {
		t.Error("the list is not kept")
	}
	if n := counter(t, l.metrics.derived.WithLabelValues(KindBuyer, derivedFailed)); n != 1 {
		t.Errorf("%v counted, want 1", n)
	}
}

// 300 callers with as many filters are one request, and with terms of their own
// none gets what is too old for it.
func TestCallersWithManyFiltersShareOneRequest(t *testing.T) {
	g := &legacy{clock: newClock(), hold: make(chan struct{})}
	cfg := testConfig()
	short := 4 * time.Second
	cfg.Buyer.ByStatus = map[string]StatusConfig{"pending": {TTL: &short}}
	l := startDerived(t, setup{cfg: cfg, fill: g.lines, now: g.clock.Now})
	var wg sync.WaitGroup
	for i := range 300 {
		wg.Go(func() {
			k := acmes([]string{"pending", "answered", "", fmt.Sprint("x", i)}[i%4])
			if r, err := l.Get(context.Background(), k); err != nil || r.Entry.Key != k || r.Outcome != Miss && r.Outcome != Collapsed && r.Outcome != Hit {
				t.Errorf("%q: %s, %v", k.Status, r.Outcome, err)
			}
		})
	}
	close(g.hold)
	wg.Wait()
	if n := g.calls.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// The age of the copy in Redis is counted by another clock than that of the copy in the process.
func TestDerivedListsOfOneFillAreTold(t *testing.T) {
	base := newEntry(origin{answeredAt: time.Unix(1000, 0), tag: tag{1, 2}}, nil, 0)
	for _, tt := range []struct {
		since time.Duration
		tag   tag
		same  bool
	}{{0, tag{1, 2}, true}, {sameMoment - 1, tag{1, 2}, true}, {sameMoment, tag{1, 2}, false}, {-1, tag{1, 2}, false}, {0, tag{1, 3}, false}} {
		e := newEntry(origin{answeredAt: time.Unix(1000, 0).Add(tt.since), tag: tt.tag}, nil, 0)
		if e.sameFill(base) != tt.same {
			t.Errorf("%+v", tt)
		}
	}
}

func TestDerivedListsAreNotInRedis(t *testing.T) {
	srv := redistest.Start(t)
	rdb := openRedis(t, relaxTimeouts(redisAt(srv.Addr)))
	c := newClock()
	g := &legacy{clock: c}
	cfg := testConfig()
	short, none := 4*time.Second, time.Duration(0)
	cfg.Buyer.ByStatus = map[string]StatusConfig{"pending": {TTL: &short, StaleWhileRevalidate: &none}}
	first := startDerived(t, setup{cfg: cfg, fill: g.lines, now: c.Now, redis: rdb})
	second := startDerived(t, setup{cfg: cfg, fill: g.lines, now: c.Now, redis: rdb})
	mustGet(t, first, acmes("pending"))
	settled(first)
	mustGet(t, first, acmes("answered"))
	base := entryKey(first, acmes(""))
	keys, err := rdb.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if strings.Contains(key, KindBuyer+":") && key != base {
			t.Errorf("Redis has %s, and should have %s alone", key, base)
		}
	}
	c.Add(3 * time.Second)
	shift(t, rdb, 3*time.Second)
	if r := mustGet(t, second, acmes("pending")); r.Outcome != Hit || r.Tier != TierRedis || !about(r.Age, 3*time.Second) || body(r) != "pending of acme #1\n" {
		t.Errorf("the other node: %s from %q, age %s: %q", r.Outcome, r.Tier, r.Age, body(r))
	}
	if x, err := second.Explain(t.Context(), acmes("answered")); err != nil || x.Outcome != Hit || x.DerivedFrom != "the list without filters" || x.Tier != TierLocal {
		t.Errorf("explained as %s from %q by %+v, %v", x.Outcome, x.Tier, x.DerivedFrom, err)
	}
	c.Add(2 * time.Second)
	shift(t, rdb, 2*time.Second)
	settled(second)
	second.tier.InvalidateAll()
	if r := mustGet(t, second, acmes("pending")); r.Outcome != Miss || body(r) != "pending of acme #2\n" { // Redis' base is too old for it
		t.Errorf("the other node: %s from %q: %q", r.Outcome, r.Tier, body(r))
	}
}
