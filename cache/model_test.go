package cache

import (
	"context"
	"fmt"
	"inquiry-gateway/internal/redisclient"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"inquiry-gateway/internal/testkit/redistest"
)

// model knows every answer that the legacy ever gave, when, and what was purged
// since.
type model struct {
	*legacy
	cfg Config
	cut *Lists // this node cannot reach Redis
	by  map[string]Mapping

	mu     sync.Mutex
	given  map[string]given // by body
	purged map[Scope]purged
	began  time.Time
}

// purged is one purge: what the legacy said up to then is gone.
type purged struct {
	call int64  // the legacy's last one before the purge
	seq  uint64 // a node must have heard of this one
	// lost: Redis has lost its memory since. A node that was cut off at the
	// time of the purge has nobody to ask, unless another node reads the same
	// account and restores the epoch.
	lost bool
}

type given struct {
	key  Key
	at   time.Time
	call int64
}

func newModel() *model {
	return &model{legacy: &legacy{clock: newClock()}, cfg: testConfig(), given: map[string]given{}, purged: map[Scope]purged{}, began: time.Now()}
}

// terms are those of today's policy.
func (m *model) terms(i kindIndex, status string) terms {
	c := [...]KindConfig{m.cfg.Buyer, m.cfg.Seller}[i]
	k := newKindPolicy(c)
	return k.forStatus(status)
}

