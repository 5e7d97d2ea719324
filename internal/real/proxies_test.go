//go:build real

package real

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/internal/testkit"
)

// The proxies are run with the configurations of docs/operation.md.

func TestHAProxy(t *testing.T) {
	behind(t, "haproxy", "haproxy", "BLOCK", "haproxy -db -f proxy.conf")
}

func TestNginx(t *testing.T) {
	behind(t, "nginx", "nginx", "daemon off; pid nginx.pid; error_log stderr; events {}\nhttp { access_log off;\nBLOCK }", "nginx -p . -c proxy.conf")
}

func TestCaddy(t *testing.T) {
	behind(t, "caddy", "caddyfile", "{\n\tadmin off\n\tauto_https disable_redirects\n}\nBLOCK", "env XDG_DATA_HOME=. XDG_CONFIG_HOME=. caddy run --adapter caddyfile --config proxy.conf")
}

func TestVarnish(t *testing.T) {
	behind(t, "varnish", "vcl", "BLOCK", "varnishd -F -j none -n $PWD/varnish -a $ADDR,HTTP -p feature=+http2 -s malloc,64m -f $PWD/proxy.conf")
}

// caller is where requests come from, as the proxy sees it.
const caller = "127.0.0.7"

// behind puts a proxy in front of two nodes, restarts and reloads these while callers of two accounts ask over HTTP/2, and
// compares each answer.
func behind(t *testing.T, name, language, whole, command string) {
	s := newSystem(t)
	s.debian(name, name)
	doc, err := os.ReadFile("../../docs/operation.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(string(doc))
	if block == nil {
		t.Fatal("docs/operation.md has no configuration of ", name)
	}
	testkit.Certificate(t, s.dir, "localhost")
	s.run("", "cd "+s.dir+" && cat cert.pem key.pem >both.pem")
	public, ops := freePort(t), freePort(t)
	_, port := s.hostPort()
	config := strings.NewReplacer("10.0.0.1", "127.0.0.1", ":8080", ":"+public, `"8080"`, `"`+public+`"`, "9090", ops,
		"bind :443", "bind "+s.addr, "listen 443", "listen "+s.addr, "api.example.com {", "https://localhost:"+port+" {\n\tbind 127.0.0.1",
		"/etc/haproxy/gateway.pem", s.dir+"/both.pem", "/etc/nginx/gateway.pem", s.dir+"/cert.pem", "/etc/nginx/gateway.key", s.dir+"/key.pem",
		"/etc/caddy/gateway.pem", s.dir+"/cert.pem", "/etc/caddy/gateway.key", s.dir+"/key.pem").Replace(block[1])
	s.file("proxy.conf", strings.Replace(whole, "BLOCK", config, 1))

	f := &fleet{result: result{system: s.title, way: "two nodes, HTTP/2 in front"}, t: t, dir: s.dir, public: public, ops: ops, binary: testkit.BuildGateway(t)}
	results, s.judged = append(results, &f.result), true
	f.legacy()
	f.configure("1s")
	for _, account := range []string{"acme", "hanriver"} {
		f.keys = append(f.keys, strings.Fields(s.run("", f.binary+" keys -c "+s.dir+"/11.yaml new --kind buyer --account "+account+" --api-access paid"))[0])
	}
	f.start("11")
	f.start("12")
	s.process = testkit.RunProgram(t, testkit.Command{Name: name, Path: "/bin/sh", Args: []string{"-c", "cd " + s.dir + " && exec " + command},
		Env: []string{"ADDR=" + s.addr}, Addr: s.addr, Dir: s.dir})
	t.Cleanup(s.stop) // with its children

	url := "https://" + s.addr
	if name == "varnish" {
		url = "http://" + s.addr
	}
	f.wait("the proxy answers", func() bool { return f.ask(f.client(), url, 0, "") == nil })
	stop, client := make(chan struct{}), f.client()
	var callers sync.WaitGroup
	for n := range 4 {
		callers.Go(func() {
			for ; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond): // a load, and no race for the machine's two cores
				}
				f.note(f.ask(client, url, n%2, ""))
			}
		})
	}
	for _, node := range []string{"11", "12", "11"} {
		if err := f.nodes[node].Stop(); err != nil {
			t.Error(err)
		}
		f.start(node)
	}
	f.configure("2s")
	for _, node := range []string{"11", "12"} {
		f.wait("node "+node+" takes over its configuration", func() bool {
			return strings.Contains(f.read("http://127.0.0."+node+":"+ops+"/ops/config"), "ttl: 2s")
		})
	}
	for range 5 { // whether the proxy refuses them or a node is the proxy's affair; others must not notice
		_ = f.ask(f.client(), url, 0, strings.Repeat("x", 60<<10))
	}
	time.Sleep(time.Second)
	close(stop)
	callers.Wait()
	f.took = time.Since(s.began)
	f.compared, f.wrong = int(f.asked.Load()), int(f.failed.Load())
	t.Logf("%s: %d requests, %d failed", s.title, f.compared, f.wrong)

	logs := f.log("11") + f.log("12")
	f.note(condition(strings.Contains(logs, `"client_address":"`+caller+`"`), "no record names the caller"))
	f.note(condition(!strings.Contains(logs, "203.0.113.9"), "a record names the address that the caller has made up"))
}

