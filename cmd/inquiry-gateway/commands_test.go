package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// command runs one command line as main would.
func command(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(context.Background(), append([]string{"inquiry-gateway"}, args...), &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// commandSays runs a command line: it must end with that code, and have said the text where
// it belongs, which for what is wrong is standard error.
func commandSays(t *testing.T, code int, text string, args ...string) {
	t.Helper()
	out, errOut, got := command(t, args...)
	where := errOut
	if code == 0 {
		where = out
	}
	if got != code || !strings.Contains(where, text) {
		t.Errorf("%q: exit code %d, want %d and %q: %s%s", args, got, code, text, out, errOut)
	}
}

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{}, 0, "COMMANDS"},
		{[]string{"nonsense"}, 2, "unknown command"},
		{[]string{"--version"}, 0, "inquiry-gateway version dev"},
		{[]string{"serv"}, 2, "did you mean inquiry-gateway serve?"},
		{[]string{"keys", "nwe"}, 2, "did you mean inquiry-gateway keys new?"},
		{[]string{"check", "--confg", "x"}, 2, "did you mean --config?"},
		{[]string{"keys", "list", "--fil", "x"}, 2, "did you mean --file?"},
		{[]string{"ttl", "--zzzzz"}, 2, "see inquiry-gateway ttl --help"},
		{[]string{"help", "keys"}, 0, "inquiry-gateway keys"},
		{[]string{"keys", "new", "--help"}, 0, "inquiry-gateway keys new"},
		{[]string{"completion", "fish"}, 0, "complete"},
		{[]string{"keys", "--generate-shell-completion"}, 0, "rotate:"},
		{[]string{"check", "--con", "--generate-shell-completion"}, 0, "--config:"},
		{[]string{"check", "--json", "--print", "-c", "x"}, 1, `"problems":[{"message":"no such file; check the path"}],"warnings":[]}`},
		{[]string{"serve"}, 2, "-c FILE"},
		{[]string{"chek", "-c", "x"}, 2, "did you mean inquiry-gateway check?"},
		{[]string{"serve", "--nonsense"}, 2, "nonsense"},
		{[]string{"serve", "-c", "/does/not/exist.yaml"}, 1, "/does/not/exist.yaml"},
		{[]string{"check", "-c", "/does/not/exist.yaml"}, 1, "/does/not/exist.yaml"},
		{[]string{"check"}, 2, "-c FILE"},
		{[]string{"draft", "--sample", "x", "--account", "a", "--kind", "admin"}, 2, "buyer or seller"},
		{[]string{"draft", "--sample", "../../upstream/draft/testdata/nested.json", "--account", "acme", "--kind", "buyer"}, 0, "title: subject"},
		{[]string{"check", "--schema"}, 0, `"additionalProperties": false`},
		{[]string{"keys", "list"}, 2, "which keys file"},
		{[]string{"keys", "nonsense"}, 2, "nonsense"},
		{[]string{"keys", "--file", "x", "-c", "y", "list"}, 2, "give one of them"},
		{[]string{"keys", "--file", "x", "revoke"}, 2, "which key"},
		{[]string{"keys", "--file", "x", "new", "--kind", "admin", "--account", "a"}, 2, "admin"},
		{[]string{"keys", "--file", "x", "new", "--kind", "buyer", "--account", "a", "--expires", "tomorrow"}, 2, "tomorrow"},
		{[]string{"demo", "--legacy-only", "--listen", "nowhere"}, 1, "nowhere"},
		{[]string{"health", "http://127.0.0.1:1/readyz"}, 1, "refused"},
	} {
		if out, errOut, code := command(t, tc.args...); code != tc.code || !strings.Contains(out+errOut, tc.says) {
			t.Errorf("%q: exit code %d, want %d; said %s%s, want %q", tc.args, code, tc.code, out, errOut, tc.says)
		}
	}
}

func TestTakenPortIsAClearError(t *testing.T) {
	p := start(t, setup{})
	taken := strings.TrimPrefix(p.app.URL(), "http://")
	p.write("taken.yaml", "listen: "+taken+"\nops: {listen: 127.0.0.1:0}\nauth: {keys_file: keys.yaml}\n"+string(legacy.Mapping()))
	_, errOut, code := command(t, "serve", "-c", filepath.Join(p.dir, "taken.yaml"))
	if code != 1 || !strings.Contains(errOut, "listen: "+taken+" is taken by another program") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}