func (m *model) answer(ctx context.Context, k Key) (Content, error) {
	c, err := m.fill(ctx, k)
	if err != nil {
		return c, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := given{key: k, at: c.AnsweredAt}
	if _, err := fmt.Sscanf(string(c.Body[strings.LastIndexByte(string(c.Body), '#'):]), "#%d", &g.call); err != nil {
		return c, err
	}
	m.given[string(c.Body)] = g
	return c, nil
}

// check holds one answer of the cache against what the legacy gave and what the
// policy of today and the purges allow. Heard is the last purge that the node knew of when it was asked; one that is
// cut off from Redis may know less than the others.
func (m *model) check(k Key, r Result, heard uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, base := body(r), k
	if selected, of, ok := strings.Cut(text, selectedFrom); ok {
		if selected != fmt.Sprint(k) {
			return fmt.Errorf("%v got %q", k, text)
		}
		text = of
		mapping := m.by[k.Kind]
		base, _ = mapping.base(k)
	}
	g, ok := m.given[text]
	switch {
	case !ok:
		return fmt.Errorf("%v got %q, which the legacy never said", k, body(r))
	case g.key != base:
		return fmt.Errorf("%v got the list of %v", k, g.key)
	case m.gone(Scope{Kind: k.Kind}, g, heard), m.gone(Scope{Account: k.Account}, g, heard):
		return fmt.Errorf("%v got a purged list as %s from %q", k, r.Outcome, r.Tier)
	}
	age := m.clock.Now().Sub(g.at)
	i, _ := indexOf(k.Kind)
	terms := m.terms(i, k.Status)
	allowed := map[Outcome]time.Duration{
		Hit: terms.ttl, StaleRevalidate: terms.ttl + terms.swr,
		StaleError: terms.lifetime(), Miss: time.Nanosecond, Collapsed: max(terms.ttl, time.Nanosecond),
	}[r.Outcome]
	switch {
	case age >= allowed || age < -maxSkew:
		return fmt.Errorf("%v was served as %s at the age of %s; allowed are %s", k, r.Outcome, age, allowed)
	// Through Redis an age is longer by round trips and by what the test itself takes.
	case r.Age < max(age, 0) || r.Age > max(age, 0)+time.Since(m.began):
		return fmt.Errorf("%v says it is %s old, and is %s", k, r.Age, age)
	case r.Outcome == Hit && r.TTL <= 0, (r.Outcome == StaleError || r.Outcome == StaleRevalidate) && r.TTL > 0:
		return fmt.Errorf("%v: %s with a ttl of %s", k, r.Outcome, r.TTL)
	}
	return nil
}

// selectedFrom is in a derived list before its base.
const selectedFrom = " <- "

// someSelected has the legacy asked by one status of buyers and by no filter of
// sellers.
var someSelected = map[string]Mapping{
	KindBuyer:  {Status: Filter{Values: map[string]Asked{"pending": SelectedHere}}, InquiryType: Filter{Other: SelectedHere}},
	KindSeller: {Status: Filter{Other: SelectedHere}, InquiryType: Filter{Other: SelectedHere}},
}

var tellsBase = Derivation{
	Select: func(k Key, body []byte) ([]byte, error) {
		return append(fmt.Append(nil, k, selectedFrom), body...), nil
	},
	Empty: []byte{},
}

func (m *model) gone(s Scope, g given, heard uint64) bool {
	p, ok := m.purged[s]
	return ok && heard >= p.seq && g.call <= p.call && !(p.lost && heard != math.MaxUint64)
}

// heard is what a node knows; without Redis it knows its own purges, which are
// all there are. With neither Redis nor the legacy a suspect list may be served.
func (m *model) heard(l *Lists) uint64 {
	if l.redis == nil {
		return math.MaxUint64
	}
	if m.failing() && (m.cut == l || l.RedisState() == "down") {
		return 0
	}
	return l.changes.number()
}

func (m *model) failing() bool {
	f := m.fail.Load()
	return f != nil && *f != nil
}

// get asks one node and checks the answer.
func (m *model) get(l *Lists, k Key) error {
	known := m.heard(l)
	r, err := l.Get(context.Background(), k)
	if err == nil {
		return m.check(k, r, known)
	}
	if !m.failing() {
		return fmt.Errorf("%v: an error with the legacy up: %w", k, err)
	}
	return nil
}

func drawKey(t *rapid.T) Key {
	return Key{
		Kind:        rapid.SampledFrom([]string{KindBuyer, KindSeller}).Draw(t, "kind"),
		Account:     rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(t, "account"),
		Status:      rapid.SampledFrom([]string{"", "b", "pending"}).Draw(t, "status"),
		InquiryType: rapid.SampledFrom([]string{"", "b"}).Draw(t, "type"),
	}
}

func drawConfig(t *rapid.T) Config {
	seconds := func(name string) time.Duration {
		return time.Duration(rapid.IntRange(0, 20).Draw(t, name)) * time.Second
	}
	c := testConfig()
	c.Jitter = rapid.SampledFrom([]float64{0, 0.1, 0.9}).Draw(t, "jitter")
	pending := seconds("pending ttl")
	c.Buyer = KindConfig{TTL: seconds("ttl"), StaleWhileRevalidate: seconds("swr"), StaleIfError: seconds("sie"),
		ByStatus: map[string]StatusConfig{"pending": {TTL: &pending}}}
	c.Seller = KindConfig{TTL: seconds("seller ttl"), StaleIfError: seconds("seller sie")}
	return c
}

// environment is a fleet of two nodes over one real Redis, and a node on its own.
type environment struct {
	*model
	rdb     *redisclient.Client
	nodes   []*Lists
	stashed map[string]string // Redis values that may come back
	tb      testing.TB
}

func (w *environment) node(t *rapid.T) *Lists {
	return w.nodes[rapid.IntRange(0, len(w.nodes)-1).Draw(t, "node")]
}

func (w *environment) settled() {
	for _, l := range w.nodes {
		settled(l)
	}
}

func (w *environment) get(t *rapid.T) {
	if err := w.model.get(w.node(t), drawKey(t)); err != nil {
		t.Fatal(err)
	}
	w.settled()
}

// burst asks all nodes at once.
func (w *environment) burst(t *rapid.T) {
	var wg sync.WaitGroup
	errs := make(chan error, 60)
	for range rapid.IntRange(1, 20).Draw(t, "callers") {
		k := drawKey(t)
		for _, l := range w.nodes {
			wg.Go(func() { errs <- w.model.get(l, k) })
		}
	}
	wg.Wait()
	w.settled()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (w *environment) lookup(t *rapid.T) {
	k := drawKey(t)
	l := w.node(t)
	known := w.heard(l)
	if r, ok := l.Lookup(k); ok {
		if err := w.check(k, r, known); err != nil {
			t.Fatal(err)
		}
	}
}

// purge goes through the first node, and the one without Redis has its own.
func (w *environment) purge(t *rapid.T) {
	k := drawKey(t)
	s := Scope{Kind: k.Kind}
	if rapid.Bool().Draw(t, "account") {
		s = Scope{Account: k.Account}
	}
	last := w.calls.Load()
	for _, l := range []*Lists{w.nodes[0], w.nodes[2]} {
		if _, err := l.Purge(context.Background(), s); err != nil {
			t.Fatal(err)
		}
	}
	seq, _, err := w.nodes[0].redis.Poll(context.Background(), kindNames[:])
	if err != nil {
		t.Fatal(err)
	}
	w.purged[s] = purged{call: last, seq: seq}
}

func (w *environment) reload(t *rapid.T) {
	w.cfg = drawConfig(t)
	for _, l := range w.nodes {
		if err := l.SetConfig(w.cfg); err != nil {
			t.Fatal(err)
		}
	}
}

// pass has time pass, on the nodes and in Redis.
func (w *environment) pass(d time.Duration) {
	w.clock.Add(d)
	for key, value := range w.stashed {
		w.stashed[key] = string(shifted([]byte(value), d))
	}
	shift(w.tb, w.rdb, d)
}

// swap puts one list where another belongs.
func (w *environment) swap(t *rapid.T) {
	from, to := entryKey(w.nodes[0], drawKey(t)), entryKey(w.nodes[0], drawKey(t))
	if from == to {
		return
	}
	if err := w.rdb.Copy(context.Background(), from, to, 0, true).Err(); err != nil {
		t.Fatal(err)
	}
}

// stash and restore are a write to Redis that comes late, after whatever
// happened between.
func (w *environment) stash(t *rapid.T) {
	key := entryKey(w.nodes[0], drawKey(t))
	w.stashed[key] = w.rdb.Get(context.Background(), key).Val()
}

func (w *environment) restore(t *rapid.T) {
	for key, value := range w.stashed {
		if err := w.rdb.Set(context.Background(), key, value, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryBodyBelongsToTheKeyAndIsYoungEnough drives the fleet with random
// look-ups, purges, failures, policies, clock jumps and tampering.
func TestEveryBodyBelongsToTheKeyAndIsYoungEnough(t *testing.T) {
	tb := t
	srv := redistest.Start(t)
	rdb := openRedis(t, relaxTimeouts(redisAt(srv.Addr)))
	cable := redistest.NewProxy(t, srv.Addr) // of the second node
	cut := openRedis(t, relaxTimeouts(redisAt(cable.Addr)))
	prefix := 0
	rapid.Check(t, func(t *rapid.T) {
		prefix++
		cable.Mend()
		w := &environment{model: newModel(), rdb: rdb, stashed: map[string]string{}, tb: tb}
		if rapid.Bool().Draw(t, "derivation") {
			w.by = someSelected
		}
		for _, r := range []*redisclient.Client{rdb, cut, nil} {
			l, err := New(w.cfg, Options{Fill: w.answer, Redis: r, Now: w.clock.Now, Derivation: tellsBase, Fills: Fills{Mappings: w.by}, Prefix: fmt.Sprint("run", prefix)})
			if err != nil {
				t.Fatal(err)
			}
			w.nodes = append(w.nodes, l)
			defer func() { _ = l.Close(context.Background()) }()
		}
		t.Repeat(map[string]func(*rapid.T){
			"get": w.get, "get too": w.get, "burst": w.burst, "lookup": w.lookup, "purge": w.purge, "reload": w.reload,
			"cut off":       func(*rapid.T) { cable.Cut(); w.cut = w.nodes[1] },
			"mend":          func(*rapid.T) { cable.Mend(); w.cut = nil },
			"swap in Redis": w.swap, "stash in Redis": w.stash, "restore in Redis": w.restore,
			"time passes": func(t *rapid.T) {
				w.pass(time.Duration(rapid.IntRange(0, 15000).Draw(t, "ms")) * time.Millisecond)
			},
			"clock set back": func(t *rapid.T) {
				w.pass(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"legacy fails": func(*rapid.T) { w.failWith(errLegacy) },
			"legacy works": func(*rapid.T) { w.failWith(nil) },
			"Redis loses all": func(t *rapid.T) {
				clear(w.stashed) // with the epochs gone too, nothing could tell them from new ones
				for s, p := range w.purged {
					p.lost = true
					w.purged[s] = p
				}
				if err := rdb.FlushAll(context.Background()).Err(); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}
