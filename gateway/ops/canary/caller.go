package canary

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxBody bounds a body, as sent and as unpacked. An account for the canary has
// a short list.
const maxBody = 32 << 20

// question is one request.
type question struct {
	list   string   // buyer or seller
	key    Secret   // empty: none is sent
	status string   // filter; empty: none
	tags   []string // for If-None-Match
	gzip   bool
}

// answer is what came back, read whole.
type answer struct {
	question
	code           int
	header         http.Header
	body           []byte
	id             string // of the request, by which its log record is found
	sent, received time.Time

	// Of a list, once its headers have been read.
	tag  string
	age  time.Duration
	from cacheStatus
}

// caller asks questions.
type caller struct {
	client  *http.Client
	url     string
	agent   string
	timeout time.Duration
}

// errTooLong is for a body above maxBody.
var errTooLong = fmt.Errorf("the body has more than %d MiB; give the canary accounts with short lists", maxBody>>20)

// ask makes one request. An error is one of the connection, or errTooLong; it
// holds no key.
func (c caller) ask(ctx context.Context, q question) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := c.request(ctx, q)
	if err != nil {
		return nil, err
	}
	a := &answer{question: q, sent: time.Now()}
	resp, err := c.client.Do(r)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err // the address is known
		}
		return nil, err
	}
	a.body, err = readBounded(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	a.received = time.Now()
	a.code, a.header = resp.StatusCode, resp.Header
	if id := resp.Header.Get("X-Request-Id"); requestID.MatchString(id) {
		a.id = id
	}
	return a, nil
}

// request builds the request of a question. Accept-Encoding is set by hand, so that
// the transport does not decode the body.
func (c caller) request(ctx context.Context, q question) (*http.Request, error) {
	target := c.url + "/api/v1/" + q.list + "/inquiries"
	if q.status != "" {
		target += "?status=" + url.QueryEscape(q.status)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", c.agent)
	if q.key != "" {
		r.Header.Set("Authorization", "Bearer "+string(q.key))
	}
	if len(q.tags) > 0 {
		r.Header.Set("If-None-Match", strings.Join(q.tags, ", "))
	}
	if q.gzip {
		r.Header.Set("Accept-Encoding", "gzip")
	}
	return r, nil
}

// readBounded reads to the end, or fails with errTooLong.
func readBounded(from io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(body) > maxBody {
		return nil, errTooLong
	}
	return body, err
}

// plain is the body without its Content-Encoding; ok is false where it is not
// what that says.
func (a *answer) plain() (body []byte, ok bool) {
	if a.header.Get("Content-Encoding") != "gzip" {
		return a.body, true
	}
	unpack, err := gzip.NewReader(bytes.NewReader(a.body))
	if err != nil {
		return nil, false
	}
	body, err = readBounded(unpack)
	return body, err == nil
}

// answeredBetween is when the legacy system must have answered, by Age, which
// counts whole seconds: after the first moment and not after the second.
func (a *answer) answeredBetween() (after, upTo time.Time) {
	return a.sent.Add(-a.age - time.Second), a.received.Add(-a.age)
}
