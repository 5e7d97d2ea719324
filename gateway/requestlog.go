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

// log writes the exchange's one line, in one Write. Who asked is said by account and key id; never
// the key, what a filter takes or an id of the legacy system.
func (g *Gateway) log(x *exchange) {
	if g.opts.RequestLog == nil || !g.sampled(x) {
		return
	}
	buf := g.lines.Get().(*[]byte)
	*buf = g.appendLine((*buf)[:0], x)
	if _, err := g.opts.RequestLog.Write(*buf); err != nil {
		g.metrics.logErrors.Inc()
	}
	g.lines.Put(buf)
}

// sampled says whether the exchange gets a line: everything does but a suppressed refusal, and fresh hits that were answered, of which one in sampleHits does.
func (g *Gateway) sampled(x *exchange) bool {
	if x.suppressed {
		return false
	}
	return g.opts.SampleHits == 1 || x.list.Outcome != cache.Hit || x.cause != nil || rand.IntN(g.opts.SampleHits) == 0
}

// appendLine appends the line that slog's JSONHandler would
// write of the same attributes. It is written by hand because every hit pays
// for it: slog takes four times as long.
func (g *Gateway) appendLine(b []byte, x *exchange) []byte {
	level := slog.LevelInfo
	if x.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	b = append(b, `{"time":"`...)
	b = x.begin.Add(x.duration).AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","level":"`...)
	b = append(b, level.String()...)
	b = append(b, `","msg":"request"`...)
	b = appendText(b, "request_id", x.id.bytes())
	b = appendText(b, "method", methodLabel(x.request.Method))
	b = appendText(b, "endpoint", x.endpoint.series.label)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(x.status), 10)
	b = appendSeconds(b, "duration_seconds", x.duration)
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, int64(x.sent), 10)
	var address [64]byte
	b = appendText(b, "client_address", x.clientAddress().AppendTo(address[:0]))
	b = g.appendTrace(b, x)
	if x.principal.Account != "" {
		b = appendText(b, "account", x.principal.Account)
		b = appendText(b, "key_id", x.principal.KeyID)
		b = appendSeconds(b, "auth_seconds", x.authTime)
	}
	if x.list.Outcome != "" {
		b = appendText(b, "cache", string(x.list.Outcome))
		b = appendText(b, "tier", x.list.Tier)
		b = appendSeconds(b, "age_seconds", x.list.Age)
		b = appendSeconds(b, "list_seconds", x.list.Wait)
		if g.opts.LogListKeys && x.list.Outcome != cache.Impossible { // nobody is asked for that one, whatever the ttl
			b = appendListKey(b, x.list.Entry)
		}
	}
	if x.problem != "" {
		b = appendText(b, "error_code", x.problem)
	}
	if x.cause != nil {
		b = appendText(b, "cause", x.cause.Error())
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
