package redistest_test

import (
	"testing"

	"inquiry-gateway/cache/redistest"
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
