// Package canary asks the public API with keys of the operator's own accounts, and finds
// out what no test can see in the running gateway: one account that is given another's
// records, and a list that is given to somebody without a good key.
//
// It knows the gateway from outside only and shares no code with what it checks, so that
// a mistake there is not made here too.
package canary

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/telemetry"
)

// The checks of a round, and how each may end. They are labels of the metrics.
const (
	CrossRead = "cross_read" // no record of one account is in another's list
	Access    = "access"     // who has no good key gets no list

	OK     = "ok"
	Blind  = "blind" // nothing could be found out: no list, an empty one, or no answer
	Failed = "failed"
)

// Kind is one of the two lists, with the keys that it is asked for with.
type Kind struct {
	Name string // buyer or seller
	Keys []Key  // at least two, of different accounts
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

// Owner is whose a key is. Both are ids, and no secrets.
type Owner struct{ Account, KeyID string }

// Options are what a Canary asks for, and as whom. All are needed.
type Options struct {
	Kinds   []Kind
	Every   time.Duration // mean time between two rounds, up to a tenth more or less
	Timeout time.Duration // of one request with its answer
	Version string        // for the User-Agent
	// Owner tells whose a key is that opens a kind of list. A caller cannot know it, and two
	// keys of one account would look like a cross-read. The error does not hold the key.
	Owner func(ctx context.Context, kind string, key Secret) (Owner, error)

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Result is how a check of a kind of list ended in the last round.
type Result struct {
	Kind    string    `json:"kind"`
	Check   string    `json:"check"`
	Result  string    `json:"result"`
	At      time.Time `json:"at"`                // in UTC
	Reasons []string  `json:"reasons,omitempty"` // they hold no key and nothing of a record
}

// Canary asks and checks. It is made by New.
type Canary struct {
	opts     Options
	invented Secret // a key that nobody was given; the store of keys has to be asked about it
	checks   *prometheus.CounterVec
	refused  prometheus.Counter
	ended    *prometheus.GaugeVec

	mu   sync.Mutex
	last map[[2]string]Result // by kind and check
}

// New registers the metrics, with the series of the kinds that are asked for and no
// others. Nothing is asked before Run.
func New(opts Options) *Canary {
	all := telemetry.Series(opts.Registerer, "canary")
	c := &Canary{
		opts: opts, invented: Secret("canary-" + rand.Text()), last: map[[2]string]Result{},
		checks: all.Counters("checks_total", "Checks of the canary callers by result; blind ones have found nothing out.", "kind", "check", "result"),
		refused: all.Counter("refused_requests_total",
			"Requests without a good key that the canary has made to see them refused; auth_requests_total counts them too."),
		ended: all.Gauges("last_round_timestamp_seconds", "When the canary callers last finished a round, whatever came of it; 0: not yet.", "kind"),
	}
	for _, k := range opts.Kinds {
		c.ended.WithLabelValues(k.Name)
		for _, check := range [...]string{CrossRead, Access} {
			for _, result := range [...]string{OK, Blind, Failed} {
				c.checks.WithLabelValues(k.Name, check, result)
			}
		}
	}
	return c
}

// Last gives the results of the last round of each kind. It is safe for concurrent use.
func (c *Canary) Last() []Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]Result, 0, len(c.last))
	for _, k := range c.opts.Kinds {
		for _, check := range [...]string{CrossRead, Access} {
			if r, ok := c.last[[2]string{k.Name, check}]; ok {
				all = append(all, r)
			}
		}
	}
	return all
}

// Run asks the listener at address at once, and then again and again until ctx ends. That
// cuts off the round under way, which then does not count. certificate is what the
// listener shows, DER of the leaf; nil: it speaks clear text. One Run at a time.
func (c *Canary) Run(ctx context.Context, address net.Addr, certificate []byte) {
	url, transport := dial(address, certificate)
	defer transport.CloseIdleConnections()
	c.run(ctx, url, transport)
}

func (c *Canary) run(ctx context.Context, url string, transport http.RoundTripper) {
	client := &http.Client{
		Transport: transport, Timeout: c.opts.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for {
		for _, kind := range c.opts.Kinds {
			r := &round{Canary: c, kind: kind, client: client, url: url, found: map[string]*finding{}}
			if r.run(ctx); ctx.Err() != nil {
				return
			}
			c.settle(r)
		}
		// The nodes of a fleet should not ask all at once.
		wait := c.opts.Every + time.Duration((mathrand.Float64()-0.5)*0.2*float64(c.opts.Every))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// settle counts a round and logs what is wrong with it: a failure each time, all else
// when it begins and when it is over.
func (c *Canary) settle(r *round) {
	for _, check := range [...]string{CrossRead, Access} {
		f := r.found[check]
		key, now := [2]string{r.kind.Name, check}, time.Now().UTC()
		c.mu.Lock()
		before := c.last[key].Result
		c.last[key] = Result{Kind: r.kind.Name, Check: check, Result: f.result, At: now, Reasons: f.reasons}
		c.mu.Unlock()
		c.checks.WithLabelValues(r.kind.Name, check, f.result).Inc()
		attrs := []any{"kind", r.kind.Name, "check", check, "reasons", f.reasons, "request_ids", f.requests}
		switch {
		case f.result == Failed: // an event of security: who may read what
			c.opts.Logger.Error("the canary found a failure",
				append(attrs, slog.Group("security", "event", "canary_"+check, "kind", r.kind.Name, "accounts", r.accounts()))...)
		case f.result == Blind && before != Blind:
			c.opts.Logger.Warn("the canary finds nothing out", attrs...)
		case f.result == OK && before != OK && before != "":
			c.opts.Logger.Info("the canary finds it good again", "kind", r.kind.Name, "check", check)
		}
	}
	c.ended.WithLabelValues(r.kind.Name).Set(float64(time.Now().UnixMilli()) / 1000)
}

// finding is what a round says of one check. A failure is not made less by what could not
// be found out.
type finding struct {
	result   string
	reasons  []string
	requests []string // ids of the requests concerned
}

// maxReasons bounds what one round says of one check.
const maxReasons = 8

// note takes a result with its reason and the requests concerned.
func (r *round) note(check, result string, concerned []*answer, format string, args ...any) {
	f := r.found[check]
	switch {
	case f == nil || f.result == OK || f.result == Blind && result == Failed:
		f = &finding{result: result}
		r.found[check] = f
	case f.result != result:
		return
	}
	if reason := fmt.Sprintf(format, args...); reason != "" && len(f.reasons) < maxReasons {
		f.reasons = append(f.reasons, reason)
	}
	for _, a := range concerned {
		if a.id != "" && len(f.requests) < 2*maxReasons {
			f.requests = append(f.requests, a.id)
		}
	}
}
