package gateway

import (
	"errors"
	"strings"
	"testing"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/filters"
)

func TestParseFilter(t *testing.T) {
	long := strings.Repeat("a", filters.MaxBytes)
	for query, want := range map[string]cache.Key{
		"": {}, "&&": {}, "status=pending": {Status: "pending"}, "inquiry_type=A.b_c-9&status=answered": {Status: "answered", InquiryType: "A.b_c-9"},
		"st%61tus=pend%69ng": {Status: "pending"}, "&&status=pending&": {Status: "pending"}, "status=" + long: {Status: long},
	} {
		if got, err := parseFilter(query, false); got != want || err != nil {
			t.Errorf("%q: %+v, %v", query, got, err)
		}
	}
	for query, want := range map[string]string{
		"status=" + long + "a": "status must be 1 to 64", "status=": "status must be", "status": "status must be", "status=a+b": "status must be",
		"status=a%00": "status must be", "status=대기": "status must be", "status=a#b": "status must be",
		"status=a&status=a": "status is given more than once", "status=a&st%61tus=b": "status is given more than once",
		"Status=pending": "Status is not a parameter", "account=acme": "account is not a parameter", "status[]=a": "status[] is not", "=x": " is not a parameter", "page=2&status=a": "page is not",
		"status=%zz": "status has a bad percent-escape", "%zz=1": "%zz has a bad", "status=a&page=%": "page has a bad", "+%": "+% has a bad",
		"status=a;inquiry_type=b": "status has a semicolon", "status=%zz&x=1;2": "status has a bad", "x=1;2&status=%zz": "x has a semicolon", strings.Repeat("é", 1000) + "=1": strings.Repeat("é", 32) + "... is not",
	} {
		_, err := parseFilter(query, false)
		if _, ok := errors.AsType[*parameterError](err); !ok || !strings.Contains(err.Error(), "parameter "+want) || len(err.Error()) > 300 {
			t.Errorf("%q: %v, want %s", query, err, want)
		}
	}
	for range 50 {
		if _, err := parseFilter("b=1&a=1&c=1&status=", false); err == nil || !strings.Contains(err.Error(), "parameter a is") {
			t.Fatalf("of several wrong parameters not the first by name: %v", err)
		}
	}
	for query, good := range map[string]bool{"page=2&status=a": true, "page=1&page=2&status=a": true, "page=%zz&status=a": false, "a;b&status=a": false, "status=a&status=b": false} {
		if k, err := parseFilter(query, true); (err == nil) != good || good && k.Status != "a" {
			t.Errorf("unknown names ignored: %q: %+v, %v", query, k, err)
		}
	}
}

// Whatever the query is: what is accepted was written in it, and an error is bounded.
func FuzzParseFilter(f *testing.F) {
	for _, query := range []string{"status=pending", "st%61tus=a&inquiry_type=b", "status=a;b", "a=%", "+=+", "&", "=", strings.Repeat("&a", 20000)} {
		f.Add(query, false)
		f.Add(query, true)
	}
	f.Fuzz(func(t *testing.T, query string, ignoreUnknown bool) {
		k, err := parseFilter(query, ignoreUnknown)
		if err != nil && (k != cache.Key{} || len(err.Error()) > 300) {
			t.Fatalf("%q: %+v, %v", query, k, err)
		}
		for _, value := range []string{k.Status, k.InquiryType} {
			if value != "" && !filters.Valid(value) {
				t.Fatalf("%q gives %q", query, value)
			}
		}
	})
}
