package cache

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"inquiry-gateway/internal/localcache"
)

const (
	backoffFirst = 500 * time.Millisecond // after one failure, before jitter
	backoffMost  = 30 * time.Second
	// Who waits for a list gets the last error again for that long at most, and for that long at
	// least where the list itself is at fault, which a moment does not mend.
	retryMost   = 4500 * time.Millisecond
	retryOfList = 3500 * time.Millisecond
	lookEvery   = 2 * time.Second // between two looks into Redis for a list that may not be refreshed
	// failingKeys bounds the memory of the back-off. A key that falls out is
	// merely tried a little earlier.
	failingKeys = 16 << 10
)

// backoff remembers which lists fail to be filled, by the key that the legacy is asked by, and
// how long each rests. One account's failing list changes nothing for others. It is safe for
// concurrent use.
type backoff struct {
	keys   localcache.Cache[Key, *rest] // a pointer as in Lists: one instance of otter is compiled for both
	start  time.Time                    // moments are counted from here, on the monotonic clock
	worked [kindCount]atomic.Int64      // when the legacy last gave a list of the kind, to any node
}

// rest is what is known of a list whose last fill failed. It is immutable.
type rest struct {
	attempt
	err      error
	failures int
	alone    bool      // it fails by itself: the error says so, or others of its kind worked meanwhile
	refresh  time.Time // no refresh before
	retry    time.Time // who waits gets err before
	look     time.Time // Redis has nothing new for a refresh before
}

// attempt is a fill: by a policy, from a moment on, before the changes that came after its mark.
type attempt struct {
	policy *policy
	began  time.Time
	mark   mark
}

func newBackoff(start time.Time) (*backoff, error) {
	keys, err := otter.New(&otter.Options[Key, *rest]{MaximumSize: failingKeys})
	return &backoff{keys: keys, start: start}, err
}

// failed takes the error of a fill. The rest grows with each failure, but for one of a fill
// that began during a rest, for somebody who waits: else many callers make it long at once. One
// that was refused, so that the legacy was not asked, says nothing of the list, and takes nothing
// of what is known of it: a refresh waits at least as after a first failure.
func (b *backoff) failed(k Key, a attempt, err error, now time.Time) {
	fault, told := errors.AsType[FillError](err)
	b.keys.Compute(k.clone(), func(old *rest, found bool) (*rest, otter.ComputeOp) {
		if !found || forgotten(old, now) {
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
		r := &rest{attempt: a, err: err, failures: old.failures, alone: told && fault.OfList() || b.workedSince(k.Kind, old.began)}
		if old.began.After(a.began) { // of a fill that began before a purge
			r.attempt = old.attempt
		}
		if r.alone && !old.alone { // what the system's failures taught is over
			r.failures = 0
		}
		if !a.began.Before(old.refresh) {
			r.failures++
		}
		d := delay(r.failures)
		r.refresh, r.retry = now.Add(d), now.Add(min(d, retryMost))
		if told && fault.OfList() {
			r.retry = now.Add(retryOfList + rand.N(retryMost-retryOfList))
		}
		return r, otter.WriteOp
	})
}

// gave takes a list that the legacy gave at a moment, to this node or to another.
func (b *backoff) gave(k Key, answered time.Time) {
	if i, ok := indexOf(k.Kind); ok {
		moment := int64(answered.Sub(b.start))
		for old := b.worked[i].Load(); moment > old && !b.worked[i].CompareAndSwap(old, moment); old = b.worked[i].Load() {
		}
	}
	if r, ok := b.keys.GetIfPresent(k); ok && answered.After(r.began) {
		b.keys.Invalidate(k)
	}
}

// workedSince tells whether the legacy has given a list of the kind since.
func (b *backoff) workedSince(kind string, since time.Time) bool {
	i, ok := indexOf(kind)
	return ok && b.worked[i].Load() > int64(since.Sub(b.start))
}

// looked notes that Redis has nothing better for a key than what this node has.
func (b *backoff) looked(k Key, now time.Time) {
	b.keys.Compute(k, func(old *rest, found bool) (*rest, otter.ComputeOp) {
		if !found {
			return nil, otter.CancelOp
		}
		r := *old
		r.look = now.Add(lookEvery)
		return &r, otter.WriteOp
	})
}

// of is what is known of a key that fails, of which there is a list that the legacy gave at a
// moment; nil: it does not. Nor does one that has failed before that, or with all others of its
// kind, of which one has worked since, or long ago.
func (b *backoff) of(k Key, answered, now time.Time) *rest {
	r, ok := b.keys.GetIfPresent(k)
	if !ok || answered.After(r.began) || !r.alone && b.workedSince(k.Kind, r.began) || forgotten(r, now) {
		return nil
	}
	return r
}

// forgotten tells that a list might have been tried again long ago.
func forgotten(r *rest, now time.Time) bool { return now.Sub(r.refresh) > backoffMost }

// delay grows exponentially; half of it is random, so that keys which failed
// together are not retried together.
func delay(failures int) time.Duration {
	d := backoffMost
	if shift := max(failures, 1) - 1; shift < 6 {
		d = min(backoffFirst<<shift, backoffMost)
	}
	return d/2 + rand.N(d/2)
}
