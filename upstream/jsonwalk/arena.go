package jsonwalk

import "unsafe"

// minPiece is the size of the first piece in bytes: enough for a short list.
const minPiece = 1 << 10

// Texts allocates the many short texts of one reply in few pieces. Nothing of it is used
// for a second reply: the memory is collected when nobody has a text of it any more. Each piece is as large as all
// pieces before it, and no byte is written twice. The zero value is ready to use.
// It must not be copied after its first use, and is not safe for concurrent use.
type Texts struct {
	piece []byte
	full  int // bytes in the pieces before this one
}

// Room returns an empty slice with a capacity of at least n bytes.
func (t *Texts) Room(n int) []byte {
	if cap(t.piece)-len(t.piece) < n {
		t.full += len(t.piece)
		t.piece = make([]byte, 0, max(n, minPiece, t.full))
	}
	return t.piece[len(t.piece):]
}

// Keep returns the text of what was appended to the slice that Room returned
// last. The bytes must not be changed afterwards.
func (t *Texts) Keep(b []byte) string {
	t.piece = t.piece[:len(t.piece)+len(b)]
	return View(b)
}

// View returns bytes as a string without copying them. It is the one unsafe
// conversion of the mapping: whoever calls it makes sure that the bytes never
// change. A copy would cost a tenth of a miss.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
