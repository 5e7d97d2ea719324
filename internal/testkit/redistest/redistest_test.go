package redistest_test

import (
	"io"
	"net"
	"strings"
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

func TestArgumentsReachTheServer(t *testing.T) {
	s := redistest.Start(t, "--requirepass", "secret")
	if got := s.Do("GET", "k"); got != "-NOAUTH Authentication required." {
		t.Fatalf("GET without the password = %q", got)
	}
}

func TestAClusterServesAllSlots(t *testing.T) {
	c := redistest.StartCluster(t, 3)
	moved := 0
	for i, s := range c.Masters {
		if got := s.Do("SET", "key", "v"); got != "+OK" {
			t.Logf("master %d: %s", i, got)
			moved++
		}
	}
	if moved != 2 {
		t.Errorf("%d of 3 masters sent the key elsewhere", moved)
	}
}

func TestASentinelKnowsItsMaster(t *testing.T) {
	s := redistest.StartSentinel(t)
	if got := s.Sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.MasterName); !strings.Contains(got, s.Master.Port()) {
		t.Errorf("master at %q, want port %s", got, s.Master.Port())
	}
}

func TestTLSServersSpeakNothingElse(t *testing.T) {
	s, files := redistest.StartTLS(t)
	if got := s.Do("PING"); got != "+PONG" || files.CA == "" {
		t.Errorf("PING = %q", got)
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
