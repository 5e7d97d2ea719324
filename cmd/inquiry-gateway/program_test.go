package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// mainInstead, if it is set, makes the process of the tests the program itself: for tests that need
// a process of their own.
const mainInstead = "INQUIRY_GATEWAY_TEST_MAIN"

// TestMain lets more tests run at a time than there are processors: those that are
// parallel mostly wait.
func TestMain(m *testing.M) {
	if os.Getenv(mainInstead) != "" {
		main()
	}
	redisclient.Silence()
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, redistest.Reconnecting())
}

// program is the whole gateway, served on free ports in front of a legacy
// system, as serve would run it.
type program struct {
	t        *testing.T
	dir      string
	poll     time.Duration
	now      func() time.Time
	callers  []gatewaytest.Caller // of the keys file
	system   *legacy.Server       // what lists hold, whoever serves them
	upstream string               // the legacy system's URL
	backend  *httptest.Server
	app      *app.App
	logs     *testkit.Log
	log      slog.Handler // writes to logs
	client   *http.Client
	keys     map[string]string // by key id
	token    string            // of the ops listener
	stop     func()
	hangup   chan os.Signal // has all files read
}

// setup is what a test wants to be different.
type setup struct {
	legacy legacy.Options
	// joins is a program whose legacy system this one shares.
	joins *program
	// prepare runs before the configuration is read.
	prepare func(*program)
	// yaml is put before the upstream section; ops, auth and redis are the sections of these names.
	yaml, ops, auth, redis string
	// upstream replaces texts of the upstream section, in pairs.
	upstream []string
	// backend stands in front of the legacy system where it is not nil.
	backend func(system http.Handler) http.Handler
	// onlyWhenTold keeps the program from polling its files: a reload is the one that the test
	// has asked for.
	onlyWhenTold bool
	// now is the program's clock; nil: the machine's.
	now func() time.Time
	// log stands in front of the program's log where it is not nil.
	log func(slog.Handler) slog.Handler
}

// sampleKeys are there in every test: three buyers and a seller, and one for each way to be
// refused.
func sampleKeys() []gatewaytest.Caller {
	const buyer, seller = legacy.KindBuyer, legacy.KindSeller
	return append([]gatewaytest.Caller{
		gatewaytest.Paid(buyer, "buyer", legacy.BuyerTypical), gatewaytest.Paid(buyer, "other-buyer", legacy.BuyerOther),
		gatewaytest.Paid(buyer, "empty-buyer", legacy.BuyerEmpty), gatewaytest.Paid(seller, "seller", legacy.SellerTypical),
	}, gatewaytest.Refused()...)
}

func start(t *testing.T, s setup) *program {
	t.Helper()
	testkit.SkipShort(t)
	p := newProgram(t, s)
	p.run()
	p.client = &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: 20 * time.Second}
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		p.stop()
		if logs := p.logs.String(); t.Failed() {
			t.Logf("the last of the log:\n%s", logs[max(0, len(logs)-2000):])
		}
	})
	return p
}

// newProgram is a program that does not run yet: its files, and the legacy system.
func newProgram(t *testing.T, s setup) *program {
	t.Helper()
	p := &program{
		t: t, dir: t.TempDir(), poll: 25 * time.Millisecond, logs: &testkit.Log{}, keys: map[string]string{},
		hangup: make(chan os.Signal, 1), now: s.now,
	}
	if p.log = slog.NewJSONHandler(p.logs, nil); s.log != nil {
		p.log = s.log(p.log)
	}
	if s.onlyWhenTold {
		p.poll = time.Hour
	}
	if s.joins != nil {
		p.system, p.upstream = s.joins.system, s.joins.upstream
	} else {
		p.serveLegacy(s)
	}
	p.writeKeys(sampleKeys()...)
	p.write("gateway.yaml", s.configuration(p.upstream))
	if s.prepare != nil {
		s.prepare(p)
	}
	return p
}

