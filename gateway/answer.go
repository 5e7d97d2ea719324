package gateway

import (
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"inquiry-gateway/cache"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/theme"
)

// cacheName names this cache in Cache-Status (RFC 9211).
const cacheName = "inquiry-gateway"

// answerField is a header field of a response: a name in canonical form, and its value either as net/http wants
// it, so that responses can share it, or as bytes.
type answerField struct {
	name  string
	value []string
	text  []byte
}

// answerFields are the header fields of one response, sorted by name as net/http writes them. Each name is added
// once, and no value may have a line break. Filling and sorting net/http's map instead is a tenth of what a hit costs.
type answerFields []answerField

// usualFields is the initial capacity.
const usualFields = 16

func (f *answerFields) add(name string, value []string) {
	f.insert(answerField{name: name, value: value})
}
func (f *answerFields) addText(name string, value []byte) {
	f.insert(answerField{name: name, text: value})
}

func (f *answerFields) insert(one answerField) {
	all := append(*f, one)
	i := len(all) - 1
	for ; i > 0 && all[i-1].name > one.name; i-- {
		all[i] = all[i-1]
	}
	all[i] = one
	*f = all
}

// into sets the fields in net/http's map.
func (f answerFields) into(h http.Header) {
	for i := range f {
		if f[i].text != nil {
			h[f[i].name] = []string{string(f[i].text)}
		} else {
			h[f[i].name] = f[i].value
		}
	}
}

