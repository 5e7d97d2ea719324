package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"inquiry-gateway/gateway/browsertest"
)

// Who writes a mapping fetches a reply, sees the public records, breaks a line and is
// told which, mends it, and has changed nothing of what runs.
func TestPlaygroundInABrowser(t *testing.T) {
	p := start(t, setup{prepare: func(p *program) {
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
	var records string
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
		browsertest.Screenshot("playground-light-1400"),
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
	for _, c := range complaints() {
		if !strings.Contains(c, "401 (Unauthorized)") {
			t.Errorf("complaint %q", c)
		}
	}
	if a := p.get(buyerList, "buyer"); a.status != 200 {
		t.Errorf("what runs answers %d", a.status)
	}
}
