package cache

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/maypok86/otter/v2"

	"inquiry-gateway/internal/localcache"
)

const (
	backoffFirst = 500 * time.Millisecond // after one failure, before jitter
	backoffMost  = 5 * time.Second
	// If the list itself is at fault, waiting callers get the last error again for this long, because a
	// quick retry would not help.
	retryMost   = 4500 * time.Millisecond
	retryOfList = 3500 * time.Millisecond
	lookEvery   = 2 * time.Second // between two looks into Redis for a list that may not be refreshed
	// retryAfterMost bounds the Retry-After of a failed fill, for which the list is not asked for.
	retryAfterMost = time.Minute
	// leastMemory is how long a failure is remembered at least.
	leastMemory = 30 * time.Second
	// failingKeys bounds the memory of the back-off. A key that falls out is
	// merely tried a little earlier.
	failingKeys = 16 << 10
)

// backoff remembers which lists fail to be filled, by the key that the legacy is asked by, and
// how long each is in back-off. A failure is remembered until that list comes, is purged, the
// configuration changes, or nobody has asked for the list for longer than its stale window.
// It is safe for concurrent use.
type backoff struct {
	keys localcache.Cache[Key, *rest] // a pointer as in Lists: one instance of otter is compiled for both
}

// rest is what is known of a list whose last fill failed. It is immutable.
type rest struct {
	attempt
	err      error
	failures int
	refresh  time.Time // no refresh before
	retry    time.Time // who waits gets err before
	look     time.Time // Redis has nothing new for a refresh before
}

// attempt is a fill: by a policy, from a moment on, before the purges that came after its version. Its
// failure is remembered for a time after the list may be refreshed again.
type attempt struct {
	policy *policy
	began  time.Time
	fetch  fetchVersion
	memory time.Duration
}

// RestError is the error of the last fill of a list that is in back-off.
type RestError struct {
	Err  error
	Left time.Duration // of the back-off
}

// Error implements error.
func (e *RestError) Error() string { return e.Err.Error() }

// Unwrap gives the error of the fill.
func (e *RestError) Unwrap() error { return e.Err }

func newBackoff() (*backoff, error) {
	keys, err := otter.New(&otter.Options[Key, *rest]{MaximumSize: failingKeys})
	return &backoff{keys: keys}, err
}

// failed records the error of a fill. The back-off grows with each failure, except when the fill began
// during a back-off for a waiting caller: otherwise many callers would lengthen it at once. A refused
// fill never reached the legacy system. It says nothing about the list and keeps the existing state; a
// refresh then waits at least as long as after a first failure.
func (b *backoff) failed(k Key, a attempt, err error, now time.Time) {
	fault, told := errors.AsType[FillError](err)
	b.keys.Compute(k.clone(), func(old *rest, found bool) (*rest, otter.ComputeOp) {
		if !found || old.forgotten(now) {
			old = &rest{attempt: a}
		}
		if told && fault.Refused() {
			r := *old
			if r.err == nil {
				r.err = err
			}
			if next := now.Add(delay(1)); next.After(r.refresh) {
				r.refresh = next
			}
			return &r, otter.WriteOp
		}
		r := &rest{attempt: a, err: err, failures: old.failures}
		if old.began.After(a.began) { // of a fill that began before a purge
			r.attempt = old.attempt
		}
		if !a.began.Before(old.retry) {
			r.failures++
		}
		d := delay(r.failures)
		if told {
			d = max(d, min(fault.RetryAfter(), retryAfterMost))
		}
		r.refresh, r.retry = now.Add(d), now.Add(d)
		if told && fault.OfList() {
			r.retry = now.Add(retryOfList + rand.N(retryMost-retryOfList))
		}
		return r, otter.WriteOp
	})
}

// gave takes a list that the legacy gave at a moment, to this node or to another.
func (b *backoff) gave(k Key, answered time.Time) {
	if r, ok := b.keys.GetIfPresent(k); ok && answered.After(r.began) {
		b.keys.Invalidate(k)
	}
}

// looked notes that Redis has nothing better for a key than what this node has.
func (b *backoff) looked(k Key, now time.Time) {
	b.keys.Compute(k.clone(), func(old *rest, found bool) (*rest, otter.ComputeOp) {
		if !found {
			return nil, otter.CancelOp
		}
		r := *old
		r.look = now.Add(lookEvery)
		return &r, otter.WriteOp
	})
}

// of returns what is known of a key that fails; nil if it does not. answered is when the legacy gave
// the list that there is: a failure from before that does not count.
func (b *backoff) of(k Key, answered, now time.Time) *rest {
	r, ok := b.keys.GetIfPresent(k)
	if !ok || answered.After(r.began) || r.forgotten(now) {
		return nil
	}
	return r
}

// forgotten reports whether nobody has asked for the list for a long time.
func (r *rest) forgotten(now time.Time) bool { return now.Sub(r.refresh) > r.memory }

// delay grows exponentially; half of it is random, so that keys which failed
// together are not retried together.
func delay(failures int) time.Duration {
	d := backoffMost
	if shift := max(failures, 1) - 1; shift < 6 {
		d = min(backoffFirst<<shift, backoffMost)
	}
	return d/2 + rand.N(d/2)
}
