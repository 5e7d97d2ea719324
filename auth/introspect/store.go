// Package introspect asks an authorization server about each API key (RFC 7662).
//
// The key itself goes to the server, over TLS, and nowhere else: no error, log record or
// span of this package has it, and errors of the HTTP client lose their URL. What comes
// back is claims, whose names the configuration has; they become the same grant that a key
// record gives. The server decides whether a token is active. The gateway decides what the
// grant allows.
//
// A node caches an answer for auth.cache_ttl, so that a token which the server has revoked may still be used for that
// time. While the server is unavailable or slow, a breaker keeps callers from waiting for it: cached tokens
// go on for their time, others get 503. Only look-ups of known tokens open it.
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

	"github.com/prometheus/client_golang/prometheus"
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
	// maxIdleConns is as many connections as there usually are look-ups in flight, so that none opens one.
	maxIdleConns = 32
)

// Store is an auth.Store that asks an authorization server. It is safe for concurrent use.
type Store struct {
	*auth.RemoteStore
	opts    auth.Options
	breaker prometheus.Gauge

	mu       sync.Mutex
	endpoint *endpoint
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

// New does not call the server. The configuration must be valid. A grant is cached for ttl. Close ends
// the store.
func New(cfg Config, ttl time.Duration, opts auth.Options) *Store {
	opts = opts.WithDefaults()
	s := &Store{opts: opts, state: StateOK}
	s.breaker = telemetry.Series(opts.Registerer, "auth").Gauge("introspection_breaker_state",
		"Circuit breaker of the introspection endpoint: 0 closed, 1 half-open, 2 open.")
	s.endpoint = s.newEndpoint(cfg)
	s.RemoteStore = auth.NewRemoteStore("introspection", s.endpoint.policy(ttl), opts)
	return s
}

// SetConfig is for a reload: another client secret, certificate authority, timeout or ttl of the same server (see
// Config.KeepsGrants). Known tokens stay cached. The breaker begins closed.
func (s *Store) SetConfig(cfg Config, ttl time.Duration) {
	next := s.newEndpoint(cfg)
	s.mu.Lock()
	old := s.endpoint
	s.endpoint = next
	s.mu.Unlock()
	s.SetPolicy(next.policy(ttl))
	old.client.CloseIdleConnections()
}

// Close cancels the look-ups in flight, refuses new ones, and closes the connections.
func (s *Store) Close() {
	s.RemoteStore.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint.client.CloseIdleConnections()
}

// State is one of the State constants. failed is the last failure of the server, which may be over;
// unusable is the last active token that was refused.
func (s *Store) State() (state string, failed, unusable Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.failed, s.unusable
}

// recordResult keeps what a look-up says of the server, and why an active token is no key.
func (s *Store) recordResult(err error) {
	failure := Failure{Err: err, At: s.opts.Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := errors.AsType[*auth.UnusableKey](err); ok {
		s.unusable = failure
	}
	if err == nil || errors.Is(err, auth.ErrUnknownKey) {
		s.state = StateOK
		return
	}
	s.failed = failure
	switch status, _ := errors.AsType[statusError](err); {
	case status.refusesClient():
		s.state = StateRefused
	case status.status != http.StatusBadRequest && !errors.Is(err, errClaim): // which may be about this token only
		s.state = StateDown
	}
}

// endpoint is the introspection endpoint by one configuration.
type endpoint struct {
	store   *Store
	cfg     Config
	client  *http.Client
	breaker *gobreaker.CircuitBreaker[*auth.Grant]
}

func (s *Store) newEndpoint(cfg Config) *endpoint {
	e := &endpoint{store: s, cfg: cfg}
	// No cookie jar: it would carry what one key's answer set into the next key's
	// look-up.
	e.client = &http.Client{
		Transport:     newTransport(cfg, s.opts),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.breaker.Set(0) // the breaker of an earlier configuration may have left another state
	opens := breaker.Config{Window: 10 * time.Second, Least: breakerRequests, Ratio: 0.5, OpenFor: 5 * time.Second}
	e.breaker = breaker.New[*auth.Grant](opens, judge, func(from, to gobreaker.State) {
		s.breaker.Set(float64(to))
		s.opts.Logger.Warn("the introspection endpoint's breaker changed", slog.String("from", from.String()), slog.String("to", to.String()))
	})
	return e
}

func (e *endpoint) policy(ttl time.Duration) auth.RemotePolicy {
	return auth.RemotePolicy{Lookup: e.lookUp, TTL: ttl, Timeout: e.cfg.Timeout}
}

var errOpen = errors.New("the breaker of the introspection endpoint is open")

// lookUp asks about a key unless the breaker is open. Only look-ups of known keys count for the
// breaker: anybody can send a key with which a look-up fails, and could so lock out known keys.
func (e *endpoint) lookUp(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
	ask := func() (*auth.Grant, error) {
		grant, err := e.introspect(ctx, c)
		e.store.recordResult(err)
		return grant, err
	}
	if !c.Known {
		if e.breaker.State() == gobreaker.StateOpen {
			return nil, errOpen
		}
		return ask()
	}
	grant, err := e.breaker.Execute(ask)
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = errOpen
	}
	return grant, err
}

// newTransport uses a proxy only if the environment configures one.
func newTransport(c Config, opts auth.Options) *http.Transport {
	dial := opts.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.Timeout, KeepAlive: 30 * time.Second}).DialContext
	}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dial,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       60 * time.Second,
		TLSHandshakeTimeout:   c.Timeout,
		ResponseHeaderTimeout: c.Timeout,
		TLSClientConfig:       setting.TLS{CA: c.CA}.Config("introspection", &setting.Problems{}), // Check has reported them
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

