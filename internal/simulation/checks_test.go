package simulation

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds that the README and the comments of the packages promise, and what the
// check allows on top for the way of the bytes.
const (
	purgeBound    = time.Second // on every node that reaches Redis
	staleFor      = time.Second // hints.stale_for
	fileBound     = time.Second // a revocation in the keys file
	redisBound    = time.Second // a revocation in Redis, while the node reaches it
	redisTTL      = 30 * time.Second
	introspectTTL = 10 * time.Second
	slack         = 500 * time.Millisecond
	overdue       = 300 * time.Millisecond // after request_timeout, until the answer is with its caller

	// Everything is fresh again after faults of d: twice d for back-off, which
	// doubles up to 30 s, and 8 s for breakers, leases and the poll of Redis.
	settleMost = 30 * time.Second
	settleOf   = 8 * time.Second
)

// checks hold every answer of the fleet against what is promised. They know what
// troubles there are, as the promises depend on them.
type checks struct {
	w        *world
	onAnswer func(r *request, version int) // is told of each list

	mu       sync.Mutex
	failure  string
	troubles map[string]*trouble // by scope
	purges   []*purge
	losses   []time.Time          // of Redis' memory
	asked    map[string]time.Time // by process and list: when first since all is well
	restored time.Time            // when the operator last gave Redis its keys back
	requests []time.Time          // to the legacy, of the last second
}

// trouble is what is wrong in one scope: "shared" (any answer may suffer), "fleet"
// (nodes may fetch what another has), a node, "redis" or "redis:" and a node (it
// may not reach Redis), "account:" and an account.
type trouble struct {
	active  int
	began   time.Time
	ended   time.Time
	settled time.Time
}

// purge is one purge that an operator has asked for, or a hint of the legacy system.
type purge struct {
	hint, soft    bool
	kind, account string
	node          *node
	run           *running
	begin, end    time.Time // end is zero until it is acknowledged
	ok            bool      // for the fleet; else this node alone
}

func newChecks(w *world) *checks {
	return &checks{w: w, onAnswer: func(*request, int) {}, troubles: map[string]*trouble{}, asked: map[string]time.Time{}}
}

// fail ends the run. Only the first failure counts.
func (c *checks) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.w.log("FAILED: %s", text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == "" {
		c.failure = fmt.Sprintf("at %v: %s", time.Since(c.w.begin), text)
	}
}

func (c *checks) failed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure != ""
}

// begin notes a trouble in scopes until end is called.
func (c *checks) begin(scopes ...string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, scope := range scopes {
		t := c.troubles[scope]
		if t == nil {
			t = &trouble{}
			c.troubles[scope] = t
		}
		if t.active++; t.active == 1 {
			t.began = time.Now()
		}
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := time.Now()
		for _, scope := range scopes {
			t := c.troubles[scope]
			t.active--
			t.ended = now
			if s := now.Add(min(2*now.Sub(t.began), settleMost) + settleOf); s.After(t.settled) {
				t.settled = s
			}
		}
	})
}

// settled tells whether all scopes are well and have been for long enough.
func (c *checks) settled(at time.Time, scopes ...string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, scope := range scopes {
		if t := c.troubles[scope]; t != nil && (t.active > 0 || at.Before(t.settled)) {
			return false
		}
	}
	return true
}

// wellSince is when the last trouble of any scope ended; the future while there is
// one. The caller holds mu.
func (c *checks) wellSince(scopes ...string) (since time.Time) {
	for _, scope := range scopes {
		t := c.troubles[scope]
		switch {
		case t == nil:
		case t.active > 0:
			return time.Now().Add(time.Hour)
		case t.ended.After(since):
			since = t.ended
		}
	}
	return since
}

func (c *checks) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses = append(c.losses, time.Now())
}

func (c *checks) keysRestored() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restored = time.Now()
}

func (n *node) scope() string { return fmt.Sprintf("n%d", n.index) }

// request is one request of a caller and what came of it.
type request struct {
	step       string // which caller's and which of its requests, the same in every run of the seed
	node       *node
	run        *running
	key        key
	keyID      *key
	want       listKey
	start, end time.Time
	status     int
	code       string
	outcome    string // of Cache-Status
	age        time.Duration
	list       []shown
}