// configuration is the file of a program in front of the legacy system at base. Unless the
// test says what it wants, a stop is short, and a busy machine has time.
func (s setup) configuration(base string) string {
	mapping := gatewaytest.Mapping(base, append(s.upstream, "timeout: 2s", "timeout: 4s")...)
	text := "listen: 127.0.0.1:0\nops: " + cmp.Or(s.ops, "{listen: 127.0.0.1:0}") +
		"\nauth: " + cmp.Or(s.auth, "{keys_file: keys.yaml}") + "\n" + s.yaml + "\n"
	if s.redis != "" {
		text += "redis: " + s.redis + "\n"
	}
	for _, line := range []string{"shutdown_delay: 0s\n", "request_timeout: 10s\n"} {
		if key, _, _ := strings.Cut(line, " "); !strings.Contains(text, key) {
			text += line
		}
	}
	return text + mapping
}

// serveLegacy starts the legacy system; it outlives the program.
func (p *program) serveLegacy(s setup) {
	p.system = legacy.New(s.legacy)
	var backend http.Handler = p.system
	if s.backend != nil {
		backend = s.backend(p.system)
	}
	p.backend = httptest.NewServer(backend)
	p.upstream = p.backend.URL
	p.t.Cleanup(func() { p.backend.CloseClientConnections(); p.backend.Close() })
}

func (p *program) run() {
	p.t.Helper()
	p.app, p.stop = gatewaytest.Run(p.t, p.file(), app.Options{
		Logger: slog.New(p.log), Requests: p.logs, Traces: true, Hangup: p.hangup,
		PollFiles: p.poll, Now: p.now, Version: version, Revision: revision,
	})
}

// writeKeys makes a key for each of the callers and adds it to the keys file,
// which is written as a whole: a change by the commands costs more.
func (p *program) writeKeys(callers ...gatewaytest.Caller) {
	p.t.Helper()
	p.callers = append(p.callers, callers...)
	p.write("keys.yaml.next", gatewaytest.KeysFile(p.t, p.callers, p.keys))
	must(p.t, os.Rename(filepath.Join(p.dir, "keys.yaml.next"), filepath.Join(p.dir, "keys.yaml")))
}

// file is the path of the configuration.
func (p *program) file() string { return filepath.Join(p.dir, "gateway.yaml") }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (p *program) write(name, text string) {
	p.t.Helper()
	writeFile(p.t, filepath.Join(p.dir, name), text)
}

func (p *program) remove(name string) {
	p.t.Helper()
	must(p.t, os.Remove(filepath.Join(p.dir, name)))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func (p *program) read(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	must(p.t, err)
	return string(text)
}

// edit replaces texts of the configuration, in pairs.
func (p *program) edit(changes ...string) {
	p.t.Helper()
	p.editFile("gateway.yaml", changes...)
}

func (p *program) editFile(name string, changes ...string) {
	p.t.Helper()
	text := p.read(name)
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			p.t.Fatalf("%q is not in %s", changes[i], name)
		}
		text = strings.Replace(text, changes[i], changes[i+1], 1)
	}
	p.write(name, text)
}

// reload has the files read at once, and gives what the log says from then on.
func (p *program) reload() (logged string) {
	p.t.Helper()
	before := len(p.logs.String())
	p.hangup <- syscall.SIGHUP
	p.eventually("a reload ends", func() bool {
		logged = p.logs.String()[before:]
		return strings.Contains(logged, `"configuration reloaded"`) || strings.Contains(logged, `"configuration not reloaded`)
	})
	return logged
}

// fault has the legacy system misbehave.
func (p *program) fault(f legacy.Fault) {
	p.t.Helper()
	must(p.t, p.system.SetFault(f))
}

// answer is a response that has been read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
	close  bool // the connection is to be closed
}

// isHit says whether the list came from the cache.
func (a answer) isHit() bool {
	return strings.HasPrefix(a.header.Get("Cache-Status"), "inquiry-gateway; hit")
}

