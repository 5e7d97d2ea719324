package upstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// breaker stops asking for the lists of one kind that the legacy fails to give. It weighs
// accounts: a failure says something of its own account first (see [evidence.failing]).
//
// Opened by one account it holds that account alone. The others are asked for as if it was
// closed, and the first of their lists that works closes it. Opened by several it holds all.
// After open_for one list at a time is a probe, of the whole fleet where there is Redis. One
// that works closes it. One that fails holds its account for open_for again, and all
// accounts if that of another one has failed before.
//
// It is safe for concurrent use. It outlives reloads: its terms come with each call.
type breaker struct {
	mu      sync.Mutex
	state   gobreaker.State
	round   int // grows when what is under way says nothing any more
	seen    evidence
	alone   bool   // opened by one account
	held    string // the account that is held; empty: all are
	until   time.Time
	probing bool
}

// terms are when a breaker opens, and who is told of its changes. It is called under
// the breaker's lock; accounts is how many fail where it opens.
type terms struct {
	BreakerConfig
	changed func(from, to gobreaker.State, accounts int)
}

// pass is what a fetch was let through with.
type pass struct {
	account string
	round   int
	probe   bool
}

// admit lets a fetch through, or says why not. Without an error done must be called.
func (b *breaker) admit(account string, t terms, now time.Time) (pass, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := pass{account: account, round: b.round}
	switch left := b.until.Sub(now); {
	case !b.concerns(account):
		return p, nil
	case left > 0 && (b.held == "" || b.held == account):
		return p, notAsked(reasonBreaker, left, "the circuit breaker is open")
	case b.probing:
		return p, notAsked(reasonBreaker, time.Second, "another fetch finds out whether the legacy is well")
	}
	b.probing, p.probe = true, true
	b.become(gobreaker.StateHalfOpen, t, 0)
	return p, nil
}

// done notes what came of a fetch. It is true for a probe that has opened the breaker for all.
func (b *breaker) done(p pass, v verdict, t terms, now time.Time) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.round != b.round {
		return false
	}
	if p.probe {
		b.probing = false
	}
	switch {
	case v == unknown:
		return false
	case v == well && b.state != gobreaker.StateClosed:
		b.next()
		b.become(gobreaker.StateClosed, t, 0)
		b.seen = evidence{}
		b.seen.add(p.account, false, now)
		return false
	case p.probe:
		opened = !b.alone && b.held != "" && b.held != p.account
		b.open(p.account, !opened, t, now, 1)
		return opened
	}
	b.seen.add(p.account, v == atFault, now)
	if v == well {
		return false
	}
	failing := b.seen.failing(t.BreakerConfig)
	if b.state != gobreaker.StateClosed && p.account != b.held && failing == 1 {
		failing = 2 // with the one that is held
	}
	if failing > 1 || failing == 1 && b.state == gobreaker.StateClosed {
		b.next()
		b.alone = failing == 1
		b.open(p.account, b.alone, t, now, failing)
	}
	return false
}

// open holds the account, or all.
func (b *breaker) open(account string, one bool, t terms, now time.Time, failing int) {
	if b.held = ""; one {
		b.held = account
	}
	b.until = now.Add(t.OpenFor)
	b.become(gobreaker.StateOpen, t, failing)
}

func (b *breaker) become(to gobreaker.State, t terms, accounts int) {
	if from := b.state; from != to {
		b.state = to
		t.changed(from, to, accounts)
	}
}

func (b *breaker) next() { b.round, b.probing = b.round+1, false }

func (b *breaker) concerns(account string) bool {
	return b.state != gobreaker.StateClosed && (!b.alone || b.held == account)
}

// current is the state for an account, or of the breaker if that is empty: half-open as soon
// as a probe may be made.
func (b *breaker) current(account string, now time.Time) gobreaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case account != "" && !b.concerns(account):
		return gobreaker.StateClosed
	case b.state == gobreaker.StateOpen && !now.Before(b.until):
		return gobreaker.StateHalfOpen
	}
	return b.state
}

