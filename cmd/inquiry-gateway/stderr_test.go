package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
)

// planted stands in what must never be logged: replies of the legacy system, and a header with
// the credentials for a collector of traces.
const planted = "PLANTED"

// logRecord is what every line on the standard error of serve has.
type logRecord struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	Msg   string    `json:"msg"`
	Error string    `json:"error"`
}

// logRecords reads what serve wrote on standard error. Every line must be a record, and have nothing
// of what was planted.
func logRecords(t *testing.T, stderr []byte) (records []logRecord) {
	t.Helper()
	for line := range bytes.Lines(stderr) {
		var r logRecord
		err := json.Unmarshal(line, &r)
		if err != nil || r.Time.IsZero() || r.Level == "" || r.Msg == "" {
			t.Errorf("not a record (%v): %s", err, line)
		}
		if bytes.Contains(line, []byte(planted)) {
			t.Errorf("content is in the log: %s", line)
		}
		records = append(records, r)
	}
	return records
}

// serveApart is a command that runs serve in a process of its own.
func serveApart(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], append([]string{"serve"}, args...)...)
	cmd.Env = append(os.Environ(), mainInstead+"=1")
	return cmd
}

// Whatever keeps serve from starting is a record of the log, which says what to do.
func TestFailedStartsAreLogged(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	for _, tt := range []struct {
		name, want string
		edit       []string // pairs
		args       []string // nil: -c gateway.yaml
		env        string
	}{
		{name: "no configuration", args: []string{}, want: "which configuration? give -c FILE"},
		{name: "no such file", args: []string{"-c", "none.yaml"}, want: "none.yaml"},
		{name: "unknown flag", args: []string{"--confg", "x"}, want: "did you mean --config?"},
		{name: "argument", args: []string{"-c", "none.yaml", "b"}, want: `takes no argument "b"`},
		{name: "several mistakes", edit: []string{"listen: 127", "no_such: 1\nmax_connections: none\nlisten: 127"}, want: "max_connections"},
		{name: "syntax", edit: []string{"listen: 127", "listen: [127"}, want: "gateway.yaml"},
		{name: "keys", edit: []string{"keys_file: keys.yaml", "keys_file: no-keys.yaml"}, want: "no-keys.yaml"},
		{name: "keys that are a folder", edit: []string{"keys_file: keys.yaml", "keys_file: ."}, want: "auth.keys_file"},
		{name: "port", edit: []string{"listen: 127.0.0.1:0", "listen: " + taken.Addr().String()}, want: "is in use by another program"},
		{name: "redis", edit: []string{"listen: 127", "redis: {addrs: [nowhere]}\nlisten: 127"}, want: "redis.addrs"},
		{name: "certificate", edit: []string{"listen: 127", "tls: {cert_file: none.pem, key_file: none.key}\nlisten: 127"}, want: "tls.key_file"},
		{name: "no scheme", env: "OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", want: "OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL with http:// or https://"},
		{name: "no scheme for traces", env: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=10.0.0.1:4318", want: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: must be a URL"},
		{name: "no host", env: "OTEL_EXPORTER_OTLP_ENDPOINT=http://", want: "OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL"},
		{name: "no URL", env: "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + planted + "%zz", want: "OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL"},
		{name: "password in URL", env: "OTEL_EXPORTER_OTLP_ENDPOINT=http://u:" + planted + "@127.0.0.1:1", want: "OTEL_EXPORTER_OTLP_HEADERS"},
		{name: "grpc", env: "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", want: `OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" is not supported; set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf`},
		{name: "compression", env: "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=zstd", want: "gzip"},
		{name: "exporter", env: "OTEL_TRACES_EXPORTER=zipkin", want: `OTEL_TRACES_EXPORTER: "zipkin" is not supported; set it to otlp or none`},
		{name: "resource", env: "OTEL_RESOURCE_ATTRIBUTES=nothing", want: "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newProgram(t, setup{})
			p.edit(tt.edit...)
			if tt.args == nil {
				tt.args = []string{"-c", "gateway.yaml"}
			} else {
				p.remove("gateway.yaml") // which serve would find without -c
			}
			var stdout, stderr bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for one that starts all the same
			defer cancel()
			cmd := serveApart(ctx, tt.args...)
			cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, &stdout, &stderr
			if tt.env != "" {
				cmd.Env = append(cmd.Env, "OTEL_TRACES_EXPORTER=otlp", tt.env)
			}
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			err := cmd.Run()
			records := logRecords(t, stderr.Bytes())
			if stdout.Len() > 0 || err == nil || len(records) == 0 {
				t.Fatalf("%v\n%s%s", err, &stdout, &stderr)
			}
			if last := records[len(records)-1]; last.Level != "ERROR" || !strings.Contains(last.Error, tt.want) {
				t.Errorf("want %q:\n%s", tt.want, &stderr)
			}
		})
	}
}

