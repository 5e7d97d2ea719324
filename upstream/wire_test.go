package upstream

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/internal/testkit/memnet"
)

// wire is a legacy system that counts requests and connections.
type wire struct {
	mu    sync.Mutex
	got   []string // requests: method, body and credential
	conns map[net.Conn]http.ConnState
	dials int
}

// newWire makes a client of a legacy system that answers its nth request by serve. Nobody listens if that is nil.
func newWire(t *testing.T, serve func(n int, w http.ResponseWriter, r *http.Request), keys string) (*wire, *Client) {
	t.Helper()
	s, network := &wire{conns: map[net.Conn]http.ConnState{}}, memnet.Listen()
	web := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			s.mu.Lock()
			n := len(s.got)
			s.got = append(s.got, strings.Join(strings.Fields(r.Method+" "+string(body)+" "+r.Header.Get("Authorization")), " "))
			s.mu.Unlock()
			serve(n, w, r)
		}),
		ConnState: func(c net.Conn, is http.ConnState) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.conns[c] = is; is == http.StateClosed || is == http.StateHijacked {
				delete(s.conns, c)
			}
		},
	}
	go func() { _ = web.Serve(network) }()
	t.Cleanup(func() { _ = web.Close() })
	c, err := New(configFrom(t, section, keys), Options{Dial: func(ctx context.Context, protocol, address string) (net.Conn, error) {
		s.mu.Lock()
		s.dials++
		s.mu.Unlock()
		if serve == nil {
			return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("connection refused")}
		}
		return network.Dial(ctx, protocol, address)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return s, c
}

// idle counts the connections that can be used again; busy ones are a fault when a fetch has ended.
func (s *wire) idle(t *testing.T) (idle int) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, is := range s.conns {
		if is != http.StateIdle {
			t.Errorf("a connection is %v after the fetch", is)
		}
		idle++
	}
	return idle
}

// statuses answers with one status after the other, a 200 with a list; the last one for good.
func statuses(codes ...int) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, r *http.Request) {
		if code := codes[min(n, len(codes)-1)]; code != http.StatusOK {
			status(code)(w, r)
			return
		}
		serveJSON(rows("", "a"))(w, r)
	}
}

// told answers with a status and Retry-After first, then with a list.
func told(code int, after string) func(int, http.ResponseWriter, *http.Request) {
	return func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 0 {
			w.Header().Set("Retry-After", after)
		}
		statuses(code, 200)(n, w, r)
	}
}

func always(serve http.HandlerFunc) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, r *http.Request) { serve(w, r) }
}

