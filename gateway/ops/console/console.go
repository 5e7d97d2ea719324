// Package console is the page for those on call: what is broken now, whom it
// hits and since when; what the gateway did in the last hour; what another TTL
// would do; why a request is answered as it is; and a purge. It reads the same
// metrics that /metrics shows and keeps a bounded history of them in memory.
//
// The page is drawn in the browser, from the JSON of one endpoint and one
// stream. Explanations and purges go to the endpoints of package ops.
package console

import (
	"bytes"
	"context"
	"errors"
	"html/template"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// shownTop is how many accounts the page shows.
const shownTop = 10

// Options are what a Console shows. Only Gatherer is required; the part of the
// page that belongs to another one is left out where that is nil.
type Options struct {
	// Gatherer gives the metrics, those of /metrics. It is asked every 2 seconds.
	Gatherer prometheus.Gatherer
	// Sessions guards the console. Nil lets everybody in.
	Sessions *Sessions
	// TTL gives the what-if report: ttllab.Report, or anything with its JSON. It
	// is asked when a page is loaded and every 16 seconds while one is open.
	TTL func() any
	// TopAccounts is told of each fetch by the gateway. The page shows accounts by
	// their ids, as the log does.
	TopAccounts *TopAccounts
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
	hub     *hub
	site    site
	pages   *template.Template
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
	c := &Console{opts: opts, sampler: newSampler(opts.Gatherer, opts.Now), hub: newHub(), mux: http.NewServeMux()}
	var err error
	if c.site, err = newSite(); err == nil {
		c.pages, err = c.site.templates()
	}
	if err != nil {
		return nil, err
	}
	c.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { c.write(w, http.StatusOK, "home", c.page("")) })
	c.mux.HandleFunc("GET /console/data", c.data)
	c.mux.HandleFunc("GET /console/stream", c.stream)
	c.mux.HandleFunc("GET /console/runbook", c.runbook)
	c.mux.HandleFunc("POST /console/logout", c.logout)
	return c, nil
}

// page is what every page of somebody who is let in shows.
type page struct {
	Root      string // path from the page to "/", relative, so that a proxy's prefix does no harm
	Version   string
	CanLogout bool
	Parts     parts
}

// parts are those of the page that may be missing.
type parts struct{ TTL, Accounts bool }

func (c *Console) page(root string) page {
	return page{root, c.opts.Version, c.opts.Sessions.Guarded(), parts{c.opts.TTL != nil, c.opts.TopAccounts != nil}}
}

// write renders whole before the status goes out.
func (c *Console) write(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := c.pages.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser left; nobody to tell
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

// Run reads the metrics every 2 seconds and tells open pages of it, until ctx
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
		if c.hub.streams.Load() > 0 {
			c.hub.publish(event(c.state(n%ttlEvery == 0)))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
