// Package upstream fetches inquiry lists from the legacy inquiry system.
//
// [Client.Fetch] gets one list. What may refuse the fetch comes first: the bulkhead, the
// account's part of it, and what the legacy has told us to wait. Then the first page is asked for. The pager goes on from there: page after page,
// or all pages at the same time where the first one tells how many there are. Each reply is
// mapped in its order. Details and responses are asked for in batches, where the records
// lack them. Internal ids are removed from all texts at the end, when all of them are known.
//
// One request passes, from the outside: the breaker, the repeats within their budget, the
// credentials, the span, and the transport, which takes a token of the fleet's ceiling for
// every request, sign-ins included.
//
// Each failure becomes an [Error] where it happens. Only judge decides what an error says
// about the legacy: for the breaker and for the back-off of the cache.
package upstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-resty/resty/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/panics"
	"inquiry-gateway/internal/span"
	"inquiry-gateway/upstream/fleet"
	"inquiry-gateway/upstream/mapping"
)

// What a list consists of and how it is asked for is the mapping's.
type (
	Request    = mapping.Request
	Inquiry    = mapping.Inquiry
	Response   = mapping.Response
	NullString = mapping.NullString
)

// List is a whole list. Its texts share memory with the reply that they came in.
type List struct {
	Inquiries  []Inquiry // never nil; in the order of the legacy
	AnsweredAt time.Time // when the last byte had arrived; freshness counts from here
	// Unasked: no record can have the wanted filter value, so the legacy was not
	// asked and AnsweredAt is merely now. Not worth caching.
	Unasked     bool
	Fingerprint string // of the mapping that made it
}

// Options are what a client shares with the program around it. All may be left
// zero: then nothing is logged and the metrics go nowhere.
type Options struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Now        func() time.Time
	UserAgent  string
	Traces     trace.TracerProvider // nil: no spans, and no traceparent to the legacy
	Redis      redis.Cmdable        // where the fleet agrees on one probe of a legacy that has failed; nil: each node probes by itself
	Prefix     string               // of every key there; empty: iq
	Ceiling    *fleet.Ceiling       // takes every request that goes to the legacy system; nil: there is none
	Panics     *panics.Catcher      // of its goroutines; nil: logged only
	// Dial opens the connections to the legacy system; nil: a [net.Dialer] does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Transport takes the requests in the place of the network, for saved replies;
	// nil: the network.
	Transport http.RoundTripper
	// Before is the client that this one takes the place of, with a Registerer of
	// its own or the same. What the configuration leaves as it is goes on:
	// connections, bulkhead, breakers, retry budgets. Nil: there was none.
	Before *Client
}

// Client fetches lists. It is safe for concurrent use.
type Client struct {
	cfg       Config
	http      *resty.Client
	creds     credentials
	endpoints map[string]*endpoint
	bulkhead  *bulkhead
	now       func() time.Time
	log       *slog.Logger
	tracer    *span.Tracer
	panics    *panics.Catcher
}

// Spare tells whether less than half of upstream.max_concurrent is in use, so that a
// request which nobody waits for takes no place from one that somebody waits for.
func (c *Client) Spare() bool { return c.bulkhead.count() < max(c.cfg.MaxConcurrent/2, 1) }

// endpoint is one of the two lists.
type endpoint struct {
	plan        *mapping.Plan
	breaker     *breaker
	budget      *budget
	hold        *hold
	outage      *outage
	attempts    int
	metrics     *metrics
	fingerprint string
}

// New compiles the mapping. It reports everything that is wrong with the
// configuration, as Validate does. It does not touch the network.
func New(cfg Config, opts Options) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	c := &Client{
		cfg: cfg, endpoints: map[string]*endpoint{}, bulkhead: &bulkhead{}, now: opts.Now, log: opts.Logger,
		tracer: span.New(opts.Traces, "inquiry-gateway/upstream"), panics: opts.Panics,
	}
	for kind, ec := range cfg.endpoints() {
		plan := mapping.Compile(kind, ec, cfg.BaseURL, cfg.MaxRecords, &invalid.Problems{})
		m := newMetrics(opts.Registerer, kind, plan.FieldNames())
		e := &endpoint{plan: plan, attempts: cfg.Retry.Attempts, metrics: m, fingerprint: fingerprint(kind, cfg, ec)}
		c.endpoints[kind] = e
		if opts.Before != nil {
			e.succeed(opts.Before.endpoints[kind], cfg, opts.Before.cfg)
		}
		if e.breaker == nil {
			e.breaker = newBreaker(kind, cfg, m, opts)
		}
		if e.budget == nil {
			e.budget = newBudget(cfg.Retry.Budget)
		}
		if e.hold == nil {
			e.hold, e.outage = &hold{}, &outage{}
		}
	}
	if opts.Before != nil {
		c.succeed(opts.Before)
	}
	if c.http == nil {
		if err := c.connect(opts); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// connect makes the connections and credentials, where those of a client before cannot be
// used on.
func (c *Client) connect(opts Options) (err error) {
	c.http = newHTTP(c.cfg, opts)
	if opts.Transport != nil {
		c.http.SetTransport(opts.Transport)
	}
	c.creds, err = newCredentials(c.cfg, c.http.GetClient().Transport, opts)
	return err
}

// withDefaults fills in the zero values that need one.
func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Panics = cmp.Or(o.Panics, panics.New(subsystem, nil, o.Logger))
	o.UserAgent = cmp.Or(o.UserAgent, "inquiry-gateway")
	return o
}

// mappingVersion changes when the same configuration and reply come to mean
// another list, so that lists cached by an older version are not used.
const mappingVersion = 3

// fingerprint covers the whole endpoint rather than a list of keys that
// matter: a key that is forgotten there would serve stale mappings after a
// change.
func fingerprint(kind string, cfg Config, ec mapping.EndpointConfig) string {
	b, err := json.Marshal([]any{mappingVersion, kind, cfg.BaseURL, cfg.Headers, cfg.Auth, ec})
	if err != nil { // strings, numbers and maps of strings only
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// BreakerState is closed, half-open or open; empty for an unknown kind.
func (c *Client) BreakerState(kind string) string {
	e, ok := c.endpoints[kind]
	if !ok {
		return ""
	}
	return e.breaker.state().String()
}

// Fingerprints are, by kind, short hashes of everything in the configuration
// that decides on the mapped list. They belong into the key of whatever keeps
// such lists.
func (c *Client) Fingerprints() map[string]string {
	all := map[string]string{}
	for kind, e := range c.endpoints {
		all[kind] = e.fingerprint
	}
	return all
}

// Filters tell what becomes of the values of the two filters, see
// [mapping.Plan.Filters]. For an unknown kind the legacy is asked for all.
func (c *Client) Filters(kind string) (status, inquiryType mapping.Filter) {
	e, ok := c.endpoints[kind]
	if !ok {
		return status, inquiryType
	}
	return e.plan.Filters()
}

// Close closes idle connections. Fetches that are under way go on.
func (c *Client) Close() { c.http.GetClient().CloseIdleConnections() }
