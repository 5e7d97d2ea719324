package prometheus_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"inquiry-gateway/deploy/live"
	"inquiry-gateway/internal/testkit/redistest"
)

var realFaults = flag.Bool("faults", false, "drive all alerts by real faults, with real Prometheus; takes six minutes")

// alarms is a running gateway with its alerts, in which time goes faster.
type alarms struct {
	t      *testing.T
	faster time.Duration // by how much all times in the rules are divided
	demo   *live.Demo
	redis  *redistest.Server
	prom   *live.Prometheus
	binary string
	bugs   string // the folder in which a file has its planted bug act
	each   func() // is done in each round of traffic
	may    []string
	fired  *sync.Map
}

// trials are gateways of their own, each with its faults one after another. The more
// a trial's alerts look back, the faster its time goes.
var trials = []struct {
	name   string
	faster time.Duration
	faults func(a *alarms)
}{
	{"settings and outages", 20, outages},
	{"callers", 20, callers},
	{"keys in Redis", 20, keysInRedis},
	{"legacy system", 60, legacySystem},
	{"lists", 60, lists},
	{"canary", 60, canary},
	{"promises", 120, promises},
	{"days", 240, days},
}

// TestAlertsByRealFaults breaks what alerts are about, and waits for them to fire and to
// be over, while no other fires. It writes the times as they would be in production.
func TestAlertsByRealFaults(t *testing.T) {
	if !*realFaults {
		t.Skip("make alerts runs it")
	}
	binary, fired := buildWithBugs(t), new(sync.Map)
	t.Run("trials", func(t *testing.T) {
		for _, trial := range trials {
			t.Run(trial.name, func(t *testing.T) {
				t.Parallel()
				a := alarms{t: t, faster: trial.faster, redis: redistest.Start(t), binary: binary, bugs: t.TempDir(), fired: fired}
				a.demo = live.StartDemo(t, binary, a.redis.Addr, "BUGS="+a.bugs)
				if trial.faster > 20 { // a scrape or a round of the canary that takes a second takes minutes there
					a.may = []string{"Down", "Absent", "CanaryStopped"}
				}
				trial.faults(&a)
			})
		}
	})
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // not all trials
	}
	for _, r := range live.Rules(t, "alerts.yaml") {
		if _, ok := fired.Load(r.Alert); !ok {
			t.Errorf("%s was not driven by a fault", r.Alert)
		}
	}
}

func outages(a *alarms) {
	a.watch(a.demo)
	a.quiet("nothing is wrong", 5*time.Minute)
	a.demo.Purge("buyer")
	a.quiet("a purge", 3*time.Minute)
	a.fault("a configuration with a mistake", a.spoil("gateway.yaml"), "ConfigReloadFailed")
	a.fault("a keys file with a mistake", a.spoil("keys.yaml"), "KeysReloadFailed", "ConfigReloadFailed")
	a.may = []string{"HitRatioDropped", "ServingStaleOnError"} // of what goes before
	a.fault("the legacy system is down", func() func() {
		a.demo.Break("fault=status&status=503")
		a.demo.Purge("buyer") // sellers get stale lists, buyers errors
		return a.demo.Heal
	}, "BreakerOpen", "ServingStaleOnError", "FailingFast")
	a.fault("records of other accounts", a.legacy("fault=wrong_owner"), "ForeignRecords", "InvalidReplies")
	a.fault("Redis is away", func() func() { a.redis.Kill(); return a.redis.Restart }, "RedisBreakerOpen")
	a.fault("the gateway is killed", func() func() { a.demo.Kill(); return nil }, "Down", "Absent")
}

func callers(a *alarms) {
	a.watch(a.demo)
	a.may = []string{"CanaryBlind"} // it is over its rate, too
	a.fault("accounts over their rate", a.configure("{per_second: 100, burst: 200}", "{per_second: 1, burst: 1}"), "RateLimiting")
	stranger := &live.Demo{}
	*stranger = *a.demo
	for range 6 {
		stranger.AddCaller("no-such-key", "/api/v1/buyer/inquiries")
	}
	a.fault("keys that nobody was given", a.always(func() { stranger.TryCall("") }), "AuthFailures")
}

