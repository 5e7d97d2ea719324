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
				got, err := readAll(wrap(strings.NewReader(want)), size, newAllowance(max))
				var e *Error
				switch {
				case n > max || size > max:
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
			}
		}
	}
}
