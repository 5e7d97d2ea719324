// Package contract checks requests and replies by the OpenAPI document of the public
// API, more strictly than the document alone can say. Only tests import it.
package contract

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	v1 "inquiry-gateway/gateway/v1"

	"github.com/getkin/kin-openapi/openapi3"
)

// Code is one documented error: an HTTP status with a code.
type Code struct {
	Status int
	Code   string
}

// Checker compares replies with the document. It is safe for concurrent use.
type Checker struct {
	doc      *openapi3.T
	unrouted *openapi3.Response // what answers another path or method

	mu   sync.Mutex
	seen map[Code]bool
}

// New loads the embedded document and validates it, its examples included.
func New() (*Checker, error) {
	doc, err := openapi3.NewLoader().LoadFromData(v1.OpenAPIYAML())
	if err != nil {
		return nil, fmt.Errorf("load openapi.yaml: %w", err)
	}
	if err := doc.Validate(context.Background(), openapi3.EnableExamplesValidation(), openapi3.IsOpenAPI31OrLater()); err != nil {
		return nil, fmt.Errorf("validate openapi.yaml: %w", err)
	}
	// No operation has this reply: it is for requests that none of them is for.
	unrouted := doc.Components.Responses["Unrouted"]
	if unrouted == nil {
		return nil, fmt.Errorf("openapi.yaml has no components.responses.Unrouted")
	}
	return &Checker{doc: doc, unrouted: unrouted.Value, seen: map[Code]bool{}}, nil
}

// Codes returns every documented error once, by status and code.
func (c *Checker) Codes() []Code {
	found := documented(c.unrouted)
	for _, item := range c.doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, response := range op.Responses.Map() {
				found = append(found, documented(response.Value)...)
			}
		}
	}
	slices.SortFunc(found, compareCodes)
	return slices.Compact(found)
}

// Unseen returns the documented errors that no reply given to Check has shown
// yet, so that a test can demand each of them live.
func (c *Checker) Unseen() []Code {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(c.Codes(), func(code Code) bool { return c.seen[code] })
}

// compareCodes orders by status, then by code.
func compareCodes(a, b Code) int {
	return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Code, b.Code))
}

// documented lists the errors that the examples of a response show.
func documented(response *openapi3.Response) []Code {
	var found []Code
	for _, media := range response.Content {
		for _, example := range media.Examples {
			found = append(found, codesOf(example.Value.Value)...)
		}
	}
	return found
}

// codesOf reads the errors out of a body that was decoded into maps.
func codesOf(body any) []Code {
	var found []Code
	for _, e := range errorsOf(body) {
		status, _ := e["status"].(string)
		code, _ := e["code"].(string)
		number, err := strconv.Atoi(status)
		if err == nil && code != "" {
			found = append(found, Code{number, code})
		}
	}
	return found
}

// errorsOf gives the error objects of an envelope; none where the body is not one.
func errorsOf(body any) []map[string]any {
	envelope, _ := body.(map[string]any)
	list, _ := envelope["errors"].([]any)
	var found []map[string]any
	for _, item := range list {
		if e, ok := item.(map[string]any); ok {
			found = append(found, e)
		}
	}
	return found
}
