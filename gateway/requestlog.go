package gateway

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"inquiry-gateway/cache"
)

// log writes the record of a request, in one Write. It has the account and the key id, but never the key, a
// filter's value or an id of the legacy system.
func (g *Gateway) log(req *request) {
	if g.opts.RequestLog == nil || !g.sampled(req) {
		return
	}
	buf := g.lines.Get().(*[]byte)
	*buf = g.appendLine((*buf)[:0], req)
	if _, err := g.opts.RequestLog.Write(*buf); err != nil {
		g.metrics.logErrors.Inc()
	}
	g.lines.Put(buf)
}

// sampled reports whether a request gets a record: one in SampleHits of the fresh hits, and all others but refusals
// over the limit.
func (g *Gateway) sampled(req *request) bool {
	if req.unlogged {
		return false
	}
	return g.opts.SampleHits == 1 || req.list.Outcome != cache.Hit || req.cause != nil || rand.IntN(g.opts.SampleHits) == 0
}

// appendLine appends the line that slog's JSONHandler would
// write of the same attributes. It is written by hand because every hit pays
// for it: slog takes four times as long.
func (g *Gateway) appendLine(b []byte, req *request) []byte {
	level := slog.LevelInfo
	if req.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	b = append(b, `{"time":"`...)
	b = req.begin.Add(req.duration).AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"`...)
	b = append(b, level.String()...)
	b = append(b, `","msg":"request"`...)
	b = appendText(b, "request_id", req.id.bytes())
	b = appendText(b, "method", methodLabel(req.http.Method))
	b = appendText(b, "endpoint", req.endpoint.series.label)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(req.status), 10)
	b = appendSeconds(b, "duration_seconds", req.duration)
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, int64(req.sent), 10)
	var address [64]byte
	b = appendText(b, "client_address", req.clientAddress().AppendTo(address[:0]))
	b = g.appendTrace(b, req)
	if req.principal.Account != "" {
		b = appendText(b, "account", req.principal.Account)
		b = appendText(b, "key_id", req.principal.KeyID)
		b = appendSeconds(b, "auth_seconds", req.authTime)
	}
	if req.list.Outcome != "" {
		b = appendText(b, "cache", string(req.list.Outcome))
		b = appendText(b, "tier", req.list.Tier)
		b = appendSeconds(b, "age_seconds", req.list.Age)
		b = appendSeconds(b, "list_seconds", req.list.Wait)
		if g.opts.LogListKeys && req.list.Outcome != cache.Impossible { // nobody is asked for that one, whatever the ttl
			b = appendListKey(b, req.list.Entry)
		}
	}
	if req.problem != "" {
		b = appendText(b, "error_code", req.problem)
	}
	if req.cause != nil {
		b = appendText(b, "cause", req.cause.Error())
	}
	return append(b, '}', '\n')
}

// appendListKey names the list that the legacy is asked for, and its body, so that
// equal ones can be told from others, without saying which they are.
func appendListKey(b []byte, e *cache.Entry) []byte {
	list, body := e.Source()
	b = appendText(b, "kind", e.Kind)
	return fmt.Appendf(b, `,"key":"%016x","etag":"%016x"`, list, body)
}

// appendText appends a text attribute. Every text of a line is escaped here, also one
// that cannot need it: a line that is no JSON hides its request.
func appendText[T []byte | string](b []byte, key string, value T) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	b, _ = jsontext.AppendQuote(b, value) // its only error is invalid UTF-8, which it replaces
	return b
}

// appendSeconds appends a duration in seconds to the microsecond.
func appendSeconds(b []byte, key string, d time.Duration) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	b = append(b, '"', ':')
	micros := max(d.Microseconds(), 0)
	b = strconv.AppendInt(b, micros/1e6, 10)
	b = append(b, '.')
	rest := micros % 1e6
	for unit := int64(1e5); unit > 0; unit /= 10 {
		b = append(b, byte('0'+rest/unit%10))
	}
	return b
}

const otherMethod = "other"

// methodLabel bounds what a caller can put into logs.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return otherMethod
}
