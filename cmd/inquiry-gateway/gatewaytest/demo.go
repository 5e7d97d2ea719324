package gatewaytest

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

	"inquiry-gateway/internal/testkit"
)

// Demo is a running `inquiry-gateway demo`: the gateway, the sample legacy system, and
// sample keys.
type Demo struct {
	Public, Ops, Legacy string // URLs without a path
	Config              string // path of the configuration file

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

// StartDemo runs the demo with a Redis.
func StartDemo(t testing.TB, binary, redisAddr string) *Demo {
	t.Helper()
	m := await(t, demoReady, []string{"REDIS_URL=redis://" + redisAddr}, binary, "demo")
	d := &Demo{t: t, Public: m[1], Ops: m[2], Legacy: m[3], Config: m[4]}
	for _, c := range demoCurl.FindAllStringSubmatch(m[0], -1) {
		d.callers = append(d.callers, caller{c[1], c[2]})
	}
	if len(d.callers) < 2 {
		t.Fatalf("%d sample keys in\n%s", len(d.callers), m[0])
	}
	return d
}

// StartNode runs another gateway with the demo's configuration on other ports, and with
// another section auth. It returns the URL of its ops listener.
func (d *Demo) StartNode(binary, auth string) (ops string) {
	d.t.Helper()
	text, err := os.ReadFile(d.Config)
	if err != nil {
		d.t.Fatal(err)
	}
	config := regexp.MustCompile(`(?m)^auth: .*$`).ReplaceAllLiteralString(string(text), auth)
	for _, url := range []string{d.Public, d.Ops} {
		config = strings.Replace(config, strings.TrimPrefix(url, "http://"), "127.0.0.1:0", 1)
	}
	file := filepath.Join(filepath.Dir(d.Config), fmt.Sprintf("node-%d.yaml", time.Now().UnixNano())) // beside the files that it names
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		d.t.Fatal(err)
	}
	_, _, ops = Serve(d.t, binary, file, d.t.TempDir())
	return ops
}

// Serve runs a built gateway until the test ends, and waits until it serves. Its log is in dir. It
// returns the URLs of the public and of the ops listener.
func Serve(t testing.TB, binary, config, dir string) (p *testkit.Process, public, ops string) {
	t.Helper()
	p = testkit.RunProgram(t, testkit.Command{Name: "gateway", Path: binary, Args: []string{"serve", "-c", config}, Dir: dir})
	m, err := p.Await(t.Context(), serving)
	if err != nil {
		t.Fatal(err)
	}
	return p, m[1], m[2]
}

// await runs a program until the test ends, and waits until its output has a match of
// the pattern, whose groups it returns.
func await(t testing.TB, ready *regexp.Regexp, env []string, path string, args ...string) []string {
	t.Helper()
	p := testkit.RunProgram(t, testkit.Command{Name: filepath.Base(path), Path: path, Args: args, Env: env, Dir: t.TempDir()})
	match, err := p.Await(t.Context(), ready)
	if err != nil {
		t.Fatal(err)
	}
	return match
}

// Exercise makes the gateway count all that it counts: callers of every kind, mistakes
// of callers, and a legacy system that misbehaves and recovers. Each fault has its own
// lists, because a list that the cache holds does not reach the legacy system.
func (d *Demo) Exercise() {
	d.t.Helper()
	for _, query := range []string{"", "", "status=pending", "no_such_parameter=1"} {
		d.call(query)
	}
	for _, key := range []string{"", "unknown", "iqb_0000000000000000000000000000000000000"} {
		d.request(http.MethodGet, d.Public+d.callers[0].list, key)
	}
	d.request(http.MethodPost, d.Public+d.callers[0].list, d.callers[0].key)
	for _, path := range []string{"/nowhere", "/docs", "/openapi.json"} {
		d.request(http.MethodGet, d.Public+path, "")
	}
	for fault, query := range map[string]string{
		"fault=wrong_owner&kind=buyer": "status=answered", "fault=html&kind=buyer": "status=closed", "fault=status&status=503": "inquiry_type=refund",
	} {
		d.request(http.MethodPut, d.Legacy+"/admin/fault?"+fault, "")
		d.call(query)
		d.request(http.MethodDelete, d.Legacy+"/admin/fault", "")
	}
}

// call sends every sample key to the list it is for.
func (d *Demo) call(query string) {
	d.t.Helper()
	for _, c := range d.callers {
		d.request(http.MethodGet, d.Public+c.list+"?"+query, c.key)
	}
}

// Metrics reads the page of metrics of an ops listener.
func (d *Demo) Metrics(ops string) []byte {
	d.t.Helper()
	status, body := d.request(http.MethodGet, ops+"/metrics", "")
	if status != http.StatusOK {
		d.t.Fatalf("%s/metrics: %d %s", ops, status, body)
	}
	return body
}

// request sends a request with a key, unless it is empty, and reads the answer.
func (d *Demo) request(method, url, key string) (int, []byte) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, url, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		d.t.Fatalf("%s: %v", url, err)
	}
	return resp.StatusCode, body
}
