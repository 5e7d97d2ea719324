package main

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/gateway/ops"
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
	list := []string{"--account", legacy.BuyerTypical, "--kind", "buyer"}
	foretells := func(query string, args ...string) ops.Explanation {
		t.Helper()
		x := p.explained(args...)
		a := p.get(buyerList+query, "buyer")
		got := a.header.Get("Cache-Status")
		if x.Prediction.HTTPStatus != a.status || a.status == 200 && !strings.Contains(got, x.Prediction.Outcome) ||
			!strings.Contains(string(a.body), x.Prediction.Code) {
			t.Errorf("explained %+v, got %d %s %s", x.Prediction, a.status, got, a.body)
		}
		return x
	}
	x := p.explained(list...)
	if p.system.Requests().Buyer != 0 || x.Prediction.Outcome != "miss" || x.Cache.TTL != 3600 || x.Cache.Policy != "cache.buyer" {
		t.Errorf("cold: %+v", x)
	}
	foretells("", list...)
	if x = foretells("", "--key-id", "buyer"); x.Prediction.Outcome != "hit" || x.Cache.Tier != "local" || x.Cache.Bytes == 0 ||
		x.Cache.Left < 3000 || x.Cache.AnsweredAt.IsZero() || x.RateLimit.From != "rate_limit" {
		t.Errorf("warm: %+v", x)
	}
	person := `^hit: 200\nserved from the cache(.*\n)*cache\n  key\n    kind: buyer\n    account: acme\n` +
		`(.*\n)*  policy: cache\.buyer\n  ttl_seconds: 3600\n`
	said := commandSays(t, 0, "hit: 200", "explain", "--ops", p.app.OpsURL(), "--key-id", "buyer")
	if !regexp.MustCompile(person).MatchString(said) || strings.Contains(said, p.keys["buyer"]) || strings.Contains(said, "sha256") {
		t.Errorf("for a person: %s", said)
	}
	pending := append(list, "--status", "pending")
	if x = foretells("?status=pending", pending...); x.Cache.Policy != "cache.buyer.by_status.pending" || x.Cache.TTL != 10 ||
		x.Cache.Key.Status != "pending" {
		t.Errorf("filtered: %+v", x)
	}
	asked := p.system.Requests().Buyer
	x = p.explained(append(list, "--status", "unheard-of")...)
	p.gets(http.StatusOK, buyerList+"?status=unheard-of", "buyer")
	if x.Prediction.HTTPStatus != http.StatusOK || !strings.Contains(x.Prediction.Text, "without asking") ||
		p.system.Requests().Buyer != asked {
		t.Errorf("a value that cannot be: %+v", x.Prediction)
	}
	commandSays(t, 0, "epoch 1", "purge", "--ops", p.app.OpsURL(), "--account", legacy.BuyerTypical)
	if x = foretells("", list...); x.Prediction.Outcome != "miss" || x.Cache.AccountEpoch != 1 {
		t.Errorf("purged: %+v", x)
	}
	p.fault(legacy.Fault{Name: legacy.FaultStatus})
	p.eventually("the breaker opens", func() bool {
		empty, other := p.get(buyerList, "empty-buyer"), p.get(buyerList, "other-buyer")
		return empty.status == http.StatusServiceUnavailable && other.status == http.StatusServiceUnavailable
	})
	commandSays(t, 0, "epoch 2", "purge", "--ops", p.app.OpsURL(), "--account", legacy.BuyerTypical)
	if x = foretells("", "--key-id", "buyer"); x.Prediction.Code != "upstream_unavailable" || x.Upstream.Breaker != "open" {
		t.Errorf("the breaker is open: %+v %+v", x.Prediction, x.Upstream)
	}
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
		r, err := http.NewRequest(page.method, p.app.OpsURL()+page.path, strings.NewReader(`{"kind":"buyer"}`))
		if err != nil {
			t.Fatal(err)
		}
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

// Wrong tokens are answered slowly, counted and logged, not each of them; the
// right one is taken at once all the while.
func TestWrongOpsTokensAreSlowAndLogged(t *testing.T) {
	t.Parallel()
	const guesses, right = 100, "s3cret-of-the-test"
	p := start(t, setup{ops: "{listen: 127.0.0.1:0, token_file: ops-token}", prepare: func(p *program) {
		p.write("ops-token", right+"\n")
		p.token = right
	}})
	var group sync.WaitGroup
	var refused atomic.Int64
	begin := time.Now()
	for range guesses {
		group.Go(func() {
			switch a := p.opsAs("wrong-guess", http.MethodGet, "/metrics", ""); a.status {
			case http.StatusUnauthorized:
				refused.Add(1)
				if took := time.Since(begin); took < 900*time.Millisecond {
					t.Errorf("a wrong token was refused after %s", took)
				}
			case http.StatusTooManyRequests: // too many wait already
			default:
				t.Errorf("a wrong token got %d", a.status)
			}
		})
	}
	for range 20 {
		if a := p.ops("/metrics"); a.status != http.StatusOK {
			t.Errorf("the right token: %d", a.status)
		}
	}
	group.Wait()
	if n := refused.Load(); n == 0 || n == guesses {
		t.Errorf("%d were refused after the delay", n)
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
				canaryKeys(p)
				oneList(p, other)
				p.edit("ops: ", "canary: {"+kind+"_keys: ["+kind+".key, other-"+kind+".key], every: 1s}\nops: ")
			}})
			p.gets(http.StatusOK, listOf(kind), kind)
			p.gets(http.StatusNotFound, listOf(other), other)
			p.gets(http.StatusForbidden, listOf(kind), other)
			pages := string(p.get("/openapi.json", "").body) + string(p.get("/docs/", "").body)
			for _, path := range []string{"/readyz", "/ops/ttl", "/"} {
				pages += string(p.ops(path).body)
			}
			for _, absent := range []string{"/api/v1/" + other + "/inquiries\"", "upstream_" + other, `"kind":"` + other + `"`} {
				if strings.Contains(pages, absent) {
					t.Errorf("a page has a list that there is not: %s", absent)
				}
			}
			if !strings.Contains(pages, `data-kinds="`+kind+`"`) {
				t.Error("the console has another list")
			}
			p.script(t, "one-list.txt", map[string]string{"KIND": kind, "OTHER": other})
			p.allWell(kind)
		})
	}
}
