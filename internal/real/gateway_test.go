//go:build real

package real

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/internal/testkit"
)

// gateway is the real program in front of a system, and counts what was compared.
type gateway struct {
	*result
	t      *testing.T
	system *system
	seeds  []*inquiry
	config string // its file

	process  *testkit.Process
	url, ops string
	keys     map[[2]string]string // by kind and account
}

// list is what one key and a query ask for.
type list struct{ kind, account, status, category string }

// answer is what the gateway says.
type answer struct {
	status int
	stale  bool
	body   struct {
		Data []record `json:"data"`
	}
}

// changed are the lines of an example that cannot stay: addresses, and what would make tests wait.
var changed = strings.NewReplacer("listen: 127.0.0.1:8080", "listen: 127.0.0.1:0", "{listen: 127.0.0.1:9090}", "{listen: 127.0.0.1:0}",
	"\nrate_limit:", "\ncache: {buyer: {ttl: 1s, stale_while_revalidate: 0s}, seller: {ttl: 1s, stale_while_revalidate: 0s}}\n#")

// judge asks the system with a shipped example for all that was put into it, in good times and in bad ones. The accounts that the
// example cannot ask for, or not for one kind, must be refused.
func (s *system) judge(all []*inquiry, way, example, password string, refused ...string) {
	t := s.t
	t.Helper()
	dir := t.TempDir()
	g := &gateway{t: t, result: s.newResult(way), system: s, seeds: all, config: filepath.Join(dir, example), keys: map[[2]string]string{}}
	text := testkit.Read(t, filepath.Join("../../examples", example))
	_, port := s.hostPort()
	base, folder := "http://"+s.addr, os.Getenv("RECORD")
	var r *recorder
	if folder != "" {
		r = newRecorder(t, s)
		base = r.URL
	}
	config := regexp.MustCompile(`base_url: https?://[^/\s]+`).ReplaceAllString(changed.Replace(text), "base_url: "+base)
	if s.adapt != nil {
		config = s.adapt(config)
	}
	s.file(g.config, strings.ReplaceAll(config, "_support.443", "_support."+port)) // a cookie that is called by the port
	s.file(filepath.Join(dir, "keys.yaml"), "accounts: []\nkeys: []\n")
	g.secret(password)

	binary := testkit.BuildGateway(t)
	for _, kind := range []string{"buyer", "seller"} {
		for _, account := range slices.Concat(accounts, s.further) {
			quoted := strings.ReplaceAll(account, "'", `'\''`)
			out := s.run("", fmt.Sprintf("%s keys -c %s new --kind %s --account '%s' --api-access paid", binary, g.config, kind, quoted))
			g.keys[[2]string{kind, account}] = regexp.MustCompile(`iq[bs]_\w+`).FindString(out)
		}
	}
	out := ""
	good := within(func() bool { // a system that has just been started may need longer than upstream.timeout
		out = s.run("", fmt.Sprintf("%s probe -c %s --filters --records 0 --buyer %s --seller %s 2>&1 || echo failed", binary, g.config, accounts[0], accounts[0]))
		return !strings.HasSuffix(out, "failed\n")
	})
	g.compare(good, "probe --filters: %s", out)

	g.process, g.url, g.ops = gatewaytest.Serve(t, binary, g.config, dir)
	t.Logf("%s: installed and filled after %.0fs", way, time.Since(s.began).Seconds())
	g.lists(refused)
	if r != nil {
		r.save(t, folder, example)
		return
	}
	if strings.Contains(config, " version: ") {
		g.unchanged()
	}
	t.Logf("%s: lists compared after %.0fs", way, time.Since(s.began).Seconds())
	g.troubles()
}

// secret is what the gateway signs in with from now on.
func (g *gateway) secret(word string) {
	for _, name := range []string{"legacy-password", "legacy-token"} {
		g.system.file(filepath.Join(filepath.Dir(g.config), "secrets", name), word+"\n")
	}
}

