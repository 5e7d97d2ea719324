package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

func TestProbeShowsOneReply(t *testing.T) {
	p := start(t, setup{})
	file := filepath.Join(p.dir, "gateway.yaml")
	out, errOut, code := command(t, "probe", "-c", file, "--kind", "buyer", "--account", legacy.BuyerTypical, "--status", "pending", "--records", "1")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	for _, want := range []string{
		`asked +GET http://\S+/v2/tickets\?\S*customer=acme\S*state=N`, `answered +status 200`, `(?m)^ +title +subject +"`,
		`owner: customer.id: \d+ of this account, foreign none`, `(?m)^ +uuid +\d+`, `NOT MAPPED`, `good: the gateway would serve`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	if strings.Contains(out, "record 2\n") {
		t.Error("more records than asked for")
	}

	commandSays(t, 0, "does not ask", "probe", "-c", file, "--kind", "buyer", "--account", "acme", "--status", "unheard-of")
	out, _, code = command(t, "probe", "-c", file, "--kind", "seller", "--account", legacy.SellerTypical, "--json")
	var seen struct {
		Items   int
		Verdict string
		Request struct{ URL string }
	}
	if err := json.Unmarshal([]byte(out), &seen); err != nil || code != 0 || seen.Items == 0 || seen.Verdict != "good" || seen.Request.URL == "" {
		t.Errorf("exit code %d, %v: %.300s", code, err, out)
	}
}

// A reply that the gateway would refuse is exit code 1, with the reason.
func TestProbeFailsWhereTheGatewayWould(t *testing.T) {
	p := start(t, setup{})
	file := filepath.Join(p.dir, "gateway.yaml")
	const record = `{"uuid":"uuid-1","no":1,"subject":%s,"body":{"text":"c"},"state":"N","category":"P","opened":"2026-06-15 15:40:05","customer":{"id":%s},"replies":null}`
	sample := func(subject, owner string) string {
		return `{"result":{"items":[` + strings.NewReplacer(`%s,"body"`, subject+`,"body"`, `{"id":%s}`, `{"id":`+owner+`,"ref":"r-1"}`).Replace(record) + `]}}`
	}
	for _, tc := range []struct {
		name, reply, drop string
		code              int
		says              string
	}{
		{"good", sample(`"s"`, `"acme"`), "", 0, "good: the gateway would serve"},
		{"escapes", sample(`"\u001b[31mred"`, `"acme"`), "", 0, `\x1b[31mred`},
		{"foreign", sample(`"s"`, `"other"`), "", 1, "1 record of another account or of none"},
		{"foreign dropped", sample(`null`, `"other"`), "on_foreign_record: drop", 0, "1 record left out"},
		{"HTML", `<html>`, "", 1, "refuse"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p.write("reply.json", tc.reply)
			conf := file
			if tc.drop != "" {
				conf = filepath.Join(p.dir, "lenient.yaml")
				p.write("lenient.yaml", "auth: {keys_file: keys.yaml}\n"+strings.Replace(string(legacy.Mapping()), "on_invalid_record: fail", tc.drop, 1))
			}
			out, errOut, code := command(t, "probe", "-c", conf, "--kind", "buyer", "--account", "acme", "--sample", filepath.Join(p.dir, "reply.json"))
			if code != tc.code || !strings.Contains(out+errOut, tc.says) || strings.Contains(out, "\x1b") {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", code, tc.code, tc.says, out, errOut)
			}
		})
	}
	if p.system.Requests().Buyer != 0 {
		t.Error("a saved reply asked the legacy system")
	}
}

// Nothing that a request to the legacy system carries for its eyes only is shown.
func TestProbeHidesSecrets(t *testing.T) {
	p := start(t, setup{prepare: func(p *program) { p.write("token", "s3cret-token") }, upstream: []string{
		"upstream:\n", "upstream:\n  headers: {X-Tenant: s3cret-header}\n  auth: {type: bearer, token_file: token}\n",
		"query: {customer: \"{account}\"", "query: {api_key: s3cret-key, customer: \"{account}\"",
	}})
	for _, format := range []string{"--json=false", "--json"} {
		out, errOut, code := command(t, "probe", "-c", filepath.Join(p.dir, "gateway.yaml"), "--kind", "buyer", "--account", "acme", format)
		if code != 0 || strings.Contains(out+errOut, "s3cret") || strings.Count(out, "(hidden)") != 3 {
			t.Errorf("exit code %d:\n%.600s%s", code, out, errOut)
		}
	}
}

