// Package console is the page for those on call: what the gateway does now and
// did in the last quarter of an hour, what another TTL would do, why a request
// is answered as it is, and a purge. It reads the same metrics that /metrics
// shows and keeps a bounded history of them in memory.
//
// The page works without JavaScript; with it, charts are drawn and figures stay
// live by server-sent events.
package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are what a Console shows and does. Only Gatherer is required; the part
// of the page that belongs to another one is left out where that is nil.
type Options struct {
	// Gatherer gives the metrics, those of /metrics. It is asked once a second.
	Gatherer prometheus.Gatherer
	// Sessions guards the console. Nil lets everybody in.
	Sessions *Sessions
	// Explain tells what would happen to a request. The parameters are those of
	// GET /ops/explain: key_id, or account and kind; status, inquiry_type; empty
	// ones are left out. The answer is shown as JSON would write it, so it must
	// hold no secret; an error is shown to the person as it is.
	Explain func(ctx context.Context, parameters url.Values) (any, error)
	// Purge makes the lists of a kind or of an account unservable over the fleet
	// and returns their new epoch, as for ops.Options. Exactly one of kind and
	// account is set.
	Purge func(ctx context.Context, kind, account string) (uint64, error)
	// TTL gives the what-if report: ttllab.Report, or anything with its JSON. It
	// is asked when a page is loaded and every 15 seconds per open page.
	TTL func() any
	// TopAccounts is told of each fetch by the gateway.
	TopAccounts *TopAccounts
	// AccountName is how an account is shown. Nil: as a hash under a key of this
	// process, which tells accounts apart and nothing else.
	AccountName func(account string) string
	// Version of the program, for the head of the page.
	Version string
	// Now is time.Now if nil.
	Now func() time.Time
}

// Console is the page and the sampler behind it. Its methods are safe for
// concurrent use.
type Console struct {
	opts    Options
	sampler *sampler
	hub     hub
	charts  []chart
	site    site
	pages   *template.Template
	form    string // what a form of this process sends along
	mux     *http.ServeMux
}

// New makes a console. It shows no figures before Run.
func New(opts Options) (*Console, error) {
	if opts.Gatherer == nil {
		return nil, errors.New("console: no gatherer of metrics")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.AccountName == nil {
		opts.AccountName = hashed([]byte(rand.Text()))
	}
	c := &Console{
		opts: opts, sampler: newSampler(opts.Gatherer, opts.Now), charts: charts(),
		site: newSite(), form: rand.Text(),
	}
	var err error
	if c.pages, err = c.site.templates(); err != nil {
		return nil, err
	}
	c.route()
	return c, nil
}

func (c *Console) route() {
	c.mux = http.NewServeMux()
	c.mux.HandleFunc("GET /{$}", c.home)
	c.mux.HandleFunc("GET /console/stream", c.stream)
	c.mux.HandleFunc("GET /console/ttl", c.ttl)
	c.mux.HandleFunc("POST /console/logout", c.logout)
	if c.opts.Explain != nil {
		c.mux.HandleFunc("GET /console/explain", c.explain)
	}
	if c.opts.Purge != nil {
		c.mux.HandleFunc("POST /console/purge", c.purge)
	}
}

// Handler serves "/" and everything under "/console/". It lets in whom
// Options.Sessions lets in and shows others a form to sign in, so it stands
// beside the handlers that want a bearer token, not behind them. It counts on
// http.CrossOriginProtection around it.
func (c *Console) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure(w.Header())
		switch {
		case c.site.serve(w, r): // the sign-in form needs its style sheet
		case r.URL.Path == "/console/login" && c.opts.Sessions.Guarded():
			c.login(w, r)
		case !c.opts.Sessions.Authorized(r):
			c.refuse(w, r)
		default:
			c.mux.ServeHTTP(w, r)
		}
	})
}

// Run reads the metrics once a second and tells open pages of it, until ctx
// ends; then it ends their streams. It is called once.
func (c *Console) Run(ctx context.Context) {
	defer c.hub.close()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		c.sampler.take()
		if c.opts.TopAccounts != nil {
			c.opts.TopAccounts.fade(c.opts.Now())
		}
		if c.hub.busy() {
			c.hub.publish(event("point", c.sampler.latest()))
			c.hub.publish(event("parts", c.parts(n)))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// hashed names an account by a keyed hash.
func hashed(key []byte) func(string) string {
	return func(account string) string {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(account))
		return hex.EncodeToString(mac.Sum(nil)[:6])
	}
}
