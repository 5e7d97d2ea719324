package simulation

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"inquiry-gateway/cache/redistier"
)

// Bounds that the README and the comments of the packages promise, and what the check allows
// on top for the way of the bytes.
const (
	purgeBound  = time.Second      // on every node that reaches Redis
	repeated    = 9 * time.Second  // the node that made a purge writes it again if Redis loses it within this time
	repeatBound = time.Second      // within which it does so
	keysBound   = time.Second      // a revocation, in a file or while the node reaches Redis
	keysTTL     = 30 * time.Second // a revocation while the node does not reach Redis
	slack       = 500 * time.Millisecond
	overdue     = 300 * time.Millisecond // after request_timeout, until the answer is with its caller
	// In a minute: the first one, four at once because a session has ended, and one more every 10 s.
	mostSignIns = 1 + 4 + 6

	// Everything is fresh again after faults of d: twice d for back-off, which doubles up to
	// 30 s, and 8 s for breakers, leases and the poll of Redis.
	settleMost = 30 * time.Second
	settleOf   = 8 * time.Second
)

// checks hold every answer of the fleet against six invariants:
//
//  1. a list is the caller's own, whole, and of a mapping in force (whole)
//  2. it is no older than the policy allows (young)
//  3. nothing comes back from before a purge (notPurged), and what is said of one is true (purged)
//  4. a revoked key is refused after its bound, and a good one never (allowed)
//  5. in calm there is a 200, not stale, and one fetch for the fleet (available, fetch)
//  6. no second has more requests to the legacy than the ceiling (sent), and no minute more than
//     a few sign-ins of a node (signedIn)
//
// Besides, every answer comes in time. What is promised depends on what is wrong: that is the
// troubles.
type checks struct {
	env      *environment
	onAnswer func(*request) // is called with each good list

	mu       sync.Mutex
	failure  string
	troubles map[string]*trouble // by scope
	purges   []*purge
	losses   []time.Time          // of Redis' memory
	restored time.Time            // when the operator last gave Redis its keys back
	asked    map[string]time.Time // by process and list: when first since all is well
	requests []time.Time          // to the legacy, of the last second
}

// trouble is what is wrong in one scope: "shared" (any answer may suffer), "fleet" (nodes may
// fetch what another has), a node, "redis" or "redis:" and a node (it may not reach Redis),
// "way" (to the legacy), "auth", "account:" and an account.
type trouble struct {
	active                int
	began, ended, settled time.Time
}

// purge is one purge that an operator has asked for.
type purge struct {
	kind, account string
	soft          bool
	node          *node
	run           *running
	begin, end    time.Time // end is zero until it is acknowledged
	ok            bool      // for the fleet; else for this process only
	known         map[*running]bool
}

func (p *purge) hits(k listKey) bool { return p.account == k.account || p.kind == k.kind }

func newChecks(env *environment) *checks {
	return &checks{env: env, onAnswer: func(*request) {}, troubles: map[string]*trouble{}, asked: map[string]time.Time{}}
}

// fail ends the run, from any goroutine. Only the first failure counts.
func (c *checks) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.env.log("FAILED: %s", text)
	c.with(func() {
		if c.failure == "" {
			c.failure = fmt.Sprintf("at %v: %s", time.Since(c.env.begin), text)
		}
	})
}

func (c *checks) failed() (failed bool) {
	c.with(func() { failed = c.failure != "" })
	return failed
}

// with reads or writes what mu guards.
func (c *checks) with(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// begin notes a trouble in scopes until end is called.
func (c *checks) begin(scopes ...string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notePurges()
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
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		now := time.Now()
		for _, scope := range scopes {
			t := c.troubles[scope]
			t.active--
			t.ended = now
			t.settled = latest(t.settled, now.Add(min(2*now.Sub(t.began), settleMost)+settleOf))
		}
	}
}

// troubled are those of the scopes, or of all, that are not well or were not for long enough.
func (c *checks) troubled(at time.Time, scopes ...string) (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for scope, t := range c.troubles {
		if (len(scopes) == 0 || slices.Contains(scopes, scope)) && (t.active > 0 || at.Before(t.settled)) {
			all = append(all, scope)
		}
	}
	return all
}

