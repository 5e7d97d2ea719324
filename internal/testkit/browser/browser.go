// Package browser drives Debian's Chromium, for tests of pages.
package browser

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"inquiry-gateway/internal/testkit"
)

// Open starts Debian's Chromium, for the context of chromedp's actions, and fails
// the test without it. complaints tells what it complained about and which addresses
// outside base it asked for.
func Open(t *testing.T, base string) (ctx context.Context, complaints func() []string) {
	t.Helper()
	testkit.SkipShort(t)
	binary, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("this test drives a real browser: install chromium (Debian's package chromium): %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	// In a container there is neither a sandbox nor a graphics card. What Chromium asks
	// of its maker by itself would be complaints.
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
		return append([]string(nil), found...)
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

// BeforeEachPage runs a script before those of each page that is opened from now on.
func BeforeEachPage(script string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	})
}

// Into keeps the value of an action.
func Into[T any](dst *T, action chromedp.Action[T]) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		v, err := action(ctx, tab)
		*dst = v
		return err
	})
}

// Screenshot saves what the browser shows, if the environment variable
// SCREENSHOTS names a folder for pictures.
func Screenshot(name string) chromedp.Action[chromedp.Void] {
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

// Accessible fails t for each rule of WCAG 2.2 (A, AA) and of good practice that the
// page breaks as axe-core sees it. It does nothing unless the environment variable
// AXE_CORE names that script, as .ci/axe does.
func Accessible(t *testing.T) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		file := os.Getenv("AXE_CORE")
		if file == "" {
			return nil
		}
		script, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		// Rows of a table are alike: the first three stand for all, which saves
		// seconds.
		const run = `axe.run({exclude: ["tbody tr:nth-child(n+4)"]}, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.impact + ": " + v.help + ": " + v.nodes.map(n => n.target).join(", ")))`
		broken, err := chromedp.Evaluate[[]string](string(script)+";"+run, chromedp.EvalAwaitPromise)(ctx, tab)
		for _, rule := range broken {
			t.Error("accessibility: " + rule)
		}
		return err
	})
}

// Colors sets whether the person prefers light or dark.
func Colors(scheme string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// UntilPage waits for a condition in JavaScript, in this page or in the one it leads to: while one
// page goes and the next comes there is nothing to ask.
func UntilPage(condition string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			if ok, err := chromedp.Evaluate[bool](`document.readyState === "complete" && Boolean(`+condition+`)`)(ctx, tab); ok && err == nil {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("%w: never %s", ctx.Err(), condition)
			}
		}
	})
}
