package upstream

import (
	"net"
	"net/http"
	"time"

	"github.com/go-resty/resty/v2"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/upstream/mapping"
)

// via is what a gateway adds to the requests it passes on (RFC 9110, 7.6.3).
const via = "1.1 inquiry-gateway"

// newHTTP builds the one client for the legacy system. Its connections have no bound of
// their own: max_concurrent bounds the fetches, and each of them its requests. A request
// that waited for a connection here would look like a legacy that is slow. Every request has a
// deadline by its context, the header's arrival included. It keeps nothing of a
// reply but its body: no cookies, no redirects, no proxy out of the environment,
// and no repeats, which are decided in one place (see retry.go).
func newHTTP(cfg Config, opts Options) *resty.Client {
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
	if cfg.TLS != (secretfile.TLS{}) {
		t.TLSClientConfig = cfg.TLS.Config("tls", &invalid.Problems{}) // Validate has told them
	}
	client := resty.NewWithClient(&http.Client{Transport: bounded{t, opts.Ceiling}, CheckRedirect: noRedirect})
	client.SetLogger(silent{})
	client.SetHeaders(cfg.Headers)
	if client.Header.Get("Accept") == "" { // some want their own media type to be named
		client.SetHeader("Accept", mapping.AcceptJSON)
	}
	client.SetHeader("Accept-Encoding", "gzip")
	client.SetHeader("Via", via)
	if client.Header.Get("User-Agent") == "" {
		client.SetHeader("User-Agent", opts.UserAgent)
	}
	return client
}

// noRedirect makes a redirect an ordinary reply, which is then refused by its
// status.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// silent keeps resty from writing to the standard error stream.
type silent struct{}

func (silent) Errorf(string, ...any) {}
func (silent) Warnf(string, ...any)  {}
func (silent) Debugf(string, ...any) {}
