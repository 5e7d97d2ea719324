// Package upstream fetches inquiry lists from the legacy inquiry system.
//
// [Client.Fetch] gets one list: [fetch.admit] says whether it may be asked for now, and
// [fetch.list] puts it together of its pages, details and responses. Each of these is read
// by [pages.read], page after page, or all pages at the same time where the first one tells
// how many there are. [fetch.request] makes one request, and repeats it where that may help.
// What is known of the legacy system stands in guard.go. Each failure becomes an [Error]
// where it happens, whose Reason alone says whose [Failure] it is.
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
	"reflect"
	"sync/atomic"
	"time"

	"github.com/go-resty/resty/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel/trace"

	"inquiry-gateway/internal/ceiling"
	"inquiry-gateway/internal/filters"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/upstream/mapping"
)

// What a list consists of is the mapping's.
type (
	Inquiry    = mapping.Inquiry
	Response   = mapping.Response
	NullString = mapping.NullString
)

// Request says which list is wanted.
type Request struct {
	Kind        string // buyer or seller
	Account     string // whose list
	Status      string // public value; empty: all
	InquiryType string // public value; empty: all
	RequestID   string // goes to the legacy as X-Request-Id when not empty
	Failing     bool   // the last fetch of the list failed
	Background  bool   // nobody waits for the list: it gives way where requests are bounded
	// Changes differs after each purge or hint of the list. Replies that are kept for records with a version are reused
	// only by fetches with the same Changes; empty: none are kept or reused.
	Changes string
}

// List is a whole list. Its texts share memory with the reply that they came in.
type List struct {
	Inquiries  []Inquiry // never nil; in the order of the legacy
	AnsweredAt time.Time // when the first reply was there; freshness counts from here
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
	// LongestFetch is what the caller lets a whole list take; zero means upstream.timeout.
	LongestFetch time.Duration
	// KeepFor is, by kind, for how long what came for records that have a version is used again;
	// 0: not at all.
	KeepFor map[string]time.Duration
	Ceiling *ceiling.Limiter   // takes every request that goes to the legacy system; nil: there is none
	Panics  *telemetry.Catcher // of fetches; nil: logged only
	// Dial opens the connections to the legacy system; nil: a [net.Dialer] does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Transport gives what takes the requests for lists in the place of the network, which it
	// may hand them on to; nil: the network does. Sign-ins use the network.
	Transport func(network http.RoundTripper) http.RoundTripper
	// Before is the client that this one takes the place of, with a Registerer of
	// its own or the same. What the configuration leaves as it is goes on:
	// connections, places, breakers, retry budgets. Nil: there was none.
	Before *Client
}

// withDefaults fills in the zero values that need one.
func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Panics = cmp.Or(o.Panics, telemetry.NewCatcher(subsystem, nil, o.Logger))
	o.UserAgent = cmp.Or(o.UserAgent, "inquiry-gateway")
	return o
}

// Client has the endpoints of one configuration. It is safe for concurrent
// use.
type Client struct {
	cfg       Config
	network   *network
	places    *places                 // of both lists
	replies   replyStore              // of both lists, whatever configuration has read them
	current   *atomic.Pointer[Client] // the last client, for the gauges, which outlive any reload
	endpoints map[string]*endpoint    // by kind
}

// network is what both endpoints share, and what a reload keeps that leaves address,
// credentials and certificates as they are.
type network struct {
	connections *http.Transport
	creds       *credentials
}

// endpoint is one of the two lists, as its section of the configuration says. It is safe for concurrent use.
type endpoint struct {
	cfg         Config
	opts        Options
	plan        *mapping.Plan
	fingerprint string
	network     *network
	http        *resty.Client // uses its connections
	places      *places
	replies     replyStore
	keepFor     time.Duration
	guard       *guard
	breaker     *breaker
	metrics     *metrics
	tracer      *telemetry.Tracer
}

// New compiles the mapping. It reports everything that is wrong with the
// configuration, as Validate does. It does not touch the network.
func New(cfg Config, opts Options) (*Client, error) {
	plans, err := cfg.compile()
	if err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	before := cmp.Or(opts.Before, &Client{places: &places{}, replies: newReplyStore(), current: &atomic.Pointer[Client]{}})
	opts.Before = nil // or each reload would keep the clients of all before
	// The places go on even for another system: the requests in flight do.
	c := &Client{cfg: cfg, network: before.network, places: before.places, replies: before.replies, current: before.current, endpoints: map[string]*endpoint{}}
	if before.network == nil || !reflect.DeepEqual(cfg.connects(), before.cfg.connects()) {
		if c.network, err = connect(cfg, opts); err != nil {
			return nil, err
		}
	}
	c.places.resize(cfg.MaxConcurrent, cfg.perAccount())
	c.places.bytes.resize(cfg.MaxTotalResponseBytes, cfg.MaxConcurrent)
	client := newHTTP(c.network, cfg, opts)
	for kind, plan := range plans {
		s := &endpoint{
			cfg: cfg, opts: opts, plan: plan, fingerprint: fingerprint(kind, cfg), network: c.network, http: client, places: c.places, replies: c.replies, keepFor: opts.KeepFor[kind],
			metrics: newMetrics(opts.Registerer, kind, plan.FieldNames()),
			tracer:  telemetry.NewTracer(opts.Traces, "inquiry-gateway/upstream"),
		}
		changed := func(from, to gobreaker.State) {
			s.metrics.transitions[to.String()].Inc()
			opts.Logger.Warn("circuit breaker changed", "kind", kind, "from", from.String(), "to", to.String())
		}
		window := breakerWindow(cmp.Or(opts.LongestFetch, cfg.Timeout))
		if old := before.endpoints[kind]; old == nil || old.cfg.BaseURL != cfg.BaseURL {
			s.guard = newGuard(kind, opts.Logger)
		} else if s.guard = old.guard; old.breaker.cfg == cfg.Breaker && old.breaker.window == window {
			s.breaker = old.breaker
		}
		if s.breaker == nil {
			s.breaker = newBreaker(cfg.Breaker, window, changed)
		}
		c.endpoints[kind] = s
	}
	c.current.Store(c)
	for kind := range c.endpoints {
		gauges(opts, kind, c.places, c.current)
	}
	return c, nil
}

