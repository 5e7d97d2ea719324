// Package canary asks the public API as a caller does and checks the answers:
// nobody sees another's records, every answer is as documented, and no list is
// older than the configuration allows.
//
// Its keys are of accounts that belong to whoever runs the gateway. It knows the
// gateway from outside only and shares no code with what it checks, so that a
// mistake there is not made here too. Its tests compare its rules with the OpenAPI
// document. The program does without that document's validator: it would add 1.3 MB,
// and its errors quote the records that they are about.
package canary

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrUndecided is what Options.Owner wraps where it cannot tell whose a key is,
// because the key store does not answer: that says nothing about the key.
var ErrUndecided = errors.New("cannot be told now")

// Options are what a Canary asks for, and as whom.
type Options struct {
	Kinds []Kind
	// Every is the mean time between two rounds, up to a tenth more or less.
	Every time.Duration
	// Timeout bounds one request with its answer.
	Timeout time.Duration
	// Version goes into the User-Agent.
	Version string
	// Owner tells whose a key is that opens a kind of list. A caller cannot know it,
	// and a canary whose keys are all of one account would compare that account with
	// itself. The error says what is wrong with the key and does not hold it, or
	// wraps ErrUndecided.
	Owner func(ctx context.Context, kind string, key Secret) (Owner, error)

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Owner is whose a key is. Both are ids, and no secrets.
type Owner struct{ Account, KeyID string }

// Kind is one of the two lists.
type Kind struct {
	Name     string // buyer or seller
	Keys     []Key  // at least two, of different accounts
	Policy   Policy
	ByStatus map[string]Policy // of lists that are filtered by a status
	// NoUUIDs tells whether a text with a UUID in it is a leak: some systems give
	// their records other ids, and callers may then quote UUIDs of their own. Nil:
	// it is not.
	NoUUIDs func() bool
}

// Key is an API key with the name by which messages speak of it.
type Key struct {
	Name   string
	Secret Secret
}

// Secret is an API key, which no print shows.
type Secret string

// String hides the key.
func (Secret) String() string { return "[hidden]" }

// GoString hides the key from %#v, too.
func (Secret) GoString() string { return "[hidden]" }

// Target is where the public API answers.
type Target struct {
	URL       string // without a path
	Transport http.RoundTripper
}

// Canary asks and checks. It is made by New.
type Canary struct {
	opts     Options
	agent    string
	invented Secret // a key that nobody was given
	rules    *rules
	checks   *prometheus.CounterVec // kind, check, result
	ended    *prometheus.GaugeVec   // kind
	last     map[string]tally       // by kind, of the round before
	rounds   int

	mu     sync.Mutex
	failed map[string][]string // by kind and check: the reasons of the last failure
}

// New checks the options and registers the metrics. Nothing is asked before Run.
func New(opts Options) (*Canary, error) {
	if opts.Owner == nil || opts.Every <= 0 || opts.Timeout <= 0 {
		return nil, errors.New("canary: Owner, Every and Timeout are needed")
	}
	for _, k := range opts.Kinds {
		if fieldsOf(k.Name) == nil || len(k.Keys) < 2 {
			return nil, fmt.Errorf("canary: kind %q with %d keys; wants buyer or seller with at least two", k.Name, len(k.Keys))
		}
	}
	c := &Canary{
		opts: opts, agent: "inquiry-gateway-canary/" + opts.Version, rules: newRules(), last: map[string]tally{}, failed: map[string][]string{},
		invented: Secret("canary-" + rand.Text()), // so that the store of keys has to be asked about it
	}
	c.newMetrics()
	return c, nil
}

// LastFailure tells why a check of a kind of list failed when it last did: which
// key, and which record by its place in the list. Nil: it has not failed. The
// caller must not change the reasons. It is safe for concurrent use.
func (c *Canary) LastFailure(kind, check string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed[kind+" "+check]
}

// Run asks at once and then again and again until ctx ends, which cuts off the
// round under way; that one does not count. One Run at a time.
func (c *Canary) Run(ctx context.Context, at Target) {
	client := &http.Client{
		Transport:     at.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	for {
		for i := range c.opts.Kinds {
			r := c.newRound(&c.opts.Kinds[i], caller{client: client, url: at.URL, agent: c.agent, timeout: c.opts.Timeout})
			if r.run(ctx); ctx.Err() != nil {
				return
			}
			c.settle(r)
		}
		c.rounds++
		select {
		case <-ctx.Done():
			return
		case <-time.After(spread(c.opts.Every)):
		}
	}
}

// spread keeps the canaries of a fleet from asking all at once.
func spread(d time.Duration) time.Duration {
	return d + time.Duration((mathrand.Float64()-0.5)*0.2*float64(d))
}