// forget closes the breaker of a list that is asked for elsewhere now, or not any more.
func (b *breaker) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next()
	b.state, b.seen = gobreaker.StateClosed, evidence{}
}

// ownFailure tells whether a failure is the account's own: other accounts were asked for
// lately, and none of them fails.
func (b *breaker) ownFailure(account string, c BreakerConfig) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other, t := range b.seen.accounts {
		if other != account && t.fails(c) {
			return false
		}
	}
	_, own := b.seen.accounts[account]
	return own && len(b.seen.accounts) > 1
}

// evidence is how the fetches of the last [BreakerWindow] ended.
type evidence struct {
	fetches  []ended
	accounts map[string]tally
}

type ended struct {
	account string
	failed  bool
	at      time.Time
}

// tally is of one account's fetches.
type tally struct{ all, failed int }

func (t tally) fails(c BreakerConfig) bool { return float64(t.failed) >= c.FailureRatio*float64(t.all) }

func (e *evidence) add(account string, failed bool, now time.Time) {
	if e.accounts == nil {
		e.accounts = map[string]tally{}
	}
	e.fetches = append(e.fetches, ended{account, failed, now})
	e.count(account, failed, 1)
	for now.Sub(e.fetches[0].at) >= BreakerWindow {
		e.count(e.fetches[0].account, e.fetches[0].failed, -1)
		e.fetches = e.fetches[1:]
	}
}

func (e *evidence) count(account string, failed bool, n int) {
	t := e.accounts[account]
	if t.all += n; failed {
		t.failed += n
	}
	if e.accounts[account] = t; t.all == 0 {
		delete(e.accounts, account)
	}
}

// failing is how many accounts fail, where that opens the breaker; else 0. An account fails
// when failure_ratio of its fetches did. All accounts have to, of min_requests fetches
// together; or failure_ratio of them, and without the one that fails most they still do, of
// as many fetches: its list alone may be what is wrong.
func (e *evidence) failing(c BreakerConfig) int {
	failing, loudest := 0, 0
	for _, t := range e.accounts {
		if t.fails(c) {
			failing++
			loudest = max(loudest, t.all)
		}
	}
	switch accounts := len(e.accounts); {
	case failing == accounts && len(e.fetches) >= c.MinRequests:
		return failing
	case float64(failing-1) >= c.FailureRatio*float64(accounts-1) && len(e.fetches)-loudest >= c.MinRequests:
		return failing
	}
	return 0
}

// lease is the fleet's right to probe the lists of a kind, one at a time: a key in Redis, whose
// value names the node's probe that has it.
type lease struct {
	redis   redis.Cmdable // nil: each node probes by itself
	key     string
	rest    time.Duration // after a probe that has opened the breaker for all
	timeout time.Duration // of a call of Redis
}

func newLease(kind string, cfg Config, opts Options) lease {
	return lease{opts.Redis, cmp.Or(opts.Prefix, "iq") + ":probe:{" + kind + "}", cfg.Timeout, cmp.Or(opts.RedisTimeout, 100*time.Millisecond)}
}

// take gets the lease for a probe, until its deadline. It is false where another node probes.
// Without an answer of Redis this node probes by itself.
func (l lease) take(ctx context.Context) (owner string, taken bool) {
	if l.redis == nil {
		return "", true
	}
	life := l.rest
	if deadline, bounded := ctx.Deadline(); bounded {
		life = max(life, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	owner = rand.Text()
	won, err := l.redis.SetNX(ctx, l.key, owner, life).Result()
	return owner, won || err != nil
}

// endLease lets a lease end after a time, 0 ms: now, unless it is another owner's by then.
var endLease = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)

// end gives the lease back after a probe: at once, or after a rest where that has opened the
// breaker for all. Where Redis does not take it, it ends by itself.
func (l lease) end(ctx context.Context, owner string, opened bool) {
	if l.redis == nil {
		return
	}
	rest := int64(0)
	if opened {
		rest = l.rest.Milliseconds()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	_ = endLease.Run(ctx, l.redis, []string{l.key}, owner, rest).Err()
}
