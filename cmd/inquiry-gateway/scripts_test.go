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

// script does what the lines of a file say, one after another:
//
//	$ ARGS               a command line; quotes hold blanks together
//	2 TEXT               its exit code, and a text of standard error; with 0 of standard output
//	= STATUS KEY TARGET  a request with the key of that id, or - for none, and its status
//	@ PATH TEXT          a page of the ops listener, which comes to say the text
//	! STATUS TOKEN PATH  a page of it, asked for with that token, or - for none, and its status
//	% TEXT               has the files read again; a text of what the log says to it
//	+ TEXT, - TEXT       a text that the last one of these says too; one that it does not say
//	~ PATTERN            a regular expression of it
//	> NAME               makes a file of the lines that follow with a tab in front
//	> NAME OLD => NEW    makes a file of gateway.yaml with NEW in the place of OLD; \n is a new line
//	& OLD => NEW         and of another text; in the beginning of gateway.yaml itself
//
// $NAME and $(NAME) stand for variables: the program's folder, where its listeners are, and more.
func (p *program) script(t *testing.T, name string, variables map[string]string) {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	variables["DIR"], variables["OPS"], variables["ESC"] = p.dir, p.app.OpsURL(), "\x1b"
	variables["OPSADDR"], variables["ADDR"] = strings.TrimPrefix(p.app.OpsURL(), "http://"), strings.TrimPrefix(p.app.URL(), "http://")
	variables["OPSPORT"] = variables["OPSADDR"][strings.LastIndex(variables["OPSADDR"], ":")+1:]
	variables["BUYERS"], variables["SELLERS"] = buyerList, sellerList
	known := regexp.MustCompile(`\$[A-Z]+|\$\([A-Z]+\)`)
	var args []string
	file, said := "gateway.yaml", ""
	for number, line := range strings.Split(string(text), "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		rest = known.ReplaceAllStringFunc(rest, func(v string) string { return variables[strings.Trim(v, "$()")] })
		first, second, _ := strings.Cut(rest, " ")
		good := true
		switch {
		case line == "" || mark == "#":
		case strings.HasPrefix(line, "\t"):
			p.write(file, p.read(file)+line[1:]+"\n")
		case mark == "$":
			args = regexp.MustCompile(`'[^']*'|\S+`).FindAllString(rest, -1)
			for i := range args {
				args[i] = strings.Trim(args[i], "'")
			}
		case mark == "=" || mark == "!":
			who, target, _ := strings.Cut(second, " ")
			who = strings.TrimPrefix(who, "-")
			var a answer
			if mark == "=" {
				a = p.get(target, who)
			} else {
				a = p.opsAs(who, http.MethodGet, target, "")
			}
			said = fmt.Sprintf("%d %v %s", a.status, a.header, a.body)
			good = strings.HasPrefix(said, first+" ")
		case mark == "@":
			p.eventually(line, func() bool { said = string(p.ops(first).body); return strings.Contains(said, second) })
		case mark == "%":
			said = p.reload()
			good = strings.Contains(said, rest)
		case mark == ">":
			text := ""
			if second != "" {
				text = replaced(t, p.read("gateway.yaml"), second)
			}
			file = first
			p.write(file, text)
		case mark == "&":
			p.write(file, replaced(t, p.read(file), rest))
		case mark == "+":
			good = strings.Contains(said, rest)
		case mark == "-":
			good = !strings.Contains(said, rest)
		case mark == "~":
			good = regexp.MustCompile(rest).MatchString(said)
		default:
			code, err := strconv.Atoi(mark)
			if err != nil {
				t.Fatalf("%s:%d: %v", name, number+1, err)
			}
			said = commandSays(t, code, rest, args...)
		}
		if !good {
			t.Errorf("%s:%d: %s\n%s", name, number+1, line, said)
		}
	}
}

// replaced makes one change, OLD => NEW, of a text.
func replaced(t *testing.T, text, change string) string {
	t.Helper()
	old, next, found := strings.Cut(strings.ReplaceAll(change, `\n`, "\n"), " => ")
	if !found || !strings.Contains(text, old) {
		t.Fatalf("%q cannot be changed", change)
	}
	return strings.Replace(text, old, next, 1)
}

// What commands, a caller's requests and the ops listener say, in front of a program that runs.
func TestScripts(t *testing.T) {
	t.Parallel()
	unpaid := auth.Account{ID: "unpaid", APIAccess: auth.AccessNone}
	for name, s := range map[string]setup{
		"usage.txt": {},
		"check.txt": {yaml: "cache: {buyer: {ttl: 1h, stale_if_error: 7m}}"},
		"keys.txt":  {},
		"ops.txt": {ops: "{listen: 127.0.0.1:0, token_file: ops-token}", prepare: func(p *program) {
			p.write("ops-token", "s3cret\n")
			p.token = "s3cret"
		}},
		"probe.txt":  {},
		"reload.txt": {onlyWhenTold: true, yaml: "cache: {jitter: 0, buyer: {ttl: 1h}}", redis: "{prefix: first}"},
		"reload-tokens.txt": {onlyWhenTold: true, ops: "{listen: '0.0.0.0:0', token_file: token}", prepare: func(p *program) {
			p.write("token", "first\n")
			p.write("read-token", "r3ad\n")
		}},
		"reload-timeout.txt": {onlyWhenTold: true, yaml: "request_timeout: 300ms", upstream: shortTimeouts, legacy: legacy.Options{Latency: 600 * time.Millisecond}},
		"order.txt": {prepare: func(p *program) {
			p.writeKeys(gatewaytest.Caller{Kind: "seller", Account: unpaid, Record: auth.KeyRecord{ID: "wrong-kind-no-scope-unpaid"}},
				gatewaytest.Caller{Kind: "buyer", Account: unpaid, Record: auth.KeyRecord{ID: "no-scope-unpaid"}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.legacy.Inquiries = 300 // short lists, for a busy machine
			p := start(t, s)
			p.script(t, name, map[string]string{})
			if n := p.system.Requests(); name == "usage.txt" && n.Buyer+n.Seller > 0 {
				t.Errorf("the legacy system was asked: %+v", n)
			}
		})
	}
}
