package upstream

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// However the bytes arrive and whatever was announced, all of them are read, or
// the reply is refused.
func TestReadAll(t *testing.T) {
	const max = 300_000
	broken := errors.New("broken")
	for _, n := range []int{0, 1, 4095, 4096, 4097, 65535, 65536, 131073, max, max + 1, 2 * max} {
		want := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		for name, wrap := range map[string]func(io.Reader) io.Reader{
			"as it is":          func(r io.Reader) io.Reader { return r },
			"in halves":         iotest.HalfReader,
			"end with the data": iotest.DataErrReader,
			"broken":            func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(broken)) },
		} {
			for _, size := range []int64{int64(n), -1, 0, 10, int64(n) + 5000} {
				m := &memory{}
				got, err := readAll(wrap(strings.NewReader(want)), size, max, m)
				var e *Error
				switch {
				case n > max:
					if !errors.As(err, &e) || e.Reason != "too_large" {
						t.Errorf("%d %s, announced %d: %v", n, name, size, err)
					}
				case name == "broken":
					if !errors.Is(err, broken) {
						t.Errorf("%d %s, announced %d: %v", n, name, size, err)
					}
				case err != nil || got != want:
					t.Errorf("%d %s, announced %d: %d bytes, %v", n, name, size, len(got), err)
				}
				if used := len(m.used); used > 1 || (used == 1) != (err == nil) {
					t.Errorf("%d %s, announced %d: %d buffers in use after %v", n, name, size, used, err)
				}
				m.free()
				if len(m.used) != 0 {
					t.Error("the memory is still in use")
				}
			}
		}
	}
}

// A fetch without memory of its own reads as well.
func TestReadAllWithoutMemory(t *testing.T) {
	var none *memory
	got, err := readAll(strings.NewReader("{}"), 2, 10, none)
	if none.free(); got != "{}" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBuffers(t *testing.T) {
	for _, size := range []int64{0, 1, 4096, 4097, 1<<24 - 1, 1 << 24, 1<<24 + 1} {
		b := newBuffer(size)
		if int64(len(b.bytes)) < size || len(b.bytes) < 1<<minBuffer || int64(len(b.bytes)) > 2*size+1<<minBuffer {
			t.Errorf("%d bytes for %d", len(b.bytes), size)
		}
		other := newBuffer(size)
		b.bytes[0], other.bytes[0] = 1, 2
		if b.bytes[0] != 1 {
			t.Errorf("two buffers of %d bytes are one", size)
		}
		b.free()
		other.free()
	}
}

func TestSlabEmptied(t *testing.T) {
	var s slab
	fill := func(texts int) {
		for i := range texts {
			if got := s.unescape(strings.Repeat(`\n`, i)); got != strings.Repeat("\n", i) {
				t.Fatalf("text %d is %q", i, got)
			}
		}
	}
	fill(300)
	s = s.emptied()
	fill(300)
	one := cap(s.bytes)
	if s.full != 0 {
		t.Errorf("the second list did not fit into what the first needed: %d bytes before", s.full)
	}
	if s = s.emptied(); cap(s.bytes) != one || len(s.bytes) != 0 {
		t.Errorf("%d of %d bytes are kept", cap(s.bytes), one)
	}
	fill(3)
	if s = s.emptied(); cap(s.bytes) != 0 {
		t.Errorf("%d bytes are kept for a few", cap(s.bytes))
	}
}
