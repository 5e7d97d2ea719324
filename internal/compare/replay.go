package main

import (
	"cmp"
	"compress/gzip"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	sampleLegacy "inquiry-gateway/upstream/legacy"
)

// legacy is a legacy system that gives saved replies. The replies are replaced while nothing is asked.
type legacy struct {
	*httptest.Server
	mu      sync.Mutex
	replies replies
	seen    []map[string]string // requests, with masked values
	sample  http.Handler        // answers instead, if there is one
}

// replies finds the reply to a request with a body; nil: there is none.
type replies func(r *http.Request, body string) *reply

// reply is of a file of examples/tests, or of a recording.
type reply struct {
	To      string            `yaml:"to"`  // path and parameters of the request; empty: any
	Has     string            `yaml:"has"` // a part of the request, unescaped
	File    string            `yaml:"file"`
	Body    any               `yaml:"body"`
	Status  int               `yaml:"status"` // 0: 200
	Headers map[string]string `yaml:"headers"`

	text    string
	header  http.Header // of a recording
	failure string      // cut: the connection is closed; slow: nothing is said until the gateway gives up
	used    int
}

// startLegacy starts one on an address of loopback; in its place the sample legacy system of the demo.
func startLegacy(sample bool) *legacy {
	l := &legacy{}
	if sample {
		l.sample = sampleLegacy.New(sampleLegacy.Options{})
	}
	l.Server = httptest.NewServer(l)
	return l
}

// ServeHTTP implements http.Handler.
func (l *legacy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	l.mu.Lock()
	seen := map[string]string{"method": r.Method, "path": r.URL.Path, "query": r.URL.RawQuery, "body": string(body)}
	for name, values := range r.Header {
		seen["header "+name] = maskText(strings.Join(values, ", "))
	}
	l.seen = append(l.seen, seen)
	if l.sample != nil {
		l.mu.Unlock()
		l.sample.ServeHTTP(w, r)
		return
	}
	answer := l.replies(r, string(body))
	if answer == nil {
		answer = signIn(r.URL.Path)
	}
	l.mu.Unlock()
	switch answer.failure {
	case "cut":
		panic(http.ErrAbortHandler)
	case "slow":
		<-r.Context().Done()
		return
	}
	for name, values := range answer.header {
		for _, v := range values {
			w.Header().Add(name, strings.ReplaceAll(v, "{legacy}", l.URL))
		}
	}
	for name, value := range answer.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(cmp.Or(answer.Status, http.StatusOK))
	_, _ = io.WriteString(w, strings.ReplaceAll(answer.text, "{legacy}", l.URL)) // an error: the gateway has gone
}

// signIn is what the systems of the examples say to the gateway when it signs in; 404 to all else.
func signIn(path string) *reply {
	switch path {
	case "/services/oauth2/token":
		return &reply{text: `{"access_token":"token","token_type":"Bearer","expires_in":3600}`, Headers: map[string]string{"Content-Type": "application/json"}}
	case "/auth/login":
		return &reply{text: `{"data":{"access_token":"token","expires":900000}}`, Headers: map[string]string{"Content-Type": "application/json"}}
	case "/NoAuth/Login.html":
		return &reply{Status: http.StatusFound, Headers: map[string]string{"Location": "/", "Set-Cookie": "RT_SID_support.443=session; Path=/"}}
	}
	return &reply{Status: http.StatusNotFound, text: "no reply was saved for this request"}
}

// saved gives replies as `check --tests` does: of those that fit one with the most parameters, of several each in its turn.
func saved(all []reply, folder string) (replies, error) {
	all = slices.Clone(all)
	for i := range all {
		r := &all[i]
		var err error
		var text []byte
		plain, isText := r.Body.(string)
		switch {
		case r.File != "":
			text, err = os.ReadFile(filepath.Join(folder, r.File))
		case isText:
			text = []byte(plain)
		default:
			text, err = json.Marshal(r.Body)
		}
		if err != nil {
			return nil, err
		}
		r.text, r.header = string(text), http.Header{"Content-Type": {"application/json"}}
		if strings.HasPrefix(strings.TrimSpace(strings.TrimPrefix(r.text, "\ufeff")), "<") {
			r.header.Set("Content-Type", "application/xml")
		}
	}
	return func(r *http.Request, body string) (best *reply) {
		asked := r.Method + " " + r.URL.Path
		if query, err := url.QueryUnescape(r.URL.RawQuery); err == nil && query != "" {
			asked += "?" + query
		}
		most, query := 0, r.URL.Query()
		for i := range all {
			to, err := url.Parse(all[i].To)
			if err != nil || to.Path != "" && to.Path != r.URL.Path || !strings.Contains(asked+" "+body, all[i].Has) {
				continue
			}
			weight, fits := 2*len(to.Query())+min(1, len(all[i].Has)), true
			for name, values := range to.Query() {
				fits = fits && slices.Equal(values, query[name])
			}
			if fits && (best == nil || weight > most || weight == most && all[i].used < best.used) {
				best, most = &all[i], weight
			}
		}
		if best != nil {
			best.used++
		}
		return best
	}, nil
}

// recordings are of systems that `make real` installs, by the names of their examples.
//
//go:embed testdata/recordings
var recordings embed.FS

// recorded gives the replies of a recording; an example without one has none.
func recorded(example string) (replies, error) {
	f, err := recordings.Open("testdata/recordings/" + example + ".json.gz")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	all := map[string]*reply{}
	for decode := json.NewDecoder(z); ; {
		var e struct {
			Request, Body, Reply string
			Status               int
			Header               http.Header
		}
		if err := decode.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("recording of %s: %w", example, err)
		}
		method, target, _ := strings.Cut(e.Request, " ")
		u, err := url.Parse(target)
		if err != nil {
			return nil, err
		}
		all[method+canonical(u)+e.Body] = &reply{Status: e.Status, text: e.Reply, header: e.Header}
	}
	return func(r *http.Request, body string) *reply { return all[r.Method+canonical(r.URL)+body] }, nil
}

// canonical is a path and a query whose parameters are in order.
func canonical(u *url.URL) string { return " " + u.Path + "?" + u.Query().Encode() + "\n" }

// failures are how a legacy system fails: the reply to each request.
var failures = map[string]reply{
	"refused":    {Status: http.StatusForbidden, text: "no"},
	"missing":    {Status: http.StatusNotFound, text: "no such thing"},
	"throttled":  {Status: http.StatusTooManyRequests, Headers: map[string]string{"Retry-After": "90"}},
	"error":      {Status: http.StatusInternalServerError, text: `{"message":"out of order"}`, Headers: map[string]string{"Content-Type": "application/json"}},
	"away":       {Status: http.StatusServiceUnavailable, Headers: map[string]string{"Retry-After": "90"}},
	"empty":      {Headers: map[string]string{"Content-Type": "application/json"}},
	"garbage":    {text: "{{{ 6e4f9d2c", Headers: map[string]string{"Content-Type": "application/json"}},
	"page":       {text: "<html><body>Please sign in</body></html>", Headers: map[string]string{"Content-Type": "text/html"}},
	"no records": {text: "{}", Headers: map[string]string{"Content-Type": "application/json"}},
	"cut":        {failure: "cut"},
	"slow":       {failure: "slow"},
}
