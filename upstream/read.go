package upstream

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"inquiry-gateway/upstream/arena"
	"inquiry-gateway/upstream/mapping"
)

// drainBytes is how much of an unwanted body is read so that the connection can
// be used again. A longer one costs less to cut off.
const drainBytes = 64 << 10

// readBody gives the body of a 200 with an accepted media type as JSON, of at most
// max bytes after decompression and decoding. It closes the body in every case.
func readBody(resp *http.Response, format *mapping.Format, max int64) (string, error) {
	charset, err := checkHead(resp, format)
	if err != nil {
		discard(resp)
		return "", err
	}
	defer resp.Body.Close()
	body, err := readPlain(resp, max)
	if err != nil {
		return "", err
	}
	if body, err = format.Decode(body, charset, max); err != nil {
		return "", asError(err)
	}
	return body, nil
}

// discard closes a body that is not wanted.
func discard(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	_ = resp.Body.Close()
}

// readPlain gives the body without its content coding.
func readPlain(resp *http.Response, max int64) (string, error) {
	var from io.Reader = resp.Body
	size := resp.ContentLength
	switch encoding := strings.ToLower(resp.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		if size > max {
			return "", invalidReply("too_large", "the reply has more than %d bytes", max)
		}
	case "gzip", "x-gzip":
		zip, err := gzip.NewReader(resp.Body)
		switch {
		case errors.Is(err, gzip.ErrHeader):
			return "", invalidReply("encoding", "the reply is not gzip although it says so")
		case err != nil:
			return "", err
		}
		from, size = zip, -1
	default:
		return "", invalidReply("encoding", "the reply is in a content coding that was not asked for")
	}
	body, err := readAll(from, size, max)
	if err == nil && size < 0 {
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	}
	return body, err
}

// checkHead refuses everything but a 200 with a media type of the format, and gives
// the charset that this names: a login page with 200 would otherwise be an empty list
// to some decoders.
func checkHead(resp *http.Response, format *mapping.Format) (charset string, err error) {
	if resp.StatusCode != http.StatusOK {
		if e := throttled(resp, time.Now()); e != nil {
			return "", e
		}
		return "", &Error{
			Failure: FailureUpstream,
			Reason:  fmt.Sprintf("status_%dxx", resp.StatusCode/100),
			Err:     statusError(resp.StatusCode),
		}
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
		return "", invalidReply("media_type", "the reply has no media type that can be read, but %q", header[:min(len(header), shownType)])
	}
	if format.Accepts(media) {
		return params["charset"], nil
	}
	is, wanted := "the reply has no media type", "JSON"
	if media != "" {
		is = "the reply is " + media[:min(len(media), shownType)]
	}
	if format.XML {
		wanted = "XML"
	}
	return "", invalidReply("media_type", "%s, and %s is wanted; reply.media_types names others that are accepted", is, wanted)
}

// shownType is how much of a media type stands in an error.
const shownType = 64

// statusError is a status other than 200.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("status %d", int(s)) }

// readAll reads at most max bytes, straight from the connection. size is what to
// expect, negative if unknown.
func readAll(from io.Reader, size, max int64) (string, error) {
	if size < 0 {
		size = unknownSize
	}
	b, n := make([]byte, size+1), 0 // not full before the end is seen
	var err error
	for err == nil && int64(n) <= max {
		if n == len(b) {
			b = append(b, make([]byte, n)...)
		}
		var got int
		got, err = from.Read(b[n:])
		n += got
	}
	if int64(n) <= max && err == io.EOF {
		return arena.View(b[:n]), nil
	}
	switch {
	case int64(n) > max:
		return "", invalidReply("too_large", "the reply has more than %d bytes", max)
	case errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.As(err, new(flate.CorruptInputError)):
		return "", invalidReply("encoding", "the compressed reply is damaged")
	}
	return "", err // of the connection
}

// unknownSize is what is expected of a reply that does not tell.
const unknownSize = 64<<10 - 1
