package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 20

// Row is one cell and case: what is declared, and what was seen.
type Row struct {
	Cell
	Case     Case
	Declared Expectation
	Seen     Seen
	Added    time.Duration // beyond an answer with everything well
	Problem  string        // empty: as declared

	limit time.Duration // of Added; 0: none is declared
	done  bool
}

// Seen is an answer.
type Seen struct {
	Status      int
	Code        string
	CacheStatus string
	Took        time.Duration

	retryAfter string
	requestID  string
	body       []byte
	failure    string // why it is no answer, or a wrong one
	by         Gateway
}

// judge takes answers that must all be as declared; the row shows the first
// that is not, or the slowest.
func (row *Row) judge(ctx context.Context, all []Seen, e *environment) {
	row.done, row.Problem = true, ""
	for _, seen := range all {
		problem := seen.against(answers()[row.Declared.Outcome])
		if problem == "" && seen.Took > e.terms.requestLimit+e.slack() {
			problem = fmt.Sprintf("it took %s, and request_timeout is %s", short(seen.Took), e.terms.requestLimit)
		}
		if seen.Took >= row.Seen.Took || problem != "" {
			row.Seen = seen
		}
		row.Added = max(0, row.Seen.Took-e.baseline)
		if problem == "" && row.limit > 0 && row.Added > row.limit+e.slack() {
			problem = fmt.Sprintf("it took %s longer than with everything well, and at most %s is declared", short(row.Added), row.limit)
		}
		if problem != "" {
			row.Problem = problem + seen.because(ctx)
			return
		}
	}
}

// against holds an answer against what is declared; empty: it is that.
func (s Seen) against(want Answer) string {
	cacheStatus, named := strings.CutPrefix(s.CacheStatus, "inquiry-gateway; ")
	switch {
	case s.failure != "":
		return s.failure
	case s.Status != want.Status || s.Code != want.Code:
		return fmt.Sprintf("it is %s, and %s is declared", s.text(), want.text())
	case want.Status == http.StatusOK && (!named || !strings.HasPrefix(cacheStatus, want.CacheStatus) || !strings.HasSuffix(cacheStatus, want.Detail)):
		return fmt.Sprintf("Cache-Status is %q, and %s is declared", s.CacheStatus, want.text())
	case want.Status == http.StatusOK && want.Detail == "" && strings.Contains(cacheStatus, "detail="):
		return fmt.Sprintf("Cache-Status is %q, and nothing is wrong with the list", s.CacheStatus)
	case want.Status == http.StatusServiceUnavailable && s.retryAfter == "":
		return "Retry-After is missing"
	}
	return ""
}

// text is an answer in a few words.
func (a Answer) text() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, words(a.Code, strings.TrimPrefix(a.CacheStatus, "fwd="), a.Detail)))
}

// text is what was seen in the words of Answer.text, so that the two can be compared
// by eye.
func (s Seen) text() string {
	if s.Status == 0 {
		return s.failure
	}
	status := strings.TrimPrefix(s.CacheStatus, "inquiry-gateway; ")
	first, _, _ := strings.Cut(status, ";")
	_, detail, _ := strings.Cut(status, "detail=")
	return strings.TrimSpace(fmt.Sprintf("%d %s", s.Status, words(s.Code, strings.TrimPrefix(first, "fwd="), detail)))
}

// because is what the gateway's log adds to an error, whose record is written
// after the answer.
func (s Seen) because(ctx context.Context) string {
	if s.Code == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	cause := ""
	_ = poll(ctx, func() error { // without one there is less to say
		if cause = s.by.Cause(s.requestID); cause == "" {
			return errors.New("no record yet")
		}
		return nil
	})
	if cause == "" {
		return ""
	}
	return "; the gateway's log: " + cause
}

// words puts the one that an answer has: its code, or what the cache did.
func words(code, cache, detail string) string {
	switch {
	case code != "":
		return code
	case detail != "":
		return strings.TrimPrefix(detail, "detail=")
	}
	return cache
}

// short is a duration for a person, to the millisecond.
func short(d time.Duration) string {
	if d < time.Millisecond {
		return "0s"
	}
	return d.Round(time.Millisecond).String()
}

// client asks as a caller does.
type client struct{ http *http.Client }

// newClient waits for an answer that long, which is longer than it may take.
func newClient(timeout time.Duration) *client {
	return &client{&http.Client{Timeout: timeout, Transport: &http.Transport{DisableCompression: true}}}
}

// close leaves no connection that a gateway would wait for when it stops.
func (c *client) close() { c.http.CloseIdleConnections() }

// list asks for a list. What is no answer has a failure.
func (c *client) list(ctx context.Context, url, key string) (s Seen) {
	begin := time.Now()
	defer func() { s.Took = time.Since(begin) }()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Seen{failure: err.Error()}
	}
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := c.http.Do(r)
	if err != nil {
		return Seen{failure: "no answer: " + err.Error()}
	}
	defer res.Body.Close()
	s = Seen{Status: res.StatusCode, CacheStatus: res.Header.Get("Cache-Status"), retryAfter: res.Header.Get("Retry-After"), requestID: res.Header.Get("X-Request-Id")}
	if s.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
		s.failure = "the answer is cut off: " + err.Error()
		return s
	}
	var envelope struct {
		Data   []json.RawMessage
		Errors []struct{ Code string }
	}
	switch err := json.Unmarshal(s.body, &envelope); {
	case err != nil:
		s.failure = "the answer is not the envelope: " + err.Error()
	case len(envelope.Errors) > 0:
		s.Code = envelope.Errors[0].Code
		if len(envelope.Data) > 0 {
			s.failure = "an error with data in it"
		}
	}
	return s
}

// page reads a page of the ops listener, whatever its status.
func (c *client) page(ctx context.Context, url string) (string, error) {
	text, _, err := c.ops(ctx, http.MethodGet, url, "")
	return text, err
}

// read decodes what the ops listener says in JSON, whatever its status.
func (c *client) read(ctx context.Context, url string, into any) error {
	page, err := c.page(ctx, url)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(page), into)
}

// post sends JSON to the ops listener.
func (c *client) post(ctx context.Context, url, body string) error {
	text, status, err := c.ops(ctx, http.MethodPost, url, body)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: %d %.200s", url, status, text)
	}
	return err
}

// ops asks the ops listener, and reads at most maxAnswer bytes of what it says.
func (c *client) ops(ctx context.Context, method, url, body string) (text string, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return string(answer), res.StatusCode, err
}
