package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// probe asks for one list of each account, and says what is wrong with which. What the
// legacy system says of itself is shown, printable and bounded.
func TestProbeOfBothLists(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	p.fault(legacy.Fault{Name: legacy.FaultStatus, Kind: legacy.KindSeller, Code: http.StatusServiceUnavailable})
	said := commandSays(t, 1, "seller "+legacy.SellerTypical, "probe", "-c", p.file(), "--buyer", legacy.BuyerTypical, "--seller", legacy.SellerTypical)
	if !strings.Contains(said, "\ngood: the gateway would serve this list\nseller") || !strings.Contains(said, "503") {
		t.Errorf("probe: %s", said)
	}

	p = start(t, setup{backend: func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "customer must be\x1b[31m numeric"+strings.Repeat(" x", 1000), http.StatusBadRequest)
		})
	}})
	out, errOut, code := command(t, "probe", "-c", p.file(), "--buyer", "acme")
	if code != 1 || !strings.Contains(out, "response  status 400, text/plain; charset=utf-8, in ") ||
		!strings.Contains(out, `customer must be\x1b[31m numeric`) || len(out) > 3000 || strings.Contains(errOut, "numeric") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

// What serve refuses, probe refuses with the same words. What it serves, and may not be
// what it seems, they doubt.
func TestTheToolsSayWhatServeDoes(t *testing.T) {
	t.Parallel()
	const numbered, without = `{"no":7,`, `{"no":null,`
	lists := map[string]struct {
		key    string
		record string // the second of two
		notes  int    // responses to each
		status int
		says   string
	}{
		legacy.BuyerTypical: {"buyer", without, 1, 502, "the mapping does not fit (record): record 2: responses: no id to ask for the responses with"},
		legacy.BuyerOther:   {"other-buyer", numbered, 50, 200, "the longest list of responses has exactly 50, a round number: are lists cut there?"},
		legacy.BuyerEmpty:   {"empty-buyer", numbered, 0, 200, "no response came for any of 2 records: every inquiry would look unanswered"},
	}
	p := start(t, setup{
		upstream: []string{"items: replies\n        items_optional: true\n", "items: notes\n        fetch: {path: \"/notes/{account}/{id}\", id: no, paging: {style: none}}\n"},
		backend: func(system http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				account := r.URL.Query().Get("customer")
				ticket := strings.NewReplacer(`"id":"acme"`, `"ref":"r-1","id":"`+account+`"`, "delivery", "D").Replace(testkit.SampleTicket)
				body := testkit.SampleList(numbered+ticket[1:], lists[account].record+strings.Replace(ticket, "Late", "Lost", 1)[1:])
				if rest, ok := strings.CutPrefix(r.URL.Path, "/notes/"); ok {
					account, _, _ = strings.Cut(rest, "/")
					note := `{"text":"x","by":{"role":"S"},"at":"2026-03-02 01:02:03"}`
					body = `{"notes":[` + strings.TrimSuffix(strings.Repeat(note+",", lists[account].notes), ",") + `]}`
				} else if account == "" {
					system.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, body)
			})
		},
	})
	for account, l := range lists {
		p.gets(l.status, "/api/v1/buyer/inquiries", l.key)
		commandSays(t, 1, l.says, "probe", "-c", p.file(), "--buyer", account)
	}
}

// Of a list with pages probe reads all, and says how many they were. It says whether the legacy system
// answers without credentials, too.
func TestProbeReadsAllPages(t *testing.T) {
	t.Parallel()
	const record = `{"subject":"on page %s","text":"t","state":"N","at":"2026-01-01T00:00:00Z","replies":[]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Query().Get("page")
		next := map[string]string{"": `"?page=2"`, "2": "null"}[page]
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"next":%s,"data":[`+record+`]}`, next, page)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	writeFile(t, filepath.Join(filepath.Dir(file), "keys.yaml"), "accounts: []\nkeys: []\n")
	writeFile(t, file, `upstream:
  base_url: `+server.URL+`
  buyer:
    path: /buyer/{account}
    items: data
    paging: {style: next_url, next: next}
    fields:
      {title: subject, content: text, status: {path: state, values: {N: pending}}, inquiry_type: {path: kind, default: null}, created_at: at,
       responses: {items: replies, fields: {content: text, responder_type: {path: by, default: null}, created_at: at}}}
`)
	said := commandSays(t, 0, ", on 2 pages\n", "probe", "-c", file, "--buyer", "acme", "--may-miss", "kind")
	const open = "the legacy system also responds without credentials"
	if strings.Contains(said, open) {
		t.Errorf("there are no credentials: %s", said)
	}
	text, err := os.ReadFile(file)
	must(t, err)
	writeFile(t, file, strings.Replace(string(text), "  buyer:\n", "  headers: {X-Key: k}\n  buyer:\n", 1))
	commandSays(t, 0, open, "probe", "-c", file, "--buyer", "acme", "--may-miss", "kind")
}

