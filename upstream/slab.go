package upstream

import "strings"

// slab makes many short texts in few allocations: each is a part of a builder,
// which never changes nor moves what it has given out as long as it has room. A
// text keeps the others of its builder alive. Its zero value is ready to use; it
// may be copied as long as one copy only is used from then on.
type slab struct {
	b    *strings.Builder
	next int // bytes of the next builder
}

// unescape gives the text of a valid JSON string without its quotation marks.
func (t *slab) unescape(s string) string {
	b := t.grow(len(s)) // no escape is shorter than what it stands for
	start := b.Len()
	writeUnescaped(b, s)
	return b.String()[start:]
}

// The first builder is enough for a short list.
const (
	slabMin = 1 << 10
	slabMax = 64 << 10
)

// grow gives a builder with room for n bytes. What is written to it follows what
// is there already.
func (t *slab) grow(n int) *strings.Builder {
	if t.b == nil || t.b.Cap()-t.b.Len() < n {
		t.next = min(max(slabMin, 2*t.next), slabMax)
		t.b = new(strings.Builder)
		t.b.Grow(max(n, t.next))
	}
	return t.b
}
