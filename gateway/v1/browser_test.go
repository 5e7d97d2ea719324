package v1

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"inquiry-gateway/internal/testkit/browser"
)

// docsServer serves the documentation and one list, as the gateway does. It
// records the Authorization that the list was asked with.
func docsServer(t *testing.T) (base string, authorization func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	mux := http.NewServeMux()
	document, page := Pages(map[string]Words{"buyer": {Status: []string{"answered", "pending"}}, "seller": {}})
	mux.Handle("/docs/", serveFiles(page))
	mux.Handle("/openapi.json", serveFiles(document))
	mux.HandleFunc("/api/v1/buyer/inquiries", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Get("Authorization")+" "+r.URL.RawQuery)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write(render(t, "buyer", sample(1)))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// Light on a desk and dark on a telephone, the page shows the document, sends a
// request with a key, and stays silent.
func TestDocsInABrowser(t *testing.T) {
	base, authorization := docsServer(t)
	ctx, complaints := browser.Open(t, base)
	for scheme, width := range map[string]int64{"light": 1280, "dark": 390} {
		t.Run(fmt.Sprint(scheme, width), func(t *testing.T) {
			before := len(authorization())
			var title, outcome, reply string
			var refused, errors, words []string
			var overflow int
			err := chromedp.Do(ctx,
				chromedp.EmulateViewport(width, 900), browser.Colors(scheme),
				chromedp.Navigate(base+"/docs/"),
				browser.UntilPage(`!document.getElementById("form").hidden`),
				browser.Into(&title, chromedp.Evaluate[string](`document.title + " at " + document.getElementById("address").textContent`)),
				browser.Into(&errors, chromedp.Evaluate[[]string](`[...document.querySelectorAll("#errors details code")].map(e => e.textContent)`)),
				browser.Screenshot(fmt.Sprintf("docs-%s-%d", scheme, width)),
				chromedp.SendKeys(chromedp.CSS(`#key`), " iqb_key "),
				browser.Into(&words, chromedp.Evaluate[[]string](`[...document.querySelectorAll("#status option")].map(o => o.text)`)),
				chromedp.Evaluate[chromedp.Void](`document.getElementById("status").value = "pending"`),
				chromedp.SendKeys(chromedp.CSS(`#inquiry_type`), "delivery\r"),
				browser.UntilPage(`!document.getElementById("reply").hidden`),
				browser.Into(&outcome, chromedp.Text(chromedp.CSS(`#outcome`))),
				browser.Into(&reply, chromedp.Text(chromedp.CSS(`#reply`))),
				chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(d => d.open = true)`),
				browser.Accessible(t),
				browser.Screenshot(fmt.Sprintf("docs-open-%s-%d", scheme, width)),
				browser.Into(&overflow, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`)),
				browser.Into(&refused, chromedp.Evaluate[[]string](`window.refused`)),
			)
			if err != nil {
				t.Fatalf("%v; the browser complained: %q", err, complaints())
			}
			if title != "Inquiry API at "+base || len(errors) != len(Problems()) {
				t.Errorf("the page shows %q with the errors %v", title, errors)
			}
			if !strings.HasPrefix(outcome, "200 in ") || !strings.Contains(reply, "Delivery date of order 20931") {
				t.Errorf("the form shows %q and %q", outcome, reply)
			}
			asked := fmt.Sprint(words, authorization()[before:])
			if asked != "[any answered pending] [Bearer iqb_key status=pending&inquiry_type=delivery]" {
				t.Errorf("of the words the list was asked with %s", asked)
			}
			if len(refused) > 0 || len(complaints()) > 0 {
				t.Errorf("policy violations %q, complaints %q", refused, complaints())
			}
			if overflow > 0 {
				t.Errorf("the page is %d pixels wider than the screen", overflow)
			}
		})
	}
}