// get asks the gateway for a list.
func (g *gateway) get(l list) answer {
	g.t.Helper()
	res, err := (&http.Client{Timeout: time.Minute}).Do(g.request(l))
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, stale: strings.Contains(res.Header.Get("Cache-Status"), "detail=stale-error")}
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(text, &a.body)
	}
	if err != nil {
		g.t.Fatalf("%s: %v", text, err)
	}
	return a
}

// request is that of a list's caller.
func (g *gateway) request(l list) *http.Request {
	g.t.Helper()
	query := url.Values{}
	for name, value := range map[string]string{"status": l.status, "inquiry_type": l.category} {
		if value != "" {
			query.Set(name, value)
		}
	}
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.url+"/api/v1/"+l.kind+"/inquiries?"+query.Encode(), nil)
	if err != nil {
		g.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+g.keys[[2]string{l.kind, l.account}])
	return r
}

// records compares a list with the truth, record by record. A response that is wrong makes its record wrong.
func (g *gateway) records(l list, a answer) {
	g.t.Helper()
	want := truth(g.seeds, l)
	g.compare(a.status == http.StatusOK && len(a.body.Data) == len(want), "%v: %d with %d records instead of %d%s", l, a.status, len(a.body.Data), len(want), g.cause(a))
	g.compare(g.system.unsorted || slices.IsSortedFunc(a.body.Data, func(a, b record) int { return strings.Compare(b.CreatedAt, a.CreatedAt) }), "%v: not the newest first", l)
	got := map[string][]string{} // by title
	for _, r := range a.body.Data {
		got[r.Title] = append(got[r.Title], asJSON(r))
	}
	for _, text := range want {
		var w record
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			g.t.Fatal(err)
		}
		g.compared += len(w.Responses)
		g.compare(slices.Contains(got[w.Title], text), "%v: %s", l, difference(strings.Join(got[w.Title], "\n"), text))
	}
}

// difference shows where two texts begin to differ.
func difference(got, want string) string {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	return fmt.Sprintf("got\n%.100s ... %.200s\ninstead of ... %.200s", got, got[max(0, min(n-60, len(got))):], want[max(0, n-60):])
}

// lists compares each list of each account with the truth. What the configuration cannot ask for must be refused.
func (g *gateway) lists(refused []string) {
	g.t.Helper()
	var filters [][2]string
	for _, status := range []string{"", "pending", "answered", "closed", "nosuch"} {
		for _, category := range []string{"", "delivery", "refund", "product", "general", "nosuch"} {
			filters = append(filters, [2]string{status, category})
		}
	}
	for _, kind := range []string{"buyer", "seller"} {
		for _, account := range slices.Concat(accounts, g.system.further) {
			for _, f := range filters {
				l := list{kind, account, f[0], f[1]}
				var a answer
				within(func() bool { // a system may be slow on a busy machine
					a = g.get(l)
					return a.status != http.StatusGatewayTimeout && a.status != http.StatusServiceUnavailable
				})
				if slices.Contains(refused, account) || slices.Contains(refused, kind+" "+account) {
					// A filter that no record can meet is answered without asking for the account.
					g.compare(a.status == http.StatusNotImplemented || a.status == http.StatusOK && len(truth(g.seeds, l)) == 0, "%v: %d", l, a.status)
					continue
				}
				g.records(l, a)
			}
		}
	}
}

// unchanged asks for a list again, and counts the second requests that are not made because no record has changed.
func (g *gateway) unchanged() {
	g.t.Helper()
	kept := func() (n int) {
		for _, m := range regexp.MustCompile(`(?m)^inquiry_gateway_upstream_kept_replies_total\{kind="buyer"\} (\d+)$`).FindAllStringSubmatch(read(g.t, g.ops+"/metrics"), -1) {
			n, _ = strconv.Atoi(m[1]) // digits
		}
		return n
	}
	l := list{"buyer", accounts[0], "", ""}
	before, want := kept(), len(truth(g.seeds, l))
	g.until("asked for again", l, func(answer) bool { return kept()-before >= want })
	g.t.Logf("%s: %d requests saved for %d records", g.way, kept()-before, want)
}

