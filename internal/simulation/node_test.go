package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// Settings of every node that nothing changes: see testdata/node.yaml.
const (
	requestTimeout  = 3 * time.Second
	upstreamTimeout = time.Second
	redisTimeout    = 100 * time.Millisecond
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

// node is one gateway. It lives on when the process of it has crashed and another one takes
// its place.
type node struct {
	env   *environment
	index int
	skew  time.Duration
	file  string

	mu       sync.Mutex
	run      *running // nil: down
	starts   int
	policies []inForce // newest last
	waiting  bool      // for a reload
}

// running is one process of a node.
type running struct {
	name  string // also the host of its connections
	since time.Time
	end   context.CancelFunc
	done  chan struct{}
}

func newNode(env *environment, index int, skew time.Duration, p policy) *node {
	n := &node{env: env, index: index, skew: skew, policies: []inForce{{policy: p}}}
	n.file = filepath.Join(env.dir, n.scope()+".yaml")
	env.write(n.file, env.config(p))
	return n
}

// scope is the name of the node among the scopes of trouble.
func (n *node) scope() string { return fmt.Sprintf("n%d", n.index) }

// address is where the node's callers and operators find it.
func (n *node) address(port string) string { return n.scope() + ":" + port }

// start runs the program on the node, with the configuration that is in its file. While
// somebody has broken that, it is tried again.
func (n *node) start() {
	cfg, err := config.Load(n.file, config.Options{})
	for try := 0; err != nil && try < 10; try++ {
		time.Sleep(time.Second)
		cfg, err = config.Load(n.file, config.Options{})
	}
	if err != nil {
		n.env.checks.fail("the simulation itself: %v", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.mu.Lock()
	n.starts++
	r := &running{name: fmt.Sprintf("n%d.%d", n.index, n.starts), since: time.Now(), end: cancel, done: make(chan struct{})}
	n.policies, n.waiting = []inForce{{policy: n.policies[len(n.policies)-1].policy, since: r.since}}, false
	n.mu.Unlock()
	listeners := app.Listeners{Public: n.env.net.listen(r.name, n.address("8080")), Ops: n.env.net.listen(r.name, n.address("9090"))}
	a, err := app.New(cfg, listeners, app.Options{
		Logger: slog.New(nodeLog{n, r.name}), Dial: n.env.net.dialer(r.name), Version: r.name,
		Now: func() time.Time { return time.Now().Add(n.skew) },
	})
	if err != nil {
		n.env.checks.fail("%s does not start: %v", r.name, err)
		return
	}
	n.env.apps.Go(func() {
		defer close(r.done)
		if err := a.Run(ctx); err != nil && n.current() == r {
			n.env.checks.fail("%s ended: %v", r.name, err)
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

// down takes the process from the node; nil: there is none.
func (n *node) down() *running {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.run
	n.run = nil
	return r
}

// crash ends the process at once for all the others: its connections break, or fall silent.
// What is left of it reaches nobody and is cleared away.
func (n *node) crash(silently bool) {
	r := n.down()
	if r == nil {
		return
	}
	for _, other := range []string{"redis", "legacy"} {
		n.env.net.set(way{r.name, other}, condition{cut: true})
		n.env.net.set(way{other, r.name}, condition{cut: true})
	}
	n.env.net.crash(r.name, silently)
	r.end()
}

// stop ends the process in order, and waits for it.
func (n *node) stop() {
	if r := n.down(); r != nil {
		r.end()
		<-r.done
	}
}

// reload changes the node's policy. It does nothing while another reload is on its way.
func (n *node) reload(p policy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.run == nil || n.waiting {
		return
	}
	n.waiting = true
	n.policies = append(n.policies, inForce{policy: p, since: time.Now()})
	n.env.write(n.file, n.env.config(p))
}

// breakFile adds a mistake to the node's file; an empty one mends it.
func (n *node) breakFile(mistake string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.waiting {
		n.env.write(n.file, n.env.config(n.policies[len(n.policies)-1].policy)+mistake)
	}
}

// reloaded is called by the node's log.
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

// nodeLog notices reloads, and keeps the records for a failure's report.
type nodeLog struct {
	node *node
	name string
}

func (nodeLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (l nodeLog) WithAttrs([]slog.Attr) slog.Handler         { return l }
func (l nodeLog) WithGroup(string) slog.Handler              { return l }

func (l nodeLog) Handle(_ context.Context, r slog.Record) error {
	l.node.env.log("%s: %v", l.name, logged(r.Clone()))
	l.node.env.reach("log: " + r.Message)
	if r.Message == "configuration reloaded" {
		l.node.reloaded(l.name)
	}
	return nil
}

// logged is a record as text.
type logged slog.Record

func (l logged) String() string {
	text := l.Message
	slog.Record(l).Attrs(func(a slog.Attr) bool {
		text += " " + a.String()
		return true
	})
	return text
}
