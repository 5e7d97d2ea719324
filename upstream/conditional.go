package upstream

import (
	"maps"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/mapping"
)

// maxValidatorBytes bounds what is kept of an entity tag or a date.
const maxValidatorBytes = 256

// validator is what the reply that a list was made from said, by which the legacy can
// tell later whether that reply is still the same: RFC 9110, section 8.8. It has an
// entity tag, a date, or both.
type validator struct{ fingerprint, etag, modified string }

// String is what [List.Validator] holds; no part of it can have a line end.
func (v validator) String() string {
	if v.etag == "" && v.modified == "" {
		return ""
	}
	return v.fingerprint + "\n" + v.etag + "\n" + v.modified
}

// validatorIn reads what a reply says of itself. An entity tag that is none by the
// grammar is left out, and so is a date that is not a second older than the reply: the
// list may have changed again within it (RFC 9110, section 8.8.2.2).
func validatorIn(h http.Header, fingerprint string) validator {
	v := validator{fingerprint: fingerprint}
	if etag := h.Get("ETag"); len(etag) <= maxValidatorBytes && isEntityTag(etag) {
		v.etag = etag
	}
	modified, err := http.ParseTime(h.Get("Last-Modified"))
	sent, unsent := http.ParseTime(h.Get("Date"))
	if err == nil && unsent == nil && sent.Sub(modified) >= time.Second {
		v.modified = h.Get("Last-Modified")
	}
	return v
}

// isEntityTag follows the grammar of RFC 9110, section 8.8.3.
func isEntityTag(s string) bool {
	s = strings.TrimPrefix(s, "W/")
	return len(s) >= 2 && s[0] == '"' && strings.IndexByte(s[1:], '"') == len(s)-2 &&
		!strings.Contains(s, " ") && httpguts.ValidHeaderFieldValue(s)
}

// conditional gives the first request for a list with the headers that make it
// conditional, or as it is: the list is to be read.
//
// That is so if it was last read by another mapping, longer than full_read_every ago,
// or before the connections of this client were made: its credentials may have been
// others, which is not in the fingerprint.
func (f *fetcher) conditional(first address.Request, want Request) address.Request {
	fingerprint, rest, _ := strings.Cut(want.Validator, "\n")
	etag, modified, _ := strings.Cut(rest, "\n")
	age := f.now().Sub(want.ReadAt)
	if fingerprint != f.fingerprint || age < 0 || age >= f.cfg.FullReadEvery || want.ReadAt.Before(f.since) {
		return first
	}
	headers := map[string]string{}
	if etag != "" {
		headers["If-None-Match"] = etag
	}
	if modified != "" {
		headers["If-Modified-Since"] = modified
	}
	maps.Copy(headers, first.Headers)
	first.Head = &address.Head{Method: first.Method, Headers: headers, Conditional: true}
	return first
}

// contradicted tells whether a 304 says something that makes it none: it is about
// another reply than ours (RFC 9111, section 4.3.4), or a page follows now, which the
// body never told.
func contradicted(a answer, asked address.Request) bool {
	etag := a.header.Get("ETag")
	other := etag != "" && strings.TrimPrefix(etag, "W/") != strings.TrimPrefix(asked.Headers["If-None-Match"], "W/")
	return other || linkNext(a.header.Values("Link")) != ""
}

// validator is that of a list that was made from one reply, whose body alone told that
// it was whole. Of any other a 304 to its first request would say too little.
func (f *fetcher) validator(r *mapping.Reply, asked address.Request, first answer) string {
	p := f.plan.Paging
	if f.cfg.FullReadEvery == 0 || f.requests.Load() != 1 || first.empty() || asked.Method != http.MethodGet || p.Style == mapping.PageLink || p.TotalHeader != "" {
		return ""
	}
	v := validatorIn(first.header, f.fingerprint)
	if r.HoldsID(v.etag) {
		v.etag = "" // it would be kept with the list
	}
	return v.String()
}
