// Package contract checks replies by the OpenAPI document of the public API, more
// strictly than the document alone can say. Only tests import it.
package contract

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Checker compares replies with the document. It is safe for concurrent use.
type Checker struct {
	operations map[string]map[string]operation // by path and method
	unrouted   response                        // what answers another path or method

	mu     sync.Mutex
	unseen map[string]bool // codes of documented errors
}

type operation struct {
	parameters map[string]*jsonschema.Schema // those of the query
	responses  map[string]response           // by status
}

type response struct {
	headers  map[string]header            // by name, in canonical form
	body     *jsonschema.Schema           // nil: there is none
	examples map[string]map[string]string // x-headers of each: header name to regular expression
}

type header struct {
	required, integer bool
	schema            *jsonschema.Schema
}

// Unseen are the codes of the documented errors that no reply given to Check has shown
// yet, so that a test can demand each of them live.
func (c *Checker) Unseen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.unseen))
}

// Check returns in what res, the reply to req, is not as the document has it; nil: it is.
// It reads the body of res and puts it back as it was.
func (c *Checker) Check(req *http.Request, res *http.Response) error {
	raw, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err == nil {
		res.Body = io.NopCloser(bytes.NewReader(raw))
		err = c.check(req, res, raw)
	}
	if err != nil {
		return fmt.Errorf("%s %s answered %d against the contract: %w", req.Method, req.URL, res.StatusCode, err)
	}
	return nil
}

func (c *Checker) check(req *http.Request, res *http.Response, raw []byte) error {
	op, want, err := c.find(req, res.StatusCode)
	if err != nil {
		return err
	}
	if res.StatusCode < 400 {
		if err := op.checkRequest(req); err != nil {
			return err
		}
	}
	if err := want.checkHeaders(res.Header); err != nil {
		return err
	}
	if req.Method == http.MethodHead || want.body == nil {
		if len(raw) > 0 {
			return fmt.Errorf("there is a body of %d bytes, where none may be", len(raw))
		}
		return nil
	}
	if got := res.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		return fmt.Errorf("Content-Type is %q", got)
	}
	plain, err := decode(res.Header.Get("Content-Encoding"), raw)
	if err != nil {
		return fmt.Errorf("Content-Encoding: %w", err)
	}
	body, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err == nil {
		err = want.body.Validate(body)
	}
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return c.checkErrors(res, want, plain)
}

// find returns what the document says about a reply. default stands for what no
// operation answers, so an operation's own statuses are only those by number.
func (c *Checker) find(req *http.Request, status int) (operation, response, error) {
	methods, documented := c.operations[req.URL.Path]
	if !documented {
		if status != http.StatusNotFound {
			return operation{}, response{}, errors.New("the path is not documented, so the status should be 404")
		}
		return operation{}, c.unrouted, nil
	}
	op, documented := methods[req.Method]
	if !documented {
		if status != http.StatusMethodNotAllowed {
			return operation{}, response{}, errors.New("the method is not documented, so the status should be 405")
		}
		return operation{}, c.unrouted, nil
	}
	want, documented := op.responses[strconv.Itoa(status)]
	if !documented {
		return operation{}, response{}, errors.New("the status is not documented")
	}
	return op, want, nil
}

// checkRequest finds what a list must not be answered to.
func (op operation) checkRequest(req *http.Request) error {
	scheme, key, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || key == "" || len(req.Header.Values("Authorization")) != 1 {
		return errors.New("a list was answered without one key in Authorization")
	}
	for name, values := range req.URL.Query() {
		schema := op.parameters[name]
		if schema == nil || len(values) > 1 {
			return fmt.Errorf("a list was answered to an unknown or repeated parameter %s", name)
		}
		if err := schema.Validate(values[0]); err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	return nil
}

// checkHeaders finds a header field that is missing, unknown or unlike its schema.
func (r response) checkHeaders(got http.Header) error {
	for name, h := range r.headers {
		if h.required && got.Get(name) == "" {
			return fmt.Errorf("header %s is missing", name)
		}
	}
	for name, values := range got {
		// These, which HTTP itself brings along, are in no OpenAPI document.
		if slices.Contains([]string{"Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding"}, name) && len(values) == 1 {
			continue
		}
		h, documented := r.headers[name]
		if !documented || len(values) != 1 {
			return fmt.Errorf("header %s is not documented, or there twice: %q", name, values)
		}
		value, err := any(values[0]), error(nil)
		if h.integer {
			value, err = jsonschema.UnmarshalJSON(strings.NewReader(values[0]))
		}
		if err == nil {
			err = h.schema.Validate(value)
		}
		if err != nil {
			return fmt.Errorf("header %s is %q: %w", name, values[0], err)
		}
	}
	return nil
}

// checkErrors looks at the errors in the body: their status is that of the reply, which
// the document has with their code, they carry its request id, and the reply has the header
// fields which x-headers of the example names, and none that it names only for other codes.
func (c *Checker) checkErrors(res *http.Response, want response, body []byte) error {
	var envelope struct {
		Errors []struct{ ID, Status, Code string }
	}
	if err := json.Unmarshal(body, &envelope, json.MatchCaseInsensitiveNames(true)); err != nil { // it refuses invalid UTF-8 and keys that are there twice
		return fmt.Errorf("body: %w", err)
	}
	for _, e := range envelope.Errors {
		wanted, documented := want.examples[e.Code]
		if e.ID != res.Header.Get("X-Request-Id") || e.Status != strconv.Itoa(res.StatusCode) || !documented {
			return fmt.Errorf("%+v is not an error that is documented for this reply", e)
		}
		for _, headers := range want.examples {
			for name := range headers {
				pattern := wanted[name]
				if got := res.Header.Get(name); pattern == "" && got != "" || !regexp.MustCompile(pattern).MatchString(got) {
					return fmt.Errorf("with %s, header %s is %q and should fit %q", e.Code, name, got, pattern)
				}
			}
		}
		c.mu.Lock()
		delete(c.unseen, e.Code)
		c.mu.Unlock()
	}
	return nil
}

// decode undoes a Content-Encoding of the contract. Any other one is an error.
func decode(encoding string, raw []byte) ([]byte, error) {
	switch encoding {
	case "":
		return raw, nil
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.DecodeAll(raw, nil)
	}
	return nil, fmt.Errorf("%q is not documented", encoding)
}
