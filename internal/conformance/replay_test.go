package conformance

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"inquiry-gateway/upstream/probe"
)

// replayer is a legacy system that answers as a handler does, which may be replaced.
type replayer struct {
	*httptest.Server
	mu     sync.Mutex
	now    http.Handler
	seen   []*http.Request
	bodies []string // of what was seen
}

func startReplayer(t *testing.T) *replayer {
	l := &replayer{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		l.mu.Lock()
		l.seen, l.bodies = append(l.seen, r), append(l.bodies, string(body))
		now := l.now
		l.mu.Unlock()
		now.ServeHTTP(w, r)
	}))
	t.Cleanup(l.Close)
	return l
}

// use sets what answers from now on.
func (l *replayer) use(h http.Handler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = h
}

// password is what examples sign in with.
const password = "a word"

// signsIn reports whether a request is a sign-in or asks for a token, whatever its format. The body of a request is in memory.
func signsIn(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	text, path := strings.ReplaceAll(string(body), "+", " "), strings.ToLower(r.URL.Path)
	return strings.Contains(text, password) || strings.Contains(path, "login") || strings.HasSuffix(path, "/token")
}

// tokens are where the examples look for one.
const tokens = `{"access_token":"token","token_type":"Bearer","expires_in":3600,"token":"token","sessionToken":"token",
"data":{"access_token":"token","authenticate":{"result":"token"}}}`

// replay answers with replies, as `check --tests` does, and lets the gateway sign in. In a reply address stands for
// the system's.
func replay(t *testing.T, all []probe.Reply, address string) http.Handler {
	transport, err := probe.Replay(all)
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if signsIn(r) {
			w.Header().Add("Set-Cookie", "RT_SID_support.443=session; Path=/")
			w.Header().Add("Set-Cookie", "JSESSIONID=session; Path=/")
			say(http.StatusOK, "application/json", tokens)(w, r)
			return
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		for name, values := range resp.Header {
			w.Header().Set(name, strings.ReplaceAll(values[0], address, "http://"+r.Host))
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(bytes.ReplaceAll(text, []byte(address), []byte("http://"+r.Host))) // an error: the gateway has gone
	})
}

// saved are the replies of a test of examples/tests, from a system at an address.
func saved(t *testing.T, test probe.Test, folder, address string) http.Handler {
	var all []probe.Reply
	for _, r := range test.Replies {
		reply, err := r.Reply(folder)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, reply)
	}
	return replay(t, all, address)
}

func recordingOf(example string) string { return "testdata/recordings/" + example + ".json.gz" }

// recorded are the replies of an example's recording: by method, path and query, and in a new line the request's body.
func recorded(t *testing.T, example string) http.Handler {
	f, err := os.Open(recordingOf(example))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	recording := map[string]struct {
		Status int
		Header http.Header
		Reply  string
	}{}
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&recording)
	}
	if err != nil {
		t.Fatalf("%s: %v", f.Name(), err)
	}
	var all []probe.Reply
	for request, r := range recording {
		target, body, _ := strings.Cut(request, "\n")
		_, to, _ := strings.Cut(target, " ")
		reply := probe.Reply{To: to, Has: body, Status: r.Status, Headers: map[string]string{}, Body: []byte(r.Reply)}
		for name := range r.Header {
			reply.Headers[name] = r.Header.Get(name)
		}
		all = append(all, reply)
	}
	return replay(t, all, "{legacy}")
}

// failures are how a legacy system fails.
var failures = map[string]http.HandlerFunc{
	"refused":    say(http.StatusForbidden, "text/plain", "no"),
	"throttled":  say(http.StatusTooManyRequests, "text/plain", "later"),
	"error":      say(http.StatusInternalServerError, "application/json", `{"message":"out of order"}`),
	"away":       say(http.StatusServiceUnavailable, "text/plain", "closed"),
	"empty":      say(http.StatusOK, "application/json", ""),
	"garbage":    say(http.StatusOK, "application/json", "{{{ 6e4f9d2c"),
	"page":       say(http.StatusOK, "text/html", "<html><body>Please sign in</body></html>"),
	"no records": say(http.StatusOK, "application/json", "{}"),
	"cut":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	"slow":       func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
}

// say answers every request the same way; an unavailable system says when to come again.
func say(status int, mediaType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaType)
		if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "90") // more than the gateway waits
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // an error: the gateway has gone
	}
}