// The life of a key with a running gateway: made, used, revoked, refused.
func TestKeysAgainstARunningGateway(t *testing.T) {
	p := start(t, setup{})
	file := filepath.Join(p.dir, "keys.yaml")
	out, errOut, code := command(t, "keys", "-c", filepath.Join(p.dir, "gateway.yaml"), "new", "--kind", "buyer", "--account", legacy.BuyerTypical, "--id", "fresh", "--expires", "24h")
	if code != 0 {
		t.Fatalf("keys new: %s", errOut)
	}
	if !regexp.MustCompile(`^iqb_[0-9A-Za-z]{36}\n$`).MatchString(out) || !strings.Contains(errOut, "key fresh of buyer acme. It is shown this once") {
		t.Fatalf("keys new printed %q and %q", out, errOut)
	}
	key := strings.TrimSpace(out)
	if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte(key)) {
		t.Fatalf("the file holds the key itself (%v)", err)
	}
	p.keys["fresh"] = key
	p.eventually("the new key works", func() bool { return p.get(buyerList, "fresh").status == http.StatusOK })

	out, _, _ = command(t, "keys", "--file", file, "list")
	if !regexp.MustCompile(`(?m)^ *fresh +active +buyer +acme +paid +inquiries:read`).MatchString(out) {
		t.Errorf("keys list: %s", out)
	}
	commandSays(t, 0, "", "keys", "--file", file, "revoke", "fresh")
	p.eventually("the revoked key is refused", func() bool { return p.get(buyerList, "fresh").status == http.StatusUnauthorized })
	commandSays(t, 1, "nobody", "keys", "--file", file, "revoke", "nobody")
	commandSays(t, 1, "--api-access paid", "keys", "--file", file, "new", "--kind", "buyer", "--account", "newcomer")
}

// keys new --out writes a file that only its owner reads, and shows the key nowhere. A
// configuration whose keys file is missing says how a first key makes it.
func TestKeysNewIntoAFile(t *testing.T) {
	dir := t.TempDir()
	keys, file, conf := filepath.Join(dir, "keys.yaml"), filepath.Join(dir, "buyer.key"), filepath.Join(dir, defaultConfig)
	writeFile(t, conf, string(legacy.Mapping()))
	canary := filepath.Join(dir, "canary.yaml") // whose keys are made by the same command
	writeFile(t, canary, "auth: {keys_file: canary-keys.yaml}\ncanary: {buyer_keys: [a.key, b.key]}\n"+string(legacy.Mapping()))
	commandSays(t, 0, "", "keys", "-c", canary, "new", "--kind", "buyer", "--account", "a", "--api-access", "paid")
	t.Chdir(dir)
	commandSays(t, 1, "keys new -c FILE --kind buyer --account ID --api-access paid", "check")
	args := []string{"keys", "--file", keys, "new", "--kind", "buyer", "--account", "acme", "--api-access", "paid", "--out", file}
	out, errOut, code := command(t, args...)
	info, err := os.Stat(file)
	if err != nil || code != 0 || out != "" || info.Mode().Perm() != 0o600 || !strings.Contains(errOut, "It is in "+file) {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errOut)
	}
	if key, err := os.ReadFile(file); err != nil || !regexp.MustCompile(`^iqb_[0-9A-Za-z]{36}\n$`).Match(key) {
		t.Errorf("%q, %v", key, err)
	}
	commandSays(t, 2, "exists already", args...)
	commandSays(t, 0, "gateway.yaml: good", "check") // the file of this folder
	other := filepath.Join(dir, "other.key")
	commandSays(t, 1, "give --api-access", "keys", "--file", keys, "new", "--kind", "buyer", "--account", "nobody", "--out", other)
	if _, err := os.Stat(other); err == nil {
		t.Error("a key that was not stored is in a file")
	}
}

