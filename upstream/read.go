package upstream

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/mapping"
)

// drainBytes is how much of an unwanted body is read so that the connection can
// be used again. A longer one costs less to cut off.
const drainBytes = 64 << 10

// replyBytes bounds the bytes of the replies to all fetches in progress. The last quarter is for small fetches, so that
// large ones do not stop them. It is safe for concurrent use.
type replyBytes struct {
	max   atomic.Int64
	small atomic.Int64 // a fetch with at most that many bytes is small: max_concurrent of them fill the quarter
	used  atomic.Int64
}

func (b *replyBytes) resize(max int64, maxConcurrent int) {
	b.max.Store(max)
	b.small.Store(max / 4 / int64(maxConcurrent))
}

// reserve counts n more bytes of a fetch that then has held bytes, and reports whether they fit. Negative n always do.
func (b *replyBytes) reserve(n, held int64) bool {
	most := b.max.Load()
	if held > b.small.Load() {
		most -= most / 4
	}
	for {
		used := b.used.Load()
		if n > 0 && used+n > most {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// allowance is how many bytes all replies of one fetch may have together, after
// decompression and decoding. They are counted while they come, so that replies that
// come at the same time are bounded, too. It is safe for concurrent use.
type allowance struct {
	max  int64
	left atomic.Int64
	all  *replyBytes // of all fetches; nil: not counted there
	held atomic.Int64
	full atomic.Bool // bytes did not fit into all
}

// newAllowance makes one that also counts in all, unless that is nil. Then release must be called when the fetch ends.
func newAllowance(max int64, all *replyBytes) *allowance {
	a := &allowance{max: max, all: all}
	a.left.Store(max)
	return a
}

// take counts n more bytes; negative: they are given back.
func (a *allowance) take(n int64) error {
	if a.left.Add(-n) < 0 {
		return failure("too_large", "the replies have more than %d bytes together", a.max)
	}
	if a.all == nil {
		return nil
	}
	if held := a.held.Add(n); !a.all.reserve(n, held) {
		a.held.Add(-n)
		a.full.Store(true)
		return a.refusal()
	}
	return nil
}

// refusal is the error of a fetch whose bytes did not fit into those of all fetches; nil: they did.
func (a *allowance) refusal() error {
	if !a.full.Load() {
		return nil
	}
	return notAsked(reasonBytes, time.Second, "the replies in progress have all bytes of upstream.max_total_response_bytes")
}

// release gives back what is counted in all. Nothing may be taken after it.
func (a *allowance) release() {
	if a.all != nil {
		a.all.reserve(-a.held.Swap(0), 0)
	}
}

// readBody gives the body of a 200 with an accepted media type as JSON, as far as
// the allowance goes. It closes the body in every case. With the error of a SOAP fault, whatever its
// status, the body is there, too.
func readBody(resp *http.Response, format *mapping.Format, allowed *allowance, now time.Time) (string, error) {
	defer resp.Body.Close()
	charset, wrong := checkHead(resp, format, now)
	if wrong != nil && resp.StatusCode != http.StatusOK {
		return readError(resp, format, wrong)
	}
	if wrong != nil { // it may tell more
		resp.Body, resp.ContentLength = io.NopCloser(io.LimitReader(resp.Body, drainBytes)), -1
		allowed = newAllowance(1<<20, nil)
	}
	raw, err := readAll(resp, allowed)
	switch {
	case (wrong != nil || !format.XML) && asksForPassword(raw):
		return "", failure(reasonDenied, "the reply is a page that asks for a password")
	case wrong != nil:
		return "", wrong
	case err != nil:
		return "", err
	}
	counted := int64(len(raw))
	body, err := format.Decode(raw, charset, func(size int64) error {
		more := size - counted
		if more < drainBytes { // it is counted at the end
			return nil
		}
		counted = size
		return allowed.take(more)
	})
	if err != nil {
		return body, asError(err)
	}
	return body, allowed.take(int64(len(body)) - counted)
}

// readError reads what a reply with status 400 or more may tell: the SOAP fault, which it adds to the error of the status
// (SOAP 1.1, 6.2), or the body of a 500.
func readError(resp *http.Response, format *mapping.Format, wrong error) (string, error) {
	media, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isXML := format.XML && resp.StatusCode >= http.StatusBadRequest && media != "" && format.Accepts(media)
	if !isXML && resp.StatusCode != http.StatusInternalServerError {
		discard(resp)
		return "", wrong
	}
	resp.Body, resp.ContentLength = io.NopCloser(io.LimitReader(resp.Body, drainBytes)), -1
	raw, err := readAll(resp, newAllowance(1<<20, nil))
	if err != nil || !isXML {
		return raw, wrong
	}
	body, err := format.Decode(raw, params["charset"], decode.AtMost(1<<20))
	if isFault(err) {
		e := *asError(wrong)
		e.Err = fmt.Errorf("%w: %w", e.Err, err)
		return body, &e
	}
	return "", wrong
}

// discard closes a body that is not wanted. That of a 101 is the connection itself: the deadline of
// the request does not end a read of it.
func discard(resp *http.Response) {
	if resp.StatusCode != http.StatusSwitchingProtocols {
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	}
	_ = resp.Body.Close()
}

// readAll returns the body, as far as the allowance goes. net/http has decompressed gzip. Some systems declare a
// charset or a transfer encoding as its content coding (RFC 2045, 6.1): the bytes are plain then.
func readAll(resp *http.Response, allowed *allowance) (string, error) {
	switch strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))) {
	case "", "identity", "none", "binary", "8bit", "7bit", "utf-8", "utf8":
	default:
		return "", failure("encoding", "the reply is in a content coding that was not asked for")
	}
	var b bytes.Buffer
	from := &countedReader{resp.Body, allowed, max(resp.ContentLength, 0)}
	if err := allowed.take(from.counted); err != nil {
		return "", err
	}
	b.Grow(int(from.counted) + bytes.MinRead)
	switch _, err := b.ReadFrom(from); {
	case errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, new(flate.CorruptInputError)):
		return "", failure("encoding", "the compressed reply is damaged")
	case err != nil:
		return "", err // of the connection, or the allowance
	}
	return unsafe.String(unsafe.SliceData(b.Bytes()), b.Len()), nil // the bytes never change; a copy would cost a tenth of a miss
}

