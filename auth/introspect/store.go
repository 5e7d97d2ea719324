// Package introspect asks an authorization server about each API key (RFC 7662).
//
// The key itself goes to the server, over TLS, and nowhere else: no error, log record or
// span of this package has it, and errors of the HTTP client lose their URL. What comes
// back is claims, whose names the configuration has; they become the same grant that a key
// record gives. The server decides whether a key is active. The gateway decides what the
// grant allows.
//
// A node remembers an answer for a short time, so a key that the server has revoked is let in for
// auth.cache_ttl at most. While the server is away or slow, a breaker keeps callers from waiting for it:
// keys whose time is not over go on, others get 503. Only look-ups of known keys open it.
package introspect

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/breaker"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/telemetry"
)

const (
	// maxIntrospection bounds an answer, in bytes.
	maxIntrospection = 64 << 10
	// breakerRequests is how many look-ups the breaker judges at least.
	breakerRequests = 10
)

// Store is an auth.Store that asks an authorization server. It remembers answers for
// a time, never past their exp. It is safe for concurrent use.
type Store struct {
	*auth.RemoteStore
	cfg     Config
	secret  auth.Secret
	client  *http.Client
	breaker *gobreaker.CircuitBreaker[*auth.Grant]
	log     *slog.Logger
	now     func() time.Time

	mu       sync.Mutex
	state    string
	failed   Failure // the last one of the server
	unusable Failure // the last *auth.UnusableKey
}

// The states of an authorization server, as the last look-up has found it.
const (
	StateOK      = "ok" // also before the first look-up
	StateDown    = "down"
	StateRefused = "refused" // it refuses the gateway's own client
)

// Failure is an error of a look-up. It holds no key.
type Failure struct {
	Err error // nil: there was none
	At  time.Time
}

// New does not call the server. The configuration must be valid. A grant counts for ttl. Close ends
// the store.
func New(cfg Config, ttl time.Duration, opts auth.Options) *Store {
	opts = opts.WithDefaults()
	s := &Store{cfg: cfg, log: opts.Logger, now: opts.Now, state: StateOK, secret: auth.Secret(cfg.ClientSecretFile.Secret())}
	// No cookie jar: it would carry what one key's answer set into the next key's
	// look-up.
	s.client = &http.Client{
		Transport:     newTransport(cfg, opts),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.breaker = s.newBreaker(opts)
	s.RemoteStore = auth.NewRemoteStore("introspection", s.lookUp, auth.RemotePolicy{TTL: ttl, Timeout: cfg.Timeout}, opts)
	return s
}

// lookUp asks about a key unless the breaker is open. Only look-ups of known keys count for the
// breaker: strangers could send what makes a look-up fail, and so lock out known keys. auth.Guesses
// bounds what strangers may ask.
func (s *Store) lookUp(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
	if !c.Known && s.breaker.State() == gobreaker.StateOpen {
		return nil, errOpen
	}
	ask := func() (*auth.Grant, error) {
		grant, err := s.introspect(ctx, c)
		s.record(err)
		return grant, err
	}
	if !c.Known {
		return ask()
	}
	grant, err := s.breaker.Execute(ask)
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = errOpen
	}
	return grant, err
}

var errOpen = fmt.Errorf("%w: the breaker of the introspection endpoint is open", auth.ErrNotAsked)

// record keeps what a look-up says of the server, and why an active token is no key.
func (s *Store) record(err error) {
	failure := Failure{Err: err, At: s.now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := errors.AsType[*auth.UnusableKey](err); ok {
		s.unusable = failure
	}
	works, counts := judge(err)
	if !counts {
		return
	}
	if s.state = StateOK; works {
		return
	}
	s.failed, s.state = failure, StateDown
	if status, _ := errors.AsType[statusError](err); status.refusesClient() {
		s.state = StateRefused
	}
}

// State is one of the State constants. failed is the last failure of the server, which may be over;
// unusable is the last active token that was refused.
func (s *Store) State() (state string, failed, unusable Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.failed, s.unusable
}

// Close refuses further look-ups, gives up those under way, and closes the connections.
func (s *Store) Close() {
	s.RemoteStore.Close()
	s.client.CloseIdleConnections()
}

// newTransport allows no proxy by accident: keys go to the server and nowhere
// else unless the environment says so.
func newTransport(c Config, opts auth.Options) *http.Transport {
	dial := opts.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   32, // as many as there are look-ups may be open: none waits for another's connection
		IdleConnTimeout:       60 * time.Second,
		TLSHandshakeTimeout:   c.Timeout,
		ResponseHeaderTimeout: c.Timeout,
		TLSClientConfig:       setting.TLS{CA: c.CA}.Config("introspection", &setting.Problems{}), // Validate has told them
	}
}

// statusError is an answer with another status than 200. The zero value is none.
type statusError struct {
	status int
	code   string // of the error (RFC 6749, 5.2); empty: none
}

// newStatusError reads an answer that is not 200.
func newStatusError(res *http.Response) statusError {
	var reply struct {
		Error string `json:"error"`
	}
	e := statusError{status: res.StatusCode}
	if json.NewDecoder(io.LimitReader(res.Body, maxIntrospection)).Decode(&reply) == nil && errorCode.MatchString(reply.Error) {
		e.code = reply.Error
	}
	return e
}

