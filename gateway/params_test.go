package gateway

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/filters"
)

var filterValue = regexp.MustCompile(`\A[A-Za-z0-9._-]{1,64}\z`)

// filterOf reads a query in the way of net/url: strictly where a filter is concerned, and
// nothing else may be there unless it is to be ignored.
func filterOf(query string, ignoreUnknown bool) (k cache.Key, good bool) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return k, false
	}
	for name, all := range values {
		field := map[string]*string{"status": &k.Status, "inquiry_type": &k.InquiryType}[name]
		switch {
		case field == nil && ignoreUnknown:
		case field == nil || len(all) != 1 || !filterValue.MatchString(all[0]):
			return cache.Key{}, false
		default:
			*field = all[0]
		}
	}
	return k, true
}

// The parser reads a query without net/url's maps, and sees the same in it. An error names
// the parameter, and says back what is bounded.
func FuzzParseFilter(f *testing.F) {
	long := strings.Repeat("a", filters.MaxBytes)
	for _, query := range []string{
		"", "status=pending", "inquiry_type=A.b_c-9&status=answered", "st%61tus=pend%69ng", "&&status=pending&", "status=" + long,
		"status=" + long + "a", "status=", "status", "status=a&status=a", "status=a&st%61tus=b", "status=a+b", "status=a%00", "status=%zz",
		"%zz=1", "status=a;inquiry_type=b", "status=대기", "Status=pending", "account=acme", "status[]=a", "=x", "page=2&status=a",
		"page=%zz&status=a", "a=%", "+=+", "+%", "&", "status=a#b", strings.Repeat("é", 1000) + "=1",
	} {
		f.Add(query, false)
		f.Add(query, true)
	}
	f.Fuzz(func(t *testing.T, query string, ignoreUnknown bool) {
		got, err := parseFilter(query, ignoreUnknown)
		if want, good := filterOf(query, ignoreUnknown); got != want || (err == nil) != good {
			t.Fatalf("%q: got %+v, %v; want %+v", query, got, err, want)
		}
		var wrong *parameterError
		if err != nil && (!errors.As(err, &wrong) || len(err.Error()) > 300) {
			t.Fatalf("%q: %v", query, err)
		}
	})
}