// keysInRedis has two nodes, of which one loses its way to Redis.
func keysInRedis(a *alarms) {
	proxy := redistest.NewProxy(a.t, a.redis.Addr)
	const auth, noCanary = "auth: {redis: {ttl: 1s, poll: 1s}}", "# canary:"
	first := a.demo.StartNode(a.binary, auth, "canary:", noCanary)
	second := a.demo.StartNode(a.binary, auth, "canary:", noCanary, a.redis.Addr, proxy.Addr)
	key := func() string {
		return a.command(first, "keys", "new", "--kind", "buyer", "--account", "acme", "--api-access", "paid")
	}
	for _, node := range []*live.Demo{first, second} {
		node.AddCaller(key(), "/api/v1/buyer/inquiries")
	}
	a.demo = second
	a.watch(first, second)
	a.each = func() { first.TryCall("") }
	a.quiet("two nodes", 3*time.Minute)
	a.may = []string{"FailingFast"}
	a.fault("a node has no way to Redis, and keys change", func() func() { proxy.Cut(); key(); return proxy.Mend },
		"KeysOutdated", "AuthUnavailable", "RedisBreakerOpen")
}

func legacySystem(a *alarms) {
	a.watch(a.demo)
	a.may = append(a.may, "CanaryBlind", "FailingSlowly", "SlowSlowly") // minutes are hours here
	a.fault("the ceiling is too low", both(a.configure("upstream:\n", "upstream:\n  max_requests_per_second: 1\n"), a.always(a.purge)),
		"CeilingReached", "FailingFast")
	a.may = append(a.may, "FailingFast", "HitRatioDropped") // of what goes before
	a.fault("the legacy system is slow", both(a.legacy("fault=delay&delay=600ms"), a.always(a.purge)), "SlowFast")
	a.fault("a path of records has another name",
		both(a.configure("items: result.items", "items: result.items\n    always_present: [_memo]"), both(a.bug("shape"), a.always(a.purge))),
		"LegacyDrift", "PathsMissing")
}

func lists(a *alarms) {
	a.watch(a.demo)
	a.quiet("most lists come from the cache", 50*time.Minute)
	a.fault("purges without end", a.always(a.purge), "HitRatioDropped")
	a.fault("lists in Redis are overwritten", a.always(func() {
		client := a.redis.Client()
		defer client.Close()
		for _, key := range client.Keys(a.t.Context(), "iq:*er:*").Val() {
			if !strings.HasSuffix(key, ":lease") && !strings.Contains(key, "epoch") {
				client.Set(a.t.Context(), key, "nonsense", time.Second)
			}
		}
	}), "EntriesRefused")
}

// canary's bugs are planted: no fault of another system can cause what these alerts are
// about.
func canary(a *alarms) {
	a.configure("every: 10s", "every: 1s")()
	a.watch(a.demo)
	a.quiet("a canary in good health", 30*time.Minute)
	a.fault("a panic in a handler", a.bug("panic"), "Panics")
	a.fault("a key of the other kind is let in", a.bug("access"), "CanaryAccess")
	a.may = append(a.may, "CanaryFailing") // a list is not the one of a moment ago
	a.fault("a key opens another account's list", both(a.bug("cross_read"), func() func() { a.purge(); return a.purge }), "CanaryCrossRead")
	a.fault("answers without a promised header", a.bug("contract"), "CanaryFailing")
	a.fault("the canary's key is revoked", func() func() {
		restore := a.rewrite("keys.yaml", func(text string) string { return text })()
		a.command(a.demo, "keys", "revoke", "canary-buyer-0")
		return restore
	}, "CanaryKeys", "CanaryBlind")
	a.fault("the canary hangs", a.bug("hang"), "CanaryStopped", "CanaryBlind")
}

func promises(a *alarms) {
	a.demo.Change("0s")
	a.configure("every: 10s", "every: 1s")() // minutes of the rules
	a.configure("budget_per_second: 1", "budget_per_second: 100")()
	a.watch(a.demo)
	a.quiet("lists that do not change", 2*time.Hour)
	a.fault("lists change more often than thought", func() func() { a.demo.Change("2s"); return func() { a.demo.Change("0s") } }, "ServedOutdated")
}

func days(a *alarms) {
	a.configure("every: 10s", "every: 1s")() // minutes of the rules
	a.watch(a.demo)
	a.may = append(a.may, "HitRatioDropped", "InvalidReplies", "CanaryBlind") // in hours these become true, too
	a.fault("sellers wait, and a buyer's list is not readable",
		both(a.legacy("fault=delay&delay=600ms&kind=seller"), both(a.legacy("fault=missing_field&kind=buyer&account=acme"), a.always(a.purge))),
		"FailingSlowly", "FailingFast", "SlowSlowly", "SlowFast")
}

