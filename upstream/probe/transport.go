package probe

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"inquiry-gateway/upstream"
)

// Reply is a saved reply and the requests that it is for.
type Reply struct {
	// To is the path of the requests, the parameters that they must have at least,
	// or both: /tickets?page=2. Empty: every request.
	To      string
	Has     string // a part of the request as Requests gives it; empty: any request
	Status  int    // 0: 200
	Headers map[string]string
	Body    []byte
}

// Transport records the requests for a list and what came, sign-ins apart. It hands them on to
// the network or, where it has saved replies, never touches that: of the replies that fit a
// request it takes one with the most parameters; of several such each in its turn. It is
// safe for concurrent use.
type Transport struct {
	live    bool              // else the saved replies are all there is
	network http.RoundTripper // of a live one
	replies []saved
	// answered is called after each reply; nil: nothing is.
	answered func()

	mu        sync.Mutex
	exchanges []*exchange
}

// saved is a reply with the parts of To.
type saved struct {
	Reply
	path  string
	query url.Values
	used  int
}

// exchange is a request with how the reply to it begins.
type exchange struct {
	method, url string
	header      http.Header
	body        string

	status    int // 0: there was none
	mediaType string
	begin     []byte
}

// Replay makes a transport of saved replies.
func Replay(replies []Reply) (*Transport, error) {
	t := &Transport{}
	for i, r := range replies {
		u, err := url.Parse(r.To)
		if err != nil || u.Host != "" {
			return nil, fmt.Errorf("reply %d is for %q; write a path with or without parameters, such as /tickets?page=2", i+1, r.To)
		}
		t.replies = append(t.replies, saved{Reply: r, path: u.Path, query: u.Query()})
	}
	return t, nil
}

// Client makes a client of the gateway whose requests go through the transport. Where the
// replies are saved ones no secret is read.
func (t *Transport) Client(cfg upstream.Config, userAgent string) (*upstream.Client, error) {
	if !t.live {
		cfg = cfg.WithoutSecrets()
		cfg.TLS = upstream.DefaultConfig().TLS
	}
	return upstream.New(cfg, upstream.Options{UserAgent: userAgent, Transport: func(network http.RoundTripper) http.RoundTripper {
		t.network = network
		return t
	}})
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e := &exchange{method: r.Method, url: r.URL.String(), header: r.Header.Clone()}
	if r.Body != nil && r.Body != http.NoBody {
		body, err := io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		e.body = string(body)
		r = r.WithContext(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	t.mu.Lock()
	t.exchanges = append(t.exchanges, e)
	t.mu.Unlock()
	resp, err := t.answer(r, e)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.status, e.mediaType = resp.StatusCode, resp.Header.Get("Content-Type")
	if t.answered != nil {
		t.answered()
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(resp.Body, beginning{t, e}), resp.Body}
	return resp, nil
}

// shownReply is how many bytes of a reply are kept.
const shownReply = 1 << 10

// beginning keeps the first bytes of a reply that are read.
type beginning struct {
	t *Transport
	e *exchange
}

// Write implements io.Writer. It never fails.
func (b beginning) Write(p []byte) (int, error) {
	b.t.mu.Lock()
	defer b.t.mu.Unlock()
	b.e.begin = append(b.e.begin, p[:min(shownReply-len(b.e.begin), len(p))]...)
	return len(p), nil
}

// text is how the reply begins, in UTF-8.
func (e *exchange) text() string {
	text := e.begin
	if bytes.HasPrefix(text, []byte("\x1f\x8b")) { // gzip; the header may name a coding that is none
		zip, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return ""
		}
		text = make([]byte, shownReply)
		n, _ := io.ReadFull(zip, text) // as far as it goes
		text = text[:n]
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

// asked is the request as a person reads it: method, path and query with nothing escaped,
// then the body.
func (e *exchange) asked() string {
	text := e.method
	if u, err := url.Parse(e.url); err == nil {
		text += " " + u.Path
		if query, err := url.QueryUnescape(u.RawQuery); err == nil && query != "" {
			text += "?" + query
		}
	}
	return strings.TrimSuffix(text+" "+e.body, " ")
}

// Requests lists the requests for a list so far, readable: method, path and query with
// nothing escaped, then the body.
func (t *Transport) Requests() (asked []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.exchanges {
		asked = append(asked, e.asked())
	}
	return asked
}

// answer gives the reply of the network, or a saved one.
func (t *Transport) answer(r *http.Request, e *exchange) (*http.Response, error) {
	if t.live {
		return t.network.RoundTrip(r)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var best *saved
	asked, query := e.asked(), r.URL.Query()
	for i := range t.replies {
		s := &t.replies[i]
		if s.fits(r.URL.Path, query, asked) && (best == nil || s.weight() > best.weight() || s.weight() == best.weight() && s.used < best.used) {
			best = s
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no saved reply is for %s", asked)
	}
	best.used++
	header := http.Header{"Content-Type": {mediaType(best.Body)}}
	for name, value := range best.Headers {
		header.Set(name, value)
	}
	status := cmp.Or(best.Status, http.StatusOK)
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(best.Body)), ContentLength: int64(len(best.Body)), Request: r,
	}, nil
}

// weight is larger for a reply to fewer requests.
func (s *saved) weight() int { return 2*len(s.query) + min(1, len(s.Has)) }

// fits tells whether a request is one that the reply is for. Parameters besides those
// of To do not matter.
func (s *saved) fits(path string, query url.Values, asked string) bool {
	if s.path != "" && s.path != path || !strings.Contains(asked, s.Has) {
		return false
	}
	for name, values := range s.query {
		if !slices.Equal(values, query[name]) {
			return false
		}
	}
	return true
}

// mediaType is what a legacy system would call the body, whose file has lost it.
func mediaType(body []byte) string {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(body, []byte("<")) {
		return "application/xml"
	}
	return "application/json"
}
