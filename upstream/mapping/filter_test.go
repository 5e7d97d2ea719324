package mapping

import (
	"net/url"
	"strings"
	"testing"

	"inquiry-gateway/internal/filters"
)

// What the legacy system is asked for is what the caches are told in advance.
func TestFilters(t *testing.T) {
	eachLine(t, "testdata/filters.txt", func(at string, settings map[string]string, given, want string) {
		plans, wrong := compileSection(t, sectionWith(t, settings))
		if len(wrong) > 0 {
			t.Fatal(at, wrong)
		}
		plan := plans["buyer"]
		status, inquiryType := plan.Filters()
		name, value, _ := strings.Cut(given, " ")
		request, asked := Query{Account: "acme", Status: value}, status.Of(value)
		if name == "type" {
			request, asked = Query{Account: "acme", InquiryType: value}, inquiryType.Of(value)
		}
		ask, impossible := plan.Request(request)
		sent, err := ask.Page(nil)
		if err != nil {
			t.Fatal(at, err)
		}
		_, query, _ := strings.Cut(sent.URL, "?")
		query, err = url.QueryUnescape(strings.TrimPrefix(strings.Replace(query, "customer=acme", "", 1), "&"))
		if strings.HasPrefix(sent.Body, "<") {
			query = sent.Body
		}
		got := map[filters.Source]string{
			filters.Upstream: strings.TrimSpace("sent " + strings.TrimSuffix(query, "&")), filters.Empty: "no record", filters.Local: "selected",
		}[asked]
		if err != nil || got != want || impossible != (asked == filters.Empty) || asked == filters.Local && query != "" {
			t.Errorf("%s: %s, impossible %v, query %q; want %s", at, got, impossible, query, want)
		}
	})
}