// rawReplies are responses of the legacy system that net/http prints, the first two, or quotes in an error.
// LIST is the right list, and SIZE its length.
var rawReplies = []string{
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: SIZE\r\n\r\nLIST" + planted + "\r\n",
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: SIZE\r\n\r\nLISTHTTP/1.1 200 " + planted + "\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{\"a\":\"" + planted + "\"}",
	planted + "\r\n\r\n",
	"HTTP/1.1 " + planted + "\r\n\r\n",
	"HTTP/1.1 200 OK\r\n" + planted + "\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: " + planted + "\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + planted + "\r\n",
}

// Libraries print on standard error what they cannot return. All of that is in records of the log, and
// none of it has what the legacy system sent.
func TestLibrariesPrintIntoTheLog(t *testing.T) {
	t.Parallel()
	testkit.SkipShort(t)
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	var reply atomic.Value // of rawReplies
	s := overTLS(setup{redis: "{addrs: [\"127.0.0.1:1\"]}", upstream: []string{"timeout: 2s", "timeout: 60s"}, backend: func(system http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			list := httptest.NewRecorder()
			system.ServeHTTP(list, r)
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			raw := strings.NewReplacer("SIZE", strconv.Itoa(list.Body.Len()), "LIST", list.Body.String()).Replace(reply.Load().(string))
			_, _ = io.WriteString(c, raw)
			_, _ = io.Copy(io.Discard, c) // until the gateway closes the connection
		})
	}})
	s.yaml += "\nrequest_timeout: 60s\ncache: {jitter: 0, buyer: {ttl: 1ms, stale_while_revalidate: 0s}}" // each request is a fetch
	p := newProgram(t, s)
	node := testkit.RunProgram(t, testkit.Command{
		Name: "serve", Path: os.Args[0], Args: []string{"serve", "-c", p.file()}, Dir: t.TempDir(), Env: []string{
			mainInstead + "=1", "OTEL_EXPORTER_OTLP_ENDPOINT=" + collector.URL, "OTEL_EXPORTER_OTLP_HEADERS=" + planted, "OTEL_EXPORTER_OTLP_TIMEOUT=soon",
			"OTEL_EXPORTER_OTLP_CERTIFICATE=none.pem", "OTEL_BSP_SCHEDULE_DELAY=often", "OTEL_TRACES_SAMPLER=sometimes",
		},
	})
	defer func() {
		must(t, node.Stop())
		stderr, err := os.ReadFile(node.Log())
		must(t, err)
		logRecords(t, stderr)
	}()
	awaits := func(pattern string) []string {
		t.Helper()
		m, err := node.Await(t.Context(), regexp.MustCompile(pattern))
		must(t, err)
		return m
	}
	public := awaits(`"listen":"https://([^"]+)"`)[1]
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a test
	defer client.CloseIdleConnections()
	ask := func(i int) (status int) {
		reply.Store(rawReplies[i])
		filter, kind := []string{"pending", "answered", "closed"}[i%3], []string{"product", "delivery", "refund"}[i/3]
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+public+buyerList+"?status="+filter+"&inquiry_type="+kind, nil)
		must(t, err)
		account := []string{"buyer", "other-buyer"}[i/5] // the gateway stops asking for an account whose lists fail
		r.Header.Set("Authorization", "Bearer "+p.keys[account])
		resp, err := client.Do(r)
		must(t, err)
		must(t, resp.Body.Close())
		return resp.StatusCode
	}
	// net/http reports bytes after a response only if no request has taken the connection in the meantime.
	more := regexp.MustCompile(`sent more bytes than its Content-Length .*"source":"[^"]*net/http/transport\.go:\d+"`)
	must(t, node.Until(t.Context(), func() bool {
		ask(0)
		ask(1)
		stderr, err := os.ReadFile(node.Log())
		return err == nil && more.Match(stderr)
	}))
	for i := 2; i < len(rawReplies); i++ {
		if status := ask(i); status != http.StatusBadGateway {
			t.Errorf("%q: status %d", rawReplies[i], status)
		}
	}
	garbage, err := net.Dial("tcp", public)
	must(t, err)
	_, err = io.WriteString(garbage, "no handshake\r\n\r\n")
	must(t, err)
	must(t, garbage.Close())
	for _, pattern := range []string{`TLS handshake error`, `parse headers: missing`, `OTEL_BSP_SCHEDULE_DELAY`, `sometimes`, `none\.pem`} {
		awaits(pattern)
	}
	p.edit("listen: 127", "no_such: 1\nlisten: 127")
	awaits("configuration not reloaded")
}
