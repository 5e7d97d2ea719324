package redistest_test

import (
	"io"
	"net"
	"testing"

	"inquiry-gateway/internal/testkit/redistest"
)

func TestKilledServerComesBackEmptyAtItsAddress(t *testing.T) {
	s := redistest.Start(t)
	if got := s.Do("SET", "k", "v"); got != "+OK" {
		t.Fatalf("SET = %q", got)
	}
	s.Pause()
	s.Resume()
	if got := s.Do("GET", "k"); got != "$1\r\nv" {
		t.Fatalf("GET after a pause = %q", got)
	}
	s.Kill()
	s.Restart()
	if got := s.Do("GET", "k"); got != "$-1" {
		t.Fatalf("GET after a restart = %q", got)
	}
}

func TestACutCableCarriesNothing(t *testing.T) {
	s := redistest.Start(t)
	p := redistest.NewProxy(t, s.Addr)
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	reply := make([]byte, 7)
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, reply); err != nil || string(reply) != "+PONG\r\n" {
		t.Fatalf("%q, %v", reply, err)
	}
	p.Cut()
	if _, err := c.Read(reply); err == nil {
		t.Error("the connection outlived the cut")
	}
}
