package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// edit changes the running program's configuration file.
func (p *program) edit(old, next string) {
	p.t.Helper()
	file := filepath.Join(p.dir, "gateway.yaml")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), old) {
		p.t.Fatalf("%q is not in the configuration (%v)", old, err)
	}
	p.write("gateway.yaml", strings.Replace(string(text), old, next, 1))
}

// A list that is cached already follows the new policy, and is not asked for
// again to do so.
func TestReloadChangesTheTTLOfCachedLists(t *testing.T) {
	p := start(t, setup{yaml: "cache: {jitter: 0, buyer: {ttl: 1h}}"})
	p.get(buyerList, "buyer")
	if got := p.get(buyerList, "buyer").header.Get("Cache-Status"); !strings.HasPrefix(got, "inquiry-gateway; hit; ttl=35") {
		t.Fatalf("before: %s", got)
	}
	p.edit("ttl: 1h", "ttl: 2h")
	p.eventually("the new ttl counts", func() bool {
		return strings.HasPrefix(p.get(buyerList, "buyer").header.Get("Cache-Status"), "inquiry-gateway; hit; ttl=71")
	})
	if n := p.system.Requests().Buyer; n != 1 {
		t.Errorf("the legacy was asked %d times", n)
	}
	p.eventually("the log tells what changed", func() bool {
		return strings.Contains(p.logs.String(), `{"key":"cache.buyer.ttl","old":"1h","new":"2h"}`)
	})
	if shown := string(p.ops("/ops/config").body); !strings.Contains(shown, "ttl: 2h") {
		t.Errorf("/ops/config shows\n%s", shown)
	}
}

// A mistake leaves everything as it was, and shows in log and metrics.
func TestReloadWithAMistakeKeepsTheOldConfiguration(t *testing.T) {
	p := start(t, setup{yaml: "request_timeout: 4s"})
	p.edit("request_timeout: 4s", "request_timout: 4s")
	p.eventually("the failure is counted", func() bool {
		metrics := string(p.ops("/metrics").body)
		return strings.Contains(metrics, `inquiry_gateway_config_reloads_total{result="failed"} 1`) && strings.Contains(metrics, "inquiry_gateway_config_last_reload_successful 0")
	})
	p.eventually("the log tells where", func() bool {
		return strings.Contains(p.logs.String(), "gateway.yaml:4:1: request_timout: unknown key")
	})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.edit("request_timout: 4s", "request_timeout: 5s")
	p.eventually("the mended file counts", func() bool {
		return strings.Contains(string(p.ops("/metrics").body), "inquiry_gateway_config_last_reload_successful 1")
	})
}

// A changed mapping is another list: what was mapped the old way is not served.
func TestReloadOfTheMapping(t *testing.T) {
	p := start(t, setup{})
	before := p.get(sellerList, "seller")
	p.edit("default: other", "default: something-else")
	p.eventually("the new mapping shows", func() bool {
		return strings.Contains(string(p.get(sellerList, "seller").body), "something-else")
	})
	if strings.Contains(string(before.body), "something-else") {
		t.Error("it did before")
	}
}

func TestHangupReloads(t *testing.T) {
	p := start(t, setup{})
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.eventually("SIGHUP reloads", func() bool {
		return strings.Contains(p.logs.String(), "configuration reloaded")
	})
	p.gets(http.StatusOK, buyerList, "buyer")
}

func TestPurge(t *testing.T) {
	p := start(t, setup{yaml: "cache: {buyer: {ttl: 1h}}"})
	p.get(buyerList, "buyer")
	p.get(buyerList, "other-buyer")
	p.system.Ask(legacy.BuyerTypical)
	post := func(body string) answer {
		r, err := http.NewRequest(http.MethodPost, p.app.OpsURL()+"/ops/purge", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return p.do(r)
	}
	if a := post(`{"account":"` + legacy.BuyerTypical + `"}`); a.status != http.StatusOK || !strings.Contains(string(a.body), `"epoch":1`) {
		t.Fatalf("purge: %d %s", a.status, a.body)
	}
	if got := p.get(buyerList, "buyer").header.Get("Cache-Status"); got != "inquiry-gateway; fwd=miss; stored" {
		t.Errorf("the purged account: %s", got)
	}
	if got := p.get(buyerList, "other-buyer").header.Get("Cache-Status"); !strings.HasPrefix(got, "inquiry-gateway; hit") {
		t.Errorf("another account: %s", got)
	}
	for _, body := range []string{"", "{}", `{"kind":"buyer","account":"x"}`, `{"kin":"buyer"}`, `{"kind":"buyer"} x`, `{"kind":"admin"}`} {
		if a := post(body); a.status != http.StatusBadRequest {
			t.Errorf("%q: %d", body, a.status)
		}
	}
	r, err := http.NewRequest(http.MethodPost, p.app.OpsURL()+"/ops/purge", strings.NewReader(`{"kind":"buyer"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if a := p.do(r); a.status != http.StatusForbidden {
		t.Errorf("a page of another origin purged: %d", a.status)
	}
}

func TestTLSWithReload(t *testing.T) {
	p := start(t, setup{prepare: func(p *program) { testkit.Certificate(t, p.dir, "first") }, yaml: "tls: {cert_file: cert.pem, key_file: key.pem}"})
	seen := func() (string, string) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the test looks at the certificate itself
		resp, err := client.Do(p.request(http.MethodGet, buyerList, "buyer"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.TLS.PeerCertificates[0].Subject.CommonName, resp.Proto
	}
	if name, proto := seen(); name != "first" || proto != "HTTP/2.0" {
		t.Fatalf("%s over %s", name, proto)
	}
	testkit.Certificate(t, p.dir, "second")
	p.eventually("the new certificate is shown", func() bool { name, _ := seen(); return name == "second" })
}
