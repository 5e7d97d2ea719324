package upstream

import (
	"math/bits"
	"sync"
	"unsafe"
)

// memory is what the replies of one fetch are in. It goes round like everything
// that a list takes, see pool.go: the texts of the inquiries share it, so it is
// free when the list is released and no sooner. A nil memory is none that comes
// back.
type memory struct {
	mu   sync.Mutex // pages are read at the same time
	used []*buffer
}

// keep makes a buffer that was filled part of the memory and gives its first n
// bytes as a text.
func (m *memory) keep(b *buffer, n int) string {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.used = append(m.used, b)
	}
	return view(b.bytes[:n])
}

// free gives all of it back. No text in it may be used afterwards.
func (m *memory) free() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, b := range m.used {
		b.free()
		m.used[i] = nil
	}
	m.used = m.used[:0]
}

// view gives bytes as a text without copying them. It is the one place where
// this package leaves the safe part of the language: whoever calls it sees to it
// that the bytes do not change for as long as anybody has the text. Copying
// instead would cost a tenth of a miss, most of it for collecting the copies.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// buffer is a piece of memory with a power of two of bytes.
type buffer struct{ bytes []byte }

// Buffers from 4 KiB to 16 MiB go round; others are rare.
const (
	minBuffer = 12
	maxBuffer = 24
)

// buffers waiting for use, by the binary logarithm of their size. They hold
// memory between requests and nothing else.
var buffers [maxBuffer + 1]sync.Pool

// newBuffer gives a buffer of at least size bytes that nobody else has. What is
// in it means nothing.
func newBuffer(size int64) *buffer {
	class := max(minBuffer, bits.Len64(uint64(max(size, 1)-1)))
	if class > maxBuffer {
		return &buffer{make([]byte, size)}
	}
	if b, ok := buffers[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{make([]byte, 1<<class)}
}

// free lets the buffer be used again.
func (b *buffer) free() {
	if class := bits.Len64(uint64(len(b.bytes) - 1)); class <= maxBuffer {
		buffers[class].Put(b)
	}
}