func (r *request) String() string {
	return fmt.Sprintf("%s: %s %+v, status %d %s, %q, age %v, sent at %v, answered after %v", r.step, r.run.name, r.want, r.status, r.code,
		r.outcome, r.age, r.start.Sub(r.node.w.begin), r.end.Sub(r.start))
}

// shown is a record of an answer.
type shown struct {
	Title       string `json:"title"`
	Content     string `json:"content"`
	Status      string `json:"status"`
	InquiryType string `json:"inquiry_type"`
}

// answered checks one answer.
func (c *checks) answered(r *request) {
	for _, check := range []func(*request) string{c.inTime, c.allowed, c.available, c.whole} {
		if problem := check(r); problem != "" {
			c.fail("%s; %v", problem, r)
			return
		}
	}
}

func (c *checks) inTime(r *request) string {
	if took := r.end.Sub(r.start); took > requestTimeout+overdue {
		return fmt.Sprintf("an answer took %v", took)
	}
	return ""
}

// allowed: no revoked key is good after its bound, and no good key is refused.
func (c *checks) allowed(r *request) string {
	revoked := c.w.keys.revokedAt(r.keyID)
	if revoked.IsZero() {
		if r.status == 401 || r.status == 403 {
			return "a good key was refused"
		}
		return ""
	}
	if r.status != 200 && r.status != 304 || r.start.Before(revoked) {
		if r.status == 401 {
			c.w.reach("revoked key refused")
		}
		return ""
	}
	if after := r.start.Sub(revoked); after > c.revocationBound(r, revoked) {
		return fmt.Sprintf("a key that was revoked %v ago was good", after)
	}
	return ""
}

func (c *checks) revocationBound(r *request, revoked time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.w.auth {
	case "file":
		return fileBound + slack
	case "introspection":
		return introspectTTL + slack
	}
	from := revoked
	if c.restored.After(from) || len(c.losses) > 0 && c.losses[len(c.losses)-1].After(c.restored) {
		from = c.restored // Redis may have lost the revocation until then
		if c.losses[len(c.losses)-1].After(c.restored) {
			return time.Hour
		}
	}
	bound := from.Sub(revoked) + redisTTL + slack
	if well := c.wellSince("redis", "redis:"+r.node.scope(), r.node.scope()); !well.After(r.start) {
		bound = min(bound, max(from.Sub(revoked), well.Sub(revoked))+redisBound+slack)
	}
	return bound
}

// available: where nothing is wrong every good key gets its list, and no failure of
// others makes it stale.
func (c *checks) available(r *request) string {
	switch r.status {
	case 200, 304, 502, 503, 504, 401:
	default:
		return fmt.Sprintf("status %d is none that the README declares for this", r.status)
	}
	if r.status == 401 || !c.settled(r.start, "shared", r.node.scope(), "account:"+r.want.account, "auth") {
		return ""
	}
	c.w.reach("strict")
	if c.tight() && (r.status == 503 || r.status == 504 || strings.Contains(r.outcome, "stale-error")) {
		return "" // the ceiling
	}
	if r.status != 200 && r.status != 304 {
		return "an error although all is well"
	}
	if c.askedInCalm(r) && strings.Contains(r.outcome, "stale-error") {
		return "a stale list because of a failure, although all is well"
	}
	return ""
}

// askedInCalm tells whether somebody has asked the node for the list since all is
// well. The first who does so gets what was there, and has it refreshed.
func (c *checks) askedInCalm(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := fmt.Sprint(r.run.name, r.want)
	first, ok := c.asked[name]
	for _, scope := range []string{"shared", r.node.scope(), "account:" + r.want.account} {
		if t := c.troubles[scope]; t != nil && first.Before(t.settled) {
			ok = false
		}
	}
	if !ok {
		c.asked[name] = r.end
	}
	return ok && r.start.After(first.Add(upstreamTimeout))
}

// whole: the list is the caller's, complete, of a mapping in force, and as young as
// it must be.
func (c *checks) whole(r *request) string {
	if r.status != 200 && r.status != 304 {
		return ""
	}
	a, mark, problem := c.recognise(r)
	if problem != "" {
		return problem
	}
	c.onAnswer(r, a.version)
	policies := r.node.during(r.start, r.end)
	if !slices.ContainsFunc(policies, func(p policy) bool { return p.mapping == mark }) {
		return fmt.Sprintf("the list was made by the mapping %s, which is not in force", mark)
	}
	if problem := c.young(r, a, policies); problem != "" {
		return problem
	}
	return c.notPurged(r, a)
}

