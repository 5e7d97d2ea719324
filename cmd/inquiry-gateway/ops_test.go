package main

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Without a token a page whose name leads to 127.0.0.1 reads nothing and purges
// nothing, whatever it says of itself; names of this machine are served.
func TestOpsWithoutATokenAnswersToLoopbackNames(t *testing.T) {
	p := start(t, setup{})
	ask := func(method, path, host, origin string) answer {
		r, err := http.NewRequest(method, p.app.OpsURL()+path, strings.NewReader(`{"kind":"buyer"}`))
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

// withToken has an ops listener with a token, and send asks it something.
func withToken(t *testing.T) (p *program, send func(method, path, authorization string) *http.Response) {
	p = start(t, setup{prepare: func(p *program) {
		p.write("ops-token", "s3cret-of-the-test\n")
		p.write("gateway.yaml", strings.Replace(p.read("gateway.yaml"), "ops: {listen: 127.0.0.1:0}", "ops: {listen: 127.0.0.1:0, token_file: ops-token}", 1))
	}})
	p.token = "s3cret-of-the-test"
	client := &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(client.CloseIdleConnections)
	return p, func(method, path, authorization string) *http.Response {
		r, err := http.NewRequest(method, p.app.OpsURL()+path, strings.NewReader(`{"account":"acme"}`))
		if err != nil {
			t.Error(err)
			return &http.Response{}
		}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Error(err)
			return &http.Response{}
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return resp
	}
}

// The token that Prometheus is given reads the metrics. It purges nothing, shows no
// configuration, explains no list and takes no profile; a reload takes it back.
func TestReadTokenReadsMetricsAlone(t *testing.T) {
	p, send := withToken(t)
	p.write("ops-read-token", "read-token-of-the-test\n")
	p.edit("token_file: ops-token", "token_file: ops-token, read_token_file: ops-read-token")
	status := func(method, path, token string) int { return send(method, path, "Bearer "+token).StatusCode }
	p.eventually("the token for reading counts", func() bool { return status("GET", "/metrics", "read-token-of-the-test") == http.StatusOK })
	others := map[string]string{
		"/ops/config": "GET", "/ops/explain?kind=buyer&account=acme": "GET", "/ops/ttl": "GET", "/debug/pprof/": "GET", "/debug/pprof/heap": "GET",
		"/ops/purge": "POST", "/ops/changed": "POST", "/": "GET", "/console/state": "GET", "/console/assets/x": "GET", "/metrics/": "GET",
	}
	for path, method := range others {
		if got := status(method, path, "read-token-of-the-test"); got != http.StatusForbidden {
			t.Errorf("%s %s with the token for reading: %d", method, path, got)
		}
		if got := status(method, path, "s3cret-of-the-test"); got == http.StatusForbidden || got == http.StatusUnauthorized {
			t.Errorf("%s %s with the operators' token: %d", method, path, got)
		}
	}
	p.edit(", read_token_file: ops-read-token", "")
	p.eventually("the token for reading is taken back", func() bool { return status("GET", "/metrics", "read-token-of-the-test") == http.StatusUnauthorized })
	if got := status("GET", "/metrics", "s3cret-of-the-test"); got != http.StatusOK {
		t.Errorf("the operators' token: %d", got)
	}
}

// Wrong tokens are answered slowly, counted and logged, not each of them; the
// right one is taken at once all the while.
func TestWrongOpsTokensAreSlowAndLogged(t *testing.T) {
	t.Parallel() // it waits
	p, send := withToken(t)
	const guesses = 100
	var group sync.WaitGroup
	var refused, tooMany atomic.Int64
	begin := time.Now()
	for i := range guesses {
		group.Go(func() {
			var resp *http.Response
			if i%2 == 0 {
				resp = send("GET", "/metrics", "Bearer wrong-guess")
			} else {
				resp = send("POST", "/ops/purge", "Basic b3BzOndyb25nLWd1ZXNz") // ops:wrong-guess
			}
			switch resp.StatusCode {
			case http.StatusUnauthorized:
				refused.Add(1)
				if took := time.Since(begin); took < 900*time.Millisecond {
					t.Errorf("a wrong token was refused after %s", took)
				}
			case http.StatusTooManyRequests:
				tooMany.Add(1)
			default:
				t.Errorf("a wrong token got %d", resp.StatusCode)
			}
		})
	}
	for range 20 {
		if resp := send("GET", "/metrics", "Bearer s3cret-of-the-test"); resp.StatusCode != http.StatusOK {
			t.Errorf("the right token: %d", resp.StatusCode)
		}
	}
	group.Wait()
	if refused.Load() == 0 || refused.Load()+tooMany.Load() != guesses {
		t.Errorf("%d were refused after the delay, %d at once", refused.Load(), tooMany.Load())
	}
	if resp := send("GET", "/metrics", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("no token: %d", resp.StatusCode)
	}
	logs := p.logs.String()
	if n := strings.Count(logs, `"event":"ops_token_refused"`); n == 0 || n > guesses/4 {
		t.Errorf("%d log records of %d wrong tokens", n, guesses)
	}
	if strings.Contains(logs, "wrong-guess") {
		t.Error("the log has the token")
	}
	if n := p.metric("inquiry_gateway_ops_wrong_tokens_total"); n != guesses {
		t.Errorf("%v were counted", n)
	}
}

// A slash that is escaped separates nothing; other escapes change nothing.
func TestEscapedPaths(t *testing.T) {
	p := start(t, setup{})
	for path, want := range map[string]int{
		"/api/v1/buyer%2Finquiries": 404, "/api/v1/buyer%2finquiries": 404, "/api%2Fv1/buyer/inquiries": 404, "/api/v1/buyer/inquiries%2F": 404,
		"/api/v1/buyer%252Finquiries": 404, "/docs%2Findex.html": 404,
		"/api/v1/%62uyer/inquiries": 200, "/api/v1/buyer/inquiries": 200,
	} {
		a := p.get(path, "buyer")
		if a.status != want || want == 404 && !strings.Contains(string(a.body), `"code":"not_found"`) {
			t.Errorf("%s: %d %.100s", path, a.status, a.body)
		}
	}
}
