package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// full is a writer that cannot write any more.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// Without -c the file of this folder is meant. A key that goes into a file is readable by its
// owner alone, and one that was not stored leaves no file. One that was stored is in its file, or the
// error says which to revoke.
func TestFilesOfCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, defaultConfig, string(legacy.Mapping()))
	newKey := func(account, file string, more ...string) []string {
		return append([]string{"keys", "-c", defaultConfig, "new", "--kind", "buyer", "--account", account, "--out", file}, more...)
	}
	commandSays(t, 1, "keys.yaml", "check")
	commandSays(t, 0, "", newKey("acme", "buyer.key", "--api-access", "paid")...)
	commandSays(t, 0, "gateway.yaml: good", "check")
	info, err := os.Stat("buyer.key")
	key, _ := os.ReadFile("buyer.key")
	if err != nil || info.Mode().Perm() != 0o600 || !regexp.MustCompile(`^iqb_[0-9A-Za-z]{36}\n$`).Match(key) {
		t.Errorf("%q, %v", key, err)
	}
	commandSays(t, 1, "give --api-access", newKey("nobody", "other.key")...)
	if _, err := os.Stat("other.key"); err == nil {
		t.Error("a key that was not stored is in a file")
	}
	for file, want := range map[string]string{
		"a.key": "key K is stored, and is in a.key: no space left on device", "": "key K is stored, but could not be shown; revoke it and create another: no space left on device",
	} {
		for _, args := range [][]string{newKey("acme", file, "--id", "a"+file), {"keys", "-c", defaultConfig, "rotate", "--id", "b" + file, "--out", file, "a" + file}} {
			var said bytes.Buffer
			args = append([]string{"inquiry-gateway", "keys", "--json"}, args[1:]...)
			id := args[slices.Index(args, "--id")+1]
			if code := run(t.Context(), args, full{}, &said); code != exitFailed || !strings.Contains(said.String(), strings.Replace(want, "K", id, 1)) {
				t.Errorf("%q: exit code %d, %s; want %s", args, code, said.String(), want)
			}
			if file != "" {
				must(t, os.Remove(file)) // it is there
			}
		}
	}
}

// demoRun is a demo under way.
type demoRun struct {
	lines []string // that a person can paste
	stop  context.CancelFunc
	code  <-chan int
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
	d := demoRun{stop: cancel, code: code}
	for lines := bufio.NewScanner(screen); lines.Scan() && !strings.Contains(lines.Text(), "Ctrl-C"); {
		if strings.HasPrefix(lines.Text(), "curl -i") {
			d.lines = append(d.lines, lines.Text())
		}
	}
	go func() { _, _ = io.Copy(io.Discard, screen) }() // ends with the pipe
	return d
}

// The lines that the demo prints do what the line above each of them says.
func TestDemo(t *testing.T) {
	form := regexp.MustCompile(`^curl -i -H 'Authorization: (Bearer \S+)' '(\S+)'$`)
	for name, redisURL := range map[string]string{"in process": "", "with Redis": "redis://" + redistest.Start(t).Addr + "/0"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("REDIS_URL", redisURL)
			d := startDemo(t)
			var got []int
			client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
			for _, line := range d.lines {
				m := form.FindStringSubmatch(line)
				if m == nil {
					t.Fatalf("not a line to paste: %s", line)
				}
				r, err := http.NewRequest(http.MethodGet, m[2], nil)
				must(t, err)
				r.Header.Set("Authorization", m[1])
				resp, err := client.Do(r)
				must(t, err)
				_ = resp.Body.Close()
				got = append(got, resp.StatusCode)
			}
			if want := []int{200, 200, 200, 403, 403, 401, 200}; !slices.Equal(got, want) {
				t.Errorf("statuses %v, want %v", got, want)
			}
			d.stop()
			if code := <-d.code; code != 0 {
				t.Errorf("Ctrl-C ended the demo with exit code %d", code)
			}
		})
	}
}

// What the demo says of a REDIS_URL that it cannot read has no password in it.
func TestDemoHidesThePassword(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://gw:hunter2@127.0.0.1:port")
	if said := commandSays(t, 1, "REDIS_URL cannot be read; write it as redis://", "demo"); strings.Contains(said, "hunter2") {
		t.Error(said)
	}
}

