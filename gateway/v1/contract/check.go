package contract

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
)

// MaxBody is the most bytes of a body that Check reads, as sent and again as
// decoded.
const MaxBody = 64 << 20

// exchange is one request with its reply while it is checked.
type exchange struct {
	req      *http.Request
	res      *http.Response
	response *openapi3.Response // what the document says about it
	body     any                // nil where there is none
	problems []error
}

// fail notes one violation. Check returns all of them.
func (x *exchange) fail(format string, args ...any) {
	x.problems = append(x.problems, fmt.Errorf(format, args...))
}

// Check returns everything in which res, the reply to req, is not as the
// document has it, joined; nil when it is. It looks at the status, at each
// header field (missing, malformed, not documented), at the media type, at the
// body against its schema, at the error codes and at the header fields that go
// with them; for a list that was answered, at the request's parameters too. It
// reads the body of res and puts it back as it was. It takes about a
// millisecond: the JSON Schema validator compiles what it is given each time.
func (c *Checker) Check(req *http.Request, res *http.Response) error {
	x := &exchange{req: req, res: res}
	// The body is read first, and whole: a reply with a bad header can have a bad body,
	// too.
	raw, err := readAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	res.Body = io.NopCloser(bytes.NewReader(raw))
	if x.response = c.find(x); x.response != nil {
		x.checkHeaders()
		x.checkBody(raw)
		c.checkCodes(x)
	}
	if err := errors.Join(x.problems...); err != nil {
		return fmt.Errorf("%s %s answered %d against the contract:\n%w", req.Method, req.URL, res.StatusCode, err)
	}
	return nil
}

// find returns what the document says about a reply. default stands for what no
// operation answers, so an operation's own statuses are only those by number.
func (c *Checker) find(x *exchange) *openapi3.Response {
	status, item := x.res.StatusCode, c.doc.Paths.Value(x.req.URL.Path)
	// Of an unknown path both are nil, of an unknown method only the operation.
	var op *openapi3.Operation
	if item != nil {
		op = item.GetOperation(x.req.Method)
	}
	switch {
	case op == nil && status == http.StatusMethodNotAllowed, item == nil && status == http.StatusNotFound:
		return c.unrouted
	case item == nil:
		x.fail("the path is not documented, so the status should be 404")
	case op == nil:
		x.fail("the method is not documented, so the status should be 405")
	case op.Responses.Value(strconv.Itoa(status)) == nil:
		x.fail("the status is not documented")
	default:
		if status < 400 {
			x.checkRequest(op)
		}
		return op.Responses.Value(strconv.Itoa(status)).Value
	}
	return nil
}

// checkRequest finds what a list must not be answered to.
func (x *exchange) checkRequest(op *openapi3.Operation) {
	scheme, key, _ := strings.Cut(x.req.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || key == "" || len(x.req.Header.Values("Authorization")) != 1 {
		x.fail("a list was answered without one key in Authorization")
	}
	query := x.req.URL.Query()
	for _, parameter := range op.Parameters {
		p := parameter.Value
		if values := query[p.Name]; p.In == "query" && len(values) > 0 {
			if len(values) > 1 {
				x.fail("a list was answered to a repeated parameter %s", p.Name)
			}
			x.visit("parameter "+p.Name, p.Schema, values[0])
		}
	}
}

// checkBody decodes the body and compares it with its schema.
func (x *exchange) checkBody(raw []byte) {
	if x.req.Method == http.MethodHead || len(x.response.Content) == 0 {
		if len(raw) > 0 {
			x.fail("there is a body of %d bytes, where none may be", len(raw))
		}
		return
	}
	if got := x.res.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		x.fail("Content-Type is %q", got)
	}
	plain, err := decode(x.res.Header.Get("Content-Encoding"), raw)
	if err != nil {
		x.fail("Content-Encoding %q: %w", x.res.Header.Get("Content-Encoding"), err)
		return
	}
	// This decoder refuses invalid UTF-8 and keys that are there twice.
	if err := json.Unmarshal(plain, &x.body); err != nil {
		x.fail("body: %w", err)
		return
	}
	x.visit("body", x.response.Content["application/json"].Schema, x.body)
}

// visit compares a value with a schema by the rules of JSON Schema 2020-12, formats
// included.
func (x *exchange) visit(what string, schema *openapi3.SchemaRef, value any) {
	if err := schema.Value.VisitJSON(value, openapi3.EnableJSONSchema2020(), openapi3.EnableFormatValidation(), openapi3.MultiErrors()); err != nil {
		x.fail("%s: %w", what, err)
	}
}

// decode undoes a Content-Encoding of the contract. Any other one is an error.
func decode(encoding string, raw []byte) ([]byte, error) {
	var r io.Reader = bytes.NewReader(raw)
	switch encoding {
	case "":
		return raw, nil
	case "gzip":
		unzipped, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = unzipped
	case "zstd":
		decoder, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer decoder.Close()
		r = decoder
	default:
		return nil, errors.New("not documented")
	}
	return readAll(r)
}

// readAll reads to the end, or fails after MaxBody bytes.
func readAll(r io.Reader) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(r, MaxBody+1))
	if err == nil && len(all) > MaxBody {
		err = fmt.Errorf("more than %d bytes", MaxBody)
	}
	return all, err
}
