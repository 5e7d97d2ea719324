package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"inquiry-gateway/gateway/browsertest"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// consoleState is what these tests read of /console/state.
type consoleState struct {
	Incident struct{ Name, Text, Press, Hit, Get string }
	Marks    []struct{ Kind, Text string }
	Canary   []struct {
		Check, Kind string
		Reasons     []string
	}
}

func (p *program) console() (s consoleState) {
	p.t.Helper()
	if a := p.ops("/console/state"); a.status != http.StatusOK || json.Unmarshal(a.body, &s) != nil {
		p.t.Fatalf("%d %s", a.status, a.body)
	}
	return s
}

// A node that starts with another version than the one before it is a deploy, and
// the nodes that share its Redis mark it.
func TestDeploysAreMarked(t *testing.T) {
	t.Parallel() // it waits for samples of the console
	server := redistest.Start(t)
	section := "redis: {addrs: [\"" + server.Addr + "\"]}"
	first := start(t, setup{yaml: section, version: "v1.4.0"})
	first.eventually("the start is written down", func() bool { return strings.HasPrefix(server.Do("EXISTS", "iq:2:starts"), ":1") })
	second := start(t, setup{yaml: section, version: "v1.5.0", joins: first})
	second.eventually("both starts are marked", func() bool { return len(second.console().Marks) == 2 })
	marks := second.console().Marks
	if marks[0].Kind != "start" || !strings.HasSuffix(marks[0].Text, " started, version v1.4.0") ||
		marks[1].Kind != "deploy" || !strings.HasSuffix(marks[1].Text, " started, version v1.5.0 after v1.4.0") {
		t.Errorf("%+v", marks)
	}
	first.eventually("a node alone knows its own start", func() bool { return len(first.console().Marks) > 0 })
}

// The incident line says which key the canary asked with and which record it was
// given, and neither a key nor an internal id.
func TestTheConsoleTellsWhatTheCanaryFound(t *testing.T) {
	t.Parallel() // it waits for the canary
	owner := regexp.MustCompile(`(?m)^ *owner: customer.*\n`).FindString(string(legacy.Mapping()))
	p := start(t, setup{legacy: legacy.Options{Inquiries: 300}, yaml: canarySection, prepare: canaryKeys,
		backend: mixedUp(legacy.New(legacy.Options{Inquiries: 300})), upstream: []string{owner, ""}})
	p.eventually("the cross-read is the incident", func() bool { return p.console().Incident.Name == "Cross-read" })
	i := p.console().Incident
	said := regexp.MustCompile(`records that are in the lists of both canary\.buyer_keys\[0\] \(key buyer of account ` + legacy.BuyerTypical + `\) and canary\.buyer_keys\[1\] \(key other-buyer of account ` + legacy.BuyerOther +
		`\): \d+; the first is record 1 \(created_at \d{4}-[0-9T:.-]+Z\) of the one list`)
	if !said.MatchString(i.Text) || !strings.Contains(i.Press, "[purge](#purge)") {
		t.Errorf("%+v", i)
	}
	for _, key := range p.keys {
		if strings.Contains(i.Text, key) {
			t.Error("the text holds a key")
		}
	}
	for _, row := range p.console().Canary {
		if (row.Check == "cross_read" && row.Kind == "buyer") != (len(row.Reasons) > 0) {
			t.Errorf("%+v", row)
		}
	}
}

// The commands that the console tells people to enter are there, with their flags.
func TestCommandsOfTheConsole(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "gateway", "ops", "console", "rules.go"))
	if err != nil {
		t.Fatal(err)
	}
	told := regexp.MustCompile("`inquiry-gateway ([^`>]+)").FindAllStringSubmatch(string(source), -1)
	if len(told) < 10 {
		t.Errorf("%d commands", len(told))
	}
	for _, c := range told {
		commandSays(t, 0, "USAGE", append(strings.Fields(strings.Replace(c[1], "set ID", "set", 1)), "--help")...)
	}
}

