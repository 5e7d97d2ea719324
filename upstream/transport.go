package upstream

import (
	"net"
	"net/http"
	"time"

	"github.com/go-resty/resty/v2"
)

// via is what a gateway adds to the requests it passes on (RFC 9110, 7.6.3).
const via = "1.1 inquiry-gateway"

// newHTTP builds the one client for the legacy system. It keeps nothing of a
// reply but its body: no cookies, no redirects, no proxy out of the environment,
// and no repeats, which are decided in one place (see retry.go).
func newHTTP(cfg Config, userAgent string) *resty.Client {
	transport := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: cfg.Timeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    cfg.Timeout,
		ResponseHeaderTimeout:  cfg.Timeout,
		IdleConnTimeout:        90 * time.Second,
		MaxConnsPerHost:        cfg.MaxConcurrent,
		MaxIdleConns:           cfg.MaxConcurrent,
		MaxIdleConnsPerHost:    cfg.MaxConcurrent,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // done here, with the limit applied to what comes out
	}
	client := resty.NewWithClient(&http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	})
	client.SetLogger(silent{})
	client.SetHeaders(cfg.Headers)
	client.SetHeader("Accept", "application/json")
	client.SetHeader("Accept-Encoding", "gzip")
	client.SetHeader("Via", via)
	if client.Header.Get("User-Agent") == "" {
		client.SetHeader("User-Agent", userAgent)
	}
	return client
}

// silent keeps resty from writing to the standard error stream.
type silent struct{}

func (silent) Errorf(string, ...any) {}
func (silent) Warnf(string, ...any)  {}
func (silent) Debugf(string, ...any) {}
