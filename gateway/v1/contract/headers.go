package contract

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
)

// checkHeaders looks at each header field on its own.
func (x *exchange) checkHeaders() {
	for name, header := range x.response.Headers {
		values := x.res.Header.Values(name)
		switch {
		case len(values) > 1:
			x.fail("header %s is there %d times", name, len(values))
		case len(values) == 0 && header.Value.Required:
			x.fail("header %s is missing", name)
		case len(values) == 1:
			x.checkHeader(name, values[0])
		}
	}
	for name := range x.res.Header {
		if !x.documents(name) {
			x.fail("header %s is not documented", name)
		}
	}
}

// checkHeader compares one value with the header's schema, as the integer that
// it has to be where the schema wants one.
func (x *exchange) checkHeader(name, value string) {
	schema := x.response.Headers[name].Value.Schema
	if !schema.Value.Type.Is("integer") {
		x.visit("header "+name, schema, value)
		return
	}
	number, err := strconv.ParseUint(value, 10, 63)
	if err != nil {
		x.fail("header %s: %w", name, err)
		return
	}
	x.visit("header "+name, schema, float64(number))
}

// documents tells whether a reply may have the header field: those that HTTP
// itself brings along are in no OpenAPI document.
func (x *exchange) documents(name string) bool {
	// The document writes names in their own way, such as ETag; net/http in its
	// canonical one.
	known := slices.AppendSeq([]string{"Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding"}, maps.Keys(x.response.Headers))
	return slices.ContainsFunc(known, func(own string) bool { return http.CanonicalHeaderKey(own) == name })
}

// checkCodes looks at the errors in the body: that their status and code are
// documented for this reply, that they carry its request id, and that the reply
// has the header fields which x-headers of the example names, and none that
// x-headers names only for other codes.
func (c *Checker) checkCodes(x *exchange) {
	if x.body == nil {
		return
	}
	allowed := documented(x.response)
	for _, e := range errorsOf(x.body) {
		if e["id"] != x.res.Header.Get("X-Request-Id") {
			x.fail("the error's id is %v, X-Request-Id is %q", e["id"], x.res.Header.Get("X-Request-Id"))
		}
	}
	for _, code := range codesOf(x.body) {
		if code.Status != x.res.StatusCode || !slices.Contains(allowed, code) {
			x.fail("the error %d %s is not documented for this reply", code.Status, code.Code)
			continue
		}
		c.mu.Lock()
		c.seen[code] = true
		c.mu.Unlock()
		x.checkHeadersOf(code.Code)
	}
}

// checkHeadersOf checks the fields that belong to one error code. The example of the
// code lists them in x-headers.
func (x *exchange) checkHeadersOf(code string) {
	examples := x.response.Content["application/json"].Examples
	example := examples[code]
	if example == nil {
		x.fail("the document's example of %s has another name", code)
		return
	}
	wanted := patterns(example.Value.Extensions)
	for name, pattern := range wanted {
		if got := x.res.Header.Get(name); !regexp.MustCompile(pattern).MatchString(got) {
			x.fail("with %s, header %s is %q and should fit %s", code, name, got, pattern)
		}
	}
	for _, other := range examples {
		for name := range patterns(other.Value.Extensions) {
			if _, ok := wanted[name]; !ok && x.res.Header.Get(name) != "" {
				x.fail("with %s, there should be no header %s", code, name)
			}
		}
	}
}

// patterns reads x-headers of an example: header name to regular expression.
func patterns(extensions map[string]any) map[string]string {
	found := map[string]string{}
	headers, _ := extensions["x-headers"].(map[string]any)
	for name, pattern := range headers {
		found[name], _ = pattern.(string)
	}
	return found
}