// recognise finds the legacy's answer that a list comes from, and holds the list
// against the truth.
func (c *checks) recognise(r *request) (a *answer, mark, problem string) {
	if len(r.list) == 0 {
		return nil, "", "the list is empty, which no list of the legacy is"
	}
	var kind, account string
	var version, number, i, n int
	if _, err := fmt.Sscanf(r.list[0].Title, "%s %s v%d a%d %d/%d %s", &kind, &account, &version, &number, &i, &n, &mark); err != nil {
		return nil, "", fmt.Sprintf("the title %q is none of the legacy's", r.list[0].Title)
	}
	if kind != r.want.kind || account != r.want.account {
		return nil, "", fmt.Sprintf("the list is that of %s %s", kind, account)
	}
	if a = c.w.legacy.answer(number); a == nil || a.version != version {
		return nil, "", "the legacy has never sent this list"
	}
	want := records(r.want, version, number)
	if len(want) != len(r.list) {
		return nil, "", fmt.Sprintf("%d records instead of %d", len(r.list), len(want))
	}
	for i, w := range want {
		got := r.list[i]
		if got.Title != w.title+" "+mark || got.Status != w.status || got.InquiryType != w.inquiryType || strings.Contains(got.Content, "7d444840") {
			return nil, "", fmt.Sprintf("record %d is %+v instead of %+v", i, got, w)
		}
	}
	return a, mark, ""
}

// young: no older than the policy and the present failure allow.
func (c *checks) young(r *request, a *answer, policies []policy) string {
	age := r.start.Sub(c.w.legacy.saidAt(a))
	most := time.Duration(0)
	for _, p := range policies {
		switch {
		case strings.Contains(r.outcome, "stale-error"):
			most = max(most, p.ttl+max(p.sie, p.swr))
		case strings.Contains(r.outcome, "stale-revalidate"):
			most = max(most, p.ttl+p.swr)
		case strings.Contains(r.outcome, "fwd="):
			most = max(most, time.Millisecond)
		default:
			most = max(most, p.ttl)
		}
	}
	c.w.reach(outcomeName(r.outcome))
	if age > most+upstreamTimeout+slack {
		return fmt.Sprintf("the list is %v old, of at most %v", age, most)
	}
	if r.age+time.Second+slack < age-upstreamTimeout {
		return fmt.Sprintf("the list is %v old and its Age says less", age)
	}
	return ""
}

func outcomeName(cacheStatus string) string {
	for _, name := range []string{"stale-error", "stale-revalidate", "collapsed", "fwd=miss", "fwd=stale", "hit"} {
		if strings.Contains(cacheStatus, name) {
			return "answer " + name
		}
	}
	return "answer of another sort"
}