func condition(ok bool, otherwise string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s", otherwise)
}

// freePort is one of this machine's addresses of loopback.
func freePort(t *testing.T) string {
	addr, err := testkit.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// fleet is two nodes, on 127.0.0.11 and 127.0.0.12, in front of one legacy system.
type fleet struct {
	result
	t                        *testing.T
	dir, public, ops, binary string
	base                     string // of the legacy system
	keys                     []string
	nodes                    map[string]*testkit.Process
	starts                   int

	asked, failed atomic.Int64
}

// legacy has one inquiry for each account, which names the account.
func (f *fleet) legacy() {
	legacy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		account := r.URL.Query().Get("customer")
		fmt.Fprintf(w, `[{"id": "TCK-1", "customer": %q, "subject": "for %s", "at": "2026-01-02T10:00:00Z"}]`, account, account)
	}))
	f.t.Cleanup(legacy.Close)
	f.base, f.nodes = legacy.URL, map[string]*testkit.Process{}
}

// configure writes the configurations of both nodes.
func (f *fleet) configure(ttl string) {
	for _, node := range []string{"11", "12"} {
		fields := `{title: subject, status: {default: pending}, inquiry_type: {default: general}, created_at: at`
		list := func(kind, more string) string {
			return fmt.Sprintf("  %s: {path: /list, query: {customer: \"{account}\"}, items: \"@this\", owner: customer, internal_ids: [id], paging: {style: none}, fields: %s}}\n", kind, fields+more)
		}
		text := fmt.Sprintf("listen: 127.0.0.%s:%s\nops: {listen: \"127.0.0.%s:%s\"}\nshutdown_delay: 3s\ngateway: {trusted_proxies: [127.0.0.1]}\nauth: {keys_file: keys.yaml}\n"+
			"cache: {buyer: {ttl: %s}}\nupstream:\n  base_url: %s\n", node, f.public, node, f.ops, ttl, f.base) +
			list("buyer", ", content: subject, responses: {items: answers, items_optional: true, fields: {content: a, responder_type: b, created_at: c}}") + list("seller", ", company_name: customer")
		if err := os.WriteFile(filepath.Join(f.dir, node+".yaml"), []byte(text), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(f.dir, "keys.yaml")); err != nil {
		if err := os.WriteFile(filepath.Join(f.dir, "keys.yaml"), []byte("accounts: []\nkeys: []\n"), 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// start runs a node, and waits until the proxy has sent it a caller's request, if there is a proxy.
func (f *fleet) start(node string) {
	f.starts++
	dir := filepath.Join(f.dir, fmt.Sprint("log", f.starts))
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	f.nodes[node], _, _ = gatewaytest.Serve(f.t, f.binary, filepath.Join(f.dir, node+".yaml"), dir)
	if f.starts > 2 {
		f.wait("node "+node+" is asked again", func() bool { return strings.Contains(f.log(node), `"key_id"`) })
	}
}

func (f *fleet) log(node string) string {
	text, err := os.ReadFile(f.nodes[node].Log())
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

func (f *fleet) wait(what string, ok func() bool) {
	f.t.Helper()
	for began := time.Now(); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > timeout {
			f.t.Fatal("not within a minute: ", what)
		}
	}
}

// client asks over HTTP/2 from the caller's address.
func (f *fleet) client() *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(caller)}}
	transport := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		}}
	f.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

// read is a page of a node's ops listener.
func (f *fleet) read(url string) string {
	res, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body) // a part does not match
	return string(text)
}

// ask asks for the list of one of the two accounts, or with a large field and without a key, and says what is wrong with the answer.
func (f *fleet) ask(client *http.Client, url string, account int, large string) error {
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, url+"/api/v1/buyer/inquiries", nil)
	if err != nil {
		return err
	}
	r.Host = "localhost"
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	if large != "" {
		r.Header.Set("X-Large", large)
	} else {
		r.Header.Set("Authorization", "Bearer "+f.keys[account])
	}
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if want := "for " + []string{"acme", "hanriver"}[account]; err != nil || res.StatusCode != http.StatusOK || res.ProtoMajor != 2 || !strings.Contains(string(text), want) {
		return fmt.Errorf("%s %s %v instead of %q: %.300s", res.Proto, res.Status, err, want, text)
	}
	return nil
}

// note counts an answer, and says what is wrong with the first ones.
func (f *fleet) note(err error) {
	f.asked.Add(1)
	if err == nil {
		return
	}
	if f.failed.Add(1) <= 5 {
		f.t.Error(err)
	} else {
		f.t.Fail()
	}
}
