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
	for _, tt := range []struct{ target, body, want string }{
		{"/a", "", "any"}, {"/a?page=2&size=5", "", "second page"}, {"/a?page=22", "", "any"},
		{"/a", "cursor=1", "by body"}, {"/a?f=x+eq+%27b%27+and+y", "", "by condition"},
		{"/b?page=3", "", "third page"},
		{"/seq", "", "1"}, {"/seq", "", "2"}, {"/seq", "", "1"}, // in turn
		{"/x", "", "\ufeff <a/>"},
		{"/none?q=a%20b", "z", "no saved reply is for POST /none?q=a b z"},
	} {
		r, _ := http.NewRequest(http.MethodPost, "http://h"+tt.target, strings.NewReader(tt.body))
		response, err := server.RoundTrip(r)
		if err != nil {
			if err.Error() != tt.want {
				t.Error(err)
			}
			continue
		}
		got, _ := io.ReadAll(response.Body)
		media := map[bool]string{false: "application/json", true: "application/xml"}[tt.target == "/x"]
		status := map[bool]int{false: 200, true: 201}[tt.want == "2"]
		if string(got) != tt.want || response.Header.Get("Content-Type") != media || response.StatusCode != status {
			t.Errorf("%s %s: got %s, %d %v", tt.target, tt.body, got, response.StatusCode, response.Header)
		}
	}
	if asked := server.Requests(); len(asked) != 11 || !slices.Contains(asked, "POST /a cursor=1") {
		t.Errorf("asked %q", asked)
	}
}
