package upstream

import (
	"crypto/tls"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/go-resty/resty/v2"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/mapping"
)

// via is what a gateway adds to the requests it passes on (RFC 9110, 7.6.3).
const via = "1.1 inquiry-gateway"

// newTransport makes the connections to the legacy system. Their number is bounded by upstream.max_concurrent and
// not here, where a request that waits would look like a slow legacy system. Each request has a timeout of its own.
func newTransport(cfg Config, opts Options) *http.Transport {
	dial := opts.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext
	}
	t := &http.Transport{
		DialContext:            dial,
		TLSHandshakeTimeout:    connectTimeout,
		ReadBufferSize:         16 << 10, // a short reply comes with its header in one read
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    math.MaxInt, // no more than were in use at a time
		MaxResponseHeaderBytes: 64 << 10,
	}
	if cfg.TLS != (setting.TLS{}) {
		t.TLSClientConfig = cfg.TLS.Config("tls", &setting.Problems{}) // Validate has told them
		if cfg.TLS.CertFile.Set() {
			t.TLSClientConfig.Renegotiation = tls.RenegotiateOnceAsClient // which is how IIS asks for it
		}
	}
	return t
}

// connectTimeout bounds dialing, and a TLS handshake, that go on when the request that they began for has ended.
const connectTimeout = 10 * time.Second

// newHTTP builds the client of all requests for lists. It keeps nothing of a reply but
// its body: no cookies, no redirects, no proxy out of the environment. Repeats are decided
// in [fetch.request].
func newHTTP(network *network, cfg Config, opts Options) *resty.Client {
	var way http.RoundTripper = network.connections
	if opts.Transport != nil {
		way = opts.Transport(way)
	}
	client := resty.NewWithClient(&http.Client{Transport: way, CheckRedirect: noRedirect})
	client.SetLogger(silent{}).SetTimeout(cfg.Timeout)
	client.Header = cfg.common(opts, mapping.AcceptJSON)
	return client
}

// common are the headers that all requests have, sign-ins included. accept is for a
// configuration that names no media type: some systems have one of their own.
func (c Config) common(opts Options, accept string) http.Header {
	h := http.Header{"Accept": {accept}, "Via": {via}, "User-Agent": {opts.UserAgent}}
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	return h
}

// noRedirect makes a redirect an ordinary reply, which is then refused by its
// status.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// silent keeps resty from writing to the standard error stream.
type silent struct{}

func (silent) Errorf(string, ...any) {}
func (silent) Warnf(string, ...any)  {}
func (silent) Debugf(string, ...any) {}
