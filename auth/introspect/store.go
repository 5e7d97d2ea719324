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
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
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
}

// New does not call the server. The configuration must be valid. A grant counts for ttl. Close ends
// the store.
func New(cfg Config, ttl time.Duration, opts auth.Options) *Store {
	opts = opts.WithDefaults()
	s := &Store{cfg: cfg, log: opts.Logger, secret: auth.Secret(cfg.ClientSecretFile.Secret())}
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
	if !c.Known {
		return s.introspect(ctx, c)
	}
	grant, err := s.breaker.Execute(func() (*auth.Grant, error) { return s.introspect(ctx, c) })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		err = errOpen
	}
	return grant, err
}

var errOpen = fmt.Errorf("%w: the breaker of the introspection endpoint is open", auth.ErrNotAsked)

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

// errStatus is an answer with another status than 200.
type errStatus int

func (e errStatus) Error() string {
	return fmt.Sprintf("the introspection endpoint answered with status %d", int(e))
}

// Is makes errors.Is(err, auth.ErrRefused) hold unless the server fails or is too busy.
func (e errStatus) Is(target error) bool {
	return target == auth.ErrRefused && e/100 != 5 && e != http.StatusTooManyRequests
}

// aboutKey tells whether it is about what was sent, and so says nothing of the server.
func (e errStatus) aboutKey() bool {
	return e/100 == 4 && e != http.StatusUnauthorized && e != http.StatusTooManyRequests
}

// newBreaker makes a breaker that no answer about one key opens, however odd it is.
func (s *Store) newBreaker(opts auth.Options) *gobreaker.CircuitBreaker[*auth.Grant] {
	state := telemetry.Series(opts.Registerer, "auth").Gauge("introspection_breaker_state",
		"Breaker of the introspection endpoint: 0 closed, 1 half-open, 2 open.")
	state.Set(0) // a store of before may have left another one
	judge := func(err error) (well, counts bool) {
		status, _ := errors.AsType[errStatus](err)
		return err == nil || errors.Is(err, auth.ErrUnknownKey), !status.aboutKey() && !errors.Is(err, errClaim)
	}
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
		return nil, errStatus(res.StatusCode)
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
