package upstream

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/sony/gobreaker/v2"

	"inquiry-gateway/internal/localcache"
)

const (
	// accountFailures in a row, of different lists, open an account's circuit.
	accountFailures = 3
	// breakerAccounts bounds the memory. An account that is evicted starts again with a closed circuit.
	breakerAccounts = 16 << 10
	// probeShare of open_for is how long the shared circuit is open before it is half-open for accounts
	// and lists that have not failed. All others wait for the whole of it.
	probeShare = 5
	// busyProbe is what a client is asked to wait while a probe is in flight.
	busyProbe = time.Second
)

// errIgnored is excluded from the counts of a circuit.
var errIgnored = errors.New("not evidence about the legacy system")

// breaker rejects fetches of one kind on this node while the legacy system fails. A fetch passes two
// circuits of gobreaker: its account's own, and the one that all accounts share.
//
// In the shared circuit a failure counts once: an account that failed adds nothing until one of its lists
// succeeds, so fewer failing accounts than min_requests never stop the others. Repeated failures count as
// well once no list of any account has succeeded for [BreakerWindow]: that is an outage, whatever the ratio.
// The shared circuit is half-open after a [probeShare]th of open_for, first for accounts and lists that have
// not failed, and after open_for for all.
//
// It is safe for concurrent use. A gobreaker can be neither reconfigured nor reset, so a reload of upstream.breaker or another base_url makes a new one.
type breaker struct {
	cfg       BreakerConfig
	window    time.Duration
	start     time.Time // moments are counted from here, on the monotonic clock
	all       *circuit
	accounts  localcache.Cache[string, *circuit]
	succeeded atomic.Int64 // when the last list came
}

// circuit adds the time of opening to a gobreaker, whose errors do not say how long it stays open, and
// whose state changes only when it is queried.
type circuit struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	opened atomic.Int64
}

// fails reports whether the last outcome was a failure.
func (c *circuit) fails() bool {
	return c.State() != gobreaker.StateClosed || c.Counts().ConsecutiveFailures > 0
}

// breakerWindow is the period over which outcomes are counted. gobreaker counts an outcome in the bucket where its
// fetch began, and drops it with the bucket. So the window is at least twice the longest fetch, or lists
// that hang would never open a circuit.
func breakerWindow(longestFetch time.Duration) time.Duration {
	return max(BreakerWindow, 2*longestFetch)
}

// newBreaker calls changed when the shared circuit changes, under its lock.
func newBreaker(cfg BreakerConfig, window time.Duration, changed func(from, to gobreaker.State)) *breaker {
	b := &breaker{cfg: cfg, window: window, start: time.Now(), accounts: otter.Must(&otter.Options[string, *circuit]{MaximumSize: breakerAccounts})}
	b.succeeded.Store(int64(-BreakerWindow))
	b.all = b.newCircuit(gobreaker.Settings{
		Interval: window, BucketPeriod: window / 10, Timeout: cfg.OpenFor / probeShare,
		ReadyToTrip: func(n gobreaker.Counts) bool {
			failures, all := float64(n.TotalFailures), float64(n.TotalFailures+n.TotalSuccesses)
			return int(n.TotalFailures) >= cfg.MinRequests && (failures >= cfg.FailureRatio*all || b.since(&b.succeeded) >= BreakerWindow)
		},
	}, changed)
	return b
}

func (b *breaker) newCircuit(s gobreaker.Settings, changed func(from, to gobreaker.State)) *circuit {
	c := &circuit{}
	s.IsExcluded = func(err error) bool { return errors.Is(err, errIgnored) }
	s.OnStateChange = func(_ string, from, to gobreaker.State) {
		if to == gobreaker.StateOpen {
			c.opened.Store(int64(time.Since(b.start)))
		}
		changed(from, to)
	}
	c.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](s)
	return c
}

// allow admits a fetch or rejects it. failing tells that the list's last fetch failed. Without an error,
// done must be called with the outcome.
func (b *breaker) allow(account string, failing bool) (done func(error), err error) {
	own := b.accountCircuit(account)
	doneOwn, err := own.Allow()
	if err != nil {
		return nil, notAsked(reasonBreaker, b.left(own), "the account's lists fail: %w", err)
	}
	suspect := failing || own.fails()
	state := b.all.State()
	if suspect && b.defers(state) {
		doneOwn(errIgnored)
		return nil, notAsked(reasonBreaker, b.left(b.all), "accounts and lists that have not failed probe first")
	}
	doneAll, err := b.all.Allow()
	if err != nil {
		doneOwn(errIgnored)
		return nil, notAsked(reasonBreaker, b.left(b.all), "%w", err)
	}
	return func(err error) {
		switch verdictOf(err) {
		case isWell:
			b.succeeded.Store(int64(time.Since(b.start)))
			doneOwn(nil)
			doneAll(nil)
			return
		case noVerdict:
			err = errIgnored
		}
		late := !suspect && own.fails() // other lists of the account failed meanwhile
		if state == gobreaker.StateClosed && (late || suspect && b.since(&b.succeeded) < BreakerWindow) {
			doneAll(errIgnored)
		} else {
			doneAll(err)
		}
		if failing && own.State() == gobreaker.StateClosed {
			doneOwn(errIgnored)
		} else {
			doneOwn(err)
		}
	}, nil
}

// accountCircuit returns the circuit of an account: a new, closed one if it has none yet or it was evicted.
func (b *breaker) accountCircuit(account string) *circuit {
	if c, ok := b.accounts.GetIfPresent(account); ok {
		return c
	}
	c, _ := b.accounts.Compute(strings.Clone(account), func(old *circuit, found bool) (*circuit, otter.ComputeOp) {
		if found {
			return old, otter.CancelOp
		}
		return b.newCircuit(gobreaker.Settings{
			Timeout:     b.cfg.OpenFor,
			ReadyToTrip: func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= accountFailures },
		}, func(_, _ gobreaker.State) {}), otter.WriteOp
	})
	return c
}

// stateFor is the state that an account meets; with an empty account that of the kind.
func (b *breaker) stateFor(account string) gobreaker.State {
	state := b.all.State()
	own, ok := b.accounts.GetIfPresent(account)
	if !ok {
		return state
	}
	if own.fails() && b.defers(state) {
		return gobreaker.StateOpen
	}
	return max(state, own.State())
}

// defers reports whether the shared circuit, in a state, still keeps accounts and lists that have failed
// waiting for those that have not.
func (b *breaker) defers(state gobreaker.State) bool {
	return state == gobreaker.StateHalfOpen && b.since(&b.all.opened) < b.cfg.OpenFor
}

// left is how long a caller is told to wait: the rest of open_for since the circuit opened, one second at least.
func (b *breaker) left(c *circuit) time.Duration {
	return max(b.cfg.OpenFor-b.since(&c.opened), busyProbe)
}

func (b *breaker) since(t *atomic.Int64) time.Duration {
	return time.Since(b.start) - time.Duration(t.Load())
}
