package front

import (
	"context"
	"net"
	"testing"
)

// The ops listener stops last, when the time for all may be over.
func TestAStopThatCutsNothingOffIsNoError(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for range 20 { // the two that it waited for were ready in either order
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := NewListener(l, Options{}).Stop(ended); err != nil {
			t.Fatal(err)
		}
	}
}