// request makes a request with the key of that id; headers come in pairs.
func (p *program) request(method, target, keyID string, headers ...string) *http.Request {
	p.t.Helper()
	r, err := http.NewRequest(method, p.app.URL()+target, nil)
	must(p.t, err)
	if keyID != "" {
		r.Header.Set("Authorization", "Bearer "+p.keys[keyID])
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// do may be called in any goroutine: what fails has the status 0.
func (p *program) do(r *http.Request) answer {
	p.t.Helper()
	resp, err := p.client.Do(r)
	if err != nil {
		p.t.Error(err)
		return answer{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Error(err)
		return answer{}
	}
	return answer{resp.StatusCode, resp.Header, body, resp.Close}
}

func (p *program) get(target, keyID string, headers ...string) answer {
	p.t.Helper()
	return p.do(p.request(http.MethodGet, target, keyID, headers...))
}

// gets checks what status a request with the key of that id gets.
func (p *program) gets(status int, target, keyID string, headers ...string) {
	p.t.Helper()
	if a := p.get(target, keyID, headers...); a.status != status {
		p.t.Errorf("%s with the key %s: status %d, want %d: %s", target, keyID, a.status, status, a.body)
	}
}

// comesToGet waits until a request gets that status.
func (p *program) comesToGet(status int, target, keyID string) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%s gets %d", keyID, status), func() bool { return p.get(target, keyID).status == status })
}

// ops reads a page of the ops listener.
func (p *program) ops(path string) answer {
	p.t.Helper()
	return p.opsAs(p.token, http.MethodGet, path, "")
}

// opsAs sends a request to the ops listener with a token; without one where it is empty.
func (p *program) opsAs(token, method, path, body string) answer {
	p.t.Helper()
	base := strings.Replace(p.app.OpsURL(), "[::]", "127.0.0.1", 1) // a listener on all addresses
	r, err := http.NewRequest(method, base+path, strings.NewReader(body))
	must(p.t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return p.do(r)
}

// metric reads one series of the ops listener.
func (p *program) metric(series string) float64 {
	p.t.Helper()
	v, found := p.hasMetric(series)
	if !found {
		p.t.Fatalf("there is no series %s", series)
	}
	return v
}

func (p *program) hasMetric(series string) (v float64, found bool) {
	p.t.Helper()
	for line := range strings.Lines(string(p.ops("/metrics").body)) {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			return v, err == nil
		}
	}
	return 0, false
}

// part is what readiness says of a part, as of redis or upstream_buyer.
func (p *program) part(name string) string {
	p.t.Helper()
	var state struct{ Parts map[string]string }
	must(p.t, json.Unmarshal(p.ops("/readyz").body, &state))
	return state.Parts[name]
}

func (p *program) eventually(what string, ok func() bool) {
	p.t.Helper()
	eventually(p.t, what, ok)
}

// eventually waits for what happens elsewhere. The wait ends a test that would fail; it
// decides nothing else.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

// logsEventually waits until the log has the text.
func (p *program) logsEventually(text string) {
	p.t.Helper()
	p.eventually("the log says "+text, func() bool { return strings.Contains(p.logs.String(), text) })
}

// background calls do again and again in so many goroutines, until stop is called, which
// returns how often and what went wrong last.
func (p *program) background(workers int, do func(worker, i int) error) (stop func() (calls int64, problem error)) {
	var calls atomic.Int64
	var problem atomic.Pointer[error]
	done := make(chan struct{})
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := do(w, i); err != nil {
					problem.Store(&err)
				}
				calls.Add(1)
			}
		})
	}
	end := sync.OnceFunc(func() { close(done); group.Wait() })
	p.t.Cleanup(end)
	return func() (int64, error) {
		end()
		if p := problem.Load(); p != nil {
			return calls.Load(), *p
		}
		return calls.Load(), nil
	}
}

const (
	buyerList  = "/api/v1/buyer/inquiries"
	sellerList = "/api/v1/seller/inquiries"
)

func listOf(kind string) string { return fmt.Sprintf("/api/v1/%s/inquiries", kind) }
