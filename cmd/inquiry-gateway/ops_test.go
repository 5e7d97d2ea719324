package main

import (
	"net/http"
	"strings"
	"testing"
)

// Without a token a page whose name leads to 127.0.0.1 reads nothing and purges
// nothing, whatever it says of itself; names of this machine are served.
func TestOpsWithoutATokenAnswersToLoopbackNames(t *testing.T) {
	p := start(t, setup{})
	ask := func(method, path, host, origin string) answer {
		r, err := http.NewRequest(method, p.app.ops.url()+path, strings.NewReader(`{"kind":"buyer"}`))
		if err != nil {
			t.Fatal(err)
		}
		if r.Host = host; origin != "" {
			r.Header.Set("Origin", origin)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		return p.do(r)
	}
	for _, host := range []string{"evil.example", "evil.example:9090", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[2001:db8::1]:9090", "127.1"} {
		for path, method := range map[string]string{"/ops/config": "GET", "/metrics": "GET", "/": "GET", "/ops/purge": "POST", "/readyz": "GET"} {
			if a := ask(method, path, host, "http://"+host); a.status != http.StatusMisdirectedRequest || !strings.Contains(string(a.body), "ops.token_file") {
				t.Errorf("%s %s: %d %.80s", host, path, a.status, a.body)
			}
		}
	}
	for _, origin := range []string{"http://evil.example", "null", "http://localhost.evil.example:9090"} {
		if a := ask("POST", "/ops/purge", "localhost:9090", origin); a.status != http.StatusMisdirectedRequest {
			t.Errorf("a page of %s purged: %d", origin, a.status)
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST:9090", "gateway.localhost:1", "127.0.0.1:9090", "127.8.8.8", "[::1]:9090", "[::1]", "localhost.:80"} {
		if a := ask("GET", "/metrics", host, ""); a.status != http.StatusOK {
			t.Errorf("%s: %d", host, a.status)
		}
		if a := ask("POST", "/ops/purge", host, "http://"+host); a.status != http.StatusOK {
			t.Errorf("a page of %s: %d %s", host, a.status, a.body)
		}
	}
}
