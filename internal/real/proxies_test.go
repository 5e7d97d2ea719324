//go:build real

package real

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// The proxies are run with the configurations of docs/operation.md.

func TestHAProxy(t *testing.T) {
	f := behind(t, "haproxy", "haproxy", "BLOCK", "haproxy -db -f proxy.conf")
	f.caches("frontend public\n", "cache lists\n  total-max-size 4\n  max-age 60\n  process-vary on\n\nbackend other\n  server legacy "+f.legacy+"\n\n"+
		"frontend public\n  http-request cache-use lists\n  http-response cache-store lists\n  use_backend other if { path /cacheable }\n")
	f.sharesConnections()
}

func TestNginx(t *testing.T) {
	f := behind(t, "nginx", "nginx", "daemon off; pid nginx.pid; error_log stderr; events {}\nhttp { access_log off;\nBLOCK }", "nginx -p . -c proxy.conf")
	f.caches("access_log off;\n", "access_log off;\nproxy_cache_path cache keys_zone=lists:1m;\nproxy_cache lists;\nproxy_cache_valid 200 1m;\n",
		"  location / {\n", "  location /cacheable { proxy_pass http://"+f.legacy+"; }\n  location / {\n")
}

func TestCaddy(t *testing.T) {
	behind(t, "caddy", "caddyfile", "{\n\tadmin off\n\tauto_https disable_redirects\n}\nBLOCK", "env XDG_DATA_HOME=. XDG_CONFIG_HOME=. caddy run --adapter caddyfile --config proxy.conf")
}

func TestVarnish(t *testing.T) {
	behind(t, "varnish", "vcl", "BLOCK", "varnishd -F -j none -n $PWD/varnish -a ADDR,HTTP -p feature=+http2 -s malloc,64m -f $PWD/proxy.conf")
}

// caller is where requests come from, as the proxy sees it.
const caller = "127.0.0.7"

// fleet is two nodes, on 127.0.0.11 and 127.0.0.12, in front of the sample legacy system and behind a proxy.
type fleet struct {
	*result
	*system
	t            *testing.T
	url          string // of the proxy
	config       string // the proxy's
	public, ops  string // ports of the nodes
	binary       string
	legacy       string // host and port; it also has a page that a cache may keep
	keys, bodies map[string]string
	nodes        map[string]*testkit.Process
	starts       int
}