// Who writes a mapping fetches a reply and what belongs to its first records, sees the
// public records, breaks a line and is told which, mends it, and has changed nothing of
// what runs.
func TestPlaygroundInABrowser(t *testing.T) {
	system := legacy.New(legacy.Options{})
	var asked atomic.Int64
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/replies/") {
			asked.Add(1)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"replies":[{"text":"From a second call","by":{"role":"S"},"at":"2026-01-02 03:04:05"}]}`)
			return
		}
		system.ServeHTTP(w, r)
	})
	p := start(t, setup{backend: backend, upstream: []string{"items: replies #", `fetch: {path: "/replies/{id}", id: uuid}
        items: replies #`}, prepare: func(p *program) {
		p.write("ops-token", "s3cret-of-the-test\n")
		p.write("gateway.yaml", strings.Replace(p.read("gateway.yaml"), "ops: {listen: 127.0.0.1:0}", "ops: {listen: 127.0.0.1:0, token_file: ops-token}", 1))
	}})
	base := p.app.OpsURL()
	ctx, complaints := browsertest.Open(t, base)
	const (
		verdict  = `document.getElementById("verdict").textContent`
		public   = `(document.getElementById("public")?.textContent ?? "")`
		edit     = `(() => { const m = document.getElementById("mapping"); m.value = m.value.replace(%q, %q); m.dispatchEvent(new Event("input")); return true; })()`
		dangling = `[...document.querySelectorAll("[aria-labelledby],[aria-describedby],label[for]")].map(e => e.getAttribute("aria-labelledby") ?? e.getAttribute("aria-describedby") ?? e.getAttribute("for")).filter(id => !document.getElementById(id))`
		overflow = `document.documentElement.scrollWidth - document.documentElement.clientWidth`
	)
	run := func(expression string) chromedp.Action[chromedp.Void] {
		var ok bool
		return browsertest.Into(&ok, chromedp.Evaluate[bool](expression))
	}
	var lost, refused []string
	var wide, selected int
	var records, saved string
	err := chromedp.Do(ctx,
		chromedp.EmulateViewport(1400, 900),
		chromedp.Navigate(base+"/console/playground"),
		browsertest.Until(`document.getElementById("token")`),
		chromedp.SendKeys(chromedp.CSS(`#token`), "s3cret-of-the-test\r"),
		browsertest.Until(`document.getElementById("incident")`),
		chromedp.Navigate(base+"/console/playground"),
		browsertest.Until(`document.getElementById("mapping")?.value.includes("customer.id")`),
		chromedp.SendKeys(chromedp.CSS(`#account`), "acme\r"),
		browsertest.Until(public+`.includes("created_at")`),
		browsertest.Into(&records, chromedp.Evaluate[string](public)),
		browsertest.Until(`document.getElementById("result").textContent.includes("→ ")`),
		browsertest.Until(public+`.includes("From a second call") && `+verdict+`.match(/^\d+ records?$|without a saved reply/)`),
		browsertest.Into(&saved, chromedp.Evaluate[string](`document.getElementById("replies").value`)),
		browsertest.Screenshot("playground-light-1400"),
		run(`(() => { const r = document.getElementById("replies"); r.value = r.value.replace("From a second call", "As I have changed it"); r.dispatchEvent(new Event("input")); return true; })()`),
		browsertest.Until(public+`.includes("As I have changed it")`),
		run(`(() => { const r = document.getElementById("replies"); r.value = ""; r.dispatchEvent(new Event("input")); return true; })()`),
		browsertest.Until(verdict+`.includes("10 second calls without a saved reply") && document.getElementById("result").textContent.includes("GET /replies/")`),
		browsertest.Screenshot("playground-light-unsaved"),
		run(`(() => { const r = document.getElementById("replies"); r.value = "- {file: /etc/passwd}"; r.dispatchEvent(new Event("input")); return true; })()`),
		browsertest.Until(verdict+`.includes("no file is read here")`),
		run(`(() => { const r = document.getElementById("replies"); r.value = ""; r.dispatchEvent(new Event("input")); return true; })()`),
		run(fmt.Sprintf(edit, "title: subject", "titel: subject")),
		browsertest.Until(verdict+`.includes("1 mistake") && document.querySelector("#result [data-line]")`),
		chromedp.Click(chromedp.CSS(`#result [data-line]`)),
		browsertest.Into(&selected, chromedp.Evaluate[int](`(() => { const m = document.getElementById("mapping"); return m.value.slice(m.selectionStart, m.selectionEnd).includes("titel") ? 1 : 0; })()`)),
		browsertest.Colors("dark"), browsertest.Screenshot("playground-dark-mistake"),
		run(fmt.Sprintf(edit, "titel: subject", "title: body.nothing")),
		browsertest.Until(verdict+`.includes("A caller would get an error") && document.getElementById("result").textContent.includes("record 1 title")`),
		chromedp.EmulateViewport(390, 900), browsertest.Screenshot("playground-dark-390"),
		browsertest.Into(&wide, chromedp.Evaluate[int](overflow)),
		browsertest.Into(&lost, chromedp.Evaluate[[]string](dangling)),
		browsertest.Into(&refused, chromedp.Evaluate[[]string](`window.refused`)),
	)
	if err != nil {
		t.Fatalf("%v; the browser complained: %q", err, complaints())
	}
	if selected != 1 || wide > 0 || len(lost)+len(refused) > 0 {
		t.Errorf("the mistake's line is selected: %d; %d pixels too wide; references to nothing %q; policy violations %q", selected, wide, lost, refused)
	}
	if strings.Contains(records, `"uuid"`) || !strings.Contains(records, `"inquiry_type"`) {
		t.Errorf("public records: %.300s", records)
	}
	if n := strings.Count(saved, "- to:"); n != 10 || asked.Load() != 10 {
		t.Errorf("%d replies to second calls were kept of %d: %.300s", n, asked.Load(), saved)
	}
	for _, c := range complaints() {
		if !strings.Contains(c, "401 (Unauthorized)") && !strings.Contains(c, "400 (Bad Request)") {
			t.Errorf("complaint %q", c)
		}
	}
	if a := p.get(buyerList, "buyer"); a.status != 200 {
		t.Errorf("what runs answers %d", a.status)
	}
}
