package cache

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"inquiry-gateway/internal/localcache"
)

const (
	backoffFirst = 500 * time.Millisecond // after one failure, before jitter
	backoffMost  = 30 * time.Second
	endpointMost = 5 * time.Second // one probe for the whole endpoint may be more frequent
	// failingKeys bounds the memory of the back-off. A key that falls out is
	// merely tried a little earlier.
	failingKeys = 16 << 10
	// endpointAccounts whose lists fail by the endpoint's own fault, with no
	// success in between, show that it fails and not one list.
	endpointAccounts = 3
)

// backoff remembers which keys and which kinds fail to be filled, and when
// each may be tried again. It is safe for concurrent use.
type backoff struct {
	keys  localcache.Cache[Key, *attempt] // a pointer as in Lists: one instance of otter is compiled for both
	kinds [kindCount]kindBackoff
}

// attempt is the state of a key or kind that fails.
type attempt struct {
	failures int
	next     time.Time
}

// kindBackoff is what fails for a whole kind. It counts rounds, not calls: many calls that
// fail together are one sign.
type kindBackoff struct {
	mu       sync.Mutex
	accounts []string  // with failures since the last success: distinct, endpointAccounts at most
	attempt            // of the rounds since there are so many
	last     time.Time // of the failures
	probing  bool      // a refresh was let through since then
}

func (kb *kindBackoff) failing() bool { return len(kb.accounts) >= endpointAccounts }

func (kb *kindBackoff) reset() { kb.attempt, kb.accounts, kb.probing = attempt{}, nil, false }

// newBackoff knows of no failure.
func newBackoff() (*backoff, error) {
	keys, err := otter.New(&otter.Options[Key, *attempt]{MaximumSize: failingKeys})
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
	return kb.failing()
}

// due tells whether a stale entry of k may be refreshed now. While the endpoint
// fails it lets one refresh through per round: who takes it must begin it.
func (b *backoff) due(i kindIndex, k Key, now time.Time, take bool) bool {
	if now.Before(b.retryAt(k)) {
		return false
	}
	kb := &b.kinds[i]
	kb.mu.Lock()
	defer kb.mu.Unlock()
	if !kb.failing() {
		return true
	}
	if now.Before(kb.next) {
		return false
	}
	if take {
		kb.next, kb.probing = now.Add(delay(kb.failures, endpointMost)), true
	}
	return true
}

// failed takes the error of a fill. It is the key's own failure, unless the fill
// was refused: then the key waits, but no longer than after a first failure.
func (b *backoff) failed(i kindIndex, k Key, err error, now time.Time) {
	var fault FillError
	judged := errors.As(err, &fault)
	a, known := b.keys.GetIfPresent(k)
	if !known {
		// The key's strings may point into a request's buffers.
		a, k = &attempt{}, k.clone()
	}
	if judged && fault.Refused() {
		b.keys.Set(k, &attempt{a.failures, now.Add(delay(1, backoffMost))})
		return
	}
	b.keys.Set(k, a.again(now))
	if judged && fault.EndpointFault() {
		b.kinds[i].failed(strings.Clone(k.Account), now)
	}
}

// failed takes a failure by the endpoint's own fault.
func (kb *kindBackoff) failed(account string, now time.Time) {
	kb.mu.Lock()
	defer kb.mu.Unlock()
	kb.last = now
	if !kb.failing() && !slices.Contains(kb.accounts, account) {
		kb.accounts = append(kb.accounts, account)
	}
	if !kb.failing() || kb.failures > 0 && !kb.probing && now.Before(kb.next) {
		return // one list fails, or a hundred calls failed together, which is one round
	}
	kb.failures++
	kb.next, kb.probing = now.Add(delay(kb.failures, endpointMost)), false
}

// worked takes a fill that the legacy has answered.
func (b *backoff) worked(i kindIndex, k Key) {
	b.keys.Invalidate(k)
	kb := &b.kinds[i]
	kb.mu.Lock()
	defer kb.mu.Unlock()
	kb.reset()
}

// retryAt is when the key may be tried again; zero: it does not fail.
func (b *backoff) retryAt(k Key) time.Time {
	if a, ok := b.keys.GetIfPresent(k); ok {
		return a.next
	}
	return time.Time{}
}

// relieved takes an answer that another node got: the key is well, and the
// endpoint, too, if that was after it failed here.
func (b *backoff) relieved(i kindIndex, k Key, answered time.Time) {
	kb := &b.kinds[i]
	kb.mu.Lock()
	defer kb.mu.Unlock()
	b.keys.Invalidate(k)
	if answered.After(kb.last) {
		kb.reset()
	}
}

func (a *attempt) again(now time.Time) *attempt {
	return &attempt{a.failures + 1, now.Add(delay(a.failures+1, backoffMost))}
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