// A demo ends when its terminal is closed.
func TestDemoEndsWithItsTerminal(t *testing.T) {
	d := startDemo(t)
	defer d.stop()
	must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	if code := <-d.code; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Where nobody reads the log, a gateway still serves, counts what the log loses, and stops. It is
// alone, because thousands of requests fill the log.
func TestStuckReaderOfTheLog(t *testing.T) {
	listen, ops := redistest.FreeAddr(t), redistest.FreeAddr(t)
	p := newProgram(t, setup{ops: "{listen: " + ops + "}"})
	p.edit("listen: 127.0.0.1:0", "listen: "+listen)
	unread, log := io.Pipe()
	t.Cleanup(func() { _ = unread.Close() }) // until then nobody reads it, and the writer is stuck
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, []string{"inquiry-gateway", "serve", "-c", p.file()}, io.Discard, log) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	ask := func(url string) string {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+p.keys["buyer"])
		res, err := client.Do(r)
		if err != nil {
			return "" // it does not serve yet
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body) // what was cut off does not say what is waited for
		return string(body)
	}
	eventually(t, "it serves", func() bool { return strings.Contains(ask("http://"+listen+buyerList), `"data"`) })
	lost := regexp.MustCompile(`inquiry_gateway_log_lost_records_total [1-9]`)
	eventually(t, "lost records are counted", func() bool {
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

// A value from the environment is shown as ${NAME} wherever a configuration is shown or
// talked about, because it may be a secret; here it is a part of the legacy's path.
func TestValuesOfVariablesAreNotShown(t *testing.T) {
	const secret, address = "t0ken-within-a-path", "203.0.113.77"
	t.Setenv("PATH_TOKEN", secret)
	t.Setenv("WRONG_URL", "ftp://"+secret)
	t.Setenv("PROXY", address)
	p := start(t, setup{
		upstream: []string{"path: /v2/tickets", "path: /${PATH_TOKEN}/v2/tickets"},
		backend:  func(system http.Handler) http.Handler { return http.StripPrefix("/"+secret, system) },
		yaml:     `gateway: {trusted_proxies: ["${PROXY}"]}`,
	})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.fault(legacy.Fault{Name: legacy.FaultRefuse})
	p.gets(http.StatusBadGateway, buyerList, "other-buyer")

	shown := commandSays(t, 0, "path: /${PATH_TOKEN}/v2/tickets", "check", "--print", "-c", p.file())
	if !strings.Contains(shown, "${PROXY}") {
		t.Errorf("check --print: %s", shown)
	}
	p.edit("}/v2/tickets", "}/v3/tickets")
	p.logsEventually("/${PATH_TOKEN}/v3/tickets")
	p.edit("listen: ", "listen: ${WRONG_URL} # ")
	shown += commandSays(t, 1, "${WRONG_URL}", "check", "-c", p.file())
	shown += string(p.ops("/ops/config").body) + p.logs.String()
	if strings.Contains(shown, secret) || strings.Contains(shown, address) {
		t.Errorf("a variable's value is shown: %s", shown)
	}
}

// check asks nobody unless it is told to: a Redis that holds the keys is not asked either.
func TestCheckOpensNoConnection(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewUnstartedServer(nil)
	server.Config.ConnState = func(net.Conn, http.ConnState) { asked.Add(1) }
	server.Start()
	commandSays(t, 0, "good", "check", "-c", keysConfig(t, server.Listener.Addr().String(), "250ms"))
	if server.Close(); asked.Load() > 0 {
		t.Error("Redis was asked")
	}
}

// What check prints is, to the byte, what a gateway with that file says that it runs.
func TestPrintIsWhatRuns(t *testing.T) {
	t.Parallel()
	p := start(t, setup{yaml: "log: {sample_hits: 3}", upstream: []string{"upstream:\n", "upstream:\n  headers: {X-Tenant: s3cret}\n"}})
	printed, errOut, code := command(t, "check", "-c", p.file(), "--print")
	if runs := string(p.ops("/ops/config").body); code != 0 || printed != runs || !strings.Contains(runs, `X-Tenant: "[hidden]"`) {
		t.Errorf("check --print says:\n%s%s\nand what runs is:\n%s", printed, errOut, runs)
	}
}

// Each command's help fits a terminal of 40 lines and 100 columns.
func TestHelpFitsATerminal(t *testing.T) {
	var all func(c *cli.Command, names []string)
	all = func(c *cli.Command, names []string) {
		help, errOut, code := command(t, append(names[1:len(names):len(names)], "--help")...)
		if lines := strings.Count(help, "\n"); code != 0 || lines < 5 || lines > 40 {
			t.Errorf("%s: exit code %d, %d lines%s", names, code, lines, errOut)
		}
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: %d columns: %s", names, n, line)
			}
		}
		for _, sub := range c.VisibleCommands() {
			all(sub, append(names[:len(names):len(names)], sub.Name))
		}
	}
	all(newCommand(), []string{"inquiry-gateway"})
}

