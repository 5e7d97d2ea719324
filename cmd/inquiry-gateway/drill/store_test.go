package drill

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := OpenStore(t.Context(), "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStoreTouchesItsPrefixOnly(t *testing.T) {
	s := openStore(t)
	for _, key := range []string{"drill-1:a", "drill-1:b", "drill-12:a", "mine"} {
		if err := s.client.Set(t.Context(), key, "good", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.corrupt(t.Context(), "drill-1"); err != nil {
		t.Fatal(err)
	}
	if v := s.client.Get(t.Context(), "drill-1:a").Val(); v == "good" || s.client.TTL(t.Context(), "drill-1:a").Val() <= 0 {
		t.Errorf("%q is not corrupt, or has no end any more", v)
	}
	if err := s.clear(t.Context(), "drill-1"); err != nil {
		t.Fatal(err)
	}
	if left := s.client.MGet(t.Context(), "drill-1:a", "drill-1:b", "drill-12:a", "mine").Val(); left[0] != nil || left[1] != nil || left[2] != "good" || left[3] != "good" {
		t.Errorf("left: %v", left)
	}
}

func TestStoreOfAnotherMachineIsRefused(t *testing.T) {
	for url, says := range map[string]string{
		"redis://192.0.2.1:6379": "not on this machine", "redis://redis.example.com": "not on this machine",
		"rediss://127.0.0.1:6379": "TLS", "nonsense": "write it as", "redis://127.0.0.1:1": "refused",
	} {
		if s, err := OpenStore(t.Context(), url, t.TempDir()); s != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", url, err)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := OpenStore(t.Context(), "", t.TempDir()); !errors.Is(err, ErrNoStore) {
		t.Errorf("without redis-server: %v", err)
	}
}

func TestProxy(t *testing.T) {
	s := openStore(t)
	p, err := newProxy(s.dial)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	client := redis.NewClient(&redis.Options{Addr: p.addr(), ReadTimeout: 50 * time.Millisecond, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = client.Close() }()
	ping := func() error { return client.Ping(t.Context()).Err() }
	if err := poll(t.Context(), ping); err != nil {
		t.Fatal(err)
	}
	p.stall()
	var timeout net.Error
	if err := ping(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("stalled: %v", err)
	}
	p.end()
	if err := ping(); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("cut: %v", err)
	}
	if _, err := net.Dial("tcp", p.addr()); err == nil {
		t.Error("a new connection came about")
	}
}