// introspect asks about one key. Whatever is not an answer in JSON, of 64 KiB at most, to
// this one request is an error of the server's and says nothing about the key.
func (e *endpoint) introspect(ctx context.Context, c auth.Credential) (*auth.Grant, error) {
	req, err := e.request(ctx, c.Key)
	if err != nil {
		return nil, stripURL(err)
	}
	res, err := e.client.Do(req)
	if err != nil {
		return nil, stripURL(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		if status := newStatusError(res); !status.refusesToken() {
			return nil, status
		}
		return nil, auth.ErrUnknownKey
	}
	if media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, fmt.Errorf("%w: it is no application/json", auth.ErrMalformedResponse)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxIntrospection+1))
	if err != nil {
		return nil, stripURL(err)
	}
	if len(body) > maxIntrospection {
		return nil, fmt.Errorf("%w: it is longer than %d bytes", auth.ErrMalformedResponse, maxIntrospection)
	}
	return grant(e.cfg.Claims, c.Digest, body)
}

// request makes the look-up of a key, with the gateway's own credentials.
func (e *endpoint) request(ctx context.Context, key auth.Secret) (*http.Request, error) {
	form := url.Values{"token": {string(key)}, "token_type_hint": {"access_token"}}
	if e.cfg.ClientID != "" && e.cfg.ClientAuth == ClientAuthPost {
		form.Set("client_id", e.cfg.ClientID)
		form.Set("client_secret", e.cfg.ClientSecretFile.Secret())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "inquiry-gateway")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	// Present but empty: asking twice does no harm, so net/http may repeat the
	// request when a kept connection turns out to be closed. Nothing is sent.
	req.Header["Idempotency-Key"] = []string{}
	if e.cfg.ClientID != "" && e.cfg.ClientAuth != ClientAuthPost {
		// RFC 6749, 2.3.1: both are form-encoded before they become Basic.
		req.SetBasicAuth(url.QueryEscape(e.cfg.ClientID), url.QueryEscape(e.cfg.ClientSecretFile.Secret()))
	}
	return req, nil
}

// stripURL removes the URL from an error of the HTTP client, and the bytes of a reply that net/http quotes. Errors of a
// certificate quote the certificate only.
func stripURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if what, _, quotes := strings.Cut(err.Error(), `"`); quotes && !certificate {
		return fmt.Errorf("the reply is not HTTP: %s", strings.TrimRight(what, " ["))
	}
	return err
}
