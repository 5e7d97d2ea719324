package ops

import (
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"inquiry-gateway/internal/connlimit"
	"inquiry-gateway/internal/telemetry"
)

const (
	wrongTokenDelay = time.Second
	// wrongTokenWaiters may be delayed at a time; further ones are refused at once,
	// and their connections closed.
	wrongTokenWaiters = 32
	// wrongTokenLogEvery is the shortest time between two log records.
	wrongTokenLogEvery = time.Second
)

// Tokens decide who may use the listener. There is one of operators, for everything, and
// one for reading /metrics. Both are sent as a bearer token, or as the password of HTTP
// Basic (RFC 7617), which browsers ask their person for. Safe for concurrent use.
type Tokens struct {
	logger   *slog.Logger
	wrong    prometheus.Counter
	waiters  chan struct{}
	records  rate.Sometimes
	unlogged atomic.Int64 // wrong ones since the last record
	current  atomic.Pointer[hashes]
}

// hashes stand for the tokens, so that comparing two does not tell how much of them is
// the same. One that is not there is nil.
type hashes struct{ operator, read *[sha256.Size]byte }

// NewTokens registers its metric. Everybody is let in until Set.
func NewTokens(logger *slog.Logger, reg prometheus.Registerer) *Tokens {
	t := &Tokens{
		logger: logger, waiters: make(chan struct{}, wrongTokenWaiters), records: rate.Sometimes{Interval: wrongTokenLogEvery},
		wrong: telemetry.Series(reg, "ops").Counter("wrong_tokens_total", "Requests to the ops listener with a wrong token."),
	}
	t.Set("", "")
	return t
}

// Set makes two tokens count from now on. Without one of operators everybody on this
// machine is let in; without the other only operators read the metrics.
func (t *Tokens) Set(operator, read string) {
	hash := func(token string) *[sha256.Size]byte {
		if token == "" {
			return nil
		}
		sum := sha256.Sum256([]byte(token))
		return &sum
	}
	t.current.Store(&hashes{hash(operator), hash(read)})
}

// guard lets requests through to next that a page of somebody else's has not caused and
// that carry the token for what they ask. Probes of open need none.
func (t *Tokens) guard(open func(path string) bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known := t.current.Load()
		switch {
		case known.operator == nil && (!loopback(r.Host) || !loopbackOrigin(r.Header.Get("Origin"))):
			http.Error(w, "without ops.token_file this listener answers to names of this machine only: ask for localhost or 127.0.0.1, from a page of that name if from one, or set ops.token_file",
				http.StatusMisdirectedRequest)
		case foreign(r):
			http.Error(w, "a page of another site may not ask this listener; open the console, or type the address", http.StatusForbidden)
		case known.operator == nil || open(r.URL.Path):
			next.ServeHTTP(w, r)
		default:
			t.authorize(w, r, known, next)
		}
	})
}

// authorize asks for the token. Who asks with another one waits before the refusal; who
// has the right one never does.
func (t *Tokens) authorize(w http.ResponseWriter, r *http.Request, known *hashes, next http.Handler) {
	_, given, basic := r.BasicAuth()
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		given = strings.TrimLeft(token, " ")
	}
	sum := sha256.Sum256([]byte(given))
	is := func(token *[sha256.Size]byte) bool {
		return token != nil && subtle.ConstantTimeCompare(sum[:], token[:]) == 1
	}
	switch reads := is(known.read); {
	case is(known.operator), reads && r.URL.Path == "/metrics":
		connlimit.FromContext(r.Context()).Authenticated()
		next.ServeHTTP(w, r)
		return
	case reads && !basic: // a browser is asked again instead: its person may have another one
		http.Error(w, "this is the token of ops.read_token_file, which is for /metrics only; send that of ops.token_file", http.StatusForbidden)
		return
	case !reads && r.Header.Get("Authorization") != "" && !t.delay(w, r):
		return
	}
	w.Header().Add("WWW-Authenticate", `Basic realm="inquiry-gateway ops", charset="UTF-8"`)
	w.Header().Add("WWW-Authenticate", `Bearer realm="inquiry-gateway ops"`)
	http.Error(w, "send the token of ops.token_file as Authorization: Bearer <token>, or in a browser as the password of any user", http.StatusUnauthorized)
}

// delay counts, logs and slows down a wrong token. If it returns false it has answered
// itself, because too many wait already.
func (t *Tokens) delay(w http.ResponseWriter, r *http.Request) bool {
	t.wrong.Inc()
	t.unlogged.Add(1)
	t.records.Do(func() {
		before := t.unlogged.Swap(0) - 1
		t.logger.Warn("a wrong token was sent to the ops listener",
			slog.Group("security", "event", "ops_token_refused"), "remote", r.RemoteAddr, "path", r.URL.Path, "not_logged_before", before)
	})
	select {
	case t.waiters <- struct{}{}:
		defer func() { <-t.waiters }()
	default:
		w.Header().Set("Connection", "close")
		w.Header().Set("Retry-After", "1")
		http.Error(w, "many wrong tokens are sent now; the right one is taken at any time", http.StatusTooManyRequests)
		return false
	}
	timer := time.NewTimer(wrongTokenDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
	return true
}

// foreign tells whether a page of another site has caused the request: a browser sends the
// password of HTTP Basic with such a one too, of every method (Fetch Metadata, W3C; where a
// browser leaves that out, Origin). A person who follows a link to a page is welcome.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin", "none": // none: typed, or a bookmark
		return false
	case "":
		origin := r.Header.Get("Origin")
		u, err := url.Parse(origin)
		return origin != "" && (err != nil || !strings.EqualFold(u.Host, r.Host))
	}
	page := r.URL.Path == "/" || r.URL.Path == "/console/runbook"
	return !page || r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// loopback tells whether a Host, with or without a port, can only mean this machine.
// Without a token nothing else tells a page in somebody's browser from its person: a page
// whose own name was made to lead to 127.0.0.1 is of the same origin as this listener.
// HTTP/1.0 has no Host; browsers always send one.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// loopbackOrigin is true for requests that no page has caused, too.
func loopbackOrigin(origin string) bool {
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && loopback(u.Host)
}
