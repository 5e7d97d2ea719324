package probe

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestTheMostSpecificReplyIsTaken(t *testing.T) {
	server, err := Replay([]Reply{
		{To: "/a", Body: []byte("any")},
		{To: "/a?page=2", Body: []byte("second page")},
		{To: "/a", Has: "cursor", Body: []byte("by body")},
		{To: "/a", Has: "x eq 'b'", Body: []byte("by condition")},
		{To: "?page=3", Body: []byte("third page")},
		{To: "/seq", Body: []byte("1")},
		{To: "/seq", Body: []byte("2"), Status: 201, Headers: map[string]string{"X-Total": "2"}},
		{To: "/x", Body: []byte("\ufeff <a/>")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ url, body, want string }{
		{"http://h/a", "", "any"}, {"http://h/a?page=2&size=5", "", "second page"}, {"http://h/a?page=22", "", "any"},
		{"http://h/a", "cursor=1", "by body"}, {"http://h/a?f=x+eq+%27b%27+and+y", "", "by condition"}, {"http://h/b?page=3", "", "third page"}, {"http://h/seq", "", "1"}, {"http://h/seq", "", "2"},
	} {
		r, _ := http.NewRequest(http.MethodPost, tt.url, strings.NewReader(tt.body))
		response, err := server.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(response.Body)
		if string(got) != tt.want || response.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: got %s %v", tt.url, tt.body, got, response.Header)
		}
	}
	r, _ := http.NewRequest(http.MethodGet, "http://h/seq", nil)
	if response, _ := server.RoundTrip(r); response.StatusCode != 200 {
		t.Errorf("the third time status %d", response.StatusCode)
	}
	r, _ = http.NewRequest(http.MethodGet, "http://h/x", nil)
	if response, _ := server.RoundTrip(r); response.Header.Get("Content-Type") != "application/xml" {
		t.Errorf("XML is %v", response.Header)
	}
	r, _ = http.NewRequest(http.MethodGet, "http://h/none?q=a%20b", nil)
	if _, err := server.RoundTrip(r); err == nil || err.Error() != "no saved reply is for GET /none?q=a b" {
		t.Error(err)
	}
	if asked := server.Asked(); len(asked) != 11 || !slices.Contains(asked, "POST /a cursor=1") {
		t.Errorf("asked %q", asked)
	}
}
