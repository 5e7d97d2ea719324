package live

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Demo is a running `inquiry-gateway demo`: the gateway, the sample legacy
// system, and sample keys.
type Demo struct {
	Public, Ops, Legacy string // URLs without a path
	Config              string // path of the configuration file
	Kill                func() // ends it at once

	t       testing.TB
	callers []caller
}

// caller is one of the demo's sample keys with the list it is for.
type caller struct{ key, list string }

var (
	demoReady = regexp.MustCompile(`(?s)gateway +(http://\S+).*\nops +(http://\S+).*\nlegacy system +(http://\S+).*\nconfiguration +(\S+)\n.*Ctrl-C`)
	demoCurl  = regexp.MustCompile(`Bearer (\S+)' 'http://[^/]+(/[^'?]+)'`)
	serving   = regexp.MustCompile(`"msg":"serving".*"listen":"(http://[^"]+)","ops":"(http://[^"]+)"`)
)

// demoAuth is the line of the demo's configuration that names its keys.
const demoAuth = "auth: {keys_file: keys.yaml}"

// maxBody bounds what is read of any answer.
const maxBody = 16 << 20

// StartDemo runs the demo with a Redis, and with further environment variables.
func StartDemo(t testing.TB, binary, redisAddr string, env ...string) *Demo {
	t.Helper()
	m, process := start(t, demoReady, append(env, "REDIS_URL=redis://"+redisAddr), binary, "demo")
	d := &Demo{t: t, Public: m[1], Ops: m[2], Legacy: m[3], Config: m[4], Kill: process.Kill}
	for _, c := range demoCurl.FindAllStringSubmatch(m[0], -1) {
		d.callers = append(d.callers, caller{c[1], c[2]})
	}
	if len(d.callers) < 6 {
		t.Fatalf("%d sample keys in\n%s", len(d.callers), m[0])
	}
	return d
}

// StartNode runs another gateway with the demo's legacy system and configuration,
// but its keys from elsewhere, so that it has no callers. auth is the section of that
// name. In the rest of the configuration the texts are replaced as by [strings.NewReplacer].
func (d *Demo) StartNode(binary, auth string, replace ...string) *Demo {
	d.t.Helper()
	text, err := os.ReadFile(d.Config)
	if err != nil {
		d.t.Fatal(err)
	}
	config := strings.Replace(string(text), demoAuth, auth, 1)
	if config == string(text) {
		d.t.Fatalf("the demo's configuration has no line %q", demoAuth)
	}
	// The node takes any free ports, and says in its log which.
	for _, url := range []string{d.Public, d.Ops} {
		config = strings.Replace(config, strings.TrimPrefix(url, "http://"), "127.0.0.1:0", 1)
	}
	config = strings.NewReplacer(replace...).Replace(config)
	file, err := os.CreateTemp(filepath.Dir(d.Config), "node-*.yaml") // beside the files that it names
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err = file.WriteString(config); err == nil {
		err = file.Close()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	m, process := start(d.t, serving, nil, binary, "serve", "-c", file.Name())
	return &Demo{Public: m[1], Ops: m[2], Legacy: d.Legacy, Config: file.Name(), Kill: process.Kill, t: d.t}
}

// AddCaller has Call and TryCall send a key, too.
func (d *Demo) AddCaller(key, list string) { d.callers = append(d.callers, caller{key, list}) }

// Call sends every sample key to the list it is for, at a gateway's URL, with a
// query such as "status=pending".
func (d *Demo) Call(public, query string) {
	d.t.Helper()
	for _, c := range d.callers {
		d.request(http.MethodGet, public+c.list+"?"+query, c.key)
	}
}

// TryCall is Call where the gateway may be gone.
func (d *Demo) TryCall(query string) {
	for _, c := range d.callers {
		r := newRequest(d.t, http.MethodGet, d.Public+c.list+"?"+query, c.key, nil)
		if answer, err := client().Do(r); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body) // the gateway may end meanwhile
			_ = answer.Body.Close()
		}
	}
}

// Exercise makes the gateway meet all that it counts: callers of every kind,
// mistakes of callers, and a legacy system that misbehaves and recovers. Lists
// that have once been asked for are cached, so each step asks for others.
func (d *Demo) Exercise() {
	d.t.Helper()
	d.Call(d.Public, "")
	d.Call(d.Public, "")
	d.Call(d.Public, "status=pending")
	d.Call(d.Public, "no_such_parameter=1")
	for _, key := range []string{"", "unknown", "iqb_0000000000000000000000000000000000000"} {
		d.request(http.MethodGet, d.Public+d.callers[0].list, key)
	}
	d.request(http.MethodPost, d.Public+d.callers[0].list, d.callers[0].key)
	for _, path := range []string{"/nowhere", "/docs", "/openapi.json"} {
		d.request(http.MethodGet, d.Public+path, "")
	}
	// Each fault has its own lists: what another fault has left in the cache would
	// answer.
	for fault, query := range map[string]string{
		"fault=wrong_owner&kind=buyer": "status=answered", "fault=missing_field&kind=buyer": "status=closed", "fault=status&status=503": "inquiry_type=refund",
	} {
		d.Break(fault)
		d.Call(d.Public, query)
		d.Heal()
	}
}

// Break makes the legacy system misbehave until Heal.
func (d *Demo) Break(fault string) { d.request(http.MethodPut, d.Legacy+"/admin/fault?"+fault, "") }

// Heal ends all that Break began.
func (d *Demo) Heal() { d.request(http.MethodDelete, d.Legacy+"/admin/fault", "") }

// Change has the legacy system change each buyer's list that often.
func (d *Demo) Change(every string) {
	d.request(http.MethodPut, d.Legacy+"/admin/changes?every="+every, "")
}

// Purge drops the lists of a kind.
func (d *Demo) Purge(kind string) {
	d.t.Helper()
	r := newRequest(d.t, http.MethodPost, d.Ops+"/ops/purge", "", strings.NewReader(`{"kind":"`+kind+`"}`))
	r.Header.Set("Content-Type", "application/json")
	if status, body := fetch(d.t, r); status != http.StatusOK {
		d.t.Fatalf("purge: %d %s", status, body)
	}
}

func (d *Demo) request(method, url, key string) {
	d.t.Helper()
	fetch(d.t, newRequest(d.t, method, url, key, nil))
}

// newRequest makes a request with a key, unless it is empty.
func newRequest(t testing.TB, method, url, key string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return r
}

// client does not outlive a test's last request for long: its connections are
// not kept.
func client() *http.Client {
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}

// Get reads a page that has to answer 200.
func Get(t testing.TB, url string) []byte {
	t.Helper()
	status, body := fetch(t, newRequest(t, http.MethodGet, url, "", nil))
	if status != http.StatusOK {
		t.Fatalf("%s: %d %s", url, status, body)
	}
	return body
}

// fetch reads at most maxBody bytes of the answer. A connection that fails ends the
// test.
func fetch(t testing.TB, r *http.Request) (int, []byte) {
	t.Helper()
	resp, err := client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", r.URL, err))
	}
	return resp.StatusCode, body
}