// appendHead appends the head of an HTTP/1.1 response.
func (f answerFields) appendHead(b []byte, status int) []byte {
	b = append(strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(status), 10), ' ')
	b = append(append(b, http.StatusText(status)...), "\r\n"...)
	for i := range f {
		b = append(append(b, f[i].name...), ": "...)
		if f[i].text != nil {
			b = append(b, f[i].text...)
		} else {
			b = append(b, f[i].value[0]...)
		}
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// writeList sends the list or, if the caller has it already, a 304 with the
// headers that the 200 would have had (RFC 9110, section 15.4.5).
func (req *request) writeList() {
	h, entry := req.gateway.headers, req.list.Entry
	req.fields.add("Age", []string{inSeconds(req.list.Age)})
	req.fields.add("Cache-Control", h.cacheControl)
	req.fields.add("Cache-Status", []string{cacheStatus(&req.list)})
	req.fields.add("Etag", entry.ETag)
	req.fields.add("Vary", h.vary)
	if tags := req.http.Header[ifNoneMatchField]; len(tags) > 0 && notModified(tags, entry.ETag[0]) {
		req.send(http.StatusNotModified, nil)
		return
	}
	variant, coding := req.gateway.chooseRepresentation(entry, req.http.Header[acceptEncodingField])
	if coding != nil {
		req.fields.add("Content-Encoding", coding)
	}
	req.fields.add("Content-Length", variant.Length)
	req.fields.add("Content-Type", h.jsonType)
	req.send(http.StatusOK, variant.Body)
}

// writeError sends the response to an error. The error itself is for the log only, as its text may quote the legacy
// system.
func (req *request) writeError(err error) {
	p := problemOf(err)
	req.cause, req.problem = err, p.Code
	if len(req.gateway.lists) == 1 && p.Code == v1.NotFound.Code {
		for path := range req.gateway.lists {
			p.Detail = "Check the path: the list is " + path + "."
		}
	}
	body := p.Render(req.id.String())
	req.fields.add("Cache-Control", req.gateway.headers.noStore)
	req.fields.add("Content-Length", []string{strconv.Itoa(len(body))})
	req.fields.add("Content-Type", req.gateway.headers.jsonType)
	req.fields.add("Vary", req.gateway.headers.varyOfErrors)
	if p.header[0] != "" {
		req.fields.add(p.header[0], []string{p.header[1]})
	}
	req.send(p.Status, body)
}

// writePage sends a document.
func (req *request) writePage() {
	w := req.ginContext.Writer
	h := w.Header()
	req.fields.into(h)
	if req.closes() {
		h["Connection"] = req.gateway.headers.close
	}
	theme.Secure(h)
	req.headSent = true
	req.page.ServeHTTP(w, req.http)
	w.WriteHeaderNow()
	req.status, req.sent = w.Status(), max(w.Size(), 0)
}

// closes reports whether the response is the last one of its connection: while the gateway drains, and after a
// request whose end a proxy may have seen elsewhere (RFC 9112, section 6.1).
func (req *request) closes() bool {
	r := req.http
	// Over HTTP/1.0 net/http ignores Transfer-Encoding, does not say so, and takes the body for the next request.
	coded := len(r.TransferEncoding) > 0 || r.ProtoMajor == 1 && r.ProtoMinor == 0
	return coded || req.gateway.opts.Draining.Load()
}

// send writes the response with the header fields that lists and errors share. The response to HEAD has the header
// of GET.
func (req *request) send(status int, body []byte) {
	req.status = status
	req.fields.add("Date", req.gateway.dates.at(time.Now()))
	if req.rate.Policy != "" {
		// The form of the IETF's draft on RateLimit header fields. Times are rounded up, so that waiting for them
		// is long enough.
		b := appendLimit(req.rateText[:0], req.rate.Policy, ";q=", req.rate.Limit, ";w=", req.rate.Window)
		n := len(b)
		b = appendLimit(b, req.rate.Policy, ";r=", req.rate.Remaining, ";t=", req.rate.Reset)
		req.fields.addText("Ratelimit", b[n:])
		req.fields.addText("Ratelimit-Policy", b[:n])
	}
	last := req.closes()
	if last {
		req.fields.add("Connection", req.gateway.headers.close)
	}
	var err error
	req.headSent = true
	if req.fast != nil {
		head := req.gateway.heads.Get().(*[]byte)
		*head = req.fields.appendHead((*head)[:0], status)
		req.sent, err = req.fast.SendHead(*head, body, last)
		req.gateway.heads.Put(head)
	} else {
		w := req.ginContext.Writer
		req.fields.into(w.Header())
		w.WriteHeader(status)
		w.WriteHeaderNow()
		if len(body) > 0 && req.http.Method != http.MethodHead {
			req.sent, err = w.Write(body)
		}
	}
	if err != nil {
		req.writeFailed(err)
	}
}

// appendLimit appends a policy with a count and a time, as an item of a structured field
// (RFC 9651).
func appendLimit(b []byte, policy, nameOfCount string, count int, nameOfTime string, d time.Duration) []byte {
	b = append(strconv.AppendQuote(b, policy), nameOfCount...)
	b = append(strconv.AppendInt(b, int64(count), 10), nameOfTime...)
	return strconv.AppendInt(b, int64(math.Ceil(d.Seconds())), 10)
}

// headers are header values that responses share, so that no slice is made for each. They never change.
type headers struct {
	jsonType, cacheControl, noStore, vary, varyOfErrors, nosniff, close []string
	gzip, zstd                                                          []string
}

func newHeaders() *headers {
	return &headers{
		jsonType:     []string{"application/json; charset=utf-8"},
		cacheControl: []string{"private, no-cache"},
		noStore:      []string{"no-store"},
		vary:         []string{"Authorization, Accept-Encoding"},
		varyOfErrors: []string{"Authorization"},
		nosniff:      []string{"nosniff"},
		close:        []string{"close"},
		gzip:         []string{"gzip"},
		zstd:         []string{"zstd"},
	}
}

// inSeconds is a time in whole seconds, rounded down.
func inSeconds(d time.Duration) string { return strconv.Itoa(int(max(d, 0) / time.Second)) }

// cacheStatus says how the cache handled a request (RFC 9211). A fresh hit's ttl is rounded down and a stale one's
// away from zero, so that a negative ttl always means stale.
func cacheStatus(r *cache.Result) string {
	status := cacheName
	switch r.Outcome {
	case cache.Hit:
		status += "; hit; ttl=" + strconv.Itoa(int(r.TTL/time.Second))
	case cache.StaleRevalidate, cache.StaleError:
		n := min(int((r.TTL-time.Second+1)/time.Second), -1)
		status += "; hit; ttl=" + strconv.Itoa(n) + "; detail=" + string(r.Outcome)
	case cache.Impossible: // neither a hit nor forwarded (RFC 9211, section 2)
		status += "; detail=impossible"
	default:
		status += "; fwd=miss"
		if r.TooOld {
			status = cacheName + "; fwd=stale"
		}
		if r.Outcome == cache.Collapsed {
			status += "; collapsed"
		} else if r.Stored {
			status += "; stored"
		}
	}
	return status
}

// dates caches the value of Date for the current second, as formatting one costs as much as looking a list up. It is
// safe for concurrent use.
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
