package cache

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestReadersCannotReachEachOthersBytes(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: func(ctx context.Context, k Key) (Content, error) {
		c, err := g.fill(ctx, k)
		c.Body = bytes.Repeat(c.Body, 200)
		return c, err
	}}.start(t)
	e := mustGet(t, l, aKey).Entry
	for _, v := range []*Variant{&e.Identity, l.Coded(e, Gzip), l.Coded(e, Zstd)} {
		before := bytes.Clone(v.Body)
		_ = append(v.Body, "overrun"...) // a reader that appends must get its own copy
		_ = append(v.Length, "overrun")
		if !bytes.Equal(before, v.Body) || len(v.Body) != cap(v.Body) || len(v.Length) != cap(v.Length) {
			t.Error("appending to a body reaches what others read")
		}
	}
}

func TestAnEntryUnderAForeignKeyIsRefusedCountedAndFilledAgain(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	l := setup{fill: g.fill, now: c.Now}.start(t)
	other := mustGet(t, l, Key{Kind: KindBuyer, Account: "globex", Status: "pending"}).Entry
	l.tier.Set(aKey, other) // as a bug would
	if _, ok := l.Lookup(aKey); ok {
		t.Fatal("another account's list came out of Lookup")
	}
	if r := mustGet(t, l, aKey); r.Outcome != Miss || r.Entry.Account != "acme" {
		t.Fatalf("%s of %s", r.Outcome, r.Entry.Account)
	}
	if n := counter(t, l.metrics.refused.WithLabelValues(TierLocal, "foreign")); n != 1 {
		t.Errorf("%v refused entries counted", n)
	}
}

func TestALateAnswerDoesNotReplaceANewerOne(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill, now: g.clock.Now}.start(t)
	old := mustGet(t, l, aKey).Entry
	g.clock.Add(30 * time.Second)
	newer := body(mustGet(t, l, aKey))
	l.keep(old)
	if r, ok := l.Lookup(aKey); !ok || body(r) != newer {
		t.Error("the older answer is served now")
	}
}

func TestAnotherMappingIsAnotherList(t *testing.T) {
	g := &legacy{clock: newClock()}
	mapping := "v1"
	mappings := func() Fills { return Fills{Mappings: map[string]Mapping{KindBuyer: {Fingerprint: mapping}}} }
	l, err := New(testConfig(), Options{Fills: mappings(), Now: g.clock.Now, Fill: func(ctx context.Context, k Key) (Content, error) {
		c, err := g.fill(ctx, k)
		c.Fingerprint = mapping
		return c, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	mustGet(t, l, aKey)
	mapping = "v2"
	apply, err := l.Prepare(testConfig(), mappings())
	if err != nil {
		t.Fatal(err)
	}
	apply()
	if _, ok := l.Lookup(aKey); ok {
		t.Error("a list of the old mapping was served")
	}
	for reason, want := range map[string]float64{"mapping": 1, "foreign": 0} { // the latter is an alarm
		if n := counter(t, l.metrics.refused.WithLabelValues(TierLocal, reason)); n != want {
			t.Errorf("%v entries refused as %s", n, reason)
		}
	}
	if r := mustGet(t, l, aKey); r.Outcome != Miss || !r.Stored {
		t.Errorf("outcome %s, stored %t", r.Outcome, r.Stored)
	}
	mapping = "v3" // the legacy is asked with another mapping than the cache knows of
	if r := mustGet(t, l, Key{Kind: KindBuyer, Account: "globex"}); r.Outcome != Miss || r.Stored {
		t.Errorf("outcome %s, stored %t", r.Outcome, r.Stored)
	}
	closeLists(t, l)
}

func TestAnEntryOverTheLimitIsServedNotStored(t *testing.T) {
	g := &legacy{clock: newClock()}
	cfg := testConfig()
	cfg.MaxEntryBytes = 2 << 10
	l := setup{cfg: cfg, now: g.clock.Now, fill: func(ctx context.Context, k Key) (Content, error) {
		c, err := g.fill(ctx, k)
		c.Body = []byte(strings.Repeat("x", 2<<10))
		return c, err
	}}.start(t)
	for range 2 {
		if r := mustGet(t, l, aKey); r.Outcome != Miss || r.Stored || len(r.Entry.Identity.Body) != 2<<10 {
			t.Fatalf("%s, stored %t", r.Outcome, r.Stored)
		}
	}
	if n := counter(t, l.metrics.unstored.WithLabelValues(unstoredTooBig)); n != 2 {
		t.Errorf("%v unstored lists counted", n)
	}
}

func TestAKindOfItsOwnIsRefused(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill}.start(t)
	if _, err := l.Get(t.Context(), Key{Kind: "admin", Account: "acme"}); err != ErrUnknownKind {
		t.Errorf("error %v", err)
	}
	if _, ok := l.Lookup(Key{Kind: "admin"}); ok {
		t.Error("Lookup found something")
	}
}

// BenchmarkLookup supports leaving the whole hot path to one call that
// allocates nothing.
func BenchmarkLookup(b *testing.B) {
	g := &legacy{clock: newClock()}
	l, err := New(testConfig(), Options{Fill: g.fill, Now: g.clock.Now})
	if err != nil {
		b.Fatal(err)
	}
	defer closeLists(b, l)
	keys := make([]Key, 1000)
	for i := range keys {
		keys[i] = Key{Kind: KindBuyer, Account: fmt.Sprintf("account-%d", i), Status: "pending"}
		mustGet(b, l, keys[i])
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok := l.Lookup(keys[i%len(keys)]); !ok {
			b.Fatal("not fresh")
		}
		i++
	}
}

// BenchmarkBuild is what the cache adds to a miss, and each coding to the first
// answer that wants it. It supports making codings when they are asked for, and
// the fastest level of both compressors.
func BenchmarkBuild(b *testing.B) {
	for _, records := range []int{20, 200, 1000} {
		var list strings.Builder
		for i := range records {
			fmt.Fprintf(&list, `{"title":"Delivery of order %d is late","content":"Our order %d from %d June has not come.","status":"pending","inquiry_type":"delivery","created_at":"2026-06-%02dT09:30:00.000Z","responses":[{"content":"We ask the carrier about %d.","responder_type":"staff","created_at":"2026-06-02T10:00:00.000Z"}]},`,
				i, i*7919, i%28+1, i%28+1, i*31)
		}
		content := Content{Body: []byte(list.String())}
		l := setup{fill: (&legacy{}).fill}.start(b)
		for name, step := range map[string]func(){
			"entry": func() { l.build(&flight{key: aKey}, tag{}, content) },
			"gzip":  func() { l.comp.variant(content.Body, Gzip) },
			"zstd":  func() { l.comp.variant(content.Body, Zstd) },
		} {
			b.Run(fmt.Sprintf("%d records/%s", records, name), func(b *testing.B) {
				b.SetBytes(int64(len(content.Body)))
				b.ReportAllocs()
				for b.Loop() {
					step()
				}
			})
		}
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	g := &legacy{clock: newClock()}
	l := setup{fill: g.fill, now: g.clock.Now}.start(t)
	mustGet(t, l, aKey)
	if n := testing.AllocsPerRun(1000, func() { l.Lookup(aKey) }); n != 0 {
		t.Errorf("%v allocations per look-up", n)
	}
}
