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
	retryMost    = time.Minute     // how long Retry-After of the legacy system is followed
	redisCheck   = 2 * time.Second // between two looks into Redis for a list that may not be refreshed
	// failingKeys bounds the failures that are remembered. A list that is evicted is tried a little earlier.
	failingKeys = 16 << 10
)

// backoff remembers which lists could not be fetched, by the key that the legacy is asked by, and until
// when they are not fetched again. A failure is remembered until the list comes, is purged or the
// configuration changes. It is safe for concurrent use.
type backoff struct {
	keys localcache.Cache[Key, *failure] // a pointer as in Cache: one instance of otter is compiled for both
}

// failure is that of the last fetch of a list. It is immutable.
type failure struct {
	policy    *policy // in force when the fetch began
	began     time.Time
	fetch     fetchVersion
	err       error     // of the last that was not refused
	count     int       // of failed fetches in a row; 0: only refused ones
	until     time.Time // the list is not fetched before
	refreshAt time.Time // nor refreshed before
	checked   time.Time // Redis has nothing newer before
}

// BackoffError is the error of the last fill of a list that is in back-off.
type BackoffError struct {
	Err  error
	Left time.Duration // of the back-off
}

// Error implements error.
func (e *BackoffError) Error() string { return e.Err.Error() }

// Unwrap gives the error of the fill.
func (e *BackoffError) Unwrap() error { return e.Err }

func newBackoff() (*backoff, error) {
	keys, err := otter.New(&otter.Options[Key, *failure]{MaximumSize: failingKeys})
	return &backoff{keys: keys}, err
}

// failed records a failed fetch. The back-off grows with each failure, unless the fetch began during
// a back-off: otherwise several callers would lengthen it at once. It begins anew if a purge or a reload has
// ended that of the failure before. A refused fetch never reached the legacy system and says nothing about
// the list: callers are not refused for it, and a refresh waits as after a first failure.
func (b *backoff) failed(k Key, f failure, now time.Time, ended func(*failure) bool) {
	fault, told := errors.AsType[FillError](f.err)
	b.keys.Compute(k.clone(), func(old *failure, found bool) (*failure, otter.ComputeOp) {
		switch {
		case !found || ended(old):
			old = &failure{}
		case old.began.After(f.began): // this fetch began before a purge
			f.policy, f.began, f.fetch = old.policy, old.began, old.fetch
		}
		if told && fault.Refused() {
			f.err, f.count, f.until, f.checked = old.err, old.count, old.until, old.checked
			if f.refreshAt = now.Add(delay(1)); f.refreshAt.Before(old.refreshAt) {
				f.refreshAt = old.refreshAt
			}
			return &f, otter.WriteOp
		}
		if f.count = max(old.count, 1); old.count > 0 && !f.began.Before(old.until) {
			f.count++
		}
		wait := delay(f.count)
		if told {
			wait = max(wait, min(fault.RetryAfter(), retryMost))
		}
		f.until = now.Add(wait)
		f.refreshAt = f.until
		return &f, otter.WriteOp
	})
}

// succeeded forgets the failure of a list that the legacy gave at a moment, to this node or to another.
func (b *backoff) succeeded(k Key, answered time.Time) {
	if f, ok := b.keys.GetIfPresent(k); ok && answered.After(f.began) {
		b.keys.Invalidate(k)
	}
}

// markChecked notes that Redis has nothing newer for a key than what this node has.
func (b *backoff) markChecked(k Key, now time.Time) {
	b.keys.Compute(k.clone(), func(old *failure, found bool) (*failure, otter.ComputeOp) {
		if !found {
			return nil, otter.CancelOp
		}
		f := *old
		f.checked = now.Add(redisCheck)
		return &f, otter.WriteOp
	})
}

// lookup returns the failure of a key; nil if there is none. answered is when the legacy gave the list
// that there is: a failure from before does not count.
func (b *backoff) lookup(k Key, answered time.Time) *failure {
	f, ok := b.keys.GetIfPresent(k)
	if !ok || answered.After(f.began) {
		return nil
	}
	return f
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