// Where a list is refused probe says all the same what else is doubtful of it, in tables that a terminal has room for.
func TestProbeOfARefusedList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, sample := filepath.Join(dir, "gateway.yaml"), filepath.Join(dir, "buyer.json")
	writeFile(t, file, "upstream:\n  "+strings.ReplaceAll(testkit.SampleYAML, "\n", "\n  ")+"\n")
	ticket := strings.Replace(testkit.SampleTicket, `"acme"`, `"ACME"`, 1)
	writeFile(t, sample, testkit.SampleList(strings.Replace(ticket, "Late", strings.Repeat("Late ", 50), 1)))
	said := commandSays(t, 1, "would refuse this list", "probe", "-c", file, "--buyer", "acme", "--sample", sample)
	if !strings.Contains(said, "an owner that differs from the account in capitals only") {
		t.Errorf("the doubt is not there: %s", said)
	}
	_, tables, _ := strings.Cut(said, "record 1")
	tables, _, _ = strings.Cut(tables, "note:")
	for line := range strings.Lines(tables) {
		if utf8.RuneCountInString(line) > 121 {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
}

// What draft leaves to a person is refused line by line, until it is written.
func TestDraftIsToBeCompleted(t *testing.T) {
	t.Parallel()
	const samples = "../../upstream/draft/testdata/"
	text := commandSays(t, 0, "#   subject: ", "draft", "--buyer", samples+"nested.json", "--buyer-account", "acme", "--seller", samples+"hal.json", "--seller-account", "hanriver")
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	writeFile(t, file, text)
	said := commandSays(t, 1, "COMPLETE_ME stands where", "check", "-c", file)
	for i, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "COMPLETE_ME") && !strings.Contains(said, fmt.Sprintf("gateway.yaml:%d:", i+1)) {
			t.Errorf("%q is taken: %s", line, said)
		}
	}
	writeFile(t, file, strings.ReplaceAll(text, "COMPLETE_ME", "x"))
	_, errOut, _ := command(t, "check", "-c", file)
	if strings.Contains(errOut, "upstream.buyer") || strings.Contains(errOut, "upstream.seller") {
		t.Errorf("completed, the section is wrong: %s", errOut)
	}
}

// The guide's configuration is refused for the reasons that the guide names, and
// good once it is mended as the guide says.
func TestTheGuideWorksAsItStands(t *testing.T) {
	t.Parallel()
	p := start(t, setup{legacy: legacy.Options{Seed: 1}})
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide.md"))
	must(t, err)
	guide := string(text)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(guide, -1)
	if len(blocks) < 3 {
		t.Fatalf("%d blocks of YAML", len(blocks))
	}
	config := filepath.Join(p.dir, "guide.yaml")
	probe := []string{"probe", "-c", config, "--buyer", "acme", "--records", "1"}
	first := strings.Replace(blocks[0][1], legacy.MappingBaseURL, p.upstream+"\n  timeout: 5s", 1) // as a busy machine needs
	p.write("guide.yaml", first)
	said := commandSays(t, 1, "", probe...)
	for _, line := range []string{
		"record 1\n", `  7       status  "C"  a value that has no entry in values`, "  replies.#.uuid          string\n",
		"refused: the mapping does not fit (record): record 7: status: a value that has no entry in values; in all 6 records cannot be served\n",
	} {
		if !strings.Contains(said, line) || !strings.Contains(guide, line) {
			t.Errorf("guide or probe do not say %q:\n%s", line, said)
		}
	}
	mended := strings.Replace(first, "      status: {path: state, values: {N: pending, A: answered}}\n", blocks[1][1], 1)
	p.write("guide.yaml", strings.Replace(mended, "    owner: customer.id\n", blocks[2][1], 1))
	commandSays(t, 0, "\ngood: the gateway would serve this list\n", probe...)
	// Step 4; the guide's keys.yaml is there already.
	const good = "  found     24 records in "
	commandSays(t, 0, good, "probe", "-c", config, "--buyer", "acme", "--seller", "hanriver", "--records", "0")
	if !strings.Contains(guide, good) {
		t.Errorf("the guide does not say %q", good)
	}
}
