package cache

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"inquiry-gateway/internal/testkit"
)

func TestReadersCannotReachEachOthersBytes(t *testing.T) {
	l, _ := alone(t, filledBy(strings.Repeat("inquiry ", 1000)))
	e := mustGet(t, l, aKey).Entry
	for _, v := range []*Representation{&e.Identity, l.Encoded(e, Gzip), l.Encoded(e, Zstd)} {
		if len(v.Body) != cap(v.Body) || len(v.Length) != cap(v.Length) || v.Length[0] != fmt.Sprint(len(v.Body)) {
			t.Error("appending to a body reaches what others read, or its length is wrong")
		}
	}
}

// Every part of a key counts, also where a bug has put another's list in its place.
func TestAnEntryUnderAForeignKeyIsRefusedCountedAndFilledAgain(t *testing.T) {
	l, _ := alone(t)
	for i, other := range []Key{
		{KindSeller, "acme", "pending", ""}, {KindBuyer, "globex", "pending", ""}, {KindBuyer, "acme", "answered", ""}, {KindBuyer, "acme", "pending", "refund"},
	} {
		l.tier.Set(aKey, mustGet(t, l, other).Entry)
		if _, ok := l.Lookup(aKey); ok {
			t.Errorf("%v came out of Lookup", other)
		}
		if r := mustGet(t, l, aKey); r.Outcome != Miss || r.Entry.Key != aKey {
			t.Errorf("%s of %v", r.Outcome, r.Entry.Key)
		}
		if n := refused(t, l)["foreignlocal"]; n != float64(i+1) {
			t.Errorf("%v refused entries counted", n)
		}
	}
}

func TestALateAnswerDoesNotReplaceANewerOne(t *testing.T) {
	l, g := alone(t)
	old := mustGet(t, l, aKey).Entry
	g.clock.Add(30 * time.Second)
	mustGet(t, l, aKey)
	l.keep(old)
	want(t, mustGet(t, l, aKey), Hit, "#2")
}

func TestAnotherMappingIsAnotherList(t *testing.T) {
	mapping, g := "v1", newLegacy()
	fills := func() Fills { return Fills{Mappings: map[string]Mapping{KindBuyer: {Fingerprint: mapping}}} }
	l := g.node(t, nil, func(s *setup) {
		s.Fills, s.Fill = fills(), func(ctx context.Context, k Key, about FillInfo) (Content, error) {
			c, err := g.fill(ctx, k, about)
			c.Fingerprint = mapping
			return c, err
		}
	})
	mustGet(t, l, aKey)
	mapping = "v2"
	apply, err := l.Prepare(testConfig(), fills())
	if err != nil {
		t.Fatal(err)
	}
	apply()
	if _, ok := l.Lookup(aKey); ok {
		t.Error("a list of the old mapping was served")
	}
	if n := refused(t, l); n["foreignlocal"] != 0 { // which is an alarm
		t.Errorf("refused %v", n)
	}
	if r := mustGet(t, l, aKey); r.Outcome != Miss || !r.Stored {
		t.Errorf("outcome %s, stored %t", r.Outcome, r.Stored)
	}
	mapping = "v3" // the legacy is asked with another mapping than the cache knows of
	if r := mustGet(t, l, otherKey); r.Outcome != Miss || r.Stored {
		t.Errorf("outcome %s, stored %t", r.Outcome, r.Stored)
	}
}

func TestAnEntryOverTheLimitIsServedNotStored(t *testing.T) {
	l, _ := alone(t, filledBy(strings.Repeat("x", 2<<10)), func(s *setup) { s.MaxEntryBytes = 2 << 10 })
	for range 2 {
		if r := mustGet(t, l, aKey); r.Outcome != Miss || r.Stored || len(body(r)) != 2<<10 {
			t.Fatalf("%s, stored %t", r.Outcome, r.Stored)
		}
	}
}

func TestAKindOfItsOwnIsRefused(t *testing.T) {
	l, _ := alone(t)
	admin := Key{Kind: "admin", Account: "acme"}
	if _, err := l.Get(t.Context(), admin); err != ErrUnknownKind {
		t.Errorf("error %v", err)
	}
	if _, err := l.Explain(t.Context(), admin); err != ErrUnknownKind {
		t.Errorf("explained with %v", err)
	}
	if _, ok := l.Lookup(admin); ok {
		t.Error("Lookup found something")
	}
}

