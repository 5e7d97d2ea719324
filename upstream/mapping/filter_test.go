package mapping

import (
	"net/url"
	"strings"
	"testing"

	"inquiry-gateway/internal/filters"
	"inquiry-gateway/internal/testkit"
)

// What the legacy system is asked for is what the caches are told in advance.
func TestFilters(t *testing.T) {
	cases(t, "testdata/filters.txt", func(at string, settings map[string]string, given, want string) {
		plans, wrong := compileSection(t, sectionWith(t, settings))
		if len(wrong) > 0 {
			t.Fatal(at, wrong)
		}
		plan := plans["buyer"]
		status, inquiryType := plan.Filters()
		name, value, _ := strings.Cut(given, " ")
		request, asked := Request{Account: "acme", Status: value}, status.Of(value)
		if name == "type" {
			request, asked = Request{Account: "acme", InquiryType: value}, inquiryType.Of(value)
		}
		ask, impossible := plan.Ask(request)
		sent, err := ask.Page(nil)
		if err != nil {
			t.Fatal(at, err)
		}
		_, query, _ := strings.Cut(sent.URL, "?")
		query, err = url.QueryUnescape(strings.TrimPrefix(strings.Replace(query, "customer=acme", "", 1), "&"))
		got := map[filters.Asked]string{
			filters.AskedFor: strings.TrimSpace("sent " + strings.TrimSuffix(query, "&")), filters.NoRecord: "no record", filters.SelectedHere: "selected",
		}[asked]
		if err != nil || got != want || impossible != (asked == filters.NoRecord) || asked == filters.SelectedHere && query != "" {
			t.Errorf("%s: %s, impossible %v, query %q; want %s", at, got, impossible, query, want)
		}
	})
}

// Whatever the legacy system was asked for, the wanted records only are kept.
func TestRecordsAreFiltered(t *testing.T) {
	answered := strings.NewReplacer(`"state":"N"`, `"state":"A"`, `"delivery"`, `"refund"`).Replace(testkit.SampleTicket)
	for want, n := range map[Request]int{{}: 2, {Status: "pending"}: 1, {InquiryType: "refund"}: 1, {Status: "pending", InquiryType: "refund"}: 0} {
		want.Account = "acme"
		b, err := read(planOf(t), want, testkit.SampleList(testkit.SampleTicket, answered), End{Pages: 1})
		if err != nil || len(b.List) != n || b.Seen != 2 {
			t.Errorf("%+v: %d records, %v", want, len(b.List), err)
		}
	}
}
