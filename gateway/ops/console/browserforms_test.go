package console

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"inquiry-gateway/gateway/browsertest"
)

// press follows a link or a button with the keyboard: a pointer might miss what
// moves while charts are drawn.
func press(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Steps(chromedp.Focus(chromedp.CSS(selector)), chromedp.KeyEvent("\r"))
}

// With a token: sign in with the keyboard alone, explain, purge after a
// question, sign out.
func TestFormsInABrowser(t *testing.T) {
	s := serve(t, "s3cret")
	ctx, complaints := browsertest.Open(t, s.base)
	var wrong, answer, question, epoch string
	var refused, narrow []int
	measure := func(dst *[]int) chromedp.Action[chromedp.Void] {
		var refusedNow []string
		var wide int
		return chromedp.Steps(
			browsertest.Into(&wide, chromedp.Evaluate[int](overflow)),
			browsertest.Into(&refusedNow, chromedp.Evaluate[[]string](`window.refused`)),
			keep(func() { refused = append(refused, len(refusedNow)); *dst = append(*dst, wide) }),
		)
	}
	err := chromedp.Do(ctx,
		chromedp.EmulateViewport(390, 900), colors("dark"),
		chromedp.Navigate(s.base+"/"),
		browsertest.Screenshot("login-dark-390"), measure(&narrow),
		until(`document.activeElement.id === "token"`),
		chromedp.KeyEvent("not the token\r"),
		until(`document.querySelector("[role=alert]") && document.activeElement.id === "token"`),
		browsertest.Into(&wrong, chromedp.Text(chromedp.CSS(`[role=alert]`))),
		chromedp.KeyEvent("s3cret\r"),
		until(`document.querySelector("#status.on")`),
		chromedp.SendKeys(chromedp.CSS(`#explain-account`), "acme"),
		chromedp.SetValue(chromedp.CSS(`#explain-kind`), "buyer"),
		press(`#explain button`),
		until(`document.querySelector("#answer dl")`),
		browsertest.Into(&answer, chromedp.Text(chromedp.CSS(`#answer`))),
		browsertest.Screenshot("explained-dark-390"), measure(&narrow),
		chromedp.EmulateViewport(1280, 900), colors("light"),
		chromedp.SendKeys(chromedp.CSS(`#purge-account`), "acme\r"),
		until(`document.getElementById("confirm").open`),
		browsertest.Into(&question, chromedp.Text(chromedp.CSS(`#confirm-title`))),
		browsertest.Screenshot("confirm-light-1280"), measure(&narrow),
	)
	if err == nil && len(s.purged()) > 0 {
		t.Errorf("purged before the question was answered: %q", s.purged())
	}
	if err == nil {
		err = chromedp.Do(ctx,
			press(`button.danger`),
			until(`document.getElementById("epoch")`),
			browsertest.Into(&epoch, chromedp.Text(chromedp.CSS(`#epoch`))),
			browsertest.Screenshot("purged-light-1280"), measure(&narrow),
			press(`header form button`),
			until(`document.getElementById("token")`),
		)
	}
	if err != nil {
		t.Fatalf("%v; the browser complained: %q", err, complaints())
	}
	if !strings.Contains(wrong, "not the token") || !strings.Contains(answer, "would be answered from the cache") || !strings.Contains(answer, "account=acme") || !strings.Contains(answer, "<hit>") || !strings.Contains(question, "account acme?") || epoch != "42" {
		t.Errorf("wrong token: %q, explained: %q, question: %q, epoch %q", wrong, answer, question, epoch)
	}
	if got := s.purged(); len(got) != 1 || got[0] != `{"account":"acme"}` {
		t.Errorf("purged %q", got)
	}
	for i := range narrow {
		if narrow[i] > 0 || refused[i] > 0 {
			t.Errorf("page %d is %d pixels too wide, with %d violations of its policy", i, narrow[i], refused[i])
		}
	}
	for _, c := range complaints() {
		if !strings.Contains(c, "401 (Unauthorized)") { // the pages that ask for the token
			t.Errorf("complaint %q", c)
		}
	}
}

// When things go wrong the page says so, in words; it can be held still, and it
// says when its own figures are old.
func TestTroubleInABrowser(t *testing.T) {
	s := serve(t, "")
	ctx, complaints := browsertest.Open(t, s.base)
	s.feed.gauge("upstream_breaker_state", 2, "buyer")
	s.feed.gauge("redis_breaker_state", 2)
	s.feed.count("upstream_foreign_records_total", 3, "seller")
	s.feed.count("upstream_requests_total", 40, "seller", "timeout")
	s.feed.count("http_requests_total", 40000, "buyer_inquiries", "503")
	s.feed.count("http_errors_total", 40000, "buyer_inquiries", "upstream_unavailable")
	s.feed.count("cache_lookups_total", 400, "buyer", "stale-error", "local")
	var all, title, lostTitle, chapter string
	var held, later string
	const headline = `document.getElementById("headline").innerText`
	err := chromedp.Do(ctx,
		chromedp.EmulateViewport(1280, 900), colors("dark"),
		chromedp.Navigate(s.base+"/"),
		until(`document.querySelector("#status.on") && document.querySelectorAll("#findings .bad").length === 3`),
		browsertest.Into(&all, chromedp.Evaluate[string](`document.getElementById("now").innerText`)),
		browsertest.Into(&title, chromedp.Evaluate[string](`document.title`)),
		browsertest.Into(&chapter, chromedp.Evaluate[string](`document.querySelector("#incident a").getAttribute("href")`)),
		browsertest.Screenshot("trouble-dark-1280"),
		chromedp.EmulateViewport(390, 900), colors("light"),
		browsertest.Screenshot("trouble-light-390"),
		press(`#pause`),
		until(`document.getElementById("status").textContent === "Paused" && document.getElementById("pause").ariaPressed === "true"`),
		keep(func() { s.feed.count("canary_checks_total", 1, "buyer", "cross_read", "failed") }),
		until(`performance.now() - (window.begin ??= performance.now()) > 2500`),
		browsertest.Into(&held, chromedp.Evaluate[string](headline)),
		press(`#pause`),
		until(headline+`.includes("Cross-read")`),
		browsertest.Into(&later, chromedp.Evaluate[string](`document.getElementById("status").textContent`)),
		keep(s.stop),
		until(`document.querySelector("#status.lost")`),
		browsertest.Into(&lostTitle, chromedp.Evaluate[string](`document.title`)),
		browsertest.Screenshot("lost-light-390"),
	)
	if err == nil {
		err = chromedp.Do(ctx,
			chromedp.Navigate(s.base+"/"+chapter),
			until(`document.querySelector(":target h2").textContent === "InquiryGatewayForeignRecords"`),
			browsertest.Screenshot("runbook-light-390"),
		)
	}
	if err != nil {
		t.Fatalf("%v; the browser complained: %q", err, complaints())
	}
	for _, want := range []string{
		"Foreign records since ", "3 seller records of another account", "40,000 answers failed in the last 5 min", "503 upstream_unavailable (40,000)", "lists older than their TTL",
		"Problem", "breaker of the buyer lists is open", "Redis is down", "Notice", "Runbook: InquiryGatewayBreakerOpen",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if title != "✖ Foreign records – inquiry gateway" || !strings.Contains(lostTitle, "No fresh figures") {
		t.Errorf("titles %q, %q", title, lostTitle)
	}
	if !strings.Contains(held, "Foreign records") || later != "Live" {
		t.Errorf("held still it changed to %s; afterwards it is %q", held, later)
	}
}
