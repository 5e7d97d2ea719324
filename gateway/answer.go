package gateway

import (
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/httpwire"
	v1 "inquiry-gateway/gateway/v1"
)

// cacheName names this cache in Cache-Status (RFC 9211).
const cacheName = "inquiry-gateway"

// writeList sends the list or, if the caller has it already, a 304 with the
// headers that the 200 would have had (RFC 9110, section 15.4.5).
func (x *exchange) writeList() {
	h, entry := x.gateway.headers, x.list.Entry
	x.common()
	x.Add("Cache-Control", h.cacheControl)
	x.Add("Vary", h.vary)
	x.Add("Etag", entry.ETag)
	x.Add("Age", h.ageOf(x.list.Age))
	x.Add("Cache-Status", h.cacheStatus(&x.list))
	if tags := x.request.IfNoneMatch; len(tags) > 0 && notModified(tags, entry.ETag[0]) {
		x.Status = http.StatusNotModified
		x.send()
		return
	}
	variant, coding := x.gateway.chooseVariant(entry, x.request.AcceptEncoding)
	if coding != nil {
		x.Add("Content-Encoding", coding)
	}
	x.Add("Content-Type", h.jsonType)
	x.Status, x.Length, x.Body = http.StatusOK, variant.Length, variant.Body
	x.send()
}

// writeError sends what the caller gets for an error. The error itself is kept for
// the log: its text may speak of the legacy system, the answer never does.
func (x *exchange) writeError(err error) {
	p := problemOf(err)
	x.cause, x.problem = err, p.Code
	if len(x.gateway.endpoints) == 1 && p.Code == v1.NotFound.Problem().Code {
		for path := range x.gateway.endpoints {
			p.Detail = "Check the path: the list is " + path + "."
		}
	}
	x.Add("Content-Type", x.gateway.headers.jsonType)
	x.Add("Cache-Control", x.gateway.headers.noStore)
	if p.header[0] != "" {
		x.Add(p.header[0], []string{p.header[1]})
	}
	x.common()
	x.Status, x.Body = p.Status, p.Render(x.id.String())
	x.Length = []string{strconv.Itoa(len(x.Body))}
	x.send()
}

// closes says whether the answer is the last one of its connection: while the gateway
// drains, and after a request whose end a proxy may have seen elsewhere (RFC 9112,
// section 6.1).
func (x *exchange) closes() bool { return x.gateway.opts.Draining.Load() || x.request.Coded }

// common adds the fields that lists and errors share.
func (x *exchange) common() {
	x.Add("Date", x.gateway.dates.at(time.Now()))
	if x.rate.Policy == "" {
		return
	}
	// The form of the IETF's draft on RateLimit header fields. Moments are rounded
	// up, so that who waits for them waits long enough.
	b := appendLimit(x.limits[:0], x.rate.Policy, ";q=", x.rate.Limit, ";w=", x.rate.Window)
	n := len(b)
	b = appendLimit(b, x.rate.Policy, ";r=", x.rate.Remaining, ";t=", x.rate.Reset)
	x.AddText("Ratelimit-Policy", b[:n])
	x.AddText("Ratelimit", b[n:])
}

// appendLimit appends a policy with a count and a time, as an item of a structured field
// (RFC 9651).
func appendLimit(b []byte, policy, nameOfCount string, count int, nameOfTime string, d time.Duration) []byte {
	b = append(strconv.AppendQuote(b, policy), nameOfCount...)
	b = append(strconv.AppendInt(b, int64(count), 10), nameOfTime...)
	return strconv.AppendInt(b, int64(math.Ceil(d.Seconds())), 10)
}

// send writes the answer. HEAD gets the header that GET would have; net/http
// leaves out its body. A caller that is gone is noted: nobody is left to tell.
func (x *exchange) send() {
	x.Close = x.closes()
	n, err := httpwire.Send(x.writer, &x.request, x.conn, &x.Answer)
	x.sent = n
	if err != nil && x.cause == nil && x.request.Method != http.MethodHead {
		x.Status, x.cause = statusClientClosedRequest, err
	}
}

// preparedSeconds is how many values of Age and of a hit's ttl have their
// header ready; greater ones are formatted per request.
const preparedSeconds = 1024

// headers holds header values that answers share. A header value is a slice in
// net/http; making one per header and request is what it would cost without.
// Nothing here is changed after newHeaders.
type headers struct {
	jsonType, cacheControl, noStore, vary, nosniff []string
	gzip, zstd                                     []string
	age, hit                                       [preparedSeconds][]string
}

// newHeaders formats all values that a hit can need.
func newHeaders() *headers {
	h := &headers{
		jsonType:     []string{"application/json; charset=utf-8"},
		cacheControl: []string{"private, no-cache"},
		noStore:      []string{"no-store"},
		vary:         []string{"Authorization, Accept-Encoding"},
		nosniff:      []string{"nosniff"},
		gzip:         []string{"gzip"},
		zstd:         []string{"zstd"},
	}
	for i := range preparedSeconds {
		n := strconv.Itoa(i)
		h.age[i] = []string{n}
		h.hit[i] = []string{cacheName + "; hit; ttl=" + n}
	}
	return h
}

// ageOf is the age in whole seconds, rounded down.
func (h *headers) ageOf(age time.Duration) []string {
	n := int(age / time.Second)
	if n < preparedSeconds {
		return h.age[max(n, 0)]
	}
	return []string{strconv.Itoa(n)}
}

// cacheStatus tells how the cache came by an answer (RFC 9211). A fresh hit's
// ttl is rounded down and a stale one's away from zero, so that a negative ttl
// always means stale.
func (h *headers) cacheStatus(r *cache.Result) []string {
	status := cacheName
	switch r.Outcome {
	case cache.Hit:
		n := int(r.TTL / time.Second)
		if n >= 0 && n < preparedSeconds {
			return h.hit[n]
		}
		status += "; hit; ttl=" + strconv.Itoa(n)
	case cache.StaleRevalidate, cache.StaleError:
		n := min(int((r.TTL-time.Second+1)/time.Second), -1)
		status += "; hit; ttl=" + strconv.Itoa(n) + "; detail=" + string(r.Outcome)
	default:
		status += "; fwd=miss"
		if r.Expired { // a list was there that was too old
			status = cacheName + "; fwd=stale"
		}
		if r.Outcome == cache.Collapsed {
			status += "; collapsed"
		} else if r.Stored {
			status += "; stored"
		}
	}
	return []string{status}
}

// dates has the value of Date ready for the second that it is: formatting one
// costs as much as looking a list up. It is safe for concurrent use.
type dates struct{ now atomic.Pointer[date] }

// date is the value of one second.
type date struct {
	second int64
	value  []string
}

// at is the value for a moment (RFC 9110, section 5.6.7).
func (d *dates) at(t time.Time) []string {
	known := d.now.Load()
	if second := t.Unix(); known == nil || known.second != second {
		known = &date{second, []string{t.UTC().Format(http.TimeFormat)}}
		d.now.Store(known)
	}
	return known.value
}
