package v1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
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

// browser starts Debian's Chromium; complaints tells what it complained about
// and which addresses outside base it asked for.
func browser(t *testing.T, base string) (ctx context.Context, complaints func() []string) {
	t.Helper()
	binary, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("this test drives a real browser: install chromium (Debian's package chromium): %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(binary), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.UserDataDir(t.TempDir()))
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	complaints, err = listen(ctx, base)
	if err == nil {
		err = watch(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ctx, complaints
}

// listen collects what the console, the browser's log and the network show.
func listen(ctx context.Context, base string) (complaints func() []string, err error) {
	var mu sync.Mutex
	var found []string
	complain := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, s)
	}
	err = chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			complain(fmt.Sprintf("console: %s %s", e.Type, e.Args[0].Value))
		case *runtime.EventExceptionThrown:
			complain("exception: " + e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			complain("log: " + e.Entry.Text + " " + e.Entry.URL)
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err != nil || (u.Scheme != "data" && !strings.HasPrefix(e.Request.URL, base+"/")) {
				complain("request: " + e.Request.URL)
			}
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return found
	}, err
}

// watch turns on what listen listens to, and records what the
// Content-Security-Policy refuses from the first moment of each page.
func watch(ctx context.Context) error {
	const script = `window.refused = []; document.addEventListener("securitypolicyviolation", e => window.refused.push(e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber + ":" + e.columnNumber))`
	_, errScript := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	_, errLog := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	_, errRuntime := chromedp.Call(ctx, runtime.Enable, cdp.Empty{})
	_, errNetwork := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	return errors.Join(errScript, errLog, errRuntime, errNetwork)
}

// into keeps the value of an action.
func into[T any](dst *T, action chromedp.Action[T]) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		v, err := action(ctx, tab)
		*dst = v
		return err
	})
}

// screenshot saves what the browser shows, if the environment variable
// SCREENSHOTS names a folder for pictures.
func screenshot(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		folder := os.Getenv("SCREENSHOTS")
		if folder == "" {
			return nil
		}
		picture, err := chromedp.FullScreenshot(100)(ctx, tab)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644)
	})
}

// The page renders, tries a request out with a key, and stays silent at the
// widths of a desk and of a telephone.
func TestDocsInABrowser(t *testing.T) {
	for name, width := range map[string]int64{"desk": 1280, "telephone": 390} {
		t.Run(name, func(t *testing.T) {
			base, authorization := docsServer(t)
			ctx, complaints := browser(t, base)
			var title, reply string
			var operations, refused []string
			var overflow int
			err := chromedp.Do(ctx,
				chromedp.EmulateViewport(width, 900),
				chromedp.Navigate(base+"/docs"),
				chromedp.WaitVisible(chromedp.CSS(`#operations-seller-headSellerInquiries`)),
				into(&title, chromedp.Text(chromedp.CSS(`.info .title`))),
				into(&operations, chromedp.Evaluate[[]string](`[...document.querySelectorAll(".opblock")].map(o => o.id)`)),
				screenshot("docs-"+name),
				chromedp.Click(chromedp.CSS(`.auth-wrapper .authorize`)),
				chromedp.SendKeys(chromedp.CSS(`.auth-container input`), "iqb_key"),
				screenshot("docs-key-"+name),
				chromedp.Click(chromedp.CSS(`.auth-btn-wrapper .authorize`)),
				chromedp.Click(chromedp.CSS(`.auth-btn-wrapper .btn-done`)),
				chromedp.Click(chromedp.CSS(`#operations-buyer-listBuyerInquiries .opblock-summary-control`)),
				chromedp.Click(chromedp.CSS(`#operations-buyer-listBuyerInquiries .try-out__btn`)),
				chromedp.Click(chromedp.CSS(`#operations-buyer-listBuyerInquiries .execute`)),
				chromedp.WaitVisible(chromedp.CSS(`.live-responses-table .highlight-code`)),
				into(&reply, chromedp.Text(chromedp.CSS(`.live-responses-table .highlight-code`))),
				screenshot("docs-tried-"+name),
				into(&overflow, chromedp.Evaluate[int](`document.documentElement.scrollWidth - document.documentElement.clientWidth`)),
				into(&refused, chromedp.Evaluate[[]string](`window.refused`)),
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
			if seen := authorization(); len(seen) != 1 || !strings.HasPrefix(seen[0], "Bearer iqb_key ") {
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