// countedReader takes what it reads from an allowance.
type countedReader struct {
	io.Reader
	allowed *allowance
	counted int64 // bytes that are taken already
}

// Read implements io.Reader.
func (r *countedReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	known := min(int64(n), r.counted)
	r.counted -= known
	if over := r.allowed.take(int64(n) - known); over != nil {
		return n, over
	}
	return n, err
}

// checkHead refuses everything but a 200 with a media type of the format, and gives
// the charset that this names: a login page with 200 would otherwise be an empty list
// to some decoders.
func checkHead(resp *http.Response, format *mapping.Format, now time.Time) (charset string, err error) {
	if resp.StatusCode != http.StatusOK {
		return "", statusError(resp, now)
	}
	header := resp.Header.Get("Content-Type")
	switch header {
	case "application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8": // nearly all
		if !format.XML {
			return "", nil
		}
	}
	media, params, err := mime.ParseMediaType(header)
	if header != "" && err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return "", failure("media_type", "the reply has no media type that can be read, but %q", header[:min(len(header), shownType)])
	}
	if format.Accepts(media) {
		return params["charset"], nil
	}
	is, wanted := "the reply has no media type", "JSON"
	if media != "" {
		is = "the reply is " + media[:min(len(media), shownType)]
	}
	more := ""
	switch {
	case format.XML:
		wanted = "XML"
	case strings.HasSuffix(media, "/xml") || strings.HasSuffix(media, "+xml"):
		more = "reply.format: xml reads it; "
	}
	return "", failure("media_type", "%s, and %s is wanted; %sreply.media_types names others that are accepted", is, wanted, more)
}

// loginFolder is a folder of the address of a page to sign in at.
var loginFolder = regexp.MustCompile(`(?i)^(log[-_]?(in|on)|sign[-_]?(in|on)|auth(orize|enticate)?|oauth2?|saml2?|sso|sessions?)([.;].*)?$`)

// leadsToLogin reports whether a redirect leads to a page to sign in at.
func leadsToLogin(location string) bool {
	u, err := url.Parse(location)
	return err == nil && slices.ContainsFunc(strings.Split(u.Path, "/"), loginFolder.MatchString)
}

// statusError is the error of a reply with another status than 200. A 429, and a 503 with
// Retry-After, tell us to wait. A status that no final reply can have counts as a 5xx (RFC 9110, 15).
func statusError(resp *http.Response, now time.Time) *Error {
	status, wait := resp.StatusCode, min(retryAfter(resp.Header.Get("Retry-After"), now), maxRetryAfter)
	class := status / 100
	if class < 2 || class > 5 {
		class = 5
	}
	e := failure(fmt.Sprintf("status_%dxx", class), "status %d", status)
	switch {
	case status == http.StatusTooManyRequests:
		e.Reason, e.Wait = reasonThrottled, wait
	case status == http.StatusServiceUnavailable && wait > 0:
		e.Reason, e.Wait = reasonOverloaded, wait
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.Reason = reasonDenied
	case status/100 == 3 && leadsToLogin(resp.Header.Get("Location")):
		e = failure(reasonDenied, "status %d, which leads to a page to sign in at", status)
	}
	switch status {
	case http.StatusNoContent, http.StatusResetContent, http.StatusNotFound, http.StatusGone:
		e.Err = fmt.Errorf("%w; where it says that there is nothing, name it in reply.empty_statuses", e.Err)
	}
	return e
}

// password is the field of a page that asks for one.
var password = regexp.MustCompile(`(?i)<input[^>]{0,300}\btype\s*=\s*["']?password\b`)

// asksForPassword tells whether a reply that is not as it should be is a page to sign in at.
func asksForPassword(body string) bool {
	return strings.HasPrefix(strings.TrimSpace(body[:min(len(body), drainBytes)]), "<") && password.MatchString(body[:min(len(body), drainBytes)])
}

// shownType is how much of a media type stands in an error.
const shownType = 64
