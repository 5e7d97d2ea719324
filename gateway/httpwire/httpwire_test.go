package httpwire

import (
	"net"
	"testing"
)

// net/http closes the listener once more, and takes an error for that of a stop.
func TestListenerMayBeClosedTwice(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := NewListener(inner, Options{})
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
