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
	lookEvery    = 2 * time.Second // between two looks into Redis for a list that may not be filled
	// failingKeys bounds the memory of the back-off. A key that falls out is
	// merely tried a little earlier.
	failingKeys = 16 << 10
)

// backoff remembers which lists fail to be filled, by the key that the legacy is asked by,
// and when each may be tried again. One account's failing list changes nothing for
// others. It is safe for concurrent use.
type backoff struct {
	keys   localcache.Cache[Key, *attempt] // a pointer as in Lists: one instance of otter is compiled for both
	start  time.Time                       // moments are counted from here, on the monotonic clock
	worked [kindCount]atomic.Int64         // when the legacy last gave a list of the kind, to any node
}

// attempt is the state of a key that fails. It is immutable.
type attempt struct {
	failures int
	began    time.Time // the last fill that failed
	own      bool      // other lists of the kind worked meanwhile: this one fails by itself
	next     time.Time // no fill before, unless somebody waits for it
	look     time.Time // nor a look at what other nodes have put into Redis
}

func newBackoff(start time.Time) (*backoff, error) {
	keys, err := otter.New(&otter.Options[Key, *attempt]{MaximumSize: failingKeys})
	return &backoff{keys: keys, start: start}, err
}

// failed takes the error of a fill. The rest grows with each failure, but for one of a fill
// that began during a rest, for somebody who waits: else many callers make it long at once. After
// one that was refused, so that the legacy was not asked, it is no longer than after a first one.
func (b *backoff) failed(k Key, err error, began, now time.Time) {
	b.keys.Compute(k.clone(), func(a *attempt, found bool) (*attempt, otter.ComputeOp) {
		if !found || forgotten(a, now) {
			a = &attempt{began: began}
		}
		next := attempt{failures: a.failures, began: began, own: b.workedSince(k.Kind, a.began)}
		if a.began.After(began) { // of a fill that began before a purge
			next.began = a.began
		}
		if next.own && !a.own { // what the system's failures taught is over
			next.failures = 0
		}
		if !began.Before(a.next) {
			next.failures++
		}
		rest := next.failures
		if fault, ok := errors.AsType[FillError](err); ok && fault.Refused() {
			next.failures, rest = a.failures, 1
		}
		next.next = now.Add(delay(rest))
		return &next, otter.WriteOp
	})
}

// gave takes a list that the legacy gave at a moment, to this node or to another.
func (b *backoff) gave(k Key, answered time.Time) {
	if i, ok := indexOf(k.Kind); ok {
		raise(&b.worked[i], int64(answered.Sub(b.start)))
	}
	if a, ok := b.keys.GetIfPresent(k); ok && answered.After(a.began) {
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
	b.keys.Compute(k, func(a *attempt, found bool) (*attempt, otter.ComputeOp) {
		if !found {
			return nil, otter.CancelOp
		}
		next := *a
		next.look = now.Add(lookEvery)
		return &next, otter.WriteOp
	})
}

// of is the state of a key that fails, of which there is a list that the legacy gave at a
// moment; nil: it does not. Nor does one that has failed before that, or with all others of its
// kind, of which one has worked since, or long ago.
func (b *backoff) of(k Key, answered, now time.Time) *attempt {
	a, ok := b.keys.GetIfPresent(k)
	if !ok || answered.After(a.began) || !a.own && b.workedSince(k.Kind, a.began) || forgotten(a, now) {
		return nil
	}
	return a
}

// forgotten tells that a list might have been tried again long ago.
func forgotten(a *attempt, now time.Time) bool { return now.Sub(a.next) > backoffMost }

// delay grows exponentially; half of it is random, so that keys which failed
// together are not retried together.
func delay(failures int) time.Duration {
	d := backoffMost
	if shift := max(failures, 1) - 1; shift < 6 {
		d = min(backoffFirst<<shift, backoffMost)
	}
	return d/2 + rand.N(d/2)
}