func TestProbeWrongUse(t *testing.T) {
	p := start(t, setup{})
	file := filepath.Join(p.dir, "gateway.yaml")
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"probe", "-c", file, "--kind", "admin", "--account", "a"}, 2, "buyer or seller"},
		{[]string{"probe", "-c", file, "--kind", "buyer"}, 2, "account"},
		{[]string{"probe", "-c", file, "--kind", "buyer", "--account", ""}, 2, "--account"},
		{[]string{"probe", "-c", file, "--kind", "buyer", "--account", "a", "--sample", "/does/not/exist"}, 1, "/does/not/exist"},
		{[]string{"probe", "-c", file, "--kind", "buyer", "--account", "a", "b"}, 2, `takes no argument "b"`},
		{[]string{"serve", "-c", file, "b"}, 2, `takes no argument "b"`},
		{[]string{"keys", "hash", "b"}, 2, "standard input"},
		{[]string{"check", "-c", file, "--live"}, 2, "--buyer ID and --seller ID"},
		{[]string{"check", "-c", file, "--buyer", "a"}, 2, "--live"},
		{[]string{"check", "-c", file, "--token-file", "a"}, 2, "--against"},
		{[]string{"check", "-c", file, "--against", "nonsense"}, 2, "http://127.0.0.1:9090"},
		{[]string{"check", "-c", file, "--against", "http://127.0.0.1:1"}, 1, "does not answer"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			if out, errOut, code := command(t, tc.args...); code != tc.code || !strings.Contains(errOut, tc.says) {
				t.Errorf("exit code %d, want %d and %q: %s%s", code, tc.code, tc.says, out, errOut)
			}
		})
	}
}

