package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/cache"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/upstream/legacy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	a, err = New(cfg, l, Options{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, a.stop()) })
	return a, key
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
	cfg := a.running().cfg
	cfg.RequestTimeout = time.Minute
	next, err := a.build(cfg)
	must(t, err)
	a.apply(next)
	if left := time.Until(get(a, key).deadline); left < time.Minute || left > time.Minute+writeSlack {
		t.Errorf("the answer must be written within %s", left)
	}
}

// What reloads have replaced is gone when its last request must be over: memory and
// goroutines are as before.
func TestReloadsLeaveNothingBehind(t *testing.T) {
	a, key := build(t, "cache: {jitter: 0}")
	file := a.running().cfg.Path()
	text, err := os.ReadFile(file)
	must(t, err)
	reload := func(n int) {
		changed := strings.Replace(string(text), "default: other", fmt.Sprintf("default: other-%d", n%2), 1) // another mapping
		changed = strings.Replace(changed, "timeout: 2s", fmt.Sprintf("timeout: %ds", 1+n%3), 1)             // other connections
		must(t, os.WriteFile(file, []byte(changed), 0o600))
		a.reload(t.Context(), nil, true)
		must(t, a.reloads.config)
		get(a, key)
	}
	level := func() (heap int64, goroutines int) {
		a.reloads.closeRetired(time.Time{})
		a.running().client.Close() // idle connections
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
	closed, over := 0, time.Now()
	keys := &keyring{close: func() { closed++ }}
	first, second := &setup{keys: keys}, &setup{keys: keys}
	r := reloader{retired: []retired{{first, second, over}, {second, &setup{}, over.Add(time.Second)}}}
	for after, want := range []int{0, 0, 1, 1} {
		if r.closeRetired(over.Add(time.Duration(after) * time.Second)); closed != want {
			t.Errorf("closed %d times %d s after the first reload's time", closed, after)
		}
	}
}

// A file that changes after it was read counts as changed, at the start too.
func TestAChangeAfterTheReadingIsNoticed(t *testing.T) {
	a, _ := build(t, "")
	cfg := a.running().cfg // read some time ago
	must(t, os.Remove(cfg.Auth.KeysFile))
	r := newReloader(cfg, Options{}, prometheus.NewRegistry())
	now := time.Now()
	r.watcher.Changed(now)
	if changed := r.watcher.Changed(now.Add(pollFiles)); len(changed) != 1 || changed[0] != cfg.Auth.KeysFile {
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