// slow sends the head and a part of the body, and nothing more.
func slow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"rows":[`)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// What goes over the wire for one list: how often a request is sent, how long that takes at least and, but for the jitter of
// repeats, at most, and which connections can be used again. A reply that is too large, cut off or late is never asked for again.
func TestWire(t *testing.T) {
	const jitter = 300 * time.Millisecond // of three repeats
	large := `{"rows":[` + strings.Repeat(" ", 200_000) + `]}`
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"rows":[`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	for name, tc := range map[string]struct {
		serve  func(int, http.ResponseWriter, *http.Request)
		keys   string
		within time.Duration // the deadline of the list
		cancel time.Duration // after which the caller leaves
		empty  bool          // the retry budget is
		result string
		sent   int
		took   time.Duration
		idle   int
		body   string // of each request
	}{
		"502, then 200":              {serve: statuses(502, 200), result: "ok", sent: 2, idle: 1},
		"503, then 200":              {serve: statuses(503, 200), result: "ok", sent: 2, idle: 1},
		"502 for ever":               {serve: statuses(502), result: "status_5xx", sent: 2, idle: 1},
		"502 for ever, 4 attempts":   {serve: statuses(502), keys: "attempts: 4", result: "status_5xx", sent: 4, idle: 1},
		"502 for ever, 1 attempt":    {serve: statuses(502), keys: "attempts: 1", result: "status_5xx", sent: 1, idle: 1},
		"500":                        {serve: statuses(500), result: "status_5xx", sent: 1, idle: 1},
		"POST, 502, then 200":        {serve: statuses(502, 200), keys: "buyer: {method: POST, body: [\"{account}\"]}", result: "ok", sent: 2, idle: 1, body: `POST ["acme"]`},
		"no budget":                  {serve: statuses(502), empty: true, result: "status_5xx", sent: 1, idle: 1},
		"cut off in the body":        {serve: always(cut), result: "truncated", sent: 1},
		"too large":                  {serve: always(serveJSON(large)), keys: "max_response_bytes: 1000", result: "too_large", sent: 1},
		"a large 502":                {serve: always(serveAs(502, "text/html", large)), result: "status_5xx", sent: 2},
		"not JSON":                   {serve: always(serveJSON("{")), result: "json", sent: 1, idle: 1},
		"a page":                     {serve: always(serveAs(200, "text/html", "<p>")), result: "media_type", sent: 1, idle: 1},
		"damaged gzip":               {serve: always(zippedBadly), result: "encoding", sent: 1, idle: 1},
		"no head in time":            {serve: always(hang), keys: "timeout: 2s", result: "timeout", sent: 1, took: 2 * time.Second},
		"no body in time":            {serve: always(slow), keys: "timeout: 2s", result: "timeout", sent: 1, took: 2 * time.Second},
		"the list's deadline":        {serve: always(hang), within: time.Second, result: "timeout", sent: 1, took: time.Second},
		"the list's, in the body":    {serve: always(slow), within: time.Second, result: "timeout", sent: 1, took: time.Second},
		"429, come in 1 s":           {serve: told(429, "1"), within: 3 * time.Second, result: "ok", sent: 2, took: time.Second, idle: 1},
		"503, come in 1 s":           {serve: told(503, "1"), within: 3 * time.Second, result: "ok", sent: 2, took: time.Second, idle: 1},
		"429, come in 60 s":          {serve: told(429, "60"), within: time.Hour, result: "throttled", sent: 1, idle: 1},
		"429, come in 2 s, 1 s left": {serve: told(429, "2"), within: time.Second, result: "throttled", sent: 1, idle: 1},
		"429 that tells nothing":     {serve: told(429, ""), result: "throttled", sent: 1, idle: 1},
		"left while it waits":        {serve: told(429, "1"), cancel: 500 * time.Millisecond, result: "throttled", sent: 1, took: 500 * time.Millisecond, idle: 1},
		"left in the first":          {serve: always(hang), cancel: time.Second, result: "canceled", sent: 1, took: time.Second},
		"left in the body of a 502": {serve: func(_ int, w http.ResponseWriter, r *http.Request) { w.WriteHeader(502); slow(w, r) },
			cancel: time.Second, result: "canceled", sent: 1, took: time.Second},
		"attempts have a timeout each": {serve: func(n int, w http.ResponseWriter, r *http.Request) {
			time.Sleep(1500 * time.Millisecond)
			statuses(502, 502, 200)(n, w, r)
		}, keys: "{timeout: 2s, attempts: 3}", result: "ok", sent: 3, took: 4500 * time.Millisecond, idle: 1},
		"nobody listens": {keys: "attempts: 3", result: "connect"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := newWire(t, tc.serve, tc.keys)
				if tc.empty {
					c.endpoints["buyer"].guard.budget.tokens = 0
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.within > 0 {
					ctx, cancel = context.WithTimeout(ctx, tc.within)
					defer cancel()
				}
				if tc.cancel > 0 {
					time.AfterFunc(tc.cancel, cancel)
				}
				begin, result := time.Now(), "ok"
				if _, err := c.Fetch(ctx, acme); err != nil {
					result = asError(err).Reason
				}
				took, idle := time.Since(begin), s.idle(t)
				if result != tc.result || len(s.got) != tc.sent || took < tc.took || took > tc.took+jitter {
					t.Errorf("%s after %d requests in %v", result, len(s.got), took)
				}
				if idle != tc.idle || c.places.inFlight.Load() != 0 {
					t.Errorf("%d connections are idle, %d places taken", idle, c.places.inFlight.Load())
				}
				if tc.serve == nil && s.dials != 3 {
					t.Errorf("%d dials", s.dials)
				}
				for _, got := range s.got {
					if tc.body != "" && got != tc.body {
						t.Errorf("sent %q", got)
					}
				}
			})
		})
	}
}
