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
	backoffMost  = 30 * time.Second
	// failingKeys bounds the memory of the back-off. A key that falls out is
	// merely tried a little earlier.
	failingKeys = 16 << 10
)

// backoff remembers which lists fail to be filled, by the key that the legacy is asked by,
// and when each may be tried again. One account's failing list changes nothing for
// others. It is safe for concurrent use.
type backoff struct {
	keys localcache.Cache[Key, *attempt] // a pointer as in Lists: one instance of otter is compiled for both
}

// attempt is the state of a key that fails.
type attempt struct {
	failures int
	next     time.Time
}

func newBackoff() (*backoff, error) {
	keys, err := otter.New(&otter.Options[Key, *attempt]{MaximumSize: failingKeys})
	return &backoff{keys}, err
}

// failed takes the error of a fill. After one that was refused, so that the legacy was not
// asked, the key waits no longer than after a first failure.
func (b *backoff) failed(k Key, err error, now time.Time) {
	a, known := b.keys.GetIfPresent(k)
	if !known {
		a, k = &attempt{}, k.clone() // the key's strings may point into a request's buffers
	}
	next, wait := attempt{failures: a.failures + 1}, a.failures+1
	if fault, ok := errors.AsType[FillError](err); ok && fault.Refused() {
		next.failures, wait = a.failures, 1
	}
	next.next = now.Add(delay(wait))
	b.keys.Set(k, &next)
}

// worked takes a list that the legacy gave, to this node or to another.
func (b *backoff) worked(k Key) { b.keys.Invalidate(k) }

// of tells whether a key fails, and when it may be tried again.
func (b *backoff) of(k Key) (failing bool, retryAt time.Time) {
	if a, ok := b.keys.GetIfPresent(k); ok {
		return true, a.next
	}
	return false, time.Time{}
}

// delay grows exponentially; half of it is random, so that keys which failed
// together are not retried together.
func delay(failures int) time.Duration {
	d := backoffMost
	if shift := max(failures, 1) - 1; shift < 6 {
		d = min(backoffFirst<<shift, backoffMost)
	}
	return d/2 + rand.N(d/2)
}
