package cache

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	backoffFirst = 500 * time.Millisecond // after one failure, before jitter
	backoffMost  = 30 * time.Second
	endpointMost = 5 * time.Second // one probe for the whole endpoint may be more frequent
	// failingKeys bounds the memory of the back-off. A key that falls out is
	// merely tried a little earlier.
	failingKeys = 16 << 10
	// endpointFailures in a row, over all keys, show that the legacy itself
	// fails and not one list.
	endpointFailures = 3
)

// backoff remembers which keys and which kinds fail to be filled, and when
// each may be tried again. It is safe for concurrent use.
type backoff struct {
	keys  *otter.Cache[Key, attempt]
	kinds [kindCount]kindBackoff
}

type attempt struct {
	failures int
	next     time.Time
}

type kindBackoff struct {
	mu sync.Mutex
	attempt
	last    time.Time // of the failures
	probing bool      // a refresh was let through since then
}

func newBackoff() (*backoff, error) {
	keys, err := otter.New(&otter.Options[Key, attempt]{MaximumSize: failingKeys})
	if err != nil {
		return nil, err
	}
	return &backoff{keys: keys}, nil
}

// failing tells whether a fill of k, or of its whole endpoint, failed and none
// has worked since.
func (b *backoff) failing(i kindIndex, k Key) bool {
	if _, ok := b.keys.GetIfPresent(k); ok {
		return true
	}
	kb := &b.kinds[i]
	kb.mu.Lock()
	defer kb.mu.Unlock()
	return kb.failures >= endpointFailures
}

// due tells whether a stale entry of k may be refreshed now. While the endpoint
// fails it lets one refresh through per round.
func (b *backoff) due(i kindIndex, k Key, now time.Time) bool {
	if a, ok := b.keys.GetIfPresent(k); ok && now.Before(a.next) {
		return false
	}
	kb := &b.kinds[i]
	kb.mu.Lock()
	defer kb.mu.Unlock()
	if kb.failures < endpointFailures {
		return true
	}
	if now.Before(kb.next) {
		return false
	}
	kb.next, kb.probing = now.Add(delay(kb.failures-endpointFailures+1, endpointMost)), true
	return true
}

func (b *backoff) failed(i kindIndex, k Key, now time.Time) {
	a, known := b.keys.GetIfPresent(k)
	if !known {
		// The key's strings may point into a request's buffers.
		k = k.clone()
	}
	b.keys.Set(k, a.again(now))
	kb := &b.kinds[i]
	kb.mu.Lock()
	defer kb.mu.Unlock()
	kb.last = now
	if kb.failures >= endpointFailures && !kb.probing && now.Before(kb.next) {
		return // of the same burst: a hundred calls that fail together are one round
	}
	kb.failures++
	kb.next, kb.probing = now.Add(delay(kb.failures-endpointFailures+1, endpointMost)), false
}

func (b *backoff) worked(i kindIndex, k Key) {
	b.keys.Invalidate(k)
	kb := &b.kinds[i]
	kb.mu.Lock()
	defer kb.mu.Unlock()
	kb.attempt, kb.probing = attempt{}, false
}

// retryAt is when the key may be tried again; zero: it does not fail.
func (b *backoff) retryAt(k Key) time.Time {
	a, _ := b.keys.GetIfPresent(k)
	return a.next
}

// relieved takes an answer that another node got: the key is well, and the
// endpoint, too, if that was after it failed here.
func (b *backoff) relieved(i kindIndex, k Key, answered time.Time) {
	kb := &b.kinds[i]
	kb.mu.Lock()
	defer kb.mu.Unlock()
	b.keys.Invalidate(k)
	if answered.After(kb.last) {
		kb.attempt, kb.probing = attempt{}, false
	}
}

func (a attempt) again(now time.Time) attempt {
	a.failures++
	a.next = now.Add(delay(a.failures, backoffMost))
	return a
}

// delay grows exponentially; half of it is random, so that keys which failed
// together are not retried together.
func delay(failures int, most time.Duration) time.Duration {
	d := most
	if shift := max(failures, 1) - 1; shift < 6 {
		d = min(backoffFirst<<shift, most)
	}
	return d/2 + rand.N(d/2)
}