// until asks for a list until the answer is as it must be, and compares that with the truth if it has one.
func (g *gateway) until(what string, l list, ok func(answer) bool) {
	g.t.Helper()
	var a answer
	began := time.Now()
	good := within(func() bool {
		a = g.get(l)
		return ok(a)
	})
	g.t.Logf("%s: %s: %d after %s%s", g.way, what, a.status, time.Since(began).Round(10*time.Millisecond), g.cause(a))
	g.compare(good, "%s: %v is still %d, stale %v", what, l, a.status, a.stale)
	if !good {
		g.t.FailNow() // what follows would be about nothing
	}
	if a.status == http.StatusOK {
		g.records(l, a)
	}
}

// cause is why the gateway has refused the last answer.
func (g *gateway) cause(a answer) string {
	causes := regexp.MustCompile(`"error_code":"[^}]*`).FindAllString(testkit.Read(g.t, g.process.Log()), -1)
	if a.status == http.StatusOK || len(causes) == 0 {
		return ""
	}
	return ": " + causes[len(causes)-1]
}

// forget makes the gateway ask anew for an account's lists.
func (g *gateway) forget(account string) {
	g.t.Helper()
	res, err := http.Post(g.ops+"/ops/purge", "application/json", strings.NewReader(asJSON(map[string][]string{"accounts": {account}})))
	if err != nil {
		g.t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		g.t.Fatal(res.Status)
	}
}

// shown waits for the console to say what fails, or to say it no more once it is over; with SHOTS=folder, a picture of it is kept there.
func (g *gateway) shown(name string, over bool) {
	g.t.Helper()
	var said, line string
	found := within(func() bool {
		lines := gjson.Get(read(g.t, g.ops+"/console/state"), "lines")
		said, line = lines.Raw, ""
		for _, l := range lines.Array() {
			if strings.HasPrefix(l.Get("name").String(), name) {
				line = l.Raw
			}
		}
		return (line == "") == over
	})
	g.compare(found, "the console does not say %q, over %v, but %s", name, over, said)
	if over {
		return
	}
	g.t.Logf("%s: %s", g.way, line)
	if dir := os.Getenv("SHOTS"); dir != "" {
		file := filepath.Join(dir, strings.ReplaceAll(g.way+" "+name, " ", "-")+".png")
		g.system.run("", fmt.Sprintf("chromium --headless --no-sandbox --hide-scrollbars --window-size=1280,1000 --timeout=9000 --screenshot='%s' %s/ 2>&1", file, g.ops))
	}
}

// failures are explain's words for what the console says.
var failures = map[string]string{"The legacy system fails": "system", "The legacy system refuses our sign-in": "sign_in", "Replies do not fit the mapping": "mapping"}

// explained waits for explain to predict what the caller of a list has just got, and to say whose failure it is.
func (g *gateway) explained(l list, failure string) {
	g.t.Helper()
	var said string
	found := within(func() bool {
		got := g.get(l)
		said = read(g.t, g.ops+"/ops/explain?"+url.Values{"account": {l.account}, "kind": {l.kind}}.Encode())
		predicted, whose := gjson.Get(said, "prediction.http_status"), gjson.Get(said, "upstream.incidents.#.failure")
		return predicted.Int() == int64(got.status) && strings.Contains(whose.Raw, asJSON(failure))
	})
	g.compare(found, "explain does not say %q of %v, but %s", failure, l, said)
}