func (c *checks) settled(at time.Time, scopes ...string) bool {
	return len(c.troubled(at, scopes...)) == 0
}

// recovers tells whether troubles have ended and some are not settled.
func (c *checks) recovers(at time.Time) (recovers bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.troubles {
		if t.active > 0 {
			return false
		}
		recovers = recovers || at.Before(t.settled)
	}
	return recovers
}

// wellSince is when the last trouble of any scope ended; the future while there is one. The
// caller holds mu.
func (c *checks) wellSince(scopes ...string) (since time.Time) {
	for _, scope := range scopes {
		switch t := c.troubles[scope]; {
		case t == nil:
		case t.active > 0:
			return time.Now().Add(time.Hour)
		default:
			since = latest(since, t.ended)
		}
	}
	return since
}

func latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// lost notes that Redis has lost some of its memory.
func (c *checks) lost() {
	c.with(func() {
		c.notePurges()
		c.losses = append(c.losses, time.Now())
	})
}

// notePurges notes which processes know which purges, before something goes wrong: what a process
// knows holds on it whatever Redis loses. The caller holds mu.
func (c *checks) notePurges() {
	for _, p := range c.purges {
		for _, n := range c.env.nodes {
			if run := n.current(); run != nil && !p.end.IsZero() {
				if since, holds := c.holdsSince(p, n, run); holds && time.Now().After(since) {
					p.known[run] = true
				}
			}
		}
	}
}

// lastLoss is zero where there was none. The caller holds mu.
func (c *checks) lastLoss() time.Time { return latest(append(c.losses, time.Time{})...) }

func (c *checks) keysRestored() { c.with(func() { c.restored = time.Now() }) }

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

func (c *checks) allowed(r *request) string {
	revoked, good := c.env.keys.revokedAt(r.key), r.status == 200 || r.status == 304
	switch {
	case revoked.IsZero() && (r.status == 401 || r.status == 403):
		return "a good key was refused"
	case revoked.IsZero(), r.start.Before(revoked):
	case r.status == 401:
		c.env.reach("revoked key refused")
	case good && r.start.Sub(revoked) > c.revocationBound(r, revoked):
		return fmt.Sprintf("a key that was revoked %v ago was good", r.start.Sub(revoked))
	}
	return ""
}