// notPurged: nothing comes back that was answered before a purge.
// After a hint that serves stale lists the same body says that nothing has changed,
// whatever was hinted.
func (c *checks) notPurged(r *request, a *answer) string {
	said := c.w.legacy.saidAt(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.purges {
		at := a.at
		if p.soft {
			at = said
		}
		if (p.account != a.key.account && p.kind != a.key.kind) || !at.Before(p.begin) || p.end.IsZero() {
			continue
		}
		if since, holds := c.holdsSince(p, r); holds && r.start.After(since) {
			if p.soft && (strings.Contains(r.outcome, "stale-error") || c.hintedAgain(p, r.start)) {
				continue
			}
			return fmt.Sprintf("the list is of before the purge at %v by %s, which holds here since %v", p.begin.Sub(c.w.begin), p.run.name, since.Sub(c.w.begin))
		}
	}
	return ""
}

// hintedAgain tells whether another soft hint lets the list be served for a moment more.
// The caller holds mu.
func (c *checks) hintedAgain(p *purge, at time.Time) bool {
	return slices.ContainsFunc(c.purges, func(q *purge) bool {
		return q != p && q.soft && q.begin.After(p.begin) && at.Sub(q.begin) < staleFor+purgeBound+slack
	})
}

// holdsSince is when a purge must be in force for a request.
func (c *checks) holdsSince(p *purge, r *request) (time.Time, bool) {
	if i := len(c.losses) - 1; p.soft && (!p.ok || i >= 0 && c.losses[i].After(p.begin)) {
		return time.Time{}, false // nothing is promised
	}
	if p.run == r.run && p.soft {
		return p.end.Add(staleFor + slack), true
	}
	if p.run == r.run {
		return p.end, true
	}
	if !p.ok {
		return time.Time{}, false
	}
	since := p.end
	later := func(t time.Time) {
		if t.After(since) {
			since = t
		}
	}
	later(r.run.since)
	later(c.wellSince("redis", "redis:"+r.node.scope()))
	if i := len(c.losses) - 1; i >= 0 && c.losses[i].After(p.begin) {
		if p.node.current() != p.run {
			return time.Time{}, false // who would have given it back is gone
		}
		later(c.losses[i])
		later(c.wellSince("redis:" + p.node.scope()))
	}
	if p.soft {
		since = since.Add(staleFor)
	}
	return since.Add(purgeBound + slack), true
}

// fetch checks that a fetch is needed. The caller holds the legacy's mu.
func (c *checks) fetch(k listKey, node, mapping string, now time.Time, running map[int]*fetching, last *answer) {
	if c.tight() || !c.settled(now, "shared", "fleet", "account:"+k.account) || c.purgedSince(k, now.Add(-requestTimeout)) {
		return
	}
	c.w.reach("fetch in calm")
	for _, f := range running {
		if f.mapping == mapping {
			c.fail("%s fetches %+v while %s fetches it since %v", node, k, f.node, now.Sub(f.since))
		}
	}
	if last == nil || last.mapping != mapping {
		return
	}
	age := now.Sub(last.at)
	for _, n := range c.w.nodes {
		for _, p := range n.during(last.at, now) {
			if p.mapping != mapping || age > time.Duration(float64(p.ttl)*(1-jitter))-slack {
				return
			}
		}
	}
	if !c.settled(last.at, "shared", "fleet") || c.purgedSince(k, last.at.Add(-requestTimeout)) {
		return
	}
	c.fail("%s fetches %+v although %s got it %v ago", node, k, last.node, age)
}

// tight tells whether the ceiling is reached although all is well.
func (c *checks) tight() bool { return c.w.ceiling > 0 && c.w.ceiling < roomy }

// sent checks that the fleet stays under its ceiling in any second. A request may have
// waited for its connection, as long as a fetch may take, where the way is in trouble. A
// node that alone is cut off from Redis adds its own part: operation.md says so.
func (c *checks) sent(w way, data []byte) {
	if w.to != "legacy" || c.w.ceiling == 0 || !bytes.HasPrefix(data, []byte("GET ")) {
		return
	}
	now, most := time.Now(), c.w.ceiling
	c.mu.Lock()
	if !c.wellSince("way to the legacy").Add(upstreamTimeout + time.Second).Before(now) {
		most *= 2
	}
	if c.wellSince("redis").Before(now) {
		for i := range nodeCount {
			if !c.wellSince(fmt.Sprintf("redis:n%d", i)).Add(upstreamTimeout + time.Second).Before(now) {
				most += (9*c.w.ceiling + 10*nodeCount - 1) / (10 * nodeCount)
			}
		}
	}
	c.requests = slices.DeleteFunc(c.requests, func(at time.Time) bool { return now.Sub(at) >= time.Second })
	c.requests = append(c.requests, now)
	n := len(c.requests)
	c.mu.Unlock()
	if n > c.w.ceiling/2 {
		c.w.reach("half of the ceiling")
	}
	if n > most {
		c.fail("%d requests to the legacy in a second, of at most %d", n, most)
	}
}

func (c *checks) purgedSince(k listKey, at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.purges, func(p *purge) bool {
		return (p.account == k.account || p.kind == k.kind) && (p.end.IsZero() || p.end.After(at))
	})
}

// repeats checks a node's budget. Requests that never got here, as while the legacy is
// down, have paid for some repeats, too.
func (c *checks) repeats(budget string, n *repeats) {
	if n.tokens < -1 {
		c.fail("%s has repeated more than its budget allows", budget)
	}
}

// troubled names the scopes that are not well.
func (c *checks) troubled() (all []string) {
	for _, scope := range c.scopes() {
		if !c.settled(time.Now(), scope) {
			all = append(all, scope)
		}
	}
	return all
}

// scopes are all that had trouble so far.
func (c *checks) scopes() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for scope := range c.troubles {
		all = append(all, scope)
	}
	return all
}