// troubles stops, freezes and restarts the system, changes a record, takes the responses and the gateway's password away, and gives it a mapping that
// does not fit and a bound that is too low. Callers, console and explain tell whose failure it is.
func (g *gateway) troubles() {
	g.t.Helper()
	s := g.system
	warm, cold := list{"buyer", accounts[0], "", "refund"}, list{"seller", accounts[1], "", ""}
	fresh := func(a answer) bool { return a.status == http.StatusOK && !a.stale }
	stale := func(a answer) bool { return a.status == http.StatusOK && a.stale }
	fails := func(statuses ...int) func(answer) bool {
		return func(a answer) bool { return slices.Contains(statuses, a.status) && len(a.body.Data) == 0 }
	}
	failure := ""
	trouble := func(what string, status int, name string) {
		g.t.Helper()
		g.until(what+", a list that is known", warm, stale)
		g.forget(cold.account)
		g.until(what+", a list that is not", cold, fails(status, http.StatusServiceUnavailable))
		failure = name
		g.shown(failure, false)
		g.explained(warm, failures[failure])
		g.explained(cold, failures[failure])
	}
	works := func(what string) {
		g.t.Helper()
		g.until(what+", a list that was not known", cold, fresh)
		g.until(what+", a list that was", warm, fresh)
		if failure != "" {
			g.shown(failure, true)
		}
	}
	works("before")

	i := g.seeds[slices.IndexFunc(g.seeds, func(i *inquiry) bool { return i.Customer == warm.account && categories[i.Category] == warm.category })]
	old := i.Title
	i.Title = "Changed: " + old
	s.retitle(old, i.Title)
	g.until("a record has changed", warm, func(a answer) bool {
		return slices.ContainsFunc(a.body.Data, func(r record) bool { return r.Title == i.Title })
	})

	s.stop()
	trouble("stopped", http.StatusBadGateway, "The legacy system fails")
	s.start()
	works("started again")

	_ = s.process.SignalGroup(syscall.SIGSTOP)
	trouble("frozen", http.StatusGatewayTimeout, "The legacy system fails")
	_ = s.process.SignalGroup(syscall.SIGCONT)
	works("thawed")

	if s.responses != nil {
		s.responses(false)
		cold, failure = list{"buyer", accounts[1], "", ""}, cmp.Or(s.unreadable, "The legacy system refuses our sign-in")
		g.forget(cold.account)
		g.until("its responses are not for us, a list that is known", warm, stale)
		g.until("its responses are not for us, a list that is not", cold, fails(http.StatusBadGateway, http.StatusServiceUnavailable))
		g.shown(failure, false)
		g.explained(cold, failures[failure])
		s.responses(true)
		works("its responses are for us")
		cold.kind = "seller"
	}

	word := s.password()
	trouble("its password is good no more", http.StatusBadGateway, cmp.Or(s.denied, "The legacy system refuses our sign-in"))
	g.secret(word)
	works("the new password is in the file")

	text := testkit.Read(g.t, g.config)
	s.file(g.config, regexp.MustCompile(`(?m)^( +title:) .*$`).ReplaceAllString(text, "$1 nosuch.field"))
	failure = "Replies do not fit the mapping"
	g.until("the mapping does not fit", cold, fails(http.StatusBadGateway))
	g.shown(failure, false)
	s.file(g.config, text)
	works("the mapping fits again")

	s.file(g.config, strings.Replace(text, "\nupstream:\n", "\nupstream:\n  max_requests_per_second: 1\n", 1))
	failure = "The gateway holds requests back"
	g.until("a ceiling of one request in a second", cold, func(a answer) bool {
		g.forget(cold.account)
		for _, account := range accounts { // more than a second has room for
			r := g.request(list{"buyer", account, "", ""})
			go func() {
				if res, err := http.DefaultClient.Do(r); err == nil {
					_ = res.Body.Close()
				}
			}()
		}
		return a.status == http.StatusServiceUnavailable
	})
	g.shown(failure, false)
	s.file(g.config, text)
	works("no ceiling")
}