// watch has Prometheus scrape the nodes.
func (a *alarms) watch(nodes ...*live.Demo) {
	a.t.Helper()
	var ops []string
	for _, n := range nodes {
		ops = append(ops, n.Ops)
	}
	a.prom = live.StartPrometheus(a.t, strings.Join(ops, ","), a.fasterRules("recording.yaml"), a.fasterRules("alerts.yaml"))
	live.Eventually(a.t, func() string {
		if up, err := a.prom.Query("inquiry_gateway_build_info"); err != nil || len(up) < len(nodes) {
			return fmt.Sprintf("%d nodes are scraped; %v", len(up), err)
		}
		return strings.Join(a.firing(), ",") // before the first scrape
	})
}

// fault begins a fault, waits for its alerts, ends it where it can be ended, and
// waits for them to be over.
func (a *alarms) fault(what string, begin func() (end func()), alerts ...string) {
	a.t.Helper()
	end := begin()
	a.wait(what, alerts, true)
	if end != nil {
		end()
		a.wait(what, alerts, false)
	}
}

// wait says for each of the alerts when it fired, or was over.
func (a *alarms) wait(what string, alerts []string, firing bool) {
	a.t.Helper()
	word, from := map[bool]string{true: "fires", false: "is over"}[firing], time.Now()
	most := 8*time.Hour/a.faster + time.Minute // the longest window that ends an alert, and what does not go faster
	for left := slices.Clone(alerts); len(left) > 0; {
		now := a.firing()
		a.noneBut(what, now, alerts)
		left = slices.DeleteFunc(left, func(alert string) bool {
			done := slices.Contains(now, alert) == firing
			if done {
				a.fired.Store("InquiryGateway"+alert, true)
				a.t.Logf("%s: %s %s after %s", what, alert, word, (time.Since(from) * a.faster).Round(10*time.Second))
			}
			return done
		})
		if time.Since(from) > most {
			a.t.Errorf("%s: not within %s that each of %v %s", what, most*a.faster, left, word)
			return
		}
		a.traffic()
	}
}

// noneBut complains once of each alert that has nothing to do with a fault.
func (a *alarms) noneBut(what string, firing, alerts []string) {
	a.t.Helper()
	for _, alert := range firing {
		if !slices.Contains(alerts, alert) && !slices.Contains(a.may, alert) {
			a.may = append(a.may, alert)
			about, err := a.prom.Query(`ALERTS{alertstate="firing", alertname="InquiryGateway` + alert + `"}`)
			a.t.Errorf("%s: %s fires, too: %v %v", what, alert, about, err)
		}
	}
}

// quiet wants no alert for some time of the rules'.
func (a *alarms) quiet(what string, d time.Duration) {
	a.t.Helper()
	for begin := time.Now(); time.Since(begin) < d/a.faster; a.traffic() {
		a.noneBut(what, a.firing(), nil)
	}
}

// traffic is callers who ask all the time.
func (a *alarms) traffic() {
	if a.t.Context().Err() != nil {
		return
	}
	a.demo.TryCall("")
	if a.each != nil {
		a.each()
	}
	time.Sleep(100 * time.Millisecond) // between two rounds of callers
}

// firing lists the alerts that fire now.
func (a *alarms) firing() []string {
	a.t.Helper()
	series, err := a.prom.Query(`ALERTS{alertstate="firing"}`)
	if err != nil {
		a.t.Fatal(err)
	}
	var names []string
	for _, s := range series {
		names = append(names, strings.TrimPrefix(s.Metric["alertname"], "InquiryGateway"))
	}
	return names
}

func (a *alarms) purge() {
	a.demo.Purge("buyer")
	a.demo.Purge("seller")
}

// legacy breaks the legacy system.
func (a *alarms) legacy(fault string) func() func() {
	return func() func() { a.demo.Break(fault); return a.demo.Heal }
}

// always does something in each round of traffic.
func (a *alarms) always(do func()) func() func() {
	return func() func() { a.each = do; return func() { a.each = nil } }
}

// both begins two faults as one.
func both(one, other func() func()) func() func() {
	return func() func() {
		endOne, endOther := one(), other()
		return func() { endOther(); endOne() }
	}
}

// command runs a command of the gateway with a node's configuration, and gives its answer.
func (a *alarms) command(node *live.Demo, name string, args ...string) string {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), a.binary, append([]string{name, "-c", node.Config}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		a.t.Fatalf("%v: %v", cmd, err)
	}
	return strings.TrimSpace(string(out))
}

// rewrite changes a file of the demo's, and gives what restores it.
func (a *alarms) rewrite(file string, change func(string) string) func() func() {
	file = filepath.Join(filepath.Dir(a.demo.Config), file)
	return func() func() {
		good, err := os.ReadFile(file)
		if err = errors.Join(err, os.WriteFile(file, []byte(change(string(good))), 0o600)); err != nil {
			a.t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(file, good, 0o600); err != nil {
				a.t.Error(err)
			}
		}
	}
}