// A health check goes to the node itself, whatever proxy the environment names.
func TestHealthUsesNoProxy(t *testing.T) {
	t.Parallel()
	testkit.SkipShort(t)
	node := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(node.Close)
	url := strings.Replace(node.URL, "127.0.0.1", "0.0.0.0", 1) // for which a proxy is used, other than for 127.0.0.1
	check := exec.Command(testkit.BuildGateway(t), "health", url)
	check.Env = append(os.Environ(), "HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A probe that watches shows each state of the file: good, faulty, good again.
func TestProbeWatches(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	good := p.read("gateway.yaml")
	ctx, cancel := context.WithCancel(t.Context())
	var out, errOut testkit.Log
	code := make(chan int)
	go func() {
		args := []string{"inquiry-gateway", "probe", "-c", p.file(), "--buyer", "acme", "--watch"}
		code <- run(ctx, args, &out, &errOut)
	}()
	p.eventually("the first probe", func() bool { return strings.Contains(out.String(), "good: the gateway would serve") })
	p.edit("title: subject", "titel: subject")
	p.eventually("the mistake", func() bool { return strings.Contains(errOut.String(), `did you mean "title"?`) })
	p.write("gateway.yaml", strings.Replace(good, "title: subject", "title: state", 1))
	p.eventually("the next probe", func() bool { return strings.Contains(out.String(), "title         state") })
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("ended by Ctrl-C: exit code %d: %s", got, errOut.String())
	}
}

// The programs that the documentation shows print the lists, and say what is
// wrong with a key.
func TestDocumentedPrograms(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	var document struct {
		Paths map[string]struct {
			Get struct {
				Samples []struct{ Lang, Source string } `json:"x-codeSamples"`
			}
		}
	}
	must(t, json.Unmarshal(p.get("/openapi.json", "").body, &document))
	runners := map[string]struct{ needs, run, file string }{
		"Shell": {"curl", "sh", "list.sh"}, "Go": {"go", "go run", "list.go"},
		"Python": {"python3", "python3", "list.py"}, "JavaScript": {"node", "node", "list.mjs"},
	}
	for list, path := range document.Paths {
		if len(path.Get.Samples) != len(runners) {
			t.Errorf("%s has %d programs, want %d", list, len(path.Get.Samples), len(runners))
		}
	}
	for _, sample := range document.Paths[buyerList].Get.Samples {
		t.Run(sample.Lang, func(t *testing.T) {
			t.Parallel()
			with := runners[sample.Lang]
			if _, err := exec.LookPath(with.needs); err != nil {
				t.Fatalf("this test needs %q: run .ci/packages (%v)", with.needs, err)
			}
			file := filepath.Join(t.TempDir(), with.file)
			writeFile(t, file, sample.Source)
			for key, list := range map[string]string{"buyer": buyerList, "seller": sellerList, "expired": buyerList} {
				args := append(strings.Fields(with.run), file)
				cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
				cmd.Env = append(os.Environ(), "INQUIRIES_URL="+p.app.URL()+list, "API_KEY="+p.keys[key])
				out, err := cmd.CombinedOutput()
				want := "invalid_api_key"
				if key != "expired" {
					account := map[string]string{"buyer": legacy.BuyerTypical, "seller": legacy.SellerTypical}[key]
					want = p.system.Truth(key, account, "pending", "")[0].Title
				}
				if (err != nil) != (key == "expired") || !strings.Contains(string(out), want) {
					t.Errorf("%s: %v, want %q in\n%s", key, err, want, out)
				}
			}
		})
	}
}
