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

	"inquiry-gateway/internal/filters"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
)

// derived is a cache where nothing but the status "sent" is sent to the legacy, and "never"
// is a status that no record can have. A list is lines, one for each record: its status, its
// account, and the number of the legacy's answer.
func derived(g *legacy) func(*setup) {
	return func(s *setup) {
		s.Fills.Mappings = map[string]Mapping{KindBuyer: {
			Status:      filters.Filter{Values: map[string]filters.Source{"never": filters.Empty, "sent": filters.Upstream}, Other: filters.Local},
			InquiryType: filters.Filter{Other: filters.Local},
		}}
		s.Derivation.Select = func(k Key, body []byte) (out []byte, _ error) {
			for line := range bytes.Lines(body) {
				if bytes.HasPrefix(line, []byte(k.Status)) && bytes.Contains(line, []byte(k.InquiryType)) {
					out = append(out, line...)
				}
			}
			return out, nil
		}
		s.Fill = func(ctx context.Context, k Key, about FillInfo) (Content, error) {
			c, err := g.fill(ctx, k, about)
			n := g.calls.Load()
			c.Body = nil
			for _, status := range []string{"pending", "answered", "sent"} {
				if k.Status == "" || k.Status == status {
					c.Body = fmt.Appendf(c.Body, "%s of %s #%d\n", status, k.Account, n)
				}
			}
			return c, err
		}
	}
}

// tierEntry is what the process has of a list.
func (c *Cache) tierEntry(t *testing.T, k Key) *Entry {
	t.Helper()
	e, ok := c.tier.GetEntryQuietly(k)
	if !ok {
		t.Fatalf("%v is not in the process", k)
	}
	return e.Value
}

func aloneDerived(t *testing.T, change ...func(*setup)) (*Cache, *legacy) {
	t.Helper()
	g := newLegacy()
	return g.node(t, nil, append(change, derived(g))...), g
}

func acmes(status string) Key { return Key{Kind: KindBuyer, Account: "acme", Status: status} }

func TestAFilteredListIsSelectedFromItsBase(t *testing.T) {
	l, g := aloneDerived(t)
	r := mustGet(t, l, acmes("pending"))
	if want(t, r, Miss, "pending of acme #1\n"); !r.Stored || r.Entry.Key != acmes("pending") {
		t.Errorf("stored %t: %+v", r.Stored, r.Entry.Key)
	}
	g.clock.Add(3 * time.Second)
	r = mustGet(t, l, acmes("answered"))
	if want(t, r, Hit, "answered of acme #1\n"); r.Tier != TierLocal || r.Age != 3*time.Second || r.TTL != 7*time.Second {
		t.Errorf("from %q, age %s, ttl %s", r.Tier, r.Age, r.TTL)
	}
	for _, status := range []string{"", "pending", "answered"} {
		if r, ok := l.Lookup(acmes(status)); !ok || r.Age != 3*time.Second {
			t.Errorf("%q: in the process %t, age %s", status, ok, r.Age)
		}
	}
	// A caller who tries values pushes nothing out that somebody needs.
	for i := range 200 {
		if r := mustGet(t, l, acmes(fmt.Sprint("x", i))); r.Outcome != Hit || body(r) != "" || r.Age != 3*time.Second {
			t.Fatalf("%s, age %s: %q", r.Outcome, r.Age, body(r))
		}
	}
	l.tier.CleanUp()
	views := *l.tierEntry(t, acmes("")).views.Load()
	if n := l.tier.EstimatedSize(); n != 1 || len(views) != 2 {
		t.Errorf("%d lists in the process, the base has %d views", n, len(views))
	}
	// A filter that the legacy is sent makes another base.
	want(t, mustGet(t, l, acmes("sent")), Miss, "sent of acme #2\n")
}