// spoil makes a file unreadable.
func (a *alarms) spoil(file string) func() func() {
	return a.rewrite(file, func(text string) string { return "nonsense: [\n" + text })
}

// configure changes the configuration, which is reloaded.
func (a *alarms) configure(old, text string) func() func() {
	return a.rewrite("gateway.yaml", func(config string) string {
		if strings.Count(config, old) != 1 {
			a.t.Fatalf("%q is not once in\n%s", old, config)
		}
		return strings.Replace(config, old, text, 1)
	})
}

// bug has a planted bug act.
func (a *alarms) bug(name string) func() func() {
	file := filepath.Join(a.bugs, name)
	return func() func() {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			a.t.Fatal(err)
		}
		return func() { _ = os.Remove(file) } // one that acts once is gone
	}
}

// planted is a package of the tested program: whether a bug acts, and whether it does
// for the first time.
const planted = `package planted

import "os"

func On(bug string) bool { _, err := os.Stat(os.Getenv("BUGS") + "/" + bug); return err == nil }

func Once(bug string) bool { return os.Remove(os.Getenv("BUGS")+"/"+bug) == nil }
`

// bugs are put into the sources that the tested program is built from: file, old and
// new text.
var bugs = [][3]string{
	{"gateway/handle.go", "\t\tf, err := parseFilter(", "\t\tif kind == \"buyer\" && planted.On(\"cross_read\") {\n\t\t\tx.principal.Account = \"acme\"\n\t\t}\n" +
		"\t\tif planted.Once(\"panic\") {\n\t\t\tpanic(\"planted\")\n\t\t}\n\t\tf, err := parseFilter("},
	{"gateway/handle.go", "x.principal.Authorize(kind); err != nil {", "x.principal.Authorize(kind); err != nil && !planted.On(\"access\") {"},
	{"gateway/handle.go", "\tx.Add(\"X-Content-Type-Options\"", "\tif planted.On(\"contract\") {\n\t\treturn\n\t}\n\tx.Add(\"X-Content-Type-Options\""},
	{"gateway/ops/canary/canary.go", "\t\tfor i := range c.opts.Kinds {\n", "\t\tfor planted.On(\"hang\") {\n\t\t\ttime.Sleep(time.Millisecond)\n\t\t}\n\t\tfor i := range c.opts.Kinds {\n"},
	{"upstream/legacy/render.go", "\"replies\", replies,\n\t\t\"_memo\"", "\"replies\", replies,\n\t\tmap[bool]string{true: \"_note\", false: \"_memo\"}[planted.On(\"shape\")]"},
}

// TestBugsCanBePlanted finds the places of all bugs.
func TestBugsCanBePlanted(t *testing.T) { withBugs(t) }

// withBugs are the changed sources.
func withBugs(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{"internal/planted/planted.go": planted}
	for _, b := range bugs {
		text, ok := sources[b[0]]
		if !ok {
			source, err := os.ReadFile(filepath.Join("../..", b[0]))
			if err != nil {
				t.Fatal(err)
			}
			text = strings.Replace(string(source), "import (\n", "import (\n\t\"inquiry-gateway/internal/planted\"\n", 1)
		}
		if strings.Count(text, b[1]) != 1 {
			t.Fatalf("%q is not once in %s", b[1], b[0])
		}
		sources[b[0]] = strings.Replace(text, b[1], b[2], 1)
	}
	return sources
}

// buildWithBugs builds the gateway with bugs that act when they are told to.
func buildWithBugs(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), []string{}
	for file, text := range withBugs(t) {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace = append(replace, fmt.Sprintf("%q: %q", filepath.Join(root, file), path))
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, []byte(`{"Replace": {`+strings.Join(replace, ",")+"}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return live.Build(t, "-overlay", overlay)
}

// duration is one in a rule: a window, an offset, or how long to wait.
var duration = regexp.MustCompile(`(\[|for: |offset )(\d+)([mhd])\b`)

// fasterRules writes a file of rules with shorter times, and gives its path.
func (a *alarms) fasterRules(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	units := map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	short := duration.ReplaceAllStringFunc(string(text), func(match string) string {
		m := duration.FindStringSubmatch(match)
		n, _ := strconv.Atoi(m[2]) // digits
		return m[1] + strconv.FormatInt((time.Duration(n)*units[m[3]]/a.faster).Milliseconds(), 10) + "ms"
	})
	path := filepath.Join(a.t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(short, "> 600", fmt.Sprintf("> %d", 600/a.faster))), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}