func TestCheckNamesFileLineAndKey(t *testing.T) {
	p := start(t, setup{})
	p.write("bad.yaml", "listen: 127.0.0.1:8080\nauth: {keys_file: keys.yaml}\nrequest_timout: 5s\n"+
		strings.Replace(string(legacy.Mapping()), "items: result.items", "items: result[", 1))
	_, errOut, code := command(t, "check", "-c", filepath.Join(p.dir, "bad.yaml"))
	if code != 1 || !strings.Contains(errOut, "bad.yaml:3:1: request_timout: unknown key") || !regexp.MustCompile(`bad\.yaml:\d+:\d+: upstream\.buyer\.items: `).MatchString(errOut) {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if first, second, _ := strings.Cut(errOut, "\n"); !strings.HasPrefix(first, "inquiry-gateway: ") || !strings.HasPrefix(second, "inquiry-gateway: ") {
		t.Errorf("a line of the error does not say whose it is: %s", errOut)
	}
	found, _, code := command(t, "check", "--json", "-c", filepath.Join(p.dir, "bad.yaml"))
	if code != 1 || !regexp.MustCompile(`"good":false,"problems":\[\{"line":3,"column":1,"key":"request_timout","message":"unknown key[^}]+\},\{"line":\d+,"column":\d+,"key":"upstream.buyer.items"`).MatchString(found) {
		t.Errorf("exit code %d: %s", code, found)
	}
	good := filepath.Join(p.dir, "gateway.yaml")
	commandSays(t, 0, "stale_if_error", "check", "--print", "-c", good)
	commandSays(t, 0, "gateway.yaml: good\nbuyer acme: good", "check", "-c", good, "--live", "--buyer", "acme", "--seller", legacy.SellerTypical)
	// In JSON is all that was asked for, in one object.
	p.write("tests.yaml", "- {name: bad, kind: buyer, account: acme, replies: [{body: {}}], expect: {records: []}}\n")
	out, errOut, code := command(t, "check", "--json", "--print", "--failures", "--against", p.app.OpsURL(), "--tests", filepath.Join(p.dir, "tests.yaml"),
		"--live", "--buyer", "acme", "--seller", legacy.SellerTypical, "-c", good)
	var all map[string]any
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 1 || !strings.Contains(errOut, "1 of 1 tests failed") {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errOut)
	}
	want := []string{"configuration", "differences", "failures", "file", "good", "live", "problems", "tests", "warnings"}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Errorf("check --json has %q, want %q", got, want)
	}
}

// demoRun is a demo under way.
type demoRun struct {
	lines []string // that a person can paste
	stop  func() (code int)
	end   func() (code int) // waits until it ends by itself
}

// startDemo runs the demo until its welcome is on the screen.
func startDemo(t *testing.T) demoRun {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	screen, out := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"inquiry-gateway", "demo"}, out, io.Discard)
		_ = out.Close()
	}()
	d := demoRun{stop: func() int { cancel(); return <-code }, end: func() int { return <-code }}
	for lines := bufio.NewScanner(screen); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "curl -i") {
			d.lines = append(d.lines, lines.Text())
		}
		if strings.Contains(lines.Text(), "Ctrl-C") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, screen) }() // ends with the pipe
	return d
}

// The lines that the demo prints do what the line above each of them says.
func TestDemo(t *testing.T) {
	for name, redisURL := range map[string]string{"in process": "", "with Redis": "redis://" + redistest.Start(t).Addr + "/0"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("REDIS_URL", redisURL)
			d := startDemo(t)
			form := regexp.MustCompile(`^curl -i -H 'Authorization: (Bearer \S+)' '(\S+)'$`)
			var got []int
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			for _, line := range d.lines {
				m := form.FindStringSubmatch(line)
				if m == nil {
					t.Fatalf("not a line to paste: %s", line)
				}
				r, err := http.NewRequest(http.MethodGet, m[2], nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", m[1])
				resp, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				got = append(got, resp.StatusCode)
			}
			if want := []int{200, 200, 200, 403, 403, 401, 200}; !slices.Equal(got, want) {
				t.Errorf("statuses %v, want %v", got, want)
			}
			if code := d.stop(); code != 0 {
				t.Errorf("Ctrl-C ended the demo with exit code %d", code)
			}
		})
	}
}

