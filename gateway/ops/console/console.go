// Package console shows those on call what is broken now, whom it hits and since
// when, and what the gateway did in the last hour.
//
// It reads the metrics that /metrics shows and keeps a bounded history of them in
// memory. The page is drawn in the browser from JSON. Explanations, purges and the
// what-if report come from the endpoints of package ops.
package console

import (
	"context"
	"embed"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/theme"
)

// shownTop is how many accounts the page shows.
const shownTop = 10

//go:embed assets pages
var files embed.FS

// policy lets the page load its own files, ask its own host, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Options are what a Console shows. All but Now is needed. The functions must be safe
// for concurrent use.
type Options struct {
	// Gatherer gives the metrics, those of /metrics. It is asked every 2 seconds.
	Gatherer prometheus.Gatherer
	// CanLogout tells whether there are sessions that can be ended.
	CanLogout func() bool
	// TopAccounts is told of each fetch by the gateway. The page shows accounts by
	// their ids, as the log does.
	TopAccounts *TopAccounts
	// Canary tells why a check of a kind of list last failed.
	Canary func(kind, check string) []string
	// Version of the program, for the head of the page.
	Version string
	// Now is time.Now if nil.
	Now func() time.Time
}

// Console is the page and the sampler behind it. It serves "/" and everything
// below "/console/" to everybody: package ops decides who gets that far. Its
// methods are safe for concurrent use.
type Console struct {
	opts    Options
	sampler *sampler
	assets  map[string]theme.Asset // by the path in the URL, which holds a hash of the content
	pages   map[string]string      // by name
	mux     *http.ServeMux
}

// New makes a console. It shows no figures before Run.
func New(opts Options) (*Console, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	c := &Console{opts: opts, sampler: newSampler(opts), assets: map[string]theme.Asset{}, mux: http.NewServeMux()}
	assets, err := theme.Assets(files)
	if err != nil {
		return nil, err
	}
	urls := map[string]string{}
	for name, a := range assets {
		urls[name] = "console/assets/" + a.Name
		c.assets["/"+urls[name]] = a
	}
	if c.pages, err = readPages(urls); err != nil {
		return nil, err
	}
	c.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { c.write(w, http.StatusOK, "home", "") })
	// Somebody may have cut the path of a page off.
	c.mux.Handle("GET /console/{$}", http.RedirectHandler("/", http.StatusTemporaryRedirect))
	c.mux.HandleFunc("GET /console/data", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"history": c.sampler.history(), "state": c.state()})
	})
	c.mux.HandleFunc("GET /console/state", func(w http.ResponseWriter, _ *http.Request) { answer(w, c.state()) })
	c.mux.HandleFunc("GET /console/runbook", c.runbook)
	c.mux.HandleFunc("GET /console/assets/", func(w http.ResponseWriter, r *http.Request) {
		if a, ok := c.assets[r.URL.Path]; ok {
			a.ServeHTTP(w, r)
			return
		}
		http.NotFound(w, r)
	})
	return c, nil
}

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	c.mux.ServeHTTP(w, r)
}

// secure sets the headers of every answer. Assets have another Cache-Control.
func secure(h http.Header) {
	theme.Secure(h, policy)
	h.Set("Cache-Control", "no-store")
}

// SignIn answers with the form that asks for the token. root is the way from the
// page to "/", and failed says that a wrong token was sent.
func (c *Console) SignIn(w http.ResponseWriter, root string, failed bool) {
	secure(w.Header())
	note := ""
	if failed {
		note = wrongToken
	}
	c.write(w, http.StatusUnauthorized, "login", root, "{{failed}}", note)
}

// answer writes v as JSON. Values that are not finite are null already.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the browser left; nobody to tell
}

// Run reads the metrics every 2 seconds until ctx ends. It is called once.
func (c *Console) Run(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		c.sampler.take()
		c.opts.TopAccounts.fade(c.opts.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