// behind puts a proxy in front of two nodes, restarts and reloads these while callers of two accounts ask over HTTP/2, and
// compares each answer.
func behind(t *testing.T, name, language, whole, command string) *fleet {
	s := newSystem(t)
	s.debian(name, name)
	doc := testkit.Read(t, "../../docs/operation.md")
	block := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(doc)
	if block == nil {
		t.Fatal("docs/operation.md has no configuration of ", name)
	}
	testkit.Certificate(t, s.dir, "localhost")
	s.run("", "cd "+s.dir+" && cat cert.pem key.pem >both.pem")
	_, port := s.hostPort()
	f := &fleet{
		result: s.newResult("two nodes, HTTP/2 in front"), system: s, t: t, public: freePort(t), ops: freePort(t), binary: testkit.BuildGateway(t),
		keys: map[string]string{}, bodies: map[string]string{}, nodes: map[string]*testkit.Process{}, url: "https://" + s.addr,
	}
	if name == "varnish" {
		f.url = "http://" + s.addr
	}
	config := strings.NewReplacer("10.0.0.1", "127.0.0.1", ":8080", ":"+f.public, `"8080"`, `"`+f.public+`"`, "9090", f.ops,
		"bind :443", "bind "+s.addr, "listen 443", "listen "+s.addr, "api.example.com {", "https://localhost:"+port+" {\n\tbind 127.0.0.1",
		"/etc/haproxy/gateway.pem", s.dir+"/both.pem", "/etc/nginx/gateway.pem", s.dir+"/cert.pem", "/etc/nginx/gateway.key", s.dir+"/key.pem",
		"/etc/caddy/gateway.pem", s.dir+"/cert.pem", "/etc/caddy/gateway.key", s.dir+"/key.pem").Replace(block[1])
	f.config, s.command = strings.Replace(whole, "BLOCK", config, 1), strings.ReplaceAll(command, "ADDR", s.addr)
	f.startLegacy()
	s.file("keys.yaml", gatewaytest.KeysFile(t, []gatewaytest.Caller{gatewaytest.Paid(legacy.KindBuyer, legacy.BuyerTypical, legacy.BuyerTypical),
		gatewaytest.Paid(legacy.KindBuyer, legacy.BuyerOther, legacy.BuyerOther)}, f.keys))
	f.configure("1s")
	f.startNode("11")
	f.startNode("12")
	for account := range f.keys {
		status, body, err := f.request(http.DefaultClient, "http://127.0.0.11:"+f.public, account, 0)
		if f.bodies[account] = body; err != nil || status != http.StatusOK {
			t.Fatal(status, body, err)
		}
	}
	f.proxy()

	stop, client := make(chan struct{}), f.client()
	var callers sync.WaitGroup
	for range 2 {
		for account := range f.keys {
			callers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond): // a load, and no race for the machine's two cores
					}
					f.list(client, account)
				}
			})
		}
	}
	for _, node := range []string{"11", "12", "11"} {
		if err := f.nodes[node].Stop(); err != nil {
			t.Error(err)
		}
		f.startNode(node)
		f.wait("node "+node+" is asked again", func() bool { return strings.Contains(f.log(node), `"key_id"`) })
	}
	f.configure("2s")
	for _, node := range []string{"11", "12"} {
		f.wait("node "+node+" takes over its configuration", func() bool {
			return strings.Contains(read(t, "http://127.0.0."+node+":"+f.ops+"/ops/config"), "ttl: 2s")
		})
	}
	for range 5 { // whether the proxy refuses them or a node is the proxy's affair; others must not notice
		_, _, _ = f.request(f.client(), f.url, "", 60<<10)
	}
	time.Sleep(time.Second) // in which callers ask
	close(stop)
	callers.Wait()
	logs := f.log("11") + f.log("12")
	f.compare(strings.Contains(logs, `"client_address":"`+caller+`"`), "no record names the caller")
	f.compare(!strings.Contains(logs, "203.0.113.9"), "a record names the address that the caller has made up")
	return f
}

// caches has the proxy cache what it may, and compares the lists of two accounts.
func (f *fleet) caches(changes ...string) {
	f.proxy(changes...)
	client := f.client()
	page := func() string {
		res, err := client.Get(f.url + "/cacheable")
		if err != nil {
			f.t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			f.t.Fatal(err)
		}
		return string(text)
	}
	first := page()
	f.compare(first == page(), "the cache keeps nothing")
	for range 20 {
		for account := range f.keys {
			f.list(client, account)
		}
	}
}

// sharesConnections has HAProxy send all callers' requests over the same HTTP/2 connections: one that is refused for its header leaves them open.
func (f *fleet) sharesConnections() {
	f.proxy("defaults\n", "global\n  nbthread 1\n  tune.bufsize 131072\n  stats socket "+f.dir+"/stats\n\ndefaults\n  http-reuse always\n",
		":"+f.public+"\n", ":"+f.public+" proto h2 check-proto h1\n")
	client := f.client()
	lists := func() {
		for range 10 {
			for account := range f.keys {
				f.list(client, account)
			}
		}
	}
	// connections is how many the proxy has made to the nodes.
	connections := func() (n int) {
		f.t.Helper()
		conn, err := net.Dial("unix", f.dir+"/stats")
		if err != nil {
			f.t.Fatal(err)
		}
		defer conn.Close()
		_, err = io.WriteString(conn, "show stat typed\n")
		text, err2 := io.ReadAll(conn)
		if err := errors.Join(err, err2); err != nil {
			f.t.Fatal(err)
		}
		for row := range strings.SplitSeq(string(text), "\n") {
			if strings.HasPrefix(row, "S.") && strings.Contains(row, ".connect.") {
				made, err := strconv.Atoi(row[strings.LastIndexByte(row, ':')+1:])
				if err != nil {
					f.t.Fatal(row)
				}
				n += made
			}
		}
		return n
	}
	lists()
	before := connections()
	for _, size := range []int{16, 20, 40, 60} {
		status, body, err := f.request(client, f.url, "", size<<10)
		f.compare(status == http.StatusRequestHeaderFieldsTooLarge && strings.Contains(body, "header_fields_too_large"), "%d KiB of header: %d %v %.200s", size, status, err, body)
		lists()
	}
	after := connections()
	f.compare(before > 0 && after == before, "%d connections to the nodes were %d before", after, before)
}