func TestCheckLive(t *testing.T) {
	p := start(t, setup{})
	args := []string{"check", "-c", filepath.Join(p.dir, "gateway.yaml"), "--live", "--buyer", legacy.BuyerTypical, "--seller", legacy.SellerTypical}
	if out, errOut, code := command(t, args...); code != 0 || strings.Count(out, ": good, ") != 2 {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	if err := p.system.SetFault(legacy.Fault{Name: legacy.FaultStatus, Kind: legacy.KindSeller, Code: http.StatusServiceUnavailable}); err != nil {
		t.Fatal(err)
	}
	if out, errOut, code := command(t, args...); code != 1 || !strings.Contains(out, "buyer acme: good") || !strings.Contains(errOut, "seller "+legacy.SellerTypical) || !strings.Contains(errOut, "503") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

func TestCheckAgainstWhatRuns(t *testing.T) {
	p := start(t, setup{yaml: "cache: {buyer: {ttl: 1h}}"})
	file := filepath.Join(p.dir, "gateway.yaml")
	commandSays(t, 0, "runs what the file says", "check", "-c", file, "--against", p.app.OpsURL())
	p.write("next.yaml", strings.Replace(p.read("gateway.yaml"), "ttl: 1h", "ttl: 2h", 1))
	out, errOut, code := command(t, "check", "-c", filepath.Join(p.dir, "next.yaml"), "--against", p.app.OpsURL())
	if code != 1 || !regexp.MustCompile(`(?m)^ +cache\.buyer\.ttl +1h +2h +reload$`).MatchString(out) || !strings.Contains(errOut, "1 difference,") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

// A probe that watches shows each state of the file: good, faulty, good again.
func TestProbeWatches(t *testing.T) {
	t.Parallel() // it waits
	p := start(t, setup{})
	p.write("reply.json", `{"result":{"items":[{"uuid":"uuid-1","subject":"first","body":{"text":"c"},"state":"N","category":"P","opened":"2026-06-15 15:40:05","customer":{"id":"acme","ref":"uuid-3"},"replies":[{"uuid":"uuid-2","text":"t","by":{"role":"S"},"at":"2026-06-15 15:41:00"}]}]}}`)
	file, good := filepath.Join(p.dir, "gateway.yaml"), p.read("gateway.yaml")
	ctx, cancel := context.WithCancel(t.Context())
	var out, errOut testkit.Log
	code := make(chan int)
	go func() {
		code <- run(ctx, []string{"inquiry-gateway", "probe", "-c", file, "--kind", "buyer", "--account", "acme", "--sample", filepath.Join(p.dir, "reply.json"), "--watch"}, &out, &errOut)
	}()
	p.eventually("the first probe", func() bool { return strings.Contains(out.String(), "good: the gateway would serve") })
	out.Take()
	p.write("gateway.yaml", strings.Replace(good, "title: subject", "titel: subject", 1))
	p.eventually("the mistake", func() bool { return strings.Contains(errOut.String(), `did you mean "title"?`) })
	p.write("gateway.yaml", strings.Replace(good, "title: subject", "title: state", 1))
	p.eventually("the next probe", func() bool { return strings.Contains(out.String(), "title         state") })
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("ended by Ctrl-C: exit code %d: %s", got, errOut.String())
	}
	commandSays(t, 2, "", "probe", "-c", file, "--kind", "buyer", "--account", "acme", "--sample", "-", "--watch")
}

// A text that quotes an id of a record outside the reply is cleaned by a pattern, the
// probe shows it, and it tells what looks like an id and stays.
func TestProbeSaysWhatIsRemoved(t *testing.T) {
	serve := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data":[{"id":"T-00001","assignee_id":"usr_81723","subject":"see T-00001 and T-00099, 57,000 won",`+
			`"text":"6f1c2a34-1111-4222-8333-9444555666aa by usr_81723","state":"N","category":"c","at":"2026-01-01T00:00:00Z","replies":[]}]}`)
	}
	for section, want := range map[string][]string{
		"    internal_ids: [id]\n": {
			"removed in 1 text: by id 1, by pattern 0, UUID 0", "see [removed] and T-00099, 57,000 won",
			"T-00099", "written as the internal ids are", "internal_id_patterns", "a UUID", "the value of assignee_id, which is not mapped", "! not removed",
		},
		"    internal_ids: [id, assignee_id]\n    internal_id_patterns: ['T-\\d{5}', '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}']\n": {
			"removed in 2 texts: by id 2, by pattern 2, UUID 0", "see [removed] and [removed], 57,000 won", "[removed] by [removed]",
		},
	} {
		out, errOut, code := command(t, probeBuyer(smallLegacy(t, section, serve))...)
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("no %q", w)
			}
		}
		if code != 0 || strings.Contains(out, "! not removed") != strings.Contains(strings.Join(want, ""), "! not removed") {
			t.Errorf("exit code %d: %s%s", code, out, errOut)
		}
	}
	_, errOut, code := command(t, checkLists(smallLegacy(t, "    internal_id_patterns: ['T*']\n", serve))...)
	if code == 0 || !strings.Contains(errOut, "gateway.yaml:7:") || !strings.Contains(errOut, "upstream.buyer.internal_id_patterns[0]") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// The programs that the documentation shows print the lists, and say what is
// wrong with a key.
func TestDocumentedPrograms(t *testing.T) {
	p := start(t, setup{})
	var document struct {
		Paths map[string]struct {
			Get struct {
				Samples []struct{ Lang, Source string } `json:"x-codeSamples"`
			}
		}
	}
	if err := json.Unmarshal(p.get("/openapi.json", "").body, &document); err != nil {
		t.Fatal(err)
	}
	runners := map[string]struct {
		file string
		run  []string
	}{
		"Shell": {"list.sh", []string{"sh"}}, "Go": {"list.go", []string{"go", "run"}},
		"Python": {"list.py", []string{"python3"}}, "JavaScript": {"list.mjs", []string{"node"}},
	}
	for list, path := range document.Paths {
		if len(path.Get.Samples) != len(runners) {
			t.Errorf("%s has %d programs, want %d", list, len(path.Get.Samples), len(runners))
		}
	}
	for _, sample := range document.Paths[buyerList].Get.Samples {
		t.Run(sample.Lang, func(t *testing.T) {
			t.Parallel()
			with, known := runners[sample.Lang]
			if !known {
				t.Fatal("the test does not know how to run it")
			}
			tool := with.run[0]
			if tool == "sh" {
				tool = "curl"
			}
			if _, err := exec.LookPath(tool); err != nil {
				t.Fatalf("this test needs %s: run .ci/packages (%v)", tool, err)
			}
			file := filepath.Join(t.TempDir(), with.file)
			writeFile(t, file, sample.Source)
			for kind, list := range map[string]string{"buyer": buyerList, "seller": sellerList, "expired": buyerList} {
				cmd := exec.CommandContext(t.Context(), with.run[0], append(with.run[1:], file)...)
				cmd.Env = append(os.Environ(), "INQUIRIES_URL="+p.app.URL()+list, "API_KEY="+p.keys[kind])
				out, err := cmd.CombinedOutput()
				want := "invalid_api_key"
				if kind != "expired" {
					want = firstPending(t, p, list, kind)
				}
				if (err != nil) != (kind == "expired") || !strings.Contains(string(out), want) {
					t.Errorf("%s: %v, want %q in\n%s", kind, err, want, out)
				}
			}
		})
	}
}

