package cache

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"

	"pgregory.net/rapid"
)

// sized answers with lists of many sizes, compressible like JSON.
func sized(_ context.Context, k Key) (Content, error) {
	n := int(spreadOf(k, 1)*200) + 1
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"title":"Order %d of %s","content":"%x"},`, i, k.Account, spreadOf(k, int64(i)))
	}
	return Content{Body: []byte(b.String()), AnsweredAt: time.Now()}, nil
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestTheTierStaysInItsBoundByTheRealHeap fills the tier several times over and
// reads what the process really holds.
func TestTheTierStaysInItsBoundByTheRealHeap(t *testing.T) {
	testkit.Slow(t)
	const bound = 8 << 20
	for _, tt := range []struct {
		name string
		fill Fill
		keys int
	}{
		{"lists of 50 B to 15 KB", sized, 3_000},
		{"empty lists", func(context.Context, Key) (Content, error) {
			return Content{Body: []byte(`{"data":[],"meta":{},"errors":[]}`)}, nil
		}, 25_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.MaxBytes = bound
			before := heap()
			l := setup{cfg: cfg, fill: tt.fill}.start(t)
			for i := range tt.keys {
				e := mustGet(t, l, Key{Kind: KindBuyer, Account: fmt.Sprint("account-", i), Status: "pending"}).Entry
				l.Coded(e, Gzip)
				l.Coded(e, Zstd)
			}
			l.tier.CleanUp()
			held, counted := heap()-before, int64(l.tier.WeightedSize())
			t.Logf("%d lists, counted %.1f MiB, heap %.1f MiB (%.2f)", l.tier.EstimatedSize(),
				float64(counted)/(1<<20), float64(held)/(1<<20), float64(held)/float64(counted))
			if counted > bound || counted < bound/2 {
				t.Errorf("the tier counts %d bytes, its bound is %d", counted, bound)
			}
			if held > bound*3/2 {
				t.Errorf("the heap grew by %d bytes, more than one and a half times the bound of %d", held, bound)
			}
			runtime.KeepAlive(l)
		})
	}
}

func TestWeightNeverUndercountsTheBodies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := testOrigin()
		o.key.Account = rapid.StringN(0, 200, 400).Draw(t, "account")
		body := make([]byte, rapid.IntRange(0, 200_000).Draw(t, "size"))
		e := newEntry(o, body, cap(body))
		if int(e.weight()) < len(body)+len(o.key.Account)*2+len(o.key.Status)*2 {
			t.Fatalf("weight %d of %d bytes", e.weight(), len(body))
		}
	})
}
