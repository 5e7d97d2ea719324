package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/introspect"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/cache"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

func TestMain(m *testing.M) {
	redisclient.Silence()
	goleak.VerifyTestMain(m, redistest.Reconnecting())
}

// buyerKey makes keys.yaml with a key of a buyer.
func buyerKey(t *testing.T, dir string) string {
	t.Helper()
	key, err := auth.Generate(legacy.KindBuyer)
	record := auth.KeyRecord{ID: "buyer", Kind: legacy.KindBuyer, Account: legacy.BuyerTypical, Scopes: []string{auth.ScopeInquiriesRead}, Digest: auth.Hasher{}.Hash(key)}
	account := &auth.Account{ID: legacy.BuyerTypical, APIAccess: auth.AccessPaid}
	must(t, errors.Join(err, keysfile.NewEditor(filepath.Join(dir, "keys.yaml"), auth.Hasher{}).Add(t.Context(), record, account)))
	return key
}

// build makes an App that does not run, in front of a legacy system of its own;
// section is put before the section upstream. key is that of a buyer.
func build(t *testing.T, section string) (a *App, key string) {
	t.Helper()
	a, key = buildFor(t, section, Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { must(t, a.stop()) })
	return a, key
}

// buildFor is build for a test that stops the App.
func buildFor(t *testing.T, section string, opts Options) (a *App, key string) {
	t.Helper()
	dir := t.TempDir()
	system := httptest.NewServer(legacy.New(legacy.Options{}))
	t.Cleanup(system.Close)
	key = buyerKey(t, dir)
	file := filepath.Join(dir, "gateway.yaml")
	text := "listen: 127.0.0.1:0\nops: {listen: 127.0.0.1:0}\nauth: {keys_file: keys.yaml}\n" + section + "\n" +
		strings.Replace(string(legacy.Mapping()), "http://127.0.0.1:9300", system.URL, 1)
	must(t, os.WriteFile(file, []byte(text), 0o600))
	cfg, err := config.Load(file, config.Options{})
	must(t, err)
	l, err := OpenListeners(cfg)
	must(t, err)
	a, err = New(cfg, l, opts)
	must(t, err)
	return a, key
}

// change replaces texts in the configuration of a.
func change(t *testing.T, a *App, texts ...string) {
	t.Helper()
	file := a.current().cfg.Path()
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, os.WriteFile(file, []byte(strings.NewReplacer(texts...).Replace(string(text))), 0o600))
}

// deadlineWriter notes until when an answer may be written.
type deadlineWriter struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (w *deadlineWriter) SetWriteDeadline(at time.Time) error { w.deadline = at; return nil }

// get asks for the buyer's list without a connection.
func get(a *App, key string) *deadlineWriter {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/buyer/inquiries", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	w := &deadlineWriter{ResponseRecorder: httptest.NewRecorder()}
	a.public.http.Handler.ServeHTTP(w, r)
	return w
}

// The time to write an answer follows a request_timeout that is reloaded.
func TestReloadOfTheWriteDeadline(t *testing.T) {
	a, key := build(t, "request_timeout: 2s")
	if w := get(a, key); w.Code != http.StatusOK || time.Until(w.deadline) > 2*time.Second+writeSlack {
		t.Fatalf("before: status %d, until %s", w.Code, w.deadline)
	}
	cfg := a.current().cfg
	cfg.RequestTimeout = time.Minute
	next, err := a.build(cfg)
	must(t, err)
	a.apply(next)
	if left := time.Until(get(a, key).deadline); left < time.Minute || left > time.Minute+writeSlack {
		t.Errorf("the answer must be written within %s", left)
	}
}

// heldLog holds up whoever writes a record that begins with a text, once it is told to.
type heldLog struct {
	slog.Handler
	begin         string
	armed         atomic.Bool // for one record
	held, release chan struct{}
	stops         atomic.Bool // a record says that the stop begins
}

func (l *heldLog) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, l.begin) && l.armed.Swap(false) {
		close(l.held)
		<-l.release
	}
	if r.Message == "stopping" {
		l.stops.Store(true)
	}
	return nil
}

func (l *heldLog) Enabled(context.Context, slog.Level) bool { return true }

