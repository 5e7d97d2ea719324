// Package contract checks replies by the OpenAPI document of the public API, more
// strictly than the document alone can say. Only tests import it.
package contract

import (
	"bytes"
	"compress/gzip"
	"context"
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

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"
)

// Checker compares replies with the document. It is safe for concurrent use.
type Checker struct {
	doc      *openapi3.T
	unrouted *openapi3.Response // what answers another path or method

	mu     sync.Mutex
	unseen map[string]bool // codes of documented errors
}

// New validates the document, its examples included.
func New(document []byte) (*Checker, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err == nil {
		err = doc.Validate(context.Background(), openapi3.EnableExamplesValidation(), openapi3.IsOpenAPI31OrLater())
	}
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	c := &Checker{doc: doc, unrouted: doc.Components.Responses["Unrouted"].Value, unseen: map[string]bool{}}
	for name, example := range doc.Components.Examples {
		if envelope, ok := example.Value.Value.(map[string]any); ok && len(envelope["errors"].([]any)) > 0 {
			c.unseen[name] = true
		}
	}
	return c, nil
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
	op, response, err := c.find(req, res.StatusCode)
	if err != nil {
		return err
	}
	if res.StatusCode < 400 {
		if err := checkRequest(req, op); err != nil {
			return err
		}
	}
	// Those that HTTP itself brings along are in no OpenAPI document.
	known := []string{"Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding"}
	for name := range response.Headers {
		known = append(known, http.CanonicalHeaderKey(name))
	}
	for name, values := range res.Header {
		if !slices.Contains(known, name) || len(values) != 1 {
			return fmt.Errorf("header %s is not documented, or there twice: %q", name, values)
		}
	}
	bodiless := req.Method == http.MethodHead || len(response.Content) == 0
	if bodiless && len(raw) > 0 {
		return fmt.Errorf("there is a body of %d bytes, where none may be", len(raw))
	}
	// The library passes over HEAD and some statuses.
	asGet := req.Clone(req.Context())
	asGet.Method = http.MethodGet
	responses := openapi3.NewResponses(openapi3.WithStatus(http.StatusOK, &openapi3.ResponseRef{Value: response}))
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: asGet, Route: &routers.Route{Spec: c.doc, Operation: &openapi3.Operation{Responses: responses}}},
		Status:                 http.StatusOK, Header: res.Header,
		Options: &openapi3filter.Options{ExcludeResponseBody: bodiless, SchemaValidationOptions: []openapi3.SchemaValidationOption{openapi3.EnableFormatValidation()}},
	}
	if bodiless {
		return openapi3filter.ValidateResponse(req.Context(), input)
	}
	if got := res.Header.Get("Content-Type"); got != "application/json; charset=utf-8" {
		return fmt.Errorf("Content-Type is %q", got)
	}
	plain, err := decode(res.Header.Get("Content-Encoding"), raw)
	if err != nil {
		return fmt.Errorf("Content-Encoding: %w", err)
	}
	if err := openapi3filter.ValidateResponse(req.Context(), input.SetBodyBytes(plain)); err != nil {
		return err
	}
	return c.checkErrors(res, response, plain)
}

// find returns what the document says about a reply. default stands for what no
// operation answers, so an operation's own statuses are only those by number.
func (c *Checker) find(req *http.Request, status int) (*openapi3.Operation, *openapi3.Response, error) {
	item := c.doc.Paths.Value(req.URL.Path)
	if item == nil {
		if status != http.StatusNotFound {
			return nil, nil, errors.New("the path is not documented, so the status should be 404")
		}
		return nil, c.unrouted, nil
	}
	op := item.GetOperation(req.Method)
	if op == nil {
		if status != http.StatusMethodNotAllowed {
			return nil, nil, errors.New("the method is not documented, so the status should be 405")
		}
		return nil, c.unrouted, nil
	}
	response := op.Responses.Value(strconv.Itoa(status))
	if response == nil {
		return nil, nil, errors.New("the status is not documented")
	}
	return op, response.Value, nil
}

// checkRequest finds what a list must not be answered to.
func checkRequest(req *http.Request, op *openapi3.Operation) error {
	scheme, key, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || key == "" || len(req.Header.Values("Authorization")) != 1 {
		return errors.New("a list was answered without one key in Authorization")
	}
	for name, values := range req.URL.Query() {
		p := op.Parameters.GetByInAndName("query", name)
		if p == nil || len(values) > 1 {
			return fmt.Errorf("a list was answered to an unknown or repeated parameter %s", name)
		}
		if err := p.Schema.Value.VisitJSON(values[0], openapi3.EnableJSONSchema2020()); err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	return nil
}

// checkErrors looks at the errors in the body: their status is that of the reply, which
// the document has with their code, they carry its request id, and the reply has the header
// fields which x-headers of the example names, and none that it names only for other codes.
func (c *Checker) checkErrors(res *http.Response, response *openapi3.Response, body []byte) error {
	var envelope struct {
		Errors []struct{ ID, Status, Code string }
	}
	if err := json.Unmarshal(body, &envelope, json.MatchCaseInsensitiveNames(true)); err != nil { // it refuses invalid UTF-8 and keys that are there twice
		return fmt.Errorf("body: %w", err)
	}
	examples := response.Content["application/json"].Examples
	for _, e := range envelope.Errors {
		if e.ID != res.Header.Get("X-Request-Id") || e.Status != strconv.Itoa(res.StatusCode) || examples[e.Code] == nil {
			return fmt.Errorf("%+v is not an error that is documented for this reply", e)
		}
		wanted := headersOf(examples[e.Code])
		for _, example := range examples {
			for name := range headersOf(example) {
				pattern, _ := wanted[name].(string)
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

// headersOf reads x-headers of an example: header name to regular expression.
func headersOf(example *openapi3.ExampleRef) map[string]any {
	found, _ := example.Value.Extensions["x-headers"].(map[string]any)
	return found
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