// firstPending is the title of the first pending inquiry of a list.
func firstPending(t *testing.T, p *program, list, key string) string {
	t.Helper()
	var reply struct{ Data []struct{ Title string } }
	if err := json.Unmarshal(p.get(list+"?status=pending", key).body, &reply); err != nil || len(reply.Data) == 0 {
		t.Fatalf("%v, %d records", err, len(reply.Data))
	}
	return reply.Data[0].Title
}

// What draft leaves to a person is refused line by line, until it is written.
func TestDraftIsToBeCompleted(t *testing.T) {
	out, errOut, code := command(t, "draft", "--sample", "../../upstream/draft/testdata/nested.json", "--account", "acme", "--kind", "buyer")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	commandSays(t, 1, "no such file; for a first kind leave --into out", "draft", "--sample", "../../upstream/draft/testdata/hal.json", "--account", "hanriver", "--kind", "seller", "--into", file)
	writeFile(t, file, out)
	commandSays(t, 0, "has upstream.seller now", "draft", "--sample", "../../upstream/draft/testdata/hal.json", "--account", "hanriver", "--kind", "seller", "--into", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out = string(text)
	_, errOut, code = command(t, "check", "-c", file)
	for i, line := range strings.Split(out, "\n") {
		if at := fmt.Sprintf("gateway.yaml:%d:", i+1); strings.Contains(line, "COMPLETE_ME") && !strings.Contains(errOut, at) {
			t.Errorf("%q is taken: %s", line, errOut)
		}
	}
	if n := strings.Count(errOut, "COMPLETE_ME stands where"); code != 1 || n < 5 {
		t.Errorf("exit code %d, %d places: %s", code, n, errOut)
	}
	writeFile(t, file, strings.ReplaceAll(out, "COMPLETE_ME", "x"))
	if _, errOut, _ = command(t, "check", "-c", file); strings.Contains(errOut, "upstream.buyer") || strings.Contains(errOut, "upstream.seller") {
		t.Errorf("completed, the section is wrong: %s", errOut)
	}
}

// A condition that no record meets is not taken for an account without inquiries.
func TestCheckLiveSaysHowManyAreShown(t *testing.T) {
	p := start(t, setup{upstream: []string{"on_invalid_record: fail", "on_invalid_record: fail\n    where: [{path: pubic, equals: true}]"}})
	args := []string{"check", "-c", filepath.Join(p.dir, "gateway.yaml"), "--live", "--all", "--buyer", legacy.BuyerTypical, "--seller", legacy.SellerTypical}
	out, errOut, code := command(t, args...)
	if code != 1 || !regexp.MustCompile(`buyer acme: doubtful, \d+ records, 0 shown`).MatchString(out) || !strings.Contains(errOut, "pubic found in 0 of") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

func TestCheckRunsTestsOfTheMapping(t *testing.T) {
	const file, tests = "../../examples/bare-array.yaml", "../../examples/tests/bare-array.yaml"
	commandSays(t, 0, "tests passed\n", "check", "-c", file, "--tests", tests)
	broken := filepath.Join(t.TempDir(), "tests.yaml")
	writeFile(t, broken, "- {name: no list, kind: buyer, account: a, replies: [{body: 7}], expect: {records: []}}\n- {kind: buyer, account: a, expect: {error: no saved reply}}\n")
	out, errOut, code := command(t, "check", "-c", file, "--tests", broken)
	if code != 1 || !strings.Contains(out, "\nFAIL  no list\n        records: got none, but the error ") || !strings.Contains(out, "\nok    test 2 (0 records)\n") || !strings.Contains(errOut, "1 of 2 tests failed") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}
