package gateway

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"inquiry-gateway/cache"
)

func TestParseFilter(t *testing.T) {
	long := strings.Repeat("a", maxFilterBytes)
	for _, tc := range []struct {
		query  string
		ignore bool
		want   cache.Key
		wrong  string // the parameter at fault; empty: none
	}{
		{query: ""},
		{query: "status=pending", want: cache.Key{Status: "pending"}},
		{query: "inquiry_type=A.b_c-9&status=answered", want: cache.Key{Status: "answered", InquiryType: "A.b_c-9"}},
		{query: "st%61tus=pend%69ng", want: cache.Key{Status: "pending"}},
		{query: "&&status=pending&", want: cache.Key{Status: "pending"}},
		{query: "status=" + long, want: cache.Key{Status: long}},
		{query: "status=" + long + "a", wrong: "status"},
		{query: "status=", wrong: "status"},
		{query: "status", wrong: "status"},
		{query: "status=a&status=a", wrong: "status"},
		{query: "status=a&st%61tus=b", wrong: "status"},
		{query: "status=a+b", wrong: "status"},
		{query: "status=a%00", wrong: "status"},
		{query: "status=%zz", wrong: "status"},
		{query: "%zz=1", wrong: "%zz"},
		{query: "status=a;inquiry_type=b", wrong: "status"},
		{query: "status=대기", wrong: "status"},
		{query: "Status=pending", wrong: "Status"},
		{query: "account=acme", wrong: "account"},
		{query: "status[]=a", wrong: "status[]"},
		{query: "=x", wrong: ""},
		{query: "page=2&status=a", ignore: true, want: cache.Key{Status: "a"}},
		{query: "page=%zz&status=a", ignore: true, wrong: "page"},
		{query: "status=a&status=b", ignore: true, wrong: "status"},
	} {
		t.Run(tc.query, func(t *testing.T) {
			got, err := parseFilter(tc.query, tc.ignore)
			var wrong *parameterError
			if tc.wrong == "" && tc.query != "=x" {
				if err != nil || got != tc.want {
					t.Fatalf("got %+v, %v; want %+v", got, err, tc.want)
				}
				return
			}
			if !errors.As(err, &wrong) || wrong.name != tc.wrong {
				t.Fatalf("got %+v, %v; want an error about %q", got, err, tc.wrong)
			}
			if got != (cache.Key{}) {
				t.Errorf("an error came with a filter: %+v", got)
			}
		})
	}
}

// The parser reads a query without net/url's maps; it must never see another
// filter in it than net/url does.
func FuzzParseFilter(f *testing.F) {
	for _, seed := range []string{"", "status=a&inquiry_type=b", "status=%61", "status=a;b", "a=%", "status=a&status=b", "+=+", "status=a#b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		got, err := parseFilter(query, true)
		if err != nil {
			return
		}
		want, err := url.ParseQuery(query)
		if err != nil {
			t.Fatalf("accepted %q, which net/url refuses: %v", query, err)
		}
		if got.Status != want.Get("status") || got.InquiryType != want.Get("inquiry_type") {
			t.Fatalf("%q: got %+v, net/url says %v", query, got, want)
		}
		if len(want["status"]) > 1 || len(want["inquiry_type"]) > 1 {
			t.Fatalf("%q: a repeated parameter was accepted", query)
		}
	})
}

func TestParameterErrorBoundsWhatIsSaidBack(t *testing.T) {
	_, err := parseFilter(strings.Repeat("é", 1000)+"=1", false)
	if err == nil || len(err.Error()) > 300 {
		t.Fatalf("got %v", err)
	}
}
