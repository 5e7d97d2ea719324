package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
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
func commandSays(t *testing.T, code int, text string, args ...string) (all string) {
	t.Helper()
	out, errOut, got := command(t, args...)
	where := errOut
	if code == 0 {
		where = out
	}
	if got != code || !strings.Contains(where, text) {
		t.Errorf("%q: exit code %d, want %d and %q: %s%s", args, got, code, text, out, errOut)
	}
	return out + errOut
}

// script runs testdata/NAME.txtar in the program's folder, in this test and at once. Its files are put
// beside gateway.yaml; env has more variables, as KEY=value. docs/developing.md has its commands.
func (p *program) script(name string, env ...string) {
	p.t.Helper()
	root, err := filepath.Abs("../..")
	must(p.t, err)
	addr, opsAddr := strings.TrimPrefix(p.app.URL(), "http://"), strings.TrimPrefix(p.app.OpsURL(), "http://")
	env = append(env, "ROOT="+root, "DIR="+p.dir, "BUYERS="+buyerList, "SELLERS="+sellerList, "ADDR="+addr,
		"OPS="+p.app.OpsURL(), "OPSADDR="+opsAddr, "OPSPORT="+opsAddr[strings.LastIndex(opsAddr, ":")+1:])
	testscript.RunT(atOnce{p.t}, testscript.Params{
		Files:           []string{filepath.Join("testdata", name+".txtar")},
		ContinueOnError: true, // most cases of a script do not need those before
		Setup: func(e *testscript.Env) error {
			e.Vars, e.Cd = append(e.Vars, env...), p.dir
			return os.CopyFS(p.dir, os.DirFS(e.WorkDir))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"gateway": func(ts *testscript.TestScript, neg bool, args []string) {
				exits(ts, map[bool]int{false: 0, true: exitFailed}[neg], args)
			},
			"wronguse": func(ts *testscript.TestScript, neg bool, args []string) {
				if neg {
					ts.Fatalf("usage: wronguse ARGS")
				}
				exits(ts, exitWrongUse, args)
			},
			"get": withArgs("get STATUS KEY TARGET", func(ts *testscript.TestScript, args []string) {
				shows(ts, args[0], p.get(args[2], strings.TrimPrefix(args[1], "-")))
			}),
			"ops": withArgs("ops STATUS TOKEN PATH", func(ts *testscript.TestScript, args []string) {
				shows(ts, args[0], p.opsAs(strings.TrimPrefix(args[1], "-"), http.MethodGet, args[2], ""))
			}),
			"eventually": withArgs("eventually PATH PATTERN", func(ts *testscript.TestScript, args []string) {
				pattern, err := regexp.Compile("(?m)" + args[1])
				ts.Check(err)
				var page []byte
				defer func() { _, _ = ts.Stdout().Write(page) }() // also the one that never matched
				p.eventually(args[0]+" matches "+args[1], func() bool { page = p.ops(args[0]).body; return pattern.Match(page) })
			}),
			"reload": withArgs("reload", func(ts *testscript.TestScript, _ []string) { fmt.Fprint(ts.Stdout(), p.reload()) }),
			"edit": withArgs("edit FILE OLD NEW", func(_ *testscript.TestScript, args []string) {
				p.editFile(args[0], args[1], strings.ReplaceAll(args[2], `\n`, "\n"))
			}),
		},
	})
}

// atOnce has a script run in the test that calls it, which goes on after it. What a script said is
// shown where it failed, and not all of it with -v, which `make test` has for all tests.
type atOnce struct{ *testing.T }

func (t atOnce) Run(_ string, script func(testscript.T)) { script(t) }
func (atOnce) Parallel()                                 {}
func (atOnce) Verbose() bool                             { return false }

// withArgs makes a command of scripts that has the arguments of its usage, and no "!" before it.
func withArgs(usage string, do func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) != strings.Count(usage, " ") {
			ts.Fatalf("usage: %s", usage)
		}
		do(ts, args)
	}
}

// exits runs a command line of a script, which must end with that code.
func exits(ts *testscript.TestScript, want int, args []string) {
	got := run(context.Background(), append([]string{"inquiry-gateway"}, args...), ts.Stdout(), ts.Stderr())
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// shows makes an answer a script's standard output. It must have that status.
func shows(ts *testscript.TestScript, want string, got answer) {
	fmt.Fprintln(ts.Stdout(), got.status)
	_ = got.header.Write(ts.Stdout()) // into memory
	fmt.Fprintf(ts.Stdout(), "\n%s", got.body)
	if strconv.Itoa(got.status) != want {
		ts.Fatalf("status %d, want %s", got.status, want)
	}
}

// What commands, a caller's requests and the ops listener say, in front of a program that runs.
func TestScripts(t *testing.T) {
	t.Parallel()
	unpaid := auth.Account{ID: "unpaid", APIAccess: auth.AccessNone}
	for name, s := range map[string]setup{
		"usage": {},
		"check": {yaml: "cache: {buyer: {ttl: 1h, stale_if_error: 7m}}"},
		"keys":  {},
		"ops": {ops: "{listen: 127.0.0.1:0, token_file: ops-token}", prepare: func(p *program) {
			p.write("ops-token", "s3cret-ops-token\n")
			p.token = "s3cret-ops-token"
		}},
		"probe":  {},
		"reload": {onlyWhenTold: true, yaml: "cache: {jitter: 0, buyer: {ttl: 1h}}", redis: "{prefix: first}"},
		"reload-tokens": {onlyWhenTold: true, ops: `{listen: "0.0.0.0:0", token_file: token}`, prepare: func(p *program) {
			p.write("token", "first-ops-token-\n")
			p.write("read-token", "r3ad-metrics-token\n")
		}},
		"reload-timeout": {onlyWhenTold: true, yaml: "request_timeout: 300ms", upstream: shortTimeouts, legacy: legacy.Options{Latency: 600 * time.Millisecond}},
		"order": {prepare: func(p *program) {
			p.writeKeys(gatewaytest.Caller{Kind: "seller", Account: unpaid, Record: auth.KeyRecord{ID: "wrong-kind-no-scope-unpaid"}},
				gatewaytest.Caller{Kind: "buyer", Account: unpaid, Record: auth.KeyRecord{ID: "no-scope-unpaid"}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.legacy.Inquiries = 300 // short lists, for a busy machine
			p := start(t, s)
			p.script(name)
			if n := p.system.Requests(); name == "usage" && n.Buyer+n.Seller > 0 {
				t.Errorf("the legacy system was asked: %+v", n)
			}
		})
	}
}
