// Package replay answers requests with saved replies, in the place of the legacy
// system.
package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Reply is one saved reply and the requests that it is for.
type Reply struct {
	// To is the path of the requests, the parameters that they must have at least,
	// or both: /tickets?page=2. Empty: every request.
	To      string
	Has     string // a part of the request as Asked gives it; empty: any request
	Status  int    // 0: 200
	Headers map[string]string
	Body    []byte
}

// Server is a transport that never touches the network. Of the replies that fit a
// request it takes one with the most parameters; of several such each in its turn. It is safe for concurrent use.
type Server struct {
	replies []reply

	mu    sync.Mutex
	used  []int
	asked []string
}

// reply is a saved reply with the parts of To.
type reply struct {
	Reply
	path  string
	query url.Values
}

// New reads what the replies are for.
func New(replies []Reply) (*Server, error) {
	s := &Server{used: make([]int, len(replies))}
	for i, r := range replies {
		u, err := url.Parse(r.To)
		if err != nil || u.Host != "" {
			return nil, fmt.Errorf("reply %d is for %q; write a path with or without parameters, such as /tickets?page=2", i+1, r.To)
		}
		s.replies = append(s.replies, reply{r, u.Path, u.Query()})
	}
	return s, nil
}

// Asked lists the requests so far, readable: method, path and query with nothing
// escaped, then the body.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// RoundTrip implements http.RoundTripper.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := Body(r)
	if err != nil {
		return nil, err
	}
	asked := readable(r, body)
	s.mu.Lock()
	s.asked = append(s.asked, asked)
	found := s.find(r.URL, asked)
	s.mu.Unlock()
	if found == nil {
		return nil, fmt.Errorf("no saved reply is for %s", asked)
	}
	return found.response(r), nil
}

// Body reads the body of a request to the end, and closes it.
func Body(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// readable is a request as a person reads it, see Asked.
func readable(r *http.Request, body []byte) string {
	text := r.Method + " " + r.URL.Path
	if query, err := url.QueryUnescape(r.URL.RawQuery); err == nil && query != "" {
		text += "?" + query
	}
	return strings.TrimSuffix(text+" "+string(body), " ")
}

// find is called under the lock.
func (s *Server) find(u *url.URL, asked string) *reply {
	best, query := -1, u.Query()
	for i := range s.replies {
		r := &s.replies[i]
		if !r.fits(u.Path, query, asked) {
			continue
		}
		if best < 0 || r.weight() > s.replies[best].weight() || r.weight() == s.replies[best].weight() && s.used[i] < s.used[best] {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	s.used[best]++
	return &s.replies[best]
}

// weight is larger for a reply to fewer requests.
func (r *reply) weight() int { return 2*len(r.query) + min(1, len(r.Has)) }

// fits tells whether a request is one that the reply is for. Parameters besides those
// of To do not matter.
func (r *reply) fits(path string, query url.Values, asked string) bool {
	if r.path != "" && r.path != path || !strings.Contains(asked, r.Has) {
		return false
	}
	for name, values := range r.query {
		if !slices.Equal(values, query[name]) {
			return false
		}
	}
	return true
}

// response is the saved reply to a request. Headers that were saved replace the media
// type that is guessed.
func (r *reply) response(to *http.Request) *http.Response {
	header := http.Header{"Content-Type": {mediaType(r.Body)}}
	for name, value := range r.Headers {
		header.Set(name, value)
	}
	return Response(to, cmp.Or(r.Status, http.StatusOK), header, r.Body)
}

// Response is a reply to a request as a transport gives it.
func Response(to *http.Request, status int, header http.Header, body []byte) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: to,
	}
}

// mediaType is what a legacy system would call the body, whose file has lost it.
func mediaType(body []byte) string {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(body, []byte("<")) {
		return "application/xml"
	}
	return "application/json"
}