// A demo ends when its terminal is closed.
func TestDemoEndsWithItsTerminal(t *testing.T) {
	d := startDemo(t)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code := d.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Where nobody reads the log, a gateway still serves, counts what the log loses, and stops.
func TestStuckReaderOfTheLog(t *testing.T) {
	p := &program{t: t, dir: t.TempDir(), keys: map[string]string{}}
	p.writeKeys(sampleKeys())
	p.serveLegacy(setup{})
	listen, ops := redistest.FreeAddr(t), redistest.FreeAddr(t)
	p.write("gateway.yaml", "listen: "+listen+"\nops: {listen: "+ops+"}\nshutdown_delay: 0s\nauth: {keys_file: keys.yaml}\n"+
		strings.Replace(string(legacy.Mapping()), demoLegacyURL, p.upstream, 1))
	unread, log := io.Pipe()
	t.Cleanup(func() { _ = unread.Close() }) // until then nobody reads it, and the writer is stuck
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"inquiry-gateway", "serve", "-c", filepath.Join(p.dir, "gateway.yaml")}, io.Discard, log)
	}()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	ask := func(url string) (text string) {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+p.keys["buyer"])
		if res, err := client.Do(r); err == nil {
			body, _ := io.ReadAll(res.Body) // what was cut off does not say what is waited for
			_ = res.Body.Close()
			text = string(body)
		}
		return text
	}
	p.eventually("it serves", func() bool { return strings.Contains(ask("http://"+listen+buyerList), `"data"`) })
	lost := regexp.MustCompile(`inquiry_gateway_log_lost_records_total [1-9]`)
	p.eventually("lost records are counted", func() bool {
		for range 500 {
			ask("http://" + listen + buyerList)
		}
		return lost.MatchString(ask("http://" + ops + "/metrics"))
	})
	cancel()
	select {
	case code := <-ended:
		if code != 0 {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the stop waits for the reader of the log")
	}
}

// A stop lets requests under way finish, and says that it drains meanwhile.
func TestStopFinishesWhatIsUnderWay(t *testing.T) {
	p := start(t, setup{})
	p.system.SetLatency(300 * time.Millisecond)
	got := make(chan answer, 1)
	r := p.request(http.MethodGet, buyerList, "buyer")
	go func() { got <- p.do(r) }()
	p.eventually("the legacy has been asked", func() bool { return p.system.Stats().InFlight > 0 })
	p.stop()
	if a := <-got; a.status != http.StatusOK {
		t.Errorf("the request under way got %d", a.status)
	}
}

// A person sees a line for each request of their own, and none of the canary's.
func TestShortLog(t *testing.T) {
	var out bytes.Buffer
	log := shortLog{out: &out, colors: true}
	lines := `{"time":"2026-11-22T10:45:12.100Z","level":"INFO","msg":"request","status":200,"duration_seconds":0.0204,"bytes":1386,"endpoint":"buyer_inquiries","account":"acme","key_id":"demo-buyer","cache":"miss"}
{"time":"2026-11-22T10:45:12.200Z","level":"INFO","msg":"request","status":200,"key_id":"canary-buyer-0","account":"buyer-0004","cache":"hit"}
{"time":"2026-11-22T10:45:12.210Z","level":"INFO","msg":"authentication refused","security":{"event":"auth_failed"}}
{"time":"2026-11-22T10:45:12.220Z","level":"INFO","msg":"request","status":401,"error_code":"missing_api_key"}
{"time":"2026-11-22T10:45:13.220Z","level":"INFO","msg":"request","status":401,"endpoint":"buyer_inquiries","error_code":"missing_api_key"}
{"time":"2026-11-22T10:45:14Z","level":"ERROR","msg":"request","status":502,"endpoint":"buyer_inquiries","account":"acme","key_id":"demo-buyer","cache":"error","error_code":"upstream_error","cause":"it is down"}
{"time":"2026-11-22T10:45:15Z","level":"WARN","msg":"breaker","state":"open"}
no record
`
	if n, err := log.Write([]byte(lines)); err != nil || n != len(lines) {
		t.Fatalf("%d, %v", n, err)
	}
	at := func(second string) string {
		var l logLine
		_ = l.Time.UnmarshalText([]byte("2026-11-22T10:45:" + second + "Z"))
		return l.Time.Local().Format("15:04:05")
	}
	want := at("12") + " \x1b[32m200\x1b[0m miss               20.4ms     1386 B  buyer_inquiries acme\n" +
		at("13") + " \x1b[33m401\x1b[0m                        0s        0 B  buyer_inquiries  missing_api_key\n" +
		at("14") + " \x1b[31m502\x1b[0m error                  0s        0 B  buyer_inquiries acme upstream_error it is down\n" +
		at("15") + ` WARN "breaker","state":"open"` + "\nno record\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
