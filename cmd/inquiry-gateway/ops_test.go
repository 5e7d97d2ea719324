package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"inquiry-gateway/gateway/ops"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

// explained asks the running gateway through the command.
func (p *program) explained(args ...string) (x ops.Explanation) {
	p.t.Helper()
	out, errOut, code := command(p.t, append([]string{"explain", "--ops", p.app.OpsURL(), "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &x); err != nil || code != 0 {
		p.t.Fatalf("explain %v: exit code %d, %v: %s%s", args, code, err, out, errOut)
	}
	return x
}

// The outcome that explain foretells is the one that the next request has.
func TestExplainForetellsTheOutcome(t *testing.T) {
	t.Parallel()
	p := start(t, setup{
		yaml:     "cache: {jitter: 0.1, buyer: {ttl: 1h, stale_if_error: 0s, by_status: {pending: {ttl: 10s}}}}\nrate_limit: {per_second: 50}",
		upstream: []string{"upstream:\n", "upstream:\n  breaker: {min_requests: 2, failure_ratio: 0.5, open_for: 1m}\n"},
	})
	p.script("explain", "KEY="+p.keys["buyer"])
	if x := p.explained("--key-id", "buyer"); x.RateLimit.PerSecond != 50 || x.RateLimit.Burst != 50 {
		t.Errorf("the limit is %+v", x.RateLimit)
	}
	if n := p.system.Requests().Buyer; n != 3 { // two lists, and one of them again after the purge
		t.Errorf("the legacy system was asked %d times", n)
	}
	// Whose failure it is stays known until a list comes, and its account fails no more then.
	for i, failing := range []struct {
		legacy.Fault
		failure upstream.Failure
		code    string
	}{
		{legacy.Fault{Name: legacy.FaultHTML}, "sign_in", "upstream_sign_in_failed"},
		{legacy.Fault{Name: legacy.FaultWrongOwner}, "foreign", "upstream_invalid_response"},
	} {
		askAnew := func() { commandSays(t, 0, "", "purge", "--ops", p.app.OpsURL(), "--account", legacy.BuyerTypical) }
		p.fault(failing.Fault)
		for range i + 1 {
			askAnew()
			p.gets(http.StatusBadGateway, buyerList, "buyer")
		}
		x := p.explained("--account", legacy.BuyerTypical, "--kind", "buyer")
		incidents := x.Upstream.Incidents
		if len(incidents) != i+1 || x.Prediction.Outcome != "failing" || x.Prediction.Code != failing.code {
			t.Fatalf("%s: %+v, %+v", failing.Name, x.Prediction, incidents)
		}
		if f := incidents[i]; f.Failure != failing.failure || f.Fetches != i+1 || f.Accounts != 1 || f.Text == "" {
			t.Errorf("%s: %+v", failing.Name, f)
		}
		p.system.ClearFaults("")
		askAnew()
		p.gets(http.StatusOK, buyerList, "buyer")
		if f := p.explained("--key-id", "buyer").Upstream.Incidents[i]; f.Accounts != 0 || f.Worked.IsZero() {
			t.Errorf("%s works again: %+v", failing.Name, f)
		}
	}
	p.fault(legacy.Fault{Name: legacy.FaultStatus})
	asked := 0
	p.eventually("the account's circuit opens", func() bool {
		p.get(buyerList+"?"+filterQuery(asked), "buyer")
		asked++
		return p.explained("--key-id", "buyer").Upstream.Breaker == "open"
	})
	p.script("explain-open")
}

// Without a token a page whose name leads to 127.0.0.1 reads nothing and purges
// nothing, whatever it says of itself; names of this machine are served.
func TestOpsWithoutATokenAnswersToLoopbackNames(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	type page struct{ method, path, host, origin string }
	pages := map[page]int{}
	for _, host := range []string{
		"evil.example:9090", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[2001:db8::1]:9090", "127.1",
	} {
		for _, path := range []string{"/ops/config", "/", "/readyz"} {
			pages[page{"GET", path, host, ""}] = http.StatusMisdirectedRequest // a browser names no origin to its own
		}
		pages[page{"POST", "/ops/purge", host, "http://" + host}] = http.StatusMisdirectedRequest
	}
	for _, origin := range []string{"http://evil.example", "null", "http://localhost.evil.example:9090"} {
		pages[page{"POST", "/ops/purge", "localhost:9090", origin}] = http.StatusMisdirectedRequest
	}
	for _, host := range []string{"localhost", "LOCALHOST:9090", "gateway.localhost:1", "127.8.8.8", "[::1]:9090", "[::1]", "localhost.:80"} {
		pages[page{"POST", "/ops/purge", host, "http://" + host}] = http.StatusOK
	}
	for page, want := range pages {
		r, err := http.NewRequest(page.method, p.app.OpsURL()+page.path, strings.NewReader(`{"kinds":["buyer"]}`))
		must(t, err)
		r.Host = page.host
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if page.origin != "" {
			r.Header.Set("Origin", page.origin)
		}
		if a := p.do(r); a.status != want {
			t.Errorf("%+v: %d %.80s", page, a.status, a.body)
		}
	}
}

// The token goes to the listener alone, whatever that answers.
func TestTheTokenFollowsNoRedirect(t *testing.T) {
	testkit.SkipShort(t)
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	listener := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer listener.Close()
	file := filepath.Join(t.TempDir(), "token")
	writeFile(t, file, "s3cret\n")
	commandSays(t, 1, "responds with 307", "purge", "--ops", listener.URL, "--token-file", file, "--kind", "buyer")
	if elsewhere.Load() > 0 {
		t.Error("another server was asked")
	}
}

// Wrong tokens are counted, and logged once a second.
func TestWrongOpsTokensAreLogged(t *testing.T) {
	t.Parallel()
	const guesses, right = 100, "s3cret-of-the-test"
	p := start(t, setup{ops: "{listen: 127.0.0.1:0, token_file: ops-token}", prepare: func(p *program) {
		p.write("ops-token", right+"\n")
		p.token = right
	}})
	for range guesses {
		if a := p.opsAs("wrong-guess", http.MethodGet, "/metrics", ""); a.status != http.StatusUnauthorized {
			t.Errorf("a wrong token got %d", a.status)
		}
	}
	if a := p.ops("/metrics"); a.status != http.StatusOK {
		t.Errorf("the right token: %d", a.status)
	}
	logs := p.logs.String()
	if n := strings.Count(logs, `"event":"ops_token_refused"`); n == 0 || n > guesses/4 || strings.Contains(logs, "wrong-guess") {
		t.Errorf("%d log records of %d wrong tokens, or one has the token", n, guesses)
	}
	if n := p.metric("inquiry_gateway_ops_wrong_tokens_total"); n != guesses {
		t.Errorf("%v were counted", n)
	}
}

// A configuration may have one list only: the path of the other is unknown, and nothing says
// that there is one.
func TestOneListIsServedAlone(t *testing.T) {
	t.Parallel()
	for kind, other := range map[string]string{"buyer": "seller", "seller": "buyer"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{legacy: legacy.Options{Inquiries: 300}, prepare: func(p *program) {
				oneList(p, other)
			}})
			p.script("one-list", "KIND="+kind, "OTHER="+other)
		})
	}
}

// A node that has an IPv4 and an IPv6 address is one node.
func TestNodesBehindAName(t *testing.T) {
	for addresses, want := range map[string]int{
		"10.0.0.1": 0, "10.0.0.1 2001:db8::1": 0, "10.0.0.1 10.0.0.2 2001:db8::1 2001:db8::2": 2, "2001:db8::1 2001:db8::2 10.0.0.1": 2,
		"::ffff:10.0.0.1 10.0.0.2": 2, "127.0.0.1 ::1": 0, "127.0.0.1 127.0.0.2": 0,
	} {
		var all []netip.Addr
		for text := range strings.FieldsSeq(addresses) {
			all = append(all, netip.MustParseAddr(text))
		}
		if got := nodeAddresses(all); len(got) != want {
			t.Errorf("%s: %v, want %d", addresses, got, want)
		}
	}
}