func TestAnImpossibleListAsksNobody(t *testing.T) {
	l, g := aloneDerived(t)
	r := mustGet(t, l, acmes("never"))
	if r.Outcome != Impossible || body(r) != "" || r.Stored || r.Age != 0 || r.Entry.Key != acmes("never") {
		t.Errorf("%s %+v", r.Outcome, r)
	}
	if n := g.calls.Load(); n != 0 || l.tier.EstimatedSize() != 0 || derivations(t, l)["buyerimpossible"] != 1 {
		t.Errorf("%d requests, %d lists kept, %v counted", n, l.tier.EstimatedSize(), derivations(t, l))
	}
	if x, err := l.Explain(t.Context(), acmes("never")); err != nil || x.Outcome != Impossible {
		t.Errorf("explained as %s, %v", x.Outcome, err)
	}
}

func derivations(t *testing.T, l *Cache) map[string]float64 {
	t.Helper()
	n, err := testkit.Values(registryOf(l), "inquiry_gateway_cache_derived_total")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// by_status makes freshness of its own for a list, whatever list it is selected from.
func TestADerivedListsOwnTTLDecides(t *testing.T) {
	short, long, none := 4*time.Second, 40*time.Second, time.Duration(0)
	l, g := aloneDerived(t, func(s *setup) {
		s.Buyer.ByStatus = map[string]StatusConfig{
			"pending":  {TTL: &short, StaleWhileRevalidate: &none},
			"answered": {TTL: &long, StaleWhileRevalidate: &none},
			"x":        {TTL: &none, StaleWhileRevalidate: &none},
		}
	})
	const s = time.Second
	for i, step := range []struct {
		after  time.Duration
		status string
		want   Outcome
		age    time.Duration
		calls  int64
	}{
		{0, "", Miss, 0, 1},
		{2 * s, "pending", Hit, 2 * s, 1},
		{3 * s, "", Hit, 5 * s, 1},
		{0, "pending", Miss, 0, 2}, // a base of 5 s is too old for it
		{0, "", Hit, 0, 2},         // and is replaced for all
		{5 * s, "answered", Hit, 5 * s, 2},
		{30 * s, "answered", Hit, 35 * s, 2},
		{0, "", Miss, 0, 3},
		{5 * s, "answered", Hit, 5 * s, 3}, // fresh still, but the base is newer
		{0, "x", Miss, 0, 4},               // a ttl of 0 asks each time, and once
		{0, "x", Miss, 0, 5},
	} {
		g.clock.Add(step.after)
		r := mustGet(t, l, acmes(step.status))
		settled(l)
		if r.Outcome != step.want || r.Age != step.age || g.calls.Load() != step.calls {
			t.Errorf("step %d: %s, age %s, after %d requests, want %+v", i, r.Outcome, r.Age, g.calls.Load(), step)
		}
	}
}

func TestDerivedListsAreServedStaleAndRefreshedByTheirBase(t *testing.T) {
	l, g := aloneDerived(t)
	pending, answered := acmes("pending"), acmes("answered")
	mustGet(t, l, pending)
	mustGet(t, l, answered)
	g.clock.Add(12 * time.Second)
	r := mustGet(t, l, pending)
	if want(t, r, StaleRevalidate, "pending of acme #1\n"); r.Age != 12*time.Second || r.TTL != -2*time.Second {
		t.Errorf("age %s, ttl %s", r.Age, r.TTL)
	}
	settled(l)
	want(t, mustGet(t, l, pending), Hit, "pending of acme #2\n")
	want(t, mustGet(t, l, answered), Hit, "answered of acme #2\n")

	g.failWith(errLegacy)
	g.clock.Add(30 * time.Second)
	for range 20 { // the base fails, whichever list of it is asked for, be it one that nobody has asked for before
		want(t, mustGet(t, l, pending), StaleError, "pending of acme #2\n")
		want(t, mustGet(t, l, answered), StaleError, "answered of acme #2\n")
		want(t, mustGet(t, l, acmes("y")), StaleError, "")
		settled(l)
	}
	if n := g.calls.Load(); n != 3 {
		t.Errorf("%d requests, want 2 and one that failed", n)
	}
	g.clock.Add(time.Hour)
	if _, err := l.Get(t.Context(), pending); !errors.Is(err, errLegacy) {
		t.Errorf("past stale_if_error: %v", err)
	}
}

func TestAPurgeHidesDerivedLists(t *testing.T) {
	l, g := aloneDerived(t)
	k := acmes("pending")
	for n, scope := range []Purge{acme, {Kinds: []string{KindBuyer}}} {
		want(t, mustGet(t, l, k), []Outcome{Miss, Hit}[n], fmt.Sprintf("#%d\n", n+1))
		purge(t, l, scope)
		want(t, mustGet(t, l, k), Miss, fmt.Sprintf("#%d\n", n+2))
	}
	// A list whose base is overtaken by a purge is for who asked before.
	purge(t, l, acme)
	g.hold = make(chan struct{})
	before := asking(t, l, k)
	redistest.Eventually(t, "the fill runs", func() bool { return g.calls.Load() == 4 })
	purge(t, l, acme)
	close(g.hold)
	want(t, <-before, Miss, "#4\n")
	want(t, mustGet(t, l, k), Miss, "#5\n")
}

// A list whose times are stricter than those of its source is not fetched for each look-up while it fails.
func TestABackOffHoldsForAStricterView(t *testing.T) {
	second, none := time.Second, time.Duration(0)
	l, g := aloneDerived(t, func(s *setup) {
		s.Buyer.ByStatus = map[string]StatusConfig{"pending": {TTL: &second, StaleWhileRevalidate: &none, StaleIfError: &none}}
	})
	mustGet(t, l, acmes("pending"))
	g.clock.Add(5 * time.Second) // the source is fresh
	g.failWith(legacyDown{wait: 20 * time.Second})
	for range 10 {
		if _, err := l.Get(t.Context(), acmes("pending")); err == nil {
			t.Fatal("no error")
		}
	}
	if n := g.calls.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// A source is kept for as long as a list that is selected from it can be of use.
func TestALongerViewKeepsItsSource(t *testing.T) {
	long := time.Hour
	f := newFleet(t, 0)
	for range 2 {
		f.add(t, f.srv.Addr, 4*time.Second, derived(f.legacy), func(s *setup) {
			s.Buyer = KindConfig{ByStatus: map[string]StatusConfig{"pending": {TTL: &long}}}
		})
	}
	r := mustGet(t, f.nodes[0], acmes("pending"))
	settled(f.nodes...)
	if want(t, r, Miss, "#1\n"); !r.Stored {
		t.Error("it is not stored")
	}
	want(t, mustGet(t, f.nodes[0], acmes("pending")), Hit, "#1\n")
	if r := mustGet(t, f.nodes[1], acmes("pending")); r.Tier != TierRedis || f.rdb.PTTL(t.Context(), f.namesOf(acmes("")).Entry).Val() < long/2 {
		t.Errorf("%s from %q", r.Outcome, r.Tier)
	}
	want(t, mustGet(t, f.nodes[0], acmes("")), Miss, "#2\n")
}

// The views of a list count for the bound of the process, and are no more than maxViews.
func TestViewsAreBoundedAndWeighed(t *testing.T) {
	l, _ := alone(t, filledBy(strings.Repeat("inquiry ", 1000)), func(s *setup) {
		s.Fills.Mappings = map[string]Mapping{KindBuyer: {Status: filters.Filter{Other: filters.Local}}}
		s.Derivation.Select = func(k Key, body []byte) ([]byte, error) { return append([]byte(k.Status), body...), nil }
	})
	weight := func() uint64 { l.tier.CleanUp(); return l.tier.WeightedSize() }
	mustGet(t, l, acmes(""))
	one := weight()
	for i := range 2 * maxViews {
		k := acmes(fmt.Sprint("s", i))
		r := mustGet(t, l, k)
		if kept, ok := l.Lookup(k); ok != (i < maxViews) || ok && kept.Entry != r.Entry {
			t.Errorf("view %d is kept: %t", i, ok)
		}
	}
	if all := weight(); all < (maxViews+1)*one {
		t.Errorf("%d views count as %d bytes, and their source as %d", maxViews, all-one, one)
	}
	before, e := weight(), mustGet(t, l, acmes("s1")).Entry
	if grown := uint64(len(l.Encoded(e, Gzip).Body)); weight() != before+grown {
		t.Errorf("an encoding of a view counts as %d bytes, and has %d", weight()-before, grown)
	}
}

func TestAListThatCannotBeSelected(t *testing.T) {
	l, _ := aloneDerived(t)
	broken := errors.New("not a list")
	l.opts.Derivation.Select = func(Key, []byte) ([]byte, error) { return nil, broken }
	if _, err := l.Get(t.Context(), acmes("pending")); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// Callers with many filters share one request, and with freshness of their own none gets what is
// too old for it.
func TestCallersWithManyFiltersShareOneRequest(t *testing.T) {
	l, g := aloneDerived(t, pendingFor(4*time.Second))
	g.hold = make(chan struct{})
	asked := map[Key]<-chan Result{}
	for _, status := range []string{"", "pending", "answered", "x", "y", "z"} {
		asked[acmes(status)] = asking(t, l, acmes(status))
	}
	close(g.hold)
	for k, r := range asked {
		if r := <-r; r.Entry.Key != k || r.Outcome != Miss && r.Outcome != Collapsed && r.Outcome != Hit {
			t.Errorf("%q: %s", k.Status, r.Outcome)
		}
	}
	if n := g.calls.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestDerivedListsAreNotInRedis(t *testing.T) {
	f := newFleet(t, 0)
	for range 2 {
		f.add(t, f.srv.Addr, 4*time.Second, pendingFor(4*time.Second), derived(f.legacy))
	}
	first, second := f.nodes[0], f.nodes[1]
	mustGet(t, first, acmes("pending"))
	settled(first)
	mustGet(t, first, acmes("answered"))
	if keys := f.rdb.Keys(t.Context(), "*"+KindBuyer+":*").Val(); len(keys) != 1 || keys[0] != f.namesOf(acmes("")).Entry {
		t.Errorf("Redis has %v, and should have the base alone", keys)
	}
	f.grow(t, 3*time.Second)
	r := mustGet(t, second, acmes("pending"))
	if want(t, r, Hit, "pending of acme #1\n"); r.Tier != TierRedis || !about(r.Age, 3*time.Second) {
		t.Errorf("the other node: from %q, age %s", r.Tier, r.Age)
	}
	x, err := second.Explain(t.Context(), acmes("answered"))
	if err != nil || x.Outcome != Hit || x.DerivedFrom != "the list without filters" || x.Tier != TierLocal {
		t.Errorf("explained as %s from %q by %+v, %v", x.Outcome, x.Tier, x.DerivedFrom, err)
	}
	f.grow(t, 2*time.Second)
	settled(second)
	second.tier.InvalidateAll()
	want(t, mustGet(t, second, acmes("pending")), Miss, "pending of acme #2\n") // Redis' base is too old for it
}

// Callers of one flight judge by their own times what Redis has. Those who need a newer list share one fetch.
func TestEachCallerJudgesForItself(t *testing.T) {
	f := newFleet(t, 0)
	for range 2 {
		f.add(t, f.srv.Addr, 4*time.Second, pendingFor(4*time.Second), derived(f.legacy))
	}
	mustGet(t, f.nodes[0], acmes(""))
	settled(f.nodes...)
	f.grow(t, 5*time.Second)
	var callers sync.WaitGroup
	for i := range 100 {
		callers.Go(func() {
			k := acmes([]string{"", "pending"}[i%2])
			r, err := f.nodes[1].Get(t.Context(), k)
			if err != nil || r.Entry.Key != k || k.Status != "" && !strings.HasSuffix(body(r), "#2\n") {
				t.Errorf("%v: %s with %q, %v", k, r.Outcome, body(r), err)
			}
		})
	}
	callers.Wait()
	if n := f.calls.Load(); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}

// A list that may not be kept is not kept as a selection.
func TestASelectionOfWhatMayNotBeKept(t *testing.T) {
	g := newLegacy()
	l := g.node(t, nil, derived(g), func(s *setup) {
		fill := s.Fill
		s.Fill = func(ctx context.Context, k Key, info FillInfo) (Content, error) {
			c, err := fill(ctx, k, info)
			c.NoStore = true
			return c, err
		}
	})
	if r := mustGet(t, l, acmes("pending")); r.Stored {
		t.Error("it says that it is stored")
	}
	if _, found := l.Lookup(acmes("pending")); found {
		t.Error("it is kept")
	}
}