// proxy runs the proxy, with texts of its configuration replaced, until the test ends or it is run again.
func (f *fleet) proxy(changes ...string) {
	f.t.Helper()
	if f.process != nil {
		f.stop()
	}
	f.file("proxy.conf", strings.NewReplacer(changes...).Replace(f.config))
	f.launch()
	client := f.client()
	f.wait("the proxy answers", func() bool {
		status, _, err := f.request(client, f.url, legacy.BuyerTypical, 0)
		return err == nil && status == http.StatusOK
	})
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

// startLegacy runs the sample legacy system, which also has a page that is another one each time and may be cached.
func (f *fleet) startLegacy() {
	var pages atomic.Int64
	all := http.NewServeMux()
	all.Handle("/", legacy.New(legacy.Options{}))
	all.HandleFunc("/cacheable", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		_, _ = fmt.Fprint(w, pages.Add(1))
	})
	server := httptest.NewServer(all)
	f.t.Cleanup(server.Close)
	f.legacy = server.Listener.Addr().String()
}

// configure writes the configurations of both nodes.
func (f *fleet) configure(ttl string) {
	for _, node := range []string{"11", "12"} {
		f.file(node+".yaml", fmt.Sprintf("listen: 127.0.0.%s:%s\nops: {listen: \"127.0.0.%s:%s\"}\nshutdown_delay: 3s\ngateway: {trusted_proxies: [127.0.0.1]}\nauth: {keys_file: keys.yaml}\n"+
			"cache: {buyer: {ttl: %s}}\n", node, f.public, node, f.ops, ttl)+gatewaytest.Mapping("http://"+f.legacy))
	}
}

// startNode runs a node.
func (f *fleet) startNode(node string) {
	f.starts++
	dir := filepath.Join(f.dir, fmt.Sprint("log", f.starts))
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.t.Fatal(err)
	}
	f.nodes[node], _, _ = gatewaytest.Serve(f.t, f.binary, filepath.Join(f.dir, node+".yaml"), dir)
}

func (f *fleet) log(node string) string {
	return testkit.Read(f.t, f.nodes[node].Log())
}

func (f *fleet) wait(what string, ok func() bool) {
	f.t.Helper()
	if !within(ok) {
		f.t.Fatal("not within a minute: ", what)
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

// request asks for the list of an account, whose key is sent, and with a further field of so many bytes.
func (f *fleet) request(client *http.Client, url, account string, field int) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodGet, url+"/api/v1/buyer/inquiries", nil)
	if err != nil {
		return 0, "", err
	}
	r.Host = "localhost"
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	if field > 0 {
		r.Header.Set("X-Large", strings.Repeat("x", field))
	}
	if account != "" {
		r.Header.Set("Authorization", "Bearer "+f.keys[account])
	}
	res, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	if client != http.DefaultClient && res.ProtoMajor != 2 {
		return 0, "", errors.New(res.Proto)
	}
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// list asks the proxy for the list of an account, and compares it.
func (f *fleet) list(client *http.Client, account string) {
	status, body, err := f.request(client, f.url, account, 0)
	f.compare(err == nil && status == http.StatusOK && body == f.bodies[account], "the list of %s: %d %v: %.300s", account, status, err, body)
}
