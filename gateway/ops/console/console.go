// Package console shows those on call what is broken now, whom it hits and since
// when, and what the gateway did in the last hour.
//
// It reads the metrics that /metrics shows and keeps a bounded history of them in
// memory. The page is drawn in the browser from JSON. Explanations, purges and the
// what-if report come from the endpoints of package ops.
package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path"
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

// Options are what a Console shows. Only Gatherer is required; what belongs to
// another one is empty where that is zero.
type Options struct {
	// Gatherer gives the metrics, those of /metrics. It is asked every 2 seconds.
	Gatherer prometheus.Gatherer
	// CanLogout tells whether there are sessions that can be ended. Nil: there are
	// none.
	CanLogout func() bool
	// TopAccounts is told of each fetch by the gateway. The page shows accounts by
	// their ids, as the log does.
	TopAccounts *TopAccounts
	// Starts tells which nodes started, the oldest first. Nil: none is known.
	Starts func() []Start
	// Canary tells why a check of a kind of list last failed. Nil: nobody knows.
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
	assets  map[string]asset  // by the path in the URL, which holds a hash of the content
	pages   map[string]string // by name
	mux     *http.ServeMux
}

// asset is a file that the pages load.
type asset struct {
	name string
	body []byte
}

// New makes a console. It shows no figures before Run.
func New(opts Options) (*Console, error) {
	if opts.Gatherer == nil {
		return nil, errors.New("console: no gatherer of metrics")
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.CanLogout == nil {
		opts.CanLogout = func() bool { return false }
	}
	if opts.Starts == nil {
		opts.Starts = func() []Start { return nil }
	}
	c := &Console{opts: opts, sampler: newSampler(opts.Gatherer, opts.Now), assets: map[string]asset{}, mux: http.NewServeMux()}
	if opts.Canary != nil {
		c.sampler.reasons = opts.Canary
	}
	urls := map[string]string{}
	for _, from := range []fs.FS{theme.Files(), files} {
		err := fs.WalkDir(from, "assets", func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			body, err := fs.ReadFile(from, file)
			sum, name := sha256.Sum256(body), path.Base(file)
			url := "console/assets/" + hex.EncodeToString(sum[:6]) + "-" + name
			c.assets["/"+url], urls[name] = asset{name, body}, url
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var err error
	if c.pages, err = readPages(urls); err != nil {
		return nil, err
	}
	c.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { c.write(w, http.StatusOK, "home", "") })
	c.mux.Handle("GET /console/{$}", http.RedirectHandler("/", http.StatusTemporaryRedirect))
	c.mux.HandleFunc("GET /console/data", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"history": c.sampler.history(), "state": c.state()})
	})
	c.mux.HandleFunc("GET /console/state", func(w http.ResponseWriter, _ *http.Request) { answer(w, c.state()) })
	c.mux.HandleFunc("GET /console/runbook", c.runbook)
	c.mux.HandleFunc("GET /console/playground", c.playground)
	c.mux.HandleFunc("GET /console/assets/", c.serveAsset)
	return c, nil
}

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	c.mux.ServeHTTP(w, r)
}

// secure sets the headers of every answer. Assets have another Cache-Control.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
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

// playground shows what a mapping makes of a reply. What it does is behind /ops.
func (c *Console) playground(w http.ResponseWriter, _ *http.Request) {
	button := ""
	if c.opts.CanLogout() { // a real reply is for those who have the token
		button = fetchButton
	}
	c.write(w, http.StatusOK, "playground", "../", "{{fetch}}", button)
}

// serveAsset serves a file that pages refer to. Its name changes with its content.
func (c *Console) serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := c.assets[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "max-age=31536000, immutable")
	http.ServeContent(w, r, a.name, time.Time{}, bytes.NewReader(a.body))
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
		if c.opts.TopAccounts != nil {
			c.opts.TopAccounts.fade(c.opts.Now())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
