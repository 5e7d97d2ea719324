package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
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

// script runs the command lines of a file, one after another:
//
//	$ ARGS             a command line; quotes hold blanks together
//	2 TEXT             its exit code, and a text of standard error; with 0 of standard output
//	+ TEXT, - TEXT     a text that it says too; one that it does not say
//	~ PATTERN          a regular expression of what it says
//	> NAME             makes a file of the lines that follow with a tab in front
//	> NAME OLD => NEW  makes a file of gateway.yaml with NEW in the place of OLD
//	& OLD => NEW       and of another text
//
// $NAME and $(NAME) stand for variables: the program's folder, where its ops listener is, and more.
func (p *program) script(t *testing.T, name string, variables map[string]string) {
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	variables["DIR"], variables["OPS"], variables["ESC"] = p.dir, p.app.OpsURL(), "\x1b"
	variables["OPSADDR"] = strings.TrimPrefix(p.app.OpsURL(), "http://")
	known := regexp.MustCompile(`\$[A-Z]+|\$\([A-Z]+\)`)
	var args []string
	var file, said string
	for number, line := range strings.Split(string(text), "\n") {
		mark, rest, _ := strings.Cut(line, " ")
		rest = known.ReplaceAllStringFunc(rest, func(v string) string { return variables[strings.Trim(v, "$()")] })
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
		case mark == ">":
			var change string
			file, change, _ = strings.Cut(rest, " ")
			if p.write(file, ""); change != "" {
				p.write(file, replaced(t, p.read("gateway.yaml"), change))
			}
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
	old, next, found := strings.Cut(change, " => ")
	if !found || !strings.Contains(text, old) {
		t.Fatalf("%q cannot be changed", change)
	}
	return strings.Replace(text, old, next, 1)
}

// What commands say, and their exit codes, in front of a program that runs.
func TestCommands(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]setup{
		"usage.txt": {},
		"check.txt": {yaml: "cache: {buyer: {ttl: 1h, stale_if_error: 7m}}"},
		"keys.txt":  {},
		"ops.txt": {ops: "{listen: 127.0.0.1:0, token_file: ops-token}", prepare: func(p *program) {
			p.write("ops-token", "s3cret\n")
			p.token = "s3cret"
		}},
		"probe.txt": {},
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
