package front

import (
	"context"
	"net"
	"testing"
)

// The ops listener stops last, when the time for all may be over; and net/http closes a
// listener that was closed already, and takes an error for that of a stop.
func TestAStopThatCutsNothingOffIsNoError(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for range 20 { // the two that it waited for were ready in either order
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := NewListener(inner, Options{})
		if err := l.Stop(ended); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
