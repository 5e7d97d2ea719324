package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/upstream/legacy"
)

// oneList removes a list from the configuration.
func oneList(p *program, kind string) {
	text := p.read("gateway.yaml")
	head, rest, _ := strings.Cut(text, "\n  "+kind+":\n")
	if at := strings.Index(rest, "\n  seller:\n"); at >= 0 {
		head += rest[at:]
	}
	p.write("gateway.yaml", head+"\n")
}

// A configuration may have one list only: the path of the other is unknown, and nothing says
// that there is one.
func TestOneListIsServedAlone(t *testing.T) {
	for kind, other := range map[string]string{"buyer": "seller", "seller": "buyer"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{legacy: legacy.Options{Inquiries: 300}, prepare: func(p *program) {
				canaryKeys(p)
				oneList(p, other)
				p.write("gateway.yaml", "canary: {"+kind+"_keys: ["+kind+".key, other-"+kind+".key], every: 1s}\n"+p.read("gateway.yaml"))
			}})
			p.gets(http.StatusOK, listOf(kind), kind)
			p.gets(http.StatusNotFound, listOf(other), other)
			p.gets(http.StatusForbidden, listOf(kind), other)
			for page, answer := range map[string]answer{
				"the document": p.get("/openapi.json", ""), "the page": p.get("/docs/", ""), "readiness": p.ops("/readyz"), "the ttl table": p.ops("/ops/ttl"),
			} {
				absent := []string{"/api/v1/" + other + "/inquiries\"", "upstream_" + other, `"kind":"` + other + `"`}
				if found := slices.IndexFunc(absent, func(s string) bool { return strings.Contains(string(answer.body), s) }); answer.status != http.StatusOK || found >= 0 {
					t.Errorf("%s (%d) has a list that there is not: %s", page, answer.status, absent[max(found, 0)])
				}
			}
			if page := string(p.ops("/").body); !strings.Contains(page, `data-kinds="`+kind+`"`) {
				t.Error("the console has another list")
			}
			config := p.dir + "/gateway.yaml"
			commandSays(t, 0, "no list of "+other+"s is served", "check", "-c", config)
			if out, _, _ := command(t, "check", "-c", config, "--failures"); !strings.Contains(out, "stale_if_error: 10m0s ("+kind+")") || strings.Contains(out, "("+other+")") {
				t.Errorf("check --failures: %s", out)
			}
			ops := p.app.OpsURL()
			commandSays(t, 0, "purged", "purge", "--ops", ops, "--kind", kind)
			commandSays(t, 1, "the configuration has no upstream."+other, "purge", "--ops", ops, "--kind", other)
			commandSays(t, 1, "the configuration has no upstream."+other, "explain", "--ops", ops, "--kind", other, "--account", "a")
			commandSays(t, 0, kind+" acme: good", "check", "-c", config, "--live", "--"+kind, "acme")
			commandSays(t, 2, "leave out --"+other, "check", "-c", config, "--live", "--"+kind, "acme", "--"+other, "acme")
			p.allWell(kind)
			commandSays(t, 1, "the configuration has no upstream."+other, "probe", "-c", config, "--kind", other, "--account", "a")
		})
	}
}

// A list that a reload adds is served, and one that it takes away is not; the other notices
// nothing.
func TestReloadAddsAndTakesAwayAList(t *testing.T) {
	var whole string
	p := start(t, setup{prepare: func(p *program) {
		whole = p.read("gateway.yaml")
		oneList(p, "seller")
	}})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.gets(http.StatusNotFound, sellerList, "seller")
	p.write("gateway.yaml", whole)
	p.eventually("sellers have a list", func() bool { return p.get(sellerList, "seller").status == http.StatusOK })
	oneList(p, "seller")
	p.eventually("sellers have no list", func() bool { return p.get(sellerList, "seller").status == http.StatusNotFound })
	if got := p.get(buyerList, "buyer").header.Get("Cache-Status"); !strings.HasPrefix(got, "inquiry-gateway; hit;") {
		t.Errorf("the buyers' list: %s", got)
	}
}

// The words of a filter that the mapping has are in the documents. Another word is no
// mistake: no record can have it, so the list is empty, and the legacy system is not asked.
func TestWordsOfFilters(t *testing.T) {
	p := start(t, setup{})
	document := string(p.get("/openapi.json", "").body)
	if n := strings.Count(document, `"enum":["answered","closed","pending"]`); n != 2 {
		t.Errorf("the words of status stand %d times in the document, want 2", n)
	}
	if page := string(p.get("/docs/", "").body); strings.Count(page, `data-status="answered closed pending"`) != 2 {
		t.Error("the page does not offer the words of status")
	}
	before := p.system.Requests()
	if a := p.get(buyerList+"?status=pendign", "buyer"); a.status != http.StatusOK || string(a.body) != `{"data":[],"meta":{},"errors":[]}` || p.system.Requests() != before {
		t.Errorf("an unknown word: %d %s", a.status, a.body)
	}
}
