package upstream

// slab makes many short texts in few allocations: each is a part of one long
// piece of memory, which is never written twice. Its zero value is ready to use.
// Of copies of it only one may be used.
type slab struct {
	bytes []byte
	full  int // bytes in the pieces before this one
	hint  int // bytes that will do, if this list needs what the one before did
}

// slabMin is the first piece: enough for a short list.
const slabMin = 1 << 10

// room gives an empty slice that n bytes can be appended to.
func (t *slab) room(n int) []byte {
	if cap(t.bytes)-len(t.bytes) < n {
		t.full += len(t.bytes)
		t.bytes = make([]byte, 0, max(n, slabMin, t.full, t.hint))
	}
	return t.bytes[len(t.bytes):]
}

// keep makes what was appended a text.
func (t *slab) keep(b []byte) string {
	t.bytes = t.bytes[:len(t.bytes)+len(b)]
	return view(b)
}

// emptied gives what the next list starts with when no text is used any more: one
// piece for as much as this one needed.
func (t *slab) emptied() slab {
	used := t.full + len(t.bytes)
	if have := cap(t.bytes); have < used || have > 4*used+slabMin {
		return slab{hint: used + used/4} // more room is asked for than a text takes
	}
	return slab{bytes: t.bytes[:0]}
}

// unescape gives the text of a valid JSON string without its quotation marks.
func (t *slab) unescape(s string) string {
	return t.keep(appendUnescaped(t.room(len(s)), s)) // no escape is shorter than what it stands for
}
