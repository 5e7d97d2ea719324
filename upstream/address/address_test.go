package address

import (
	"strings"
	"testing"

	"inquiry-gateway/internal/invalid"
)

func compiled(t testing.TB, base, path string, query map[string]string) Plan {
	t.Helper()
	var problems invalid.Problems
	plan := Spec{Path: path, Query: query, InPath: []string{Account}, InQuery: []string{Account, Status, Type}}.Compile(base, "buyer", &problems)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	plan.Trust(Status)
	return plan
}

func TestURL(t *testing.T) {
	query := map[string]string{"z": "fixed", "s": "{status}", "q": "owner:{account}[ state:{status}]", "lit": "[1 TO *]"}
	plan := compiled(t, "http://h/base/", "/a/{account}/b", query)
	for _, tc := range []struct{ account, status, want string }{
		{"acme", "", "http://h/base/a/acme/b?lit=%5B1+TO+%2A%5D&q=owner%3Aacme&z=fixed"},
		{"a-1", "N&x", "http://h/base/a/a-1/b?lit=%5B1+TO+%2A%5D&q=owner%3Aa-1+state%3AN%26x&s=N%26x&z=fixed"},
		{"a/../b", "", ""}, {"..", "", ""}, {".", "", ""}, {"", "", ""}, {"a b", "", ""},
	} {
		got, err := plan.Request(Values{Account: {tc.account}, Status: {tc.status}})
		if got.URL != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%q: %s %v", tc.account, got.URL, err)
		}
	}
	delete(query, "q")
	plan = compiled(t, "", "/a/{account}/b", query)
	if got, _ := plan.Request(Values{Account: {"a/../b c?d"}}); !strings.HasPrefix(got.URL, "/a/a%2F..%2Fb%20c%3Fd/b?") {
		t.Errorf("escaped to %s", got.URL)
	}
}

func TestRepeatedParameter(t *testing.T) {
	plan := compiled(t, "", "/x", map[string]string{"s": "{status}", "q": "is:{status}"})
	got, err := plan.Request(Values{Account: {"a"}, Status: {"C", "X"}})
	if err != nil || got.URL != "/x?q=is%3AC&s=C&s=X" {
		t.Errorf("%s %v", got.URL, err)
	}
}
