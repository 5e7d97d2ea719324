package gateway

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"inquiry-gateway/internal/testkit"
)

var updateFields = flag.Bool("update-fields", false, "write the table of fields into docs/log.md")

// fieldMeanings describes every field of a request's log record.
var fieldMeanings = map[string]string{
	"time":             "when the response ended",
	"level":            "`ERROR` from status 500 on, otherwise `INFO`",
	"msg":              "`request`",
	"request_id":       "also the `id` of the caller's error object",
	"method":           "HTTP method, or `other`",
	"endpoint":         "`buyer_inquiries`, `seller_inquiries`, ...",
	"status":           "HTTP status; 499: the caller left before the response",
	"duration_seconds": "from the request to the end of the response",
	"bytes":            "of the body that were sent",
	"client_address":   "the caller's, also behind `gateway.trusted_proxies`",
	"trace_id":         "only if the trace is recorded",
	"span_id":          "only if the trace is recorded",
	"account":          "only with a valid key, as the next two",
	"key_id":           "the key's id, never the key",
	"auth_seconds":     "time of authentication",
	"cache":            "outcome: `hit`, `stale`, `miss`, ...; only for lists, as the next three",
	"tier":             "`local` or `redis`; empty after a fetch",
	"age_seconds":      "age of the list",
	"list_seconds":     "time until the list was available",
	"kind":             "only with `log.access_keys: hashed`, as the next two",
	"key":              "hash of the list that is fetched from the legacy system",
	"etag":             "hash of that list's content",
	"error_code":       "the public error code",
	"cause":            "why; not shown to callers",
}

// The table in docs/log.md lists the fields of request records as they are written.
func TestLogFields(t *testing.T) {
	s, _ := newTraced(t, sdktrace.AlwaysSample(), nil)
	s.ask("GET", buyersList)
	s.ask("GET", "/nowhere")
	func() {
		defer func() { _ = recover() }() // net/http cuts the connection
		s.handler.ServeHTTP(&gone{header: http.Header{}}, s.request("GET", buyersList))
	}()
	types := map[string]string{}
	var names []string
	for line := range strings.Lines(s.logs.Take()) {
		if !strings.Contains(line, `"msg":"request"`) {
			continue
		}
		d := json.NewDecoder(bytes.NewReader([]byte(line)))
		_, _ = d.Token()
		for d.More() {
			name, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			value, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			if types[name.(string)] == "" {
				names = append(names, name.(string))
			}
			types[name.(string)] = map[bool]string{true: "text", false: "number"}[fmt.Sprintf("%T", value) == "string"]
		}
	}
	var table strings.Builder
	table.WriteString("| field | |\n|---|---|\n")
	for _, name := range names {
		if fieldMeanings[name] == "" {
			t.Errorf("%s has no meaning", name)
		}
		fmt.Fprintf(&table, "| `%s` | %s%s |\n", name, map[string]string{"number": "number: "}[types[name]], fieldMeanings[name])
	}
	if len(names) != len(fieldMeanings) {
		t.Errorf("%d of %d fields are written: %v", len(names), len(fieldMeanings), names)
	}
	if _, same := testkit.Table(t, "../docs/log.md", "fields", table.String(), *updateFields); !same {
		t.Error("the table in docs/log.md is not what is written; update it with: go test ./gateway -run TestLogFields -update-fields")
	}
}
