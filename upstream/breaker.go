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

// breaker stops asking for the lists of one kind when the legacy fails to give them. A failure is
// evidence about its own account first: [evidence.failing] says how many accounts fail.
//
// Closed, it lets every fetch through. When several accounts fail, it opens for all. When only one
// does, and no other shows that the legacy works, it opens for that account alone: the others are
// asked for as if it was closed, and the first list that comes for one of them closes it.
//
// Open, it lets no fetch through for open_for, and then one at a time, the probe; where there is
// Redis, one of the whole fleet. A list that comes closes it. A probe that fails stops its account
// for open_for again. If another account's probe has failed before, it stops all accounts.
//
// It is safe for concurrent use. It outlives reloads, so its rules come with each call.
type breaker struct {
	mu       sync.Mutex
	state    gobreaker.State
	round    int // of openings and closings; a fetch that began in another round is no evidence
	evidence evidence
	single   bool      // it is open for one account alone
	stopped  string    // the account that is not asked for until then; empty: all
	until    time.Time // a probe may be made
	probing  bool
}

// breakerRules are when a breaker opens, and who is told of its changes: changed runs under the
// breaker's lock, and accounts is how many fail where it opens.
type breakerRules struct {
	cfg     BreakerConfig
	changed func(from, to gobreaker.State, accounts int)
}

// ticket is what a fetch was let through with.
type ticket struct {
	account string
	round   int
	probe   bool
}

// admit lets a fetch through, or says why not. Without an error done must be called.
func (b *breaker) admit(account string, rules breakerRules, now time.Time) (ticket, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := ticket{account: account, round: b.round}
	switch left := b.until.Sub(now); {
	case !b.isOpenFor(account):
		return t, nil
	case left > 0 && (b.stopped == "" || b.stopped == account):
		return t, notAsked(reasonBreaker, left, "the circuit breaker is open")
	case b.probing:
		return t, notAsked(reasonBreaker, time.Second, "another fetch finds out whether the legacy is well")
	}
	b.probing, t.probe = true, true
	b.setState(gobreaker.StateHalfOpen, rules, 0)
	return t, nil
}

// done notes what came of a fetch. It is true for a probe that has stopped all accounts.
func (b *breaker) done(t ticket, v verdict, rules breakerRules, now time.Time) (stoppedAll bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.round != b.round {
		return false
	}
	if t.probe {
		b.probing = false
	}
	switch {
	case v == saysNothing:
		return false
	case v == saysWell && b.state != gobreaker.StateClosed:
		b.nextRound()
		b.setState(gobreaker.StateClosed, rules, 0)
		b.evidence = evidence{}
		b.evidence.add(t.account, false, now)
		return false
	case t.probe:
		stoppedAll = !b.single && b.stopped != "" && b.stopped != t.account
		b.open(t.account, !stoppedAll, rules, now, 1)
		return stoppedAll
	}
	b.evidence.add(t.account, v == saysFault, now)
	if v == saysWell {
		return false
	}
	failing := b.evidence.failing(rules.cfg)
	if b.state != gobreaker.StateClosed && t.account != b.stopped && failing == 1 {
		failing = 2 // with the one that is stopped
	}
	if failing > 1 || failing == 1 && b.state == gobreaker.StateClosed {
		b.nextRound()
		b.single = failing == 1
		b.open(t.account, b.single, rules, now, failing)
	}
	return false
}

// open stops the account, or all.
func (b *breaker) open(account string, single bool, rules breakerRules, now time.Time, failing int) {
	if b.stopped = ""; single {
		b.stopped = account
	}
	b.until = now.Add(rules.cfg.OpenFor)
	b.setState(gobreaker.StateOpen, rules, failing)
}

func (b *breaker) setState(to gobreaker.State, rules breakerRules, accounts int) {
	if from := b.state; from != to {
		b.state = to
		rules.changed(from, to, accounts)
	}
}

func (b *breaker) nextRound() { b.round, b.probing = b.round+1, false }

// isOpenFor tells whether an account is asked for by probes only.
func (b *breaker) isOpenFor(account string) bool {
	return b.state != gobreaker.StateClosed && (!b.single || b.stopped == account)
}

// stateFor is the state that an account meets, half-open as soon as a probe may be made. With an
// empty account it is that of the breaker.
func (b *breaker) stateFor(account string, now time.Time) gobreaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case account != "" && !b.isOpenFor(account):
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
	b.nextRound()
	b.state, b.evidence = gobreaker.StateClosed, evidence{}
}

// ownFailure tells whether a failure is the account's own: other accounts were asked for
// lately, and none of them fails.
func (b *breaker) ownFailure(account string, c BreakerConfig) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for other, t := range b.evidence.accounts {
		if other != account && t.fails(c) {
			return false
		}
	}
	_, own := b.evidence.accounts[account]
	return own && len(b.evidence.accounts) > 1
}

// evidence is how the fetches of the last [BreakerWindow] ended.
type evidence struct {
	fetches  []fetched // the oldest first
	accounts map[string]tally
}

type fetched struct {
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
	e.fetches = append(e.fetches, fetched{account, failed, now})
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

// failing is how many accounts fail, where these are enough to open the breaker; else 0. An account
// fails when failure_ratio of its fetches did. Enough are
//   - all accounts, with min_requests fetches together, or
//   - failure_ratio of the accounts, if that is so without the loudest of them, too, and the others
//     have made min_requests fetches: the loudest account's list alone may be what is wrong.
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

// probeLock lets one node of the fleet probe the lists of a kind at a time. It is a key in Redis,
// whose value is the probe that has it.
type probeLock struct {
	redis   redis.Cmdable // nil: each node probes by itself
	key     string
	rest    time.Duration // it is kept after a probe that has stopped all accounts
	timeout time.Duration // of a call of Redis
}

func newProbeLock(kind string, cfg Config, opts Options) probeLock {
	return probeLock{opts.Redis, cmp.Or(opts.Prefix, "iq") + ":probe:{" + kind + "}", cfg.Timeout, cmp.Or(opts.RedisTimeout, 100*time.Millisecond)}
}

// acquire gets the lock for a probe, until the deadline of ctx. It is false where another node
// probes. Without an answer of Redis this node probes by itself.
func (l probeLock) acquire(ctx context.Context) (probe string, ok bool) {
	if l.redis == nil {
		return "", true
	}
	life := l.rest
	if deadline, bounded := ctx.Deadline(); bounded {
		life = max(life, time.Until(deadline))
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	probe = rand.Text()
	won, err := l.redis.SetNX(ctx, l.key, probe, life).Result()
	return probe, won || err != nil
}

// releaseProbeLock lets a lock end after so many milliseconds, 0: now, unless another probe has it.
var releaseProbeLock = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`)

// release gives the lock back after a probe: at once, or after a rest where that has stopped all
// accounts. Where Redis does not take it, the lock ends by itself.
func (l probeLock) release(ctx context.Context, probe string, stoppedAll bool) {
	if l.redis == nil {
		return
	}
	rest := int64(0)
	if stoppedAll {
		rest = l.rest.Milliseconds()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.timeout)
	defer cancel()
	_ = releaseProbeLock.Run(ctx, l.redis, []string{l.key}, probe, rest).Err()
}
