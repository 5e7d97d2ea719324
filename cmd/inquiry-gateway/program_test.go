package main

import (
	"bytes"
	"cmp"
	"context"
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
	"testing"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// TestMain lets more tests run at a time than there are processors: those that are
// parallel mostly wait.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// program is the whole gateway, served on free ports in front of a legacy
// system, as serve would run it.
type program struct {
	t        *testing.T
	dir      string
	skew     time.Duration
	version  string
	poll     time.Duration
	callers  []caller // of the keys file
	system   *legacy.Server
	upstream string // the legacy system's URL
	backend  *httptest.Server
	app      *app.App
	logs     *testkit.Log
	log      slog.Handler // writes to logs
	client   *http.Client
	keys     map[string]string // by key id
	token    string            // of the ops listener
	stop     func()
}

// setup is what a test wants to be different.
type setup struct {
	legacy legacy.Options
	// joins is a program whose legacy system this one shares.
	joins *program
	// prepare runs before the configuration is read.
	prepare func(*program)
	// yaml is put before the upstream section, auth is the section of that name.
	yaml, auth string
	// upstream replaces texts of the upstream section, in pairs.
	upstream []string
	// version is what the program says that it is; empty: version.
	version string
	// backend stands in front of the legacy system where it is not nil.
	backend http.Handler
	// skew is how far the node's clock is ahead.
	skew time.Duration
	// pollFiles is how often files are polled; 0: often.
	pollFiles time.Duration
	// log stands in front of the program's log where it is not nil.
	log func(slog.Handler) slog.Handler
}

// sampleKeys are there in every test: two per account kind, and one for each
// way to be refused.
func sampleKeys() []caller {
	read := []string{auth.ScopeInquiriesRead}
	paid := func(id string) auth.Account { return auth.Account{ID: id, APIAccess: auth.AccessPaid} }
	sample := func(id, kind string, account auth.Account, scopes []string) caller {
		return caller{kind: kind, account: account, record: auth.KeyRecord{ID: id, Scopes: scopes}}
	}
	callers := []caller{
		sample("buyer", legacy.KindBuyer, paid(legacy.BuyerTypical), read),
		sample("other-buyer", legacy.KindBuyer, paid(legacy.BuyerOther), read),
		sample("empty-buyer", legacy.KindBuyer, paid(legacy.BuyerEmpty), read),
		sample("seller", legacy.KindSeller, paid(legacy.SellerTypical), read),
		sample("unpaid", legacy.KindBuyer, auth.Account{ID: "unpaid", APIAccess: auth.AccessNone}, read),
		sample("no-scope", legacy.KindBuyer, paid(legacy.BuyerTypical), nil),
		sample("expired", legacy.KindBuyer, paid(legacy.BuyerTypical), read),
		sample("revoked", legacy.KindBuyer, paid(legacy.BuyerTypical), read),
	}
	callers[6].record.ExpiresAt = time.Now().Add(-time.Hour)
	callers[7].record.Revoked = true
	return callers
}

func start(t *testing.T, s setup) *program {
	t.Helper()
	testkit.Slow(t)
	p := &program{t: t, dir: t.TempDir(), skew: s.skew, version: s.version, poll: cmp.Or(s.pollFiles, 25*time.Millisecond), logs: &testkit.Log{}, keys: map[string]string{}}
	if p.log = slog.NewJSONHandler(p.logs, nil); s.log != nil {
		p.log = s.log(p.log)
	}
	if s.joins != nil {
		p.system, p.upstream = s.joins.system, s.joins.upstream
	} else {
		p.serveLegacy(s)
	}
	p.writeKeys(sampleKeys())
	texts := append([]string{demoLegacyURL, p.upstream}, s.upstream...)
	mapping := strings.NewReplacer(append(texts, "timeout: 2s", "timeout: 4s")...).Replace(string(legacy.Mapping()))
	if s.auth == "" {
		s.auth = "{keys_file: keys.yaml}"
	}
	p.write("gateway.yaml", "listen: 127.0.0.1:0\nops: {listen: 127.0.0.1:0}\nauth: "+s.auth+"\n"+s.yaml+
		unlessSaid(s.yaml, "shutdown_delay: 0s")+unlessSaid(s.yaml, "request_timeout: 10s")+"\n"+mapping)
	if s.prepare != nil {
		s.prepare(p)
	}
	p.run()
	p.client = &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: 20 * time.Second}
	t.Cleanup(func() {
		p.client.CloseIdleConnections()
		p.stop()
	})
	return p
}

// unlessSaid is a line for a configuration that does not have its key: a stop is short, and a
// busy machine has time, unless the test says what it wants.
func unlessSaid(yaml, line string) string {
	if key, _, _ := strings.Cut(line, " "); strings.Contains(yaml, key) {
		return ""
	}
	return "\n" + line
}

