package v1

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"inquiry-gateway/gateway/browsertest"
)

// docsServer serves the documentation and one list, as the gateway does. It
// records the Authorization that the list was asked with.
func docsServer(t *testing.T) (base string, authorization func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	mux := http.NewServeMux()
	mux.Handle("/docs", Docs())
	mux.Handle("/docs/", Docs())
	mux.Handle("/openapi.json", OpenAPI())
	mux.HandleFunc("/api/v1/buyer/inquiries", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Get("Authorization")+" "+r.URL.RawQuery)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write(AppendBuyer(nil, sample(1)))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// The page renders, tries a request out with a key, and stays silent at the
// widths of a desk and of a telephone.
func TestDocsInABrowser(t *testing.T) {
	base, authorization := docsServer(t)
	ctx, complaints := browsertest.Open(t, base)
	for name, width := range map[string]int64{"desk": 1280, "telephone": 390} {
		t.Run(name, func(t *testing.T) {
			before := len(authorization())
			var title, reply string
			var operations, refused []string
			var overflow int
			err := chromedp.Do(ctx,
				chromedp.EmulateViewport(width, 900),
				chromedp.Navigate(base+"/docs"),
				chromedp.WaitVisible(chromedp.CSS(`#operations-seller-headSellerInquiries`)),
				browsertest.Into(&title, chromedp.Text(chromedp.CSS(`.info .title`))),
				browsertest.Into(&operations, chromedp.Evaluate[[]string](`[...document.querySelectorAll(".opblock")].map(o => o.id)`)),
				browsertest.Screenshot("docs-"+name),
				chromedp.Click(chromedp.CSS(`.auth-wrapper .authorize`)),
				chromedp.SendKeys(chromedp.CSS(`.auth-container input`), "iqb_key"),
				browsertest.Screenshot("docs-key-"+name),
				chromedp.Click(chromedp.CSS(`.auth-btn-wrapper .authorize`)),
				chromedp.Click(chromedp.CSS(`.auth-btn-wrapper .btn-done`)),
				chromedp.Click(chromedp.CSS(`#operations-buyer-listBuyerInquiries .opblock-summary-control`)),
				chromedp.Click(chromedp.CSS(`#operations-buyer-listBuyerInquiries .try-out__btn`)),
				chromedp.Click(chromedp.CSS(`#operations-buyer-listBuyerInquiries .execute`)),
				chromedp.WaitVisible(chromedp.CSS(`.live-responses-table .highlight-code`)),
				browsertest.Into(&reply, chromedp.Text(chromedp.CSS(`.live-responses-table .highlight-code`))),
				browsertest.Screenshot("docs-tried-"+name),
				browsertest.Into(&overflow, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`)),
				browsertest.Into(&refused, chromedp.Evaluate[[]string](`window.refused`)),
			)
			if err != nil {
				t.Fatalf("%v; the browser complained: %q", err, complaints())
			}
			if !strings.HasPrefix(title, "Inquiry API") || len(operations) != 4 {
				t.Errorf("the page shows %q with the operations %v", title, operations)
			}
			if !strings.Contains(reply, "Delivery date of order 20931") {
				t.Errorf("the tried request shows %q", reply)
			}
			if seen := authorization()[before:]; len(seen) != 1 || !strings.HasPrefix(seen[0], "Bearer iqb_key ") {
				t.Errorf("the list was asked with %q", seen)
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
