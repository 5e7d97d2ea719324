package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// Settings of every node that nothing changes.
const (
	requestTimeout  = 3 * time.Second
	upstreamTimeout = time.Second
	retryBudget     = 0.1
	retryBurst      = 3 // of the budget, as upstream has it
	jitter          = 0.1
)

// policy is what a reload changes.
type policy struct {
	mapping       string // m1 or m2
	ttl, swr, sie time.Duration
}

// inForce is a policy and when a node may have had it.
type inForce struct {
	policy
	since, until time.Time // until is zero: still
}

// node is one gateway. It lives on when the process of it has crashed and another
// one takes its place.
type node struct {
	w     *world
	index int
	skew  time.Duration
	dir   string

	mu       sync.Mutex
	run      *running // nil: down
	starts   int
	policies []inForce
	waiting  bool // for a reload
}

// running is one process of a node.
type running struct {
	name  string // also the host of its connections
	since time.Time
	end   context.CancelFunc
	done  chan struct{}
}

func newNode(w *world, index int, skew time.Duration) *node {
	n := &node{w: w, index: index, skew: skew, dir: filepath.Join(w.dir, fmt.Sprintf("n%d", index))}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (n *node) file() string { return filepath.Join(n.dir, "gateway.yaml") }

// address is where the node's callers and operators find it.
func (n *node) address(port string) string { return fmt.Sprintf("n%d:%s", n.index, port) }

// write puts a configuration into the node's file, whole at once.
func (n *node) write(p policy, broken string) {
	text := n.w.config(p) + broken
	if err := os.WriteFile(n.file()+".new", []byte(text), 0o600); err != nil {
		n.w.t.Fatal(err)
	}
	if err := os.Rename(n.file()+".new", n.file()); err != nil {
		n.w.t.Fatal(err)
	}
}

// start runs the program on the node, with the configuration that is in its file. While
// a story has broken that, it is tried again.
func (n *node) start() {
	loaded, err := config.Load(n.file(), config.Options{})
	for range 10 {
		if err == nil {
			break
		}
		time.Sleep(time.Second)
		loaded, err = config.Load(n.file(), config.Options{})
	}
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.mu.Lock()
	n.starts++
	r := &running{name: fmt.Sprintf("n%d.%d", n.index, n.starts), since: time.Now(), done: make(chan struct{})}
	n.policies = []inForce{{policy: n.policies[len(n.policies)-1].policy, since: time.Now()}}
	n.mu.Unlock()
	listeners := app.Listeners{Public: n.w.net.listen(r.name, n.address("8080")), Ops: n.w.net.listen(r.name, n.address("9090"))}
	a, err := app.New(loaded.Config, listeners, app.Options{
		Logger: slog.New(nodeLog{n, r.name}), Dial: n.w.net.dialer(r.name), Version: r.name,
		Now: func() time.Time { return time.Now().Add(n.skew) },
	})
	if err != nil {
		n.w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.end = cancel
	n.w.apps.Go(func() {
		defer close(r.done)
		if err := a.Run(ctx); err != nil && n.current() == r {
			n.w.checks.fail("%s ended: %v", r.name, err)
		}
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.run = r
}

func (n *node) current() *running {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.run
}

// crash ends the process at once for all the others: its connections break, or fall
// silent. What is left of it reaches nobody and is cleared away.
func (n *node) crash(silently bool) {
	n.mu.Lock()
	r := n.run
	n.run = nil
	n.mu.Unlock()
	if r == nil {
		return
	}
	n.w.net.isolate(r.name)
	n.w.net.crash(r.name, silently)
	r.end()
}

// stop ends the process in order, and waits for it.
func (n *node) stop() {
	n.mu.Lock()
	r := n.run
	n.run = nil
	n.mu.Unlock()
	if r != nil {
		r.end()
		<-r.done
	}
}

// reload changes the node's policy. It does nothing while another reload is on its
// way.
func (n *node) reload(p policy) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run == nil || n.waiting {
		return false
	}
	n.waiting = true
	n.policies = append(n.policies, inForce{policy: p, since: time.Now()})
	n.write(p, "")
	return true
}

// reloaded is told by the node's log.
func (n *node) reloaded(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run == nil || n.run.name != name || !n.waiting {
		return
	}
	n.waiting = false
	for i := range n.policies[:len(n.policies)-1] {
		if n.policies[i].until.IsZero() {
			n.policies[i].until = time.Now()
		}
	}
}

// during are the policies that a request may have seen.
func (n *node) during(from, to time.Time) (all []policy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.policies {
		if !p.since.After(to) && (p.until.IsZero() || !p.until.Before(from)) {
			all = append(all, p.policy)
		}
	}
	return all
}

// last is the policy that was written last.
func (n *node) last() policy {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.policies[len(n.policies)-1].policy
}

// nodeLog hears of reloads, and keeps the records for a failure's report.
type nodeLog struct {
	node *node
	name string
}

func (nodeLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (l nodeLog) WithAttrs([]slog.Attr) slog.Handler         { return l }
func (l nodeLog) WithGroup(string) slog.Handler              { return l }

func (l nodeLog) Handle(_ context.Context, r slog.Record) error {
	text := l.name + ": " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	l.node.w.log("%s", text)
	switch r.Message {
	case "configuration reloaded":
		l.node.w.reach("reload")
		l.node.reloaded(l.name)
	case "circuit breaker changed":
		l.node.w.reach("breaker of the legacy")
	case "the breaker of Redis changed":
		l.node.w.reach("breaker of Redis")
	case "Redis had lost a purge and has it back":
		l.node.w.reach("purge given back")
	case "configuration not reloaded; the old one stays in force":
		l.node.w.reach("broken configuration")
	}
	return nil
}
