// Package console is the page for those on call: what is broken now, since when, whom it
// hits and what to do, and how the gateway does while they look.
//
// Incidents of the legacy system are kept by package upstream; all else is judged by the counters' last minute. The page
// draws its charts from sums that it asks for, and their history begins when it is opened; what was before is in Prometheus. Explanations, purges and the what-if report of TTLs come from
// the endpoints of package ops.
package console

import (
	"context"
	"embed"
	"encoding/json"
	"html"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/docs"
	"inquiry-gateway/internal/theme"
)

const (
	// tickEvery is how often the counters are read.
	tickEvery = 5 * time.Second
	// windowSize is how far the conditions look back.
	windowSize = time.Minute
)

// shownTop is how many accounts the page shows.
const shownTop = 10

//go:embed assets pages
var files embed.FS

// Options are what a Console shows. All but Now is needed. The functions must be safe
// for concurrent use.
type Options struct {
	// Gatherer gives the metrics, those of /metrics. It is asked every 5 seconds.
	Gatherer prometheus.Gatherer
	// Facts gives the names and errors that the lines say beside the counts.
	Facts func() Facts
	// TopAccounts is told of each fetch by the gateway. The page shows accounts by
	// their ids, as the log does.
	TopAccounts *TopAccounts
	// Version of the program and the name of this node, for the head of the page.
	Version, Node string
	// Now is time.Now if nil.
	Now func() time.Time
}

// Console is the page and the counters of the last minute. It serves "/" and everything below
// "/console/" to everybody: package ops decides who gets that far. Its methods are safe
// for concurrent use.
type Console struct {
	opts Options
	mux  *http.ServeMux

	mu     sync.Mutex
	ticks  []tick // of the last minute, the newest last
	failed error  // of the newest attempt to read the metrics
}

// tick is a reading of the counters.
type tick struct {
	at   time.Time
	sums sums
}

// New makes a console. It shows no figures before Run.
func New(opts Options) (*Console, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	c := &Console{opts: opts, mux: http.NewServeMux()}
	assets, err := theme.Assets(files)
	if err != nil {
		return nil, err
	}
	runbook, err := renderRunbook(docs.Runbook)
	if err != nil {
		return nil, err
	}
	put := []string{"{{runbook}}", runbook, "{{version}}", html.EscapeString(opts.Version), "{{node}}", html.EscapeString(opts.Node)}
	for name, a := range assets {
		c.mux.Handle("GET /console/assets/"+name, a)
	}
	// Plain text with names in double braces: a package of templates would have the linker
	// keep every method of every type. root is the way from the page to "/", relative, so
	// that it fits behind a proxy's prefix.
	for _, page := range []struct{ path, file, root string }{{"/{$}", "home.html", ""}, {"/console/runbook", "runbook.html", "../"}} {
		body, err := fs.ReadFile(files, "pages/"+page.file)
		if err != nil {
			return nil, err
		}
		text := strings.NewReplacer("{{root}}", page.root).Replace(strings.NewReplacer(put...).Replace(string(body)))
		c.mux.HandleFunc("GET "+page.path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, strings.ReplaceAll(text, "{{kinds}}", strings.Join(opts.Facts().Kinds, " "))) // the browser left; nobody to tell
		})
	}
	// Somebody may have cut the path of a page off. Relative, so that it fits behind a proxy's prefix;
	// http.Redirect would make it absolute.
	for path, target := range map[string]string{"/console": "./", "/console/{$}": "../"} {
		c.mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", target)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
	}
	c.mux.HandleFunc("GET /console/state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c.state()) // the browser left; nobody to tell
	})
	return c, nil
}

// ServeHTTP answers one request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	theme.Secure(w.Header())
	w.Header().Set("Cache-Control", "no-store") // assets have another one
	c.mux.ServeHTTP(w, r)
}

// Run reads the counters every 5 seconds until ctx ends. It is called once.
func (c *Console) Run(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		c.tick()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *Console) tick() {
	next, err := collect(c.opts.Gatherer)
	now := c.opts.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed = err; err != nil {
		return // sums in part would look like counters that began again
	}
	c.ticks = append(slices.DeleteFunc(c.ticks, func(t tick) bool { return now.Sub(t.at) > windowSize }), tick{now, next})
}

// state is what an open page asks for. Times are seconds since 1970.
type state struct {
	Now      int64     `json:"now"`
	At       int64     `json:"t"` // of the newest tick; 0: there is none yet
	Lines    []line    `json:"lines"`
	Sums     sums      `json:"sums"`
	Accounts []Account `json:"accounts"`
}

func (c *Console) state() state {
	now, facts := c.opts.Now(), c.opts.Facts()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := state{Now: now.Unix(), Accounts: c.opts.TopAccounts.top(shownTop, now)}
	w := window{facts: facts}
	if n := len(c.ticks); n > 0 {
		newest := c.ticks[n-1]
		s.At, s.Sums = newest.at.Unix(), newest.sums
		if now.Sub(newest.at) <= windowSize { // else it says nothing about the last minute
			w.now, w.before = newest.sums, c.ticks[0].sums
		}
	}
	s.Lines = lines(w, now)
	if c.failed != nil {
		s.Lines = append([]line{{
			ID: "metrics", Bad: true, Name: "The metrics cannot be read", Text: "The figures here are old.", Hits: "Nobody.",
			Cause: "Last: " + shown(c.failed.Error()), Do: "Read `/metrics` of this node, and its log.",
		}}, s.Lines...)
	}
	return s
}