// serveLegacy starts the legacy system; it outlives the program.
func (p *program) serveLegacy(s setup) {
	p.system = legacy.New(s.legacy)
	var backend http.Handler = p.system
	if s.backend != nil {
		backend = s.backend
	}
	p.backend = httptest.NewServer(backend)
	p.upstream = p.backend.URL
	p.t.Cleanup(func() { p.backend.CloseClientConnections(); p.backend.Close() })
}

func (p *program) run() {
	p.t.Helper()
	loaded, err := config.Load(filepath.Join(p.dir, "gateway.yaml"), config.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	l, err := app.OpenListeners(loaded.Config)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.app, err = app.New(loaded.Config, l, app.Options{
		Logger: slog.New(p.log), Requests: p.logs, Traces: true, Hangup: true,
		Now: func() time.Time { return time.Now().Add(p.skew) }, PollFiles: p.poll, Version: cmp.Or(p.version, version), Revision: revision,
	}); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.app.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("the program ended with %v", err)
		}
	})
}

// writeKeys makes a key for each of the callers and adds it to the keys file,
// which is written as a whole: a change by the commands costs more.
func (p *program) writeKeys(callers []caller) {
	p.t.Helper()
	p.callers = append(p.callers, callers...)
	var accounts, keys strings.Builder
	known := map[string]bool{}
	for _, c := range p.callers {
		id := c.record.ID
		if p.keys[id] == "" {
			key, err := auth.Generate(c.kind)
			if err != nil {
				p.t.Fatal(err)
			}
			p.keys[id] = key
		}
		if !known[c.account.ID] {
			known[c.account.ID] = true
			fmt.Fprintf(&accounts, "  - {id: %q, api_access: %s}\n", c.account.ID, c.account.APIAccess)
		}
		var scopes []string
		for _, scope := range c.record.Scopes {
			scopes = append(scopes, strconv.Quote(scope))
		}
		fmt.Fprintf(&keys, "  - {id: %q, sha256: %s, kind: %s, account: %q, scopes: [%s], revoked: %t", id,
			auth.Hasher{}.Hash(p.keys[id]).Hex(), c.kind, c.account.ID, strings.Join(scopes, ","), c.record.Revoked)
		if !c.record.ExpiresAt.IsZero() {
			fmt.Fprintf(&keys, ", expires_at: %s", c.record.ExpiresAt.UTC().Format(time.RFC3339))
		}
		keys.WriteString("}\n")
	}
	p.write("keys.yaml.next", "accounts:\n"+accounts.String()+"keys:\n"+keys.String())
	if err := os.Rename(filepath.Join(p.dir, "keys.yaml.next"), filepath.Join(p.dir, "keys.yaml")); err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) write(name, text string) {
	p.t.Helper()
	writeFile(p.t, filepath.Join(p.dir, name), text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// answer is a response that has been read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// response is the answer as a checker wants to read it.
func (a answer) response() *http.Response {
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body))}
}

// request makes a request with the key of that id; headers come in pairs.
func (p *program) request(method, target, keyID string, headers ...string) *http.Request {
	p.t.Helper()
	r, err := http.NewRequest(method, p.app.URL()+target, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if keyID != "" {
		r.Header.Set("Authorization", "Bearer "+p.keys[keyID])
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func (p *program) do(r *http.Request) answer {
	p.t.Helper()
	resp, err := p.client.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, body}
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

// ops reads a page of the ops listener.
func (p *program) ops(path string) answer {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodGet, p.app.OpsURL()+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	return p.do(r)
}

// part is what readiness says of a part, as of redis or upstream_buyer; of status
// it is the whole.
func (p *program) part(name string) string {
	p.t.Helper()
	var state struct {
		Status string            `json:"status"`
		Parts  map[string]string `json:"parts"`
	}
	if err := json.Unmarshal(p.ops("/readyz").body, &state); err != nil {
		p.t.Fatal(err)
	}
	if name == "status" {
		return state.Status
	}
	return state.Parts[name]
}

// eventually waits for what happens in another goroutine. The wait ends a test
// that would fail; it decides nothing else.
func (p *program) eventually(what string, ok func() bool) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	logs := p.logs.String()
	p.t.Fatalf("not within a minute: %s; the last of the log:\n%s", what, logs[max(0, len(logs)-2000):])
}

const (
	buyerList  = "/api/v1/buyer/inquiries"
	sellerList = "/api/v1/seller/inquiries"
)

func listOf(kind string) string { return fmt.Sprintf("/api/v1/%s/inquiries", kind) }