func TestACodingExistsOnlyWhereItIsSmaller(t *testing.T) {
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(jitterShareOf(aKey.Hash(), int64(i)) * 256)
	}
	for _, tt := range []struct {
		name, body string
		want       bool
	}{
		{"text", strings.Repeat("ab", 2000), true},
		{"under the minimum", strings.Repeat("ab", 500), false},
		{"noise", string(noise), false},
	} {
		l, _ := alone(t, filledBy(tt.body))
		e := mustGet(t, l, aKey).Entry
		for c, decode := range map[Coding]func(io.Reader) (io.Reader, error){
			Gzip: func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
			Zstd: func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) },
		} {
			v := l.Encoded(e, c)
			if (v != nil) != tt.want {
				t.Errorf("%s: coding %d exists: %t", tt.name, c, v != nil)
			}
			if v == nil {
				continue
			}
			r, err := decode(bytes.NewReader(v.Body))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != tt.body {
				t.Errorf("%s: coding %d gives %d bytes, %v", tt.name, c, len(got), err)
			}
		}
	}
}

// Whoever asks gets the one that was made first, and the tier counts it.
func TestACodingIsMadeOnceAndWeighed(t *testing.T) {
	l, _ := alone(t, filledBy(strings.Repeat("inquiry ", 10_000)))
	e := mustGet(t, l, aKey).Entry
	l.tier.CleanUp()
	before := l.tier.WeightedSize()
	var made sync.Map
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() { made.Store(l.Encoded(e, Gzip), true) })
	}
	callers.Wait()
	n := 0
	made.Range(func(any, any) bool { n++; return true })
	l.tier.CleanUp()
	grown := l.tier.WeightedSize() - before
	if size := len(l.Encoded(e, Gzip).Body); n != 1 || grown != uint64(size) {
		t.Errorf("%d variants, the tier grew by %d bytes for one of %d", n, grown, size)
	}
	if r, ok := l.Lookup(aKey); !ok || r.Entry != e {
		t.Error("the entry is not the same any more")
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// The tier is filled several times over, with all codings, which takes seconds; what counts
// is what the process really holds.
func TestTheTierStaysInItsBoundByTheRealHeap(t *testing.T) {
	testkit.SkipShort(t)
	const bound = 8 << 20
	manySizes := func(_ context.Context, k Key, _ FillInfo) (Content, error) { // 50 B to 15 KB, compressible like JSON
		var b strings.Builder
		for i := range int(jitterShareOf(k.Hash(), 1)*200) + 1 {
			fmt.Fprintf(&b, `{"title":"Order %d of %s","content":"%x"},`, i, k.Account, jitterShareOf(k.Hash(), int64(i)))
		}
		return Content{Body: []byte(b.String())}, nil
	}
	for _, tt := range []struct {
		name string
		fill func(*setup)
		keys int
	}{
		{"many sizes", func(s *setup) { s.Fill = manySizes }, 2_000},
		{"empty lists", filledBy(`{"data":[],"meta":{},"errors":[]}`), 20_000},
	} {
		before := heap()
		l, _ := alone(t, tt.fill, func(s *setup) { s.MaxBytes = bound })
		for i := range tt.keys {
			e := mustGet(t, l, Key{Kind: KindBuyer, Account: fmt.Sprint("account-", i), Status: "pending"}).Entry
			l.Encoded(e, Gzip)
			l.Encoded(e, Zstd)
		}
		l.tier.CleanUp()
		held, counted := heap()-before, int64(l.tier.WeightedSize())
		if counted > bound || counted < bound/2 || held > bound*3/2 {
			t.Errorf("%s: the tier counts %d bytes, the heap grew by %d; the bound is %d", tt.name, counted, held, bound)
		}
		runtime.KeepAlive(l)
	}
}

// told is an observer that counts: look-ups by outcome, and how often it was told of a list.
type told map[any]int

func (o told) tell(what any, list uint64) { o[what], o[list] = o[what]+1, o[list]+1 }

func (o told) Answered(e *Entry, outcome Outcome, _ time.Time) { o.tell(outcome, e.hash) }
func (o told) Failed(_, _ string, list uint64, _ time.Time)    { o.tell("failed", list) }

func TestTheObserverIsToldOfLookups(t *testing.T) {
	o := told{}
	l, g := alone(t, func(s *setup) { s.Observer = o })
	mustGet(t, l, aKey)
	r, _ := l.Lookup(aKey)
	l.RecordHit(aKey, r)
	g.failWith(errLegacy)
	if _, err := l.Get(t.Context(), sellers); err != errLegacy {
		t.Errorf("error %v", err)
	}
	for what, n := range map[any]int{"failed": 1, Hit: 1, Miss: 1, aKey.Hash(): 2, sellers.Hash(): 1} {
		if o[what] != n {
			t.Errorf("%v was told %d times, want %d", what, o[what], n)
		}
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	l, _ := alone(t)
	mustGet(t, l, aKey)
	if n := testing.AllocsPerRun(1000, func() { l.Lookup(aKey) }); n != 0 {
		t.Errorf("%v allocations per look-up", n)
	}
}

// BenchmarkLookup supports leaving the whole hot path to one call that allocates nothing.
func BenchmarkLookup(b *testing.B) {
	l, _ := alone(b)
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
