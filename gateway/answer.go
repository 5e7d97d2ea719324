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

// answerField is a field of an answer: a name in net/http's canonical form and its value, in the
// shape that net/http wants, so that answers can share it, or as bytes.
type answerField struct {
	name  string
	value []string
	text  []byte
}

// answerFields are those of one answer by their names, as net/http writes them. Each name is added
// once, and no value may have a line break. They are kept apart from net/http's map
// because filling and sorting that map is a tenth of what a hit costs.
type answerFields []answerField

// usualFields is how many fields an answer has at most today.
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

// into puts the fields into net/http's map.
func (f answerFields) into(h http.Header) {
	for i := range f {
		if f[i].text != nil {
			h[f[i].name] = []string{string(f[i].text)}
		} else {
			h[f[i].name] = f[i].value
		}
	}
}

// appendHead appends the head of an answer of HTTP/1.1.
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
func (x *exchange) writeList() {
	h, entry := x.gateway.headers, x.list.Entry
	x.fields.add("Age", []string{inSeconds(x.list.Age)})
	x.fields.add("Cache-Control", h.cacheControl)
	x.fields.add("Cache-Status", []string{cacheStatus(&x.list)})
	x.fields.add("Etag", entry.ETag)
	x.fields.add("Vary", h.vary)
	if tags := x.request.Header[ifNoneMatchField]; len(tags) > 0 && notModified(tags, entry.ETag[0]) {
		x.send(http.StatusNotModified, nil)
		return
	}
	variant, coding := x.gateway.chooseRepresentation(entry, x.request.Header[acceptEncodingField])
	if coding != nil {
		x.fields.add("Content-Encoding", coding)
	}
	x.fields.add("Content-Length", variant.Length)
	x.fields.add("Content-Type", h.jsonType)
	x.send(http.StatusOK, variant.Body)
}

// writeError sends what the caller gets for an error. The error itself is kept for
// the log: its text may speak of the legacy system, the answer never does.
func (x *exchange) writeError(err error) {
	p := problemOf(err)
	x.cause, x.problem = err, p.Code
	if len(x.gateway.lists) == 1 && p.Code == v1.NotFound.Code {
		for path := range x.gateway.lists {
			p.Detail = "Check the path: the list is " + path + "."
		}
	}
	body := p.Render(x.id.String())
	x.fields.add("Cache-Control", x.gateway.headers.noStore)
	x.fields.add("Content-Length", []string{strconv.Itoa(len(body))})
	x.fields.add("Content-Type", x.gateway.headers.jsonType)
	x.fields.add("Vary", x.gateway.headers.varyOfErrors)
	if p.header[0] != "" {
		x.fields.add(p.header[0], []string{p.header[1]})
	}
	x.send(p.Status, body)
}

// writePage sends a document, which knows no caller.
func (x *exchange) writePage() {
	w := x.engine.Writer
	h := w.Header()
	x.fields.into(h)
	if x.closes() {
		h["Connection"] = x.gateway.headers.close
	}
	theme.Secure(h, v1.DocsPolicy)
	x.headSent = true
	x.page.ServeHTTP(w, x.request)
	w.WriteHeaderNow()
	x.status, x.sent = w.Status(), max(w.Size(), 0)
}

// closes says whether the answer is the last one of its connection: while the gateway
// drains, and after a request whose end a proxy may have seen elsewhere (RFC 9112,
// section 6.1).
func (x *exchange) closes() bool {
	r := x.request
	// Over HTTP/1.0 net/http ignores Transfer-Encoding, does not say so, and takes the body for the next request.
	coded := len(r.TransferEncoding) > 0 || r.ProtoMajor == 1 && r.ProtoMinor == 0
	return coded || x.gateway.opts.Draining.Load()
}

// send writes the answer with the fields that lists and errors share. HEAD gets the header
// that GET would have. A caller that is gone is noted: nobody is left to tell.
func (x *exchange) send(status int, body []byte) {
	x.status = status
	x.fields.add("Date", x.gateway.dates.at(time.Now()))
	if x.rate.Policy != "" {
		// The form of the IETF's draft on RateLimit header fields. Moments are rounded
		// up, so that who waits for them waits long enough.
		b := appendLimit(x.rateText[:0], x.rate.Policy, ";q=", x.rate.Limit, ";w=", x.rate.Window)
		n := len(b)
		b = appendLimit(b, x.rate.Policy, ";r=", x.rate.Remaining, ";t=", x.rate.Reset)
		x.fields.addText("Ratelimit", b[n:])
		x.fields.addText("Ratelimit-Policy", b[:n])
	}
	last := x.closes()
	if last {
		x.fields.add("Connection", x.gateway.headers.close)
	}
	var err error
	x.headSent = true
	if x.fast != nil {
		head := x.gateway.heads.Get().(*[]byte)
		*head = x.fields.appendHead((*head)[:0], status)
		x.sent, err = x.fast.SendHead(*head, body, last)
		x.gateway.heads.Put(head)
	} else {
		w := x.engine.Writer
		x.fields.into(w.Header())
		w.WriteHeader(status)
		w.WriteHeaderNow()
		if len(body) > 0 && x.request.Method != http.MethodHead {
			x.sent, err = w.Write(body)
		}
	}
	if err != nil {
		x.writeFailed(err)
	}
}

// appendLimit appends a policy with a count and a time, as an item of a structured field
// (RFC 9651).
func appendLimit(b []byte, policy, nameOfCount string, count int, nameOfTime string, d time.Duration) []byte {
	b = append(strconv.AppendQuote(b, policy), nameOfCount...)
	b = append(strconv.AppendInt(b, int64(count), 10), nameOfTime...)
	return strconv.AppendInt(b, int64(math.Ceil(d.Seconds())), 10)
}

// headers holds header values that answers share. A header value is a slice in
// net/http; making one per header and request is what it would cost without.
// Nothing here is changed after newHeaders.
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

// cacheStatus tells how the cache came by an answer (RFC 9211). A fresh hit's
// ttl is rounded down and a stale one's away from zero, so that a negative ttl
// always means stale.
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