// A stop that comes while a reload puts its generation in force closes that generation, and none begins after it.
func TestAStopDuringAReload(t *testing.T) {
	log := &heldLog{Handler: slog.DiscardHandler, begin: "max_connections is more", held: make(chan struct{}), release: make(chan struct{})}
	hangup := make(chan os.Signal, 1)
	a, _ := buildFor(t, "shutdown_delay: 0s", Options{Logger: slog.New(log), Hangup: hangup, PollFiles: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	log.armed.Store(true)
	change(t, a, "auth: {keys_file: keys.yaml}", `auth: {introspection: {url: "http://127.0.0.1:9/"}}`, "listen: 127.0.0.1:0\nops", "max_connections: 100000000\nlisten: 127.0.0.1:0\nops")
	hangup <- syscall.SIGHUP
	<-log.held
	stop()
	time.Sleep(100 * time.Millisecond) // for a stop that does not wait
	if log.stops.Load() {
		t.Error("parts are stopped during a reload")
	}
	close(log.release)
	must(t, <-done)
	last := a.current()
	if _, err := last.keyring.AuthenticateFrom(t.Context(), []string{"Bearer k"}, caller{}); last.cfg.Auth.Introspection == nil || err == nil || !strings.Contains(err.Error(), "too many look-ups") { // all places are taken at the end
		t.Errorf("the last generation is left open: %v", err)
	}
	for range 20 { // select takes any of two
		if len(hangup) == 0 {
			hangup <- syscall.SIGHUP
		}
		must(t, a.watch(ctx))
	}
	if a.current() != last {
		t.Error("a reload began after the stop")
	}
}

// A reload that is refused leaves all as it was, whatever of it is wrong.
func TestARefusedReloadChangesNothing(t *testing.T) {
	var asked atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"active":true,"sub":%q,"kind":"buyer","scope":"inquiries:read","api_access":"paid"}`, legacy.BuyerTypical)
	}))
	t.Cleanup(issuer.Close)
	a, _ := build(t, "cache: {buyer: {ttl: 1ms, stale_if_error: 0s}}")
	cfg := a.current().cfg
	cfg.Auth = config.Auth{Introspection: new(introspect.DefaultConfig()), CacheTTL: new(10 * time.Minute)}
	cfg.Auth.Introspection.URL = issuer.URL
	cfg.Upstream.BaseURL, cfg.Upstream.Breaker.MinRequests = "http://127.0.0.1:9", 2 // nobody is there
	next, err := a.build(cfg)
	must(t, err)
	a.apply(next)
	get(a, "key")
	for account := range 5 {
		_, _ = a.fetch(t.Context(), upstream.Request{Kind: "buyer", Account: fmt.Sprint(account)}) // opens the breaker
	}
	for name, broken := range map[string]func(*config.Config){
		"certificate": func(c *config.Config) { c.TLS.CertFile = setting.NewFile("cert.pem", "none") },
		"pepper":      func(c *config.Config) { c.Auth.PepperFile = setting.NewFile("pepper", "short") },
		"another file": func(c *config.Config) {
			c.Auth = config.Auth{KeysFile: setting.NewFile(filepath.Join(t.TempDir(), "none"), "")}
		},
		"legacy system": func(c *config.Config) { c.Upstream.BaseURL = "none" },
	} {
		bad := cfg
		bad.Upstream.BaseURL = "http://127.0.0.1:10" // another system has another breaker
		bad.Auth.CacheTTL = new(9 * time.Minute)
		broken(&bad)
		if _, err := a.build(bad); err == nil {
			t.Fatalf("%s: it is built", name)
		}
		get(a, "key")
		if state := a.current().client.BreakerState("buyer", ""); state != "open" || asked.Load() != 1 {
			t.Errorf("%s: the breaker is %s, %d look-ups of one key", name, state, asked.Load())
		}
	}
}

// What is wrong with the keys file is logged once and shown, however often it is read again.
func TestAMistakeInTheKeysFileIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	a, _ := buildFor(t, "", Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer func() { must(t, a.stop()) }()
	keys := a.current().cfg.Auth.KeysFile.Path()
	good, err := os.ReadFile(keys)
	must(t, err)
	for _, step := range []struct {
		text, shown string
		again       bool
		errors, ok  int // in the log
	}{
		{"keys: 1\n", "keys: wants a list", false, 1, 0},
		{"keys: 1\n", "keys: wants a list", true, 1, 0},
		{"keys: 1\n", "keys: wants a list", true, 1, 0},
		{"kezs: 1\n", "kezs: unknown key", true, 2, 0},
		{"kezs: 1\n", "kezs: unknown key", false, 3, 0},
		{string(good), "", true, 3, 1},
	} {
		must(t, os.WriteFile(keys, []byte(step.text), 0o600))
		a.reload(t.Context(), !step.again, false)
		facts := a.facts()
		if errors, ok := strings.Count(log.String(), "level=ERROR"), strings.Count(log.String(), "keys file reloaded"); errors != step.errors || ok != step.ok {
			t.Errorf("%+v: %d errors, %d good readings\n%s", step, errors, ok, &log)
		}
		if shown := facts.Last["reload"].Text; !strings.Contains(shown, step.shown) || (len(facts.NotInForce) > 0) != (step.shown != "") {
			t.Errorf("%+v: not in force %q, %s", step, facts.NotInForce, shown)
		}
	}
}

// What reloads have replaced is gone when its last request must be over: memory and
// goroutines are as before.
func TestReloadsLeaveNothingBehind(t *testing.T) {
	a, key := build(t, "cache: {jitter: 0}")
	file := a.current().cfg.Path()
	text, err := os.ReadFile(file)
	must(t, err)
	running, stop := context.WithCancel(t.Context())
	defer func() { stop() }()
	reload := func(n int) {
		changed := strings.Replace(string(text), "default: other", fmt.Sprintf("default: other-%d", n%2), 1) // another mapping
		changed = strings.Replace(changed, "timeout: 2s", fmt.Sprintf("timeout: %ds", 1+n%3), 1)             // other connections
		must(t, os.WriteFile(file, []byte(changed), 0o600))
		a.reload(running, true, true)
		must(t, a.reloads.configErr)
		get(a, key)
	}
	level := func() (heap int64, goroutines int) {
		stop()
		a.reloads.closing.Wait()
		running, stop = context.WithCancel(t.Context())
		a.current().client.Close() // idle connections
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
			time.Sleep(50 * time.Millisecond) // closed connections end
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc), runtime.NumGoroutine()
	}
	for n := range 10 {
		reload(n)
	}
	heap, goroutines := level()
	const reloads = 60
	for n := range reloads {
		reload(n)
	}
	heapNow, goroutinesNow := level()
	if heapNow > heap+reloads*10<<10 || goroutinesNow > goroutines+3 {
		t.Errorf("after %d reloads the heap has %d KiB, before %d KiB; goroutines %d, before %d", reloads, heapNow>>10, heap>>10, goroutinesNow, goroutines)
	}
}

// What a reload has replaced is closed once its last request must be over, and not before; what the
// next one shares is not.
func TestWhatIsReplacedIsClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var closed atomic.Int64
		keys := &keyring{close: func() { closed.Add(1) }}
		first, second := &generation{keyring: keys}, &generation{keyring: keys}
		var r reloader
		r.closeLater(t.Context(), first, second)
		time.Sleep(time.Second)
		r.closeLater(t.Context(), second, &generation{})
		for want := range 2 {
			time.Sleep(writeSlack - time.Second)
			synctest.Wait()
			if n := closed.Load(); n != int64(want) {
				t.Errorf("closed %d times", n)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		r.closing.Wait()
	})
}

// A file that changes after it was read counts as changed, at the start too.
func TestAChangeAfterTheReadingIsNoticed(t *testing.T) {
	a, _ := build(t, "")
	cfg := a.current().cfg // read some time ago
	must(t, os.Remove(cfg.Auth.KeysFile.Path()))
	r := newReloader(cfg, Options{}, prometheus.NewRegistry())
	r.watcher.Changed()
	if changed := r.watcher.Changed(); len(changed) != 1 || changed[0] != cfg.Auth.KeysFile.Path() {
		t.Errorf("changed: %q", changed)
	}
}

// A panic during a re-check ends this re-check only.
func TestPanicInARecheckIsOneFailedRecheck(t *testing.T) {
	a, key := build(t, "cache: {rechecks_per_second: 50, buyer: {ttl: 1h}}")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var calls atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.recheck(ctx, func(context.Context, cache.Key, cache.FillInfo) (cache.Content, error) {
			if calls.Add(1) == 2 {
				cancel()
			}
			panic("a bug")
		})
	}()
	for ctx.Err() == nil { // hits are what is compared
		get(a, key)
		time.Sleep(time.Millisecond)
	}
	<-done
	if n := testutil.ToFloat64(a.panics.WithLabelValues("recheck")); calls.Load() < 2 || n != float64(calls.Load()) {
		t.Errorf("%v panics are counted, %d calls", n, calls.Load())
	}
}

// caller is a client of the keyring.
type caller struct{}

func (caller) ClientIP() netip.Addr   { return netip.Addr{} }
func (caller) Deadline() time.Time    { return time.Now().Add(time.Minute) }
func (caller) LogRefusal(string) bool { return true }
