package gateway

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"inquiry-gateway/cache"
)

// cacheName names this cache in Cache-Status (RFC 9211).
const cacheName = "inquiry-gateway"

// preparedSeconds is how many values of Age and of a hit's ttl have their
// header ready; greater ones are formatted per request.
const preparedSeconds = 1024

// headers holds header values that answers share. A header value is a slice in
// net/http; making one per header and request is what it would cost without.
// Nothing here is changed after newHeaders.
type headers struct {
	jsonType, cacheControl, noStore, vary, nosniff []string
	gzip, zstd                                     []string
	filled                                         [2]filled // the latter: a list was there that was too old
	age, hit                                       [preparedSeconds][]string
}

// filled are the values of Cache-Status for a list that was just fetched.
type filled struct{ stored, unstored, collapsed []string }

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
	for i, why := range [...]string{cacheName + "; fwd=miss", cacheName + "; fwd=stale"} {
		h.filled[i] = filled{stored: []string{why + "; stored"}, unstored: []string{why}, collapsed: []string{why + "; collapsed"}}
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
	switch r.Outcome {
	case cache.Hit:
		if n := int(r.TTL / time.Second); n >= 0 && n < preparedSeconds {
			return h.hit[n]
		}
		return []string{cacheName + "; hit; ttl=" + strconv.Itoa(int(r.TTL/time.Second))}
	case cache.StaleRevalidate:
		return []string{cacheName + "; hit; ttl=" + staleTTL(r.TTL) + "; detail=stale-revalidate"}
	case cache.StaleError:
		return []string{cacheName + "; hit; ttl=" + staleTTL(r.TTL) + "; detail=stale-error"}
	}
	f := &h.filled[0]
	if r.Expired {
		f = &h.filled[1]
	}
	switch {
	case r.Outcome == cache.Collapsed:
		return f.collapsed
	case r.Stored:
		return f.stored
	}
	return f.unstored
}

// staleTTL rounds away from zero and is at most -1.
func staleTTL(ttl time.Duration) string {
	return strconv.Itoa(min(int((ttl-time.Second+1)/time.Second), -1))
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