func (c *checks) revocationBound(r *request, revoked time.Time) time.Duration {
	if !c.env.keys.inRedis {
		return keysBound + slack
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastLoss().After(c.restored) {
		return time.Hour // Redis may have lost the revocation
	}
	from := latest(revoked, c.restored)
	bound := from.Sub(revoked) + keysTTL + slack
	if well := c.wellSince("redis", "redis:"+r.node.scope(), r.node.scope()); !well.After(r.start) {
		bound = min(bound, latest(from, well).Sub(revoked)+keysBound+slack)
	}
	return bound
}

// available: where nothing is wrong every good key gets its list, and no failure of others
// makes it stale.
func (c *checks) available(r *request) string {
	switch r.status {
	case 200, 304, 502, 503, 504, 401:
	default:
		return fmt.Sprintf("status %d is none that the README declares for this", r.status)
	}
	if r.status == 401 || !c.settled(r.start, "shared", r.node.scope(), "account:"+r.want.account, "auth") {
		return ""
	}
	c.env.reach("an answer in calm")
	switch {
	case c.tight() && (r.status == 503 || r.status == 504 || strings.Contains(r.outcome, "stale-error")): // the ceiling
	case r.status != 200 && r.status != 304:
		return "an error although all is well"
	case c.askedInCalm(r) && strings.Contains(r.outcome, "stale-error"):
		return "a stale list because of a failure, although all is well"
	}
	return ""
}

// askedInCalm tells whether somebody has asked the node for the list since all is well. The
// first who does so gets what was there, and has it refreshed.
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

func (c *checks) whole(r *request) string {
	if r.status != 200 && r.status != 304 {
		return ""
	}
	a, mark, problem := c.recognise(r)
	if problem != "" {
		return problem
	}
	c.onAnswer(r)
	policies := r.node.during(r.start, r.end)
	if !slices.ContainsFunc(policies, func(p policy) bool { return p.mapping == mark }) {
		return fmt.Sprintf("the list was made by the mapping %s, which is not in force", mark)
	}
	if problem := c.young(r, a, policies); problem != "" {
		return problem
	}
	return c.notPurged(r, a)
}

// recognise finds the legacy's answer that a list comes from, and compares the list with the
// truth.
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
	if a = c.env.legacy.answer(number); a == nil || a.version != version {
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

func (c *checks) young(r *request, a *answer, policies []policy) string {
	age, most, outcome := r.start.Sub(a.at), time.Duration(0), "answer of another sort"
	for _, name := range []string{"hit", "fwd=stale", "fwd=miss", "collapsed", "stale-revalidate", "stale-error"} {
		if strings.Contains(r.outcome, name) {
			outcome = "answer " + name
		}
	}
	c.env.reach(outcome)
	for _, p := range policies {
		switch {
		case outcome == "answer stale-error":
			most = max(most, p.ttl+max(p.sie, p.swr))
		case outcome == "answer stale-revalidate":
			most = max(most, p.ttl+p.swr)
		case strings.Contains(r.outcome, "fwd="):
			most = max(most, time.Millisecond)
		default:
			most = max(most, p.ttl)
		}
	}
	fetch := upstreamTimeout
	if c.tight() || a.key.kind == kindSeller {
		fetch = requestTimeout // pages come one after the other, and wait for the ceiling
	}
	if age > most+fetch+slack {
		return fmt.Sprintf("the list is %v old, of at most %v", age, most)
	}
	if r.age+time.Second+slack < age-fetch {
		return fmt.Sprintf("the list is %v old and its Age says less", age)
	}
	return ""
}

func (c *checks) notPurged(r *request, a *answer) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.purges {
		if !p.hits(a.key) || !a.at.Before(p.begin) || p.end.IsZero() {
			continue
		}
		since, holds := c.holdsSince(p, r.node, r.run)
		if !holds || !r.start.After(since) || p.soft && strings.Contains(r.outcome, "stale") {
			continue
		}
		return fmt.Sprintf("the list is of before the purge at %v by %s, which holds here since %v", p.begin.Sub(c.env.begin), p.run.name, since.Sub(c.env.begin))
	}
	return ""
}

// purged checks that Redis has a purge of which it was said.
func (c *checks) purged(p *purge) {
	member := map[bool]string{true: "soft ", false: "hard "}[p.soft] + p.kind
	if p.account != "" {
		member += redistier.Hash(p.account)
	}
	raised := false
	c.env.redis.With(func() {
		begin := c.env.redisNow().Add(-time.Since(p.begin))
		text, _ := c.env.redis.Do("ZSCORE", "iq:6:purges", member).(string)
		score, _ := strconv.ParseFloat(text, 64) // 0 where there is none
		raised = int64(score) >= begin.UnixMicro()
	})
	c.mu.Lock()
	lost := c.lastLoss().After(p.begin)
	c.mu.Unlock()
	if p.ok && !raised && !lost {
		c.fail("the purge at %v by %s is said to be done, and Redis has none", p.begin.Sub(c.env.begin), p.run.name)
	}
}

// holdsSince is when a purge must be in force on a process of a node. The caller holds mu.
func (c *checks) holdsSince(p *purge, n *node, run *running) (since time.Time, holds bool) {
	switch {
	case p.run == run || p.known[run]:
		return p.end, true
	case !p.ok:
		return time.Time{}, false
	}
	since = latest(p.end, run.since, c.wellSince("redis", "redis:"+n.scope())).Add(purgeBound + slack)
	if loss := c.lastLoss(); loss.After(p.begin) {
		if p.node.current() != p.run || loss.After(p.end.Add(repeated)) {
			return time.Time{}, false // nobody writes it again
		}
		since = latest(since, loss, c.wellSince("redis:"+p.node.scope())).Add(repeatBound + purgeBound + slack)
	}
	return since, true
}

// purgedSince tells whether a list was purged after a moment.
func (c *checks) purgedSince(k listKey, at time.Time) (purged bool) {
	c.with(func() {
		purged = slices.ContainsFunc(c.purges, func(p *purge) bool { return p.hits(k) && (p.end.IsZero() || p.end.After(at)) })
	})
	return purged
}

// fetch checks that a fetch is needed: nobody else makes it, and nobody has just made it. The
// caller holds the legacy's mu.
func (c *checks) fetch(a *answer, running map[int]*answer, last *answer) {
	if c.tight() || !c.settled(a.at, "shared", "fleet", "account:"+a.key.account) || c.purgedSince(a.key, a.at.Add(-requestTimeout)) {
		return
	}
	c.env.reach("a fetch in calm")
	for _, other := range running {
		if other.mapping == a.mapping {
			c.fail("%s fetches %+v while %s fetches it since %v", a.node, a.key, other.node, a.at.Sub(other.at))
		}
	}
	if last == nil || last.mapping != a.mapping || !c.settled(last.at, "shared", "fleet") || c.purgedSince(a.key, last.at.Add(-requestTimeout)) {
		return
	}
	age := a.at.Sub(last.at)
	for _, n := range c.env.nodes {
		for _, p := range n.during(last.at, a.at) {
			if p.mapping != a.mapping || age > time.Duration(float64(p.ttl)*(1-jitter))-slack {
				return
			}
		}
	}
	c.fail("%s fetches %+v although %s got it %v ago", a.node, a.key, last.node, age)
}

// signedIn checks that no process signs in again and again because an account's requests are
// refused. all are the sign-ins, the newest last. The caller holds the legacy's mu.
func (c *checks) signedIn(all []signIn) {
	last, n := all[len(all)-1], 0
	for _, s := range all {
		if s.node == last.node && last.at.Sub(s.at) < time.Minute {
			n++
		}
	}
	if n > mostSignIns {
		c.fail("%s has signed in %d times in a minute", last.node, n)
	}
}

// tight tells whether the ceiling is reached although all is well.
func (c *checks) tight() bool { return c.env.ceiling > 0 && c.env.ceiling < roomy }

// sent counts the requests on the wire to the legacy.
func (c *checks) sent(w way, data []byte) {
	if w.to != "legacy" || c.env.ceiling == 0 || !bytes.HasPrefix(data, []byte("GET ")) && !bytes.HasPrefix(data, []byte("POST ")) {
		return
	}
	var n, most int
	c.with(func() {
		now := time.Now()
		c.requests = slices.DeleteFunc(c.requests, func(at time.Time) bool { return now.Sub(at) >= time.Second })
		c.requests = append(c.requests, now)
		n, most = len(c.requests), c.mostRequests(now)
	})
	if n > c.env.ceiling/2 {
		c.env.reach("half of the ceiling")
	}
	if n > most {
		c.fail("%d requests to the legacy in a second, of at most %d", n, most)
	}
}

// mostRequests is the ceiling with what operation.md says that may come on top. A request
// may have waited for its connection, as long as a fetch may take, where the way is in
// trouble. The caller holds mu.
func (c *checks) mostRequests(now time.Time) int {
	most, lately := c.env.ceiling, func(t time.Time) bool { return !t.Add(upstreamTimeout + time.Second).Before(now) }
	if lately(c.wellSince("way")) {
		most *= 2
	}
	for _, loss := range c.losses { // of Redis' memory, or of what a replica had not got yet
		if now.Sub(loss) < time.Second+400*time.Millisecond {
			most += c.env.ceiling/5 + 1
		}
	}
	alone := 0
	for _, n := range c.env.nodes {
		if lately(c.wellSince("redis:" + n.scope())) {
			alone++
		}
	}
	if lately(c.wellSince("redis")) { // in the second in which it is lost, comes back or becomes slow
		most += c.env.ceiling / 5
	}
	// While Redis is unavailable for all, all keep to their parts. When it is back, a node that has not
	// sent anything meanwhile does not, and the others do until they try again.
	if well := c.wellSince("redis"); well.Before(now) && lately(well) {
		alone = max(alone, nodeCount-1)
	}
	// A Redis that is far or slow answers on connections that are open, and on new ones too late.
	if lately(c.wellSince("far")) {
		alone = max(alone, nodeCount-1)
	}
	return most + alone*((9*c.env.ceiling+10*nodeCount-1)/(10*nodeCount))
}
