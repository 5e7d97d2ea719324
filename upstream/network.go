package upstream

import (
	"net"
	"net/http"
	"time"

	"github.com/go-resty/resty/v2"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/mapping"
)

// via is what a gateway adds to the requests it passes on (RFC 9110, 7.6.3).
const via = "1.1 inquiry-gateway"

// newTransport makes the connections to the legacy system. They have no bound of
// their own: max_concurrent bounds the requests. A request that waited for a connection
// here would look like a legacy that is slow. Every request has a deadline by its
// context, the header's arrival included.
func newTransport(cfg Config, opts Options) *http.Transport {
	dial := opts.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: cfg.Timeout, KeepAlive: 30 * time.Second}).DialContext
	}
	t := &http.Transport{
		DialContext:            dial,
		TLSHandshakeTimeout:    cfg.Timeout,
		ReadBufferSize:         16 << 10, // a short reply comes with its header in one read
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           cfg.MaxConcurrent,
		MaxIdleConnsPerHost:    cfg.MaxConcurrent,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // done here, with the limit applied to what comes out
	}
	if cfg.TLS != (setting.TLS{}) {
		t.TLSClientConfig = cfg.TLS.Config("tls", &setting.Problems{}) // Validate has told them
	}
	return t
}

// newHTTP builds the one client of all requests for lists. It keeps nothing of a reply but
// its body: no cookies, no redirects, no proxy out of the environment, and no repeats, which
// are decided in one place (see [fetch.request]).
func newHTTP(network http.RoundTripper, cfg Config, opts Options) *resty.Client {
	client := resty.NewWithClient(&http.Client{Transport: network, CheckRedirect: noRedirect})
	client.SetLogger(silent{})
	client.Header = cfg.common(opts, mapping.AcceptJSON)
	client.SetHeader("Accept-Encoding", "gzip")
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