// connects is the part of a configuration that connections and credentials are made of.
func (c Config) connects() Config {
	own := Config{Headers: c.Headers, Auth: c.Auth, TLS: c.TLS}
	if c.Auth.Type == authSession { // which signs in there
		own.BaseURL = c.BaseURL
	}
	return own
}

// connect makes the connections and credentials. Sign-ins do not go through what
// [Options].Transport gives: their replies are secrets.
func connect(cfg Config, opts Options) (*network, error) {
	connections := newTransport(cfg, opts)
	creds, err := newCredentials(cfg, connections, opts)
	return &network{connections, creds}, err
}

// mappingVersion changes when the same configuration and reply come to mean
// another list, so that lists cached by an older version are not used.
const mappingVersion = 4

// fingerprint covers the whole endpoint rather than a list of keys that
// matter: a key that is forgotten there would serve stale mappings after a
// change.
func fingerprint(kind string, cfg Config) string {
	b, err := json.Marshal([]any{mappingVersion, kind, cfg.BaseURL, cfg.Headers, cfg.Auth, *cfg.Endpoint(kind)})
	if err != nil { // strings, numbers and maps of strings only
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// BreakerState is closed, half-open or open; empty for a list that there is not. It is what one
// account meets: a breaker that is open for another account alone is closed. With an empty account
// it is that of the breaker.
func (c *Client) BreakerState(kind, account string) string {
	if s, ok := c.endpoints[kind]; ok {
		return s.breaker.stateFor(account).String()
	}
	return ""
}

// Incidents are the failures of a kind's lists that are not over, the oldest first; never nil. They outlive a reload
// that leaves base_url as it is.
func (c *Client) Incidents(kind string) []Incident {
	if s, ok := c.endpoints[kind]; ok {
		return s.guard.incidents.list(s.opts.Now())
	}
	return []Incident{}
}

// Askable says why an account cannot be asked for, whatever the legacy system does; nil: it can.
func (c *Client) Askable(kind, account string) *Error {
	if s, ok := c.endpoints[kind]; ok {
		want := s.query(Request{Account: account})
		ask, _ := s.plan.Request(want)
		return s.askable(ask, want)
	}
	return nil
}

// query is what the mapping is told of a request.
func (s *endpoint) query(r Request) mapping.Query {
	return mapping.Query{Account: r.Account, Status: r.Status, InquiryType: r.InquiryType, Secret: s.cfg.Auth.requestSecret()}
}

// askable is [Client.Askable] of the account that ask is for. Further requests may name it, too.
func (s *endpoint) askable(ask mapping.PagedRequest, want mapping.Query) *Error {
	if _, err := pageRequest(ask, paging{s.plan.Paging}.pageValues(0, 0)); err != nil {
		return asError(err)
	}
	for _, second := range []*mapping.SecondRequest{s.plan.Details, s.plan.Responses} {
		if second == nil {
			continue
		}
		ask, _ = second.Request(want, mapping.Batch{IDs: []string{"0"}})
		if _, err := pageRequest(ask, paging{second.Paging}.pageValues(0, 0)); err != nil && asError(err).Failure() == FailureAccount {
			return asError(err)
		}
	}
	return nil
}

// LastFailure is what the last fetch of an account failed with; nil: it did not fail, or the incident is over.
func (c *Client) LastFailure(kind, account string) *Error {
	if s, ok := c.endpoints[kind]; ok {
		return s.guard.incidents.lastFailure(account)
	}
	return nil
}

// Fingerprints are, by kind, short hashes of everything in the configuration
// that decides on the mapped list. They belong into the key of whatever keeps
// such lists.
func (c *Client) Fingerprints() map[string]string {
	all := map[string]string{}
	for kind, s := range c.endpoints {
		all[kind] = s.fingerprint
	}
	return all
}

// Filters tell what becomes of the values of the two filters, see
// [mapping.Plan.Filters].
func (c *Client) Filters(kind string) (status, inquiryType filters.Filter) {
	if s, ok := c.endpoints[kind]; ok {
		return s.plan.Filters()
	}
	return status, inquiryType
}

// GoesOnIn tells whether next uses the connections of c, which are not to be
// closed then.
func (c *Client) GoesOnIn(next *Client) bool { return next != nil && next.network == c.network }

// Close closes idle connections. Fetches that are under way go on.
func (c *Client) Close() { c.network.connections.CloseIdleConnections() }

const subsystem = "upstream"

// Values of labels that more than one place needs.
const (
	reason502 = "status_502"
	reason503 = "status_503"
)

// metrics are the series of one endpoint. The values of their labels are resolved,
// so that all series exist from the start and counting needs no look-up.
type metrics struct {
	requests    map[meaning]prometheus.Counter // by result and failure
	refused     map[string]prometheus.Counter  // by reason
	retries     map[string]prometheus.Counter  // by reason
	invalid     map[string]prometheus.Counter  // by field
	removed     map[string]prometheus.Counter  // by field
	defaulted   map[string]prometheus.Counter  // by field
	transitions map[string]prometheus.Counter  // by state
	foreign     prometheus.Counter
	hidden      prometheus.Counter
	kept        prometheus.Counter
	duration    prometheus.Observer
}

// newMetrics makes the series of a kind. fields are those that a mapping may refuse or
// clean.
func newMetrics(reg prometheus.Registerer, kind string, fields []string) *metrics {
	all := telemetry.Series(reg, subsystem)
	counters := func(name, help, label string, values ...string) map[string]prometheus.Counter {
		return telemetry.Resolve(all.Counters(name, help, "kind", label).MustCurryWith(prometheus.Labels{"kind": kind}), values...)
	}
	requests := map[meaning]prometheus.Counter{{result: ResultOK}: nil}
	for _, m := range reasons {
		requests[meaning{m.failure, m.result, noVerdict}] = nil
	}
	fetches := all.Counters("requests_total", "Fetches from the legacy system; failure: system, sign_in, mapping, foreign, account, refused, canceled (the caller left) or bug.",
		"kind", "result", "failure")
	for m := range requests {
		requests[m] = fetches.WithLabelValues(kind, string(m.result), string(m.failure))
	}
	return &metrics{
		requests: requests,
		refused: counters("refused_total", "Fetches that the gateway refused: breaker, concurrency limit (also of the account), max_total_response_bytes, or ceiling.",
			"reason", reasonBreaker, reasonFull, reasonAccountFull, reasonBytes, reasonCeiling),
		retries: counters("retries_total", "Retries to the legacy system.",
			"reason", reasonConnect, reason502, reason503, reasonThrottled, reasonOverloaded, mapping.ReasonChanged),
		invalid:   counters("records_invalid_total", "Invalid legacy records.", "field", fields...),
		removed:   counters("internal_ids_removed_total", "Internal ids removed from texts.", "field", fields...),
		defaulted: counters("defaulted_total", "Fields for which the default was used. A jump: the path has changed, or the field is hidden.", "field", fields...),
		transitions: counters("breaker_transitions_total", "State changes of the circuit breaker.",
			"to", gobreaker.StateClosed.String(), gobreaker.StateHalfOpen.String(), gobreaker.StateOpen.String()),
		kept:    all.Counters("kept_replies_total", "Second requests saved because the record was unchanged.", "kind").WithLabelValues(kind),
		hidden:  all.Counters("hidden_records_total", "Legacy records hidden by where or fetch.missing.", "kind").WithLabelValues(kind),
		foreign: all.Counters("foreign_records_total", "Legacy records of another account than the requested one.", "kind").WithLabelValues(kind),
		duration: all.NativeHistograms("request_duration_seconds", "Duration of fetches from the legacy system, with mapping.",
			prometheus.ExponentialBuckets(0.001, 2, 14), "kind").WithLabelValues(kind),
	}
}

// gauges show what is now, of the last client. A list that it does not have is well.
func gauges(opts Options, kind string, p *places, current *atomic.Pointer[Client]) {
	all := telemetry.Series(opts.Registerer, subsystem)
	all.GaugeFunc("in_flight", "Requests in flight at the legacy system, without sign-ins; at most upstream.max_concurrent.",
		func() float64 { return float64(p.inFlight.Load()) })
	all.With(prometheus.Labels{"kind": kind}).GaugeFunc("breaker_state", "Circuit breaker that all accounts share: 0 closed, 1 half-open, 2 open.",
		func() float64 {
			if s := current.Load().endpoints[kind]; s != nil {
				return float64(s.breaker.stateFor(""))
			}
			return 0
		})
	const help = "Accounts whose lists were fetched since the legacy system began to fail (asked), and those whose last fetch failed (failing). 0 without a failure for two minutes."
	for i, state := range []string{"asked", "failing"} {
		all.With(prometheus.Labels{"kind": kind, "state": state}).GaugeFunc("accounts", help, func() float64 {
			if s := current.Load().endpoints[kind]; s != nil {
				asked, failing := s.guard.incidents.accounts(opts.Now())
				return float64([]int{asked, failing}[i])
			}
			return 0
		})
	}
}
