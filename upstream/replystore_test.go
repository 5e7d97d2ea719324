package upstream

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// An id and a version that are parts of a list's body do not keep that body.
func TestStoredRepliesKeepNoList(t *testing.T) {
	c := newReplyStore()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for n := range 100 {
		body := fmt.Sprint(n, "-id ", n, "-version", strings.Repeat("x", 1<<20))
		id, rest, _ := strings.Cut(body, " ")
		c.put(storeKey{account: "acme", id: id, version: rest[:10]}, []string{"{}"}, time.Now())
	}
	if after := heap(); after > before+20<<20 {
		t.Errorf("%d bytes for %d small replies", after-before, len(c.by))
	}
}

// What is stored is bounded, together with what tells it apart, and what was used last stays.
func TestStoredRepliesAreBounded(t *testing.T) {
	c, now := newReplyStore(), time.Now()
	key := func(n int) storeKey { return storeKey{account: "acme", id: fmt.Sprint(n)} }
	body := strings.Repeat("x", 1<<20)
	for n := range 40 {
		c.put(key(n), []string{body}, now)
		if _, ok := c.get(key(0), now); !ok {
			t.Fatalf("of %d the one that is always used is gone", n)
		}
	}
	kept := 0
	for n := range 40 {
		if _, ok := c.get(key(n), now); ok {
			kept++
		}
	}
	if _, ok := c.get(key(39), now); !ok || kept != 15 || c.order.Len() != kept || c.bytes > maxStoredBytes {
		t.Errorf("%d are kept, in %d bytes", kept, c.bytes)
	}
	for n := range 200_000 { // without a body each
		c.put(key(n), nil, now)
	}
	if n := c.order.Len(); n > maxStoredBytes/200 || n != len(c.by) || n < 50_000 {
		t.Errorf("%d are kept without a body", n)
	}
	c.put(key(1), []string{"a"}, now)
	c.put(key(1), []string{"b"}, now)
	if got, _ := c.get(key(1), now); len(got) != 1 || got[0] != "b" {
		t.Errorf("the later replies: %q", got)
	}
	if _, ok := c.get(key(1), now.Add(1)); ok {
		t.Error("it is older than it may be")
	}
	c.put(key(2), []string{strings.Repeat("x", maxStoredBytes)}, now)
	if c.order.Len() != 0 || c.bytes != 0 {
		t.Errorf("what is larger than all that is kept: %d, %d bytes", c.order.Len(), c.bytes)
	}
}
