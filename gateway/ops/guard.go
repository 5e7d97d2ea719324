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

// wrongTokenLogEvery is the shortest time between two log records.
const wrongTokenLogEvery = time.Second

// Tokens decide who may use the listener. The operators' token allows everything, the
// second one only /metrics. Both are sent as a bearer token, or as the password of HTTP
// Basic (RFC 7617), which browsers ask their person for. Safe for concurrent use.
type Tokens struct {
	logger   *slog.Logger
	wrong    prometheus.Counter
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
		logger: logger, records: rate.Sometimes{Interval: wrongTokenLogEvery},
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

// guard passes on requests that carry the token for what they ask and change nothing on behalf of
// another site's page. Paths of open need no token.
func (t *Tokens) guard(open func(path string) bool, next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		known := t.current.Load()
		switch {
		case known.operator == nil && (!loopback(r.Host) || !loopbackOrigin(r.Header.Get("Origin"))):
			http.Error(w, "without ops.token_file this listener answers to names of this machine only: ask for localhost or 127.0.0.1, from a page of that name if from one, or set ops.token_file",
				http.StatusMisdirectedRequest)
		case crossOrigin.Check(r) != nil:
			http.Error(w, "a page of another site may not ask this listener; open the console, or type the address", http.StatusForbidden)
		case known.operator == nil || open(r.URL.Path):
			next.ServeHTTP(w, r)
		default:
			t.authorize(w, r, known, next)
		}
	})
}

// authorize asks for the token.
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
	case !reads && r.Header.Get("Authorization") != "":
		t.recordWrong(r)
	}
	w.Header().Add("WWW-Authenticate", `Basic realm="inquiry-gateway ops", charset="UTF-8"`)
	w.Header().Add("WWW-Authenticate", `Bearer realm="inquiry-gateway ops"`)
	http.Error(w, "send the token of ops.token_file as Authorization: Bearer <token>, or in a browser as the password of any user", http.StatusUnauthorized)
}

// recordWrong counts and logs a wrong token.
func (t *Tokens) recordWrong(r *http.Request) {
	t.wrong.Inc()
	t.unlogged.Add(1)
	t.records.Do(func() {
		before := t.unlogged.Swap(0) - 1
		t.logger.Warn("a wrong token was sent to the ops listener",
			slog.Group("security", "event", "ops_token_refused"), "remote", r.RemoteAddr, "path", r.URL.Path, "not_logged_before", before)
	})
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