// errorCode is what the codes of errors look like. Other texts might hold the token.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

func (e statusError) Error() string {
	text := fmt.Sprintf("the introspection endpoint answered with status %d", e.status)
	if e.code != "" {
		text += " " + e.code
	}
	if e.refusesClient() {
		text += ": it refuses the gateway's own client; set auth.introspection.client_id and client_secret_file to a client that may introspect tokens"
	}
	return text
}

// refusesClient tells whether the gateway's own credentials are wrong or may not introspect.
func (e statusError) refusesClient() bool {
	return e.status == http.StatusUnauthorized || e.status == http.StatusForbidden || e.status == http.StatusBadRequest && (e.code == "invalid_client" || e.code == "unauthorized_client")
}

// refusesToken tells whether the server has no such sort of token, as some say of a JWT or of any text that
// is not a token of theirs, where RFC 7662 wants `active: false`.
func (e statusError) refusesToken() bool {
	return e.status == http.StatusBadRequest && (e.code == "unsupported_token_type" || e.code == "invalid_token")
}

// Is makes errors.Is(err, auth.ErrRefused) hold unless the server fails or is too busy.
func (e statusError) Is(target error) bool {
	return target == auth.ErrRefused && e.status/100 != 5 && e.status != http.StatusTooManyRequests
}

// isRequestError tells whether it is about what was sent, and so says nothing of the server.
func (e statusError) isRequestError() bool {
	return e.status/100 == 4 && e.status != http.StatusUnauthorized && e.status != http.StatusTooManyRequests && !(e.status == http.StatusBadRequest && e.refusesClient())
}

// judge tells whether the server works by the error of a look-up. It does not count where the error is
// about the token that was sent.
func judge(err error) (works, counts bool) {
	status, _ := errors.AsType[statusError](err)
	return err == nil || errors.Is(err, auth.ErrUnknownKey), !status.isRequestError() && !errors.Is(err, errClaim)
}

// newBreaker makes a breaker that no answer about one key opens, however odd it is.
func (s *Store) newBreaker(opts auth.Options) *gobreaker.CircuitBreaker[*auth.Grant] {
	state := telemetry.Series(opts.Registerer, "auth").Gauge("introspection_breaker_state",
		"Breaker of the introspection endpoint: 0 closed, 1 half-open, 2 open.")
	state.Set(0) // a store of before may have left another one
	opens := breaker.Config{Window: 10 * time.Second, Least: breakerRequests, Ratio: 0.5, OpenFor: 5 * time.Second}
	return breaker.New[*auth.Grant](opens, judge, func(from, to gobreaker.State) {
		state.Set(float64(to))
		s.log.Warn("the introspection endpoint's breaker changed", slog.String("from", from.String()), slog.String("to", to.String()))
	})
}

// introspect asks about one key. Whatever is not an answer in JSON, of 64 KiB at most, to
// this one request is an error of the server's and says nothing about the key.
func (s *Store) introspect(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
	req, err := s.request(ctx, c.Key)
	if err != nil {
		return nil, bare(err)
	}
	res, err := s.client.Do(req)
	if wrong, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return nil, fmt.Errorf("%w: %w", auth.ErrRefused, wrong)
	}
	if err != nil {
		return nil, bare(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		if e := newStatusError(res); !e.refusesToken() {
			return nil, e
		}
		return nil, auth.ErrUnknownKey
	}
	if media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, fmt.Errorf("%w: it is no application/json", auth.ErrGarbage)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxIntrospection+1))
	if err != nil {
		return nil, bare(err)
	}
	if len(body) > maxIntrospection {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", auth.ErrGarbage, maxIntrospection)
	}
	return grant(s.cfg.Claims, c.Digest, body)
}

// request makes the look-up of a key, with the gateway's own credentials.
func (s *Store) request(ctx context.Context, key auth.Secret) (*http.Request, error) {
	form := url.Values{"token": {string(key)}, "token_type_hint": {"access_token"}}
	if s.cfg.ClientID != "" && s.cfg.ClientAuth == ClientAuthPost {
		form.Set("client_id", s.cfg.ClientID)
		form.Set("client_secret", string(s.secret))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "inquiry-gateway")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// Present but empty: asking twice does no harm, so net/http may repeat the
	// request when a kept connection turns out to be closed. Nothing is sent.
	req.Header["Idempotency-Key"] = []string{}
	if s.cfg.ClientID != "" && s.cfg.ClientAuth != ClientAuthPost {
		// RFC 6749, 2.3.1: both are form-encoded before they become Basic.
		req.SetBasicAuth(url.QueryEscape(s.cfg.ClientID), url.QueryEscape(string(s.secret)))
	}
	return req, nil
}

// bare strips the URL from an error of the HTTP client, and the bytes of a reply that net/http quotes.
func bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if what, _, quotes := strings.Cut(err.Error(), `"`); quotes {
		return fmt.Errorf("the reply is not HTTP: %s", strings.TrimRight(what, " ["))
	}
	return err
}
