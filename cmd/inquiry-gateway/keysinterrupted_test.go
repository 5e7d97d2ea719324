package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// cable passes bytes between a command and its Redis. at is called before the n-th write of the
// command goes on, n from 1 on over all connections; it may wait, and says what is lost.
type cable struct {
	addr string
	n    atomic.Int32
}

type loss int

const (
	nothing    loss = iota
	requests        // this one and all that follow
	allAnswers      // Redis gets this one; its answer and all that follows are lost
	oneReply        // Redis gets this one, its answer is lost, and a new connection works
)

func newCable(t *testing.T, target string, at func(n int) loss) *cable {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{addr: l.Addr().String()}
	var wg sync.WaitGroup
	var cut atomic.Bool
	pass := func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", target)
		if err != nil || cut.Load() {
			return
		}
		defer server.Close()
		var deaf atomic.Bool
		wg.Go(func() {
			defer client.Close()
			buf := make([]byte, 1<<16)
			for {
				n, err := server.Read(buf)
				if err != nil || deaf.Load() {
					return
				}
				if _, err := client.Write(buf[:n]); err != nil {
					return
				}
			}
		})
		buf := make([]byte, 1<<16)
		for {
			n, err := client.Read(buf)
			if err != nil || cut.Load() {
				return
			}
			lost := at(int(c.n.Add(1)))
			cut.Store(cut.Load() || lost == requests || lost == allAnswers)
			deaf.Store(lost == allAnswers || lost == oneReply)
			if lost == requests {
				return
			}
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
			if deaf.Load() { // until Redis has answered and closed, it may not have run the command yet
				_ = server.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, client)
				return
			}
		}
	}
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { pass(client) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return c
}

// keysConfig writes a configuration whose keys are in the Redis at that address.
func keysConfig(t *testing.T, addr string) string {
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	writeFile(t, file, "auth: {redis: {}}\nrate_limit: {per_second: 1000, plans: {pro: {per_second: 2000}}}\n"+
		"redis: {addrs: [\""+addr+"\"], timeout: 250ms}\n"+string(legacy.Mapping()))
	return file
}

// storedKeys is what keys list shows over a connection that works.
func storedKeys(t *testing.T, addr string) auth.Listing {
	return keysCommandFor[auth.Listing](&program{t: t, dir: filepath.Dir(keysConfig(t, addr))}, "keys", "list")
}

// Wherever the connection of keys new and keys rotate breaks, the change is made whole or not at
// all; whoever was not shown the key is told that it may be there, and can find and revoke it.
func TestKeysAreWholeWhereverRedisIsLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	direct := keysConfig(t, server.Addr)
	must := func(args ...string) {
		t.Helper()
		if out, errOut, code := command(t, args...); code != 0 {
			t.Fatalf("%v: exit code %d: %s%s", args, code, out, errOut)
		}
	}
	for name, args := range map[string][]string{
		"new":    {"new", "--kind", "buyer", "--account", "acme", "--id", "X", "--api-access", "paid"},
		"rotate": {"rotate", "old", "--id", "X", "--overlap", "1h"},
	} {
		for what, lost := range map[string]loss{"requests": requests, "answers": allAnswers, "one answer": oneReply} {
			var met atomic.Bool
			for n := 1; n == 1 || met.Load(); n++ {
				met.Store(false)
				if got := server.Do("FLUSHALL"); got != "+OK" {
					t.Fatal(got)
				}
				must("keys", "-c", direct, "new", "--kind", "buyer", "--account", "acme", "--id", "old", "--api-access", "paid")
				c := newCable(t, server.Addr, func(i int) loss {
					if i != n {
						return nothing
					}
					met.Store(true)
					return lost
				})
				here := fmt.Sprintf("%s, %s lost from write %d on", name, what, n)
				out, errOut, code := command(t, append([]string{"keys", "-c", keysConfig(t, c.addr)}, args...)...)
				listing := storedKeys(t, server.Addr)
				stored := slices.ContainsFunc(listing.Keys, func(k auth.KeyRecord) bool { return k.ID == "X" })
				if name == "rotate" && stored == listing.Keys[slices.IndexFunc(listing.Keys, func(k auth.KeyRecord) bool { return k.ID == "old" })].ExpiresAt.IsZero() {
					t.Errorf("%s: half of it is done: %+v", here, listing.Keys)
				}
				switch {
				case code == 0 && (!stored || !strings.HasPrefix(out, "iqb_")):
					t.Errorf("%s: the command says good, but %+v, %q", here, listing.Keys, out)
				case code != 0 && stored:
					if !strings.Contains(errOut, "keys list") || !strings.Contains(errOut, "revoke") {
						t.Errorf("%s: a key that nobody was shown, and not a word about it: %s", here, errOut)
					}
					must("keys", "-c", direct, "revoke", "X")
				case code != 0:
					must(append([]string{"keys", "-c", direct}, args...)...) // X is not blocked
				}
				if code != 0 && lost == oneReply && name == "new" && n > 4 {
					t.Errorf("%s: one lost answer is asked for again: %s", here, errOut)
				}
			}
		}
	}
}

// What one command reads before another one has written, it does not write back.
func TestAccountsSetTwiceAtOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	direct := keysConfig(t, server.Addr)
	set := func(conf string, args ...string) error {
		args = append([]string{"keys", "-c", conf, "account", "acme"}, args...)
		if out, errOut, code := command(t, args...); code != 0 {
			return fmt.Errorf("%v: exit code %d: %s%s", args, code, out, errOut)
		}
		return nil
	}
	met := true
	for n := 1; met; n++ {
		met = false
		if err := set(direct, "--api-access", "paid", "--plan", ""); err != nil {
			t.Fatal(err)
		}
		var between error
		c := newCable(t, server.Addr, func(i int) loss {
			if i == n {
				met, between = true, set(direct, "--api-access", "none")
			}
			return nothing
		})
		if err := errors.Join(set(keysConfig(t, c.addr), "--plan", "pro"), between); err != nil {
			t.Fatal(err)
		}
		want := auth.Account{ID: "acme", APIAccess: auth.AccessNone, Plan: "pro"}
		if !met {
			want.APIAccess = auth.AccessPaid
		}
		if l := storedKeys(t, server.Addr); !slices.Equal(l.Accounts, []auth.Account{want}) {
			t.Errorf("another command before write %d of this one: %+v, want %+v", n, l.Accounts, want)
		}
	}
}
