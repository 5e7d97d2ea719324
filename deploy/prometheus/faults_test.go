package prometheus_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/deploy/live"
	"inquiry-gateway/internal/testkit/redistest"
)

var realFaults = flag.Bool("faults", false, "drive alerts by real faults, with real Prometheus; takes three minutes")

// faster is by how much all times in the rules are divided.
const faster = 20

// alarms is a running gateway with its alerts, at twentyfold speed.
type alarms struct {
	t    *testing.T
	demo *live.Demo
	prom *live.Prometheus
}

// TestAlertsByRealFaults breaks what alerts are about, and waits for them to fire
// and to be over. It writes the times as they would be in production.
func TestAlertsByRealFaults(t *testing.T) {
	if !*realFaults {
		t.Skip("make alerts runs it")
	}
	redis := redistest.Start(t)
	a := alarms{t: t, demo: live.StartDemo(t, live.Build(t), redis.Addr)}
	a.prom = live.StartPrometheus(t, a.demo.Ops, fasterRules(t, "recording.yaml"), fasterRules(t, "alerts.yaml"))
	a.quiet("nothing is wrong", 20*time.Second)
	a.demo.Purge("buyer")
	a.quiet("a purge", 10*time.Second)

	a.fault("a configuration with a mistake", a.spoil(a.demo.Config), "InquiryGatewayConfigReloadFailed")
	a.fault("a keys file with a mistake", a.spoil(filepath.Join(filepath.Dir(a.demo.Config), "keys.yaml")), "InquiryGatewayKeysReloadFailed", "InquiryGatewayConfigReloadFailed")
	a.fault("the legacy system is down", func() func() {
		a.demo.Break("fault=status&status=503")
		a.demo.Purge("buyer") // sellers get stale lists, buyers errors
		return a.demo.Heal
	},
		"InquiryGatewayBreakerOpen", "InquiryGatewayServingStaleOnError", "InquiryGatewayFailingFast")
	a.fault("records of other accounts", func() func() { a.demo.Break("fault=wrong_owner"); return a.demo.Heal }, "InquiryGatewayForeignRecords")
	a.fault("Redis is away", func() func() { redis.Kill(); return nil }, "InquiryGatewayRedisBreakerOpen")
	a.fault("the gateway is killed", func() func() { a.demo.Kill(); return nil }, "InquiryGatewayDown", "InquiryGatewayAbsent")
}

// fault begins a fault, waits for its alerts, ends it where it can be ended, and
// waits for them to be over.
func (a alarms) fault(what string, begin func() (end func()), alerts ...string) {
	a.t.Helper()
	end := begin()
	a.wait(what, time.Now(), alerts, true)
	if end != nil {
		end()
		a.wait(what, time.Now(), alerts, false)
	}
}

// wait says for each of the alerts when it fired, or was over.
func (a alarms) wait(what string, from time.Time, alerts []string, firing bool) {
	a.t.Helper()
	word := map[bool]string{true: "fires", false: "is over"}[firing]
	const most = 15 * time.Minute / faster
	for left := slices.Clone(alerts); len(left) > 0; {
		now := a.firing()
		left = slices.DeleteFunc(left, func(alert string) bool {
			done := slices.Contains(now, alert) == firing
			if done {
				a.t.Logf("%s: %s %s after %s", what, alert, word, (time.Since(from) * faster).Round(10*time.Second))
			}
			return done
		})
		if time.Since(from) > most {
			a.t.Errorf("%s: not within %s that each of %v %s", what, most*faster, left, word)
			return
		}
		a.traffic()
	}
}

// quiet wants no alert for some time.
func (a alarms) quiet(what string, d time.Duration) {
	a.t.Helper()
	for begin := time.Now(); time.Since(begin) < d; a.traffic() {
		if now := a.firing(); len(now) > 0 {
			a.t.Errorf("%s: %v", what, now)
			return
		}
	}
}

// traffic is callers who ask all the time.
func (a alarms) traffic() {
	if a.prom == nil || a.t.Context().Err() != nil {
		return
	}
	a.demo.TryCall("")
	time.Sleep(100 * time.Millisecond) // between two rounds of callers
}

// firing lists the alerts that fire now.
func (a alarms) firing() []string {
	a.t.Helper()
	series, err := a.prom.Query(`ALERTS{alertstate="firing"}`)
	if err != nil {
		a.t.Fatal(err)
	}
	var names []string
	for _, s := range series {
		names = append(names, s.Metric["alertname"])
	}
	return names
}

// spoil makes a file unreadable, and gives what restores it.
func (a alarms) spoil(file string) func() func() {
	return func() func() {
		good, err := os.ReadFile(file)
		if err = errors.Join(err, os.WriteFile(file, append([]byte("nonsense: [\n"), good...), 0o600)); err != nil {
			a.t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(file, good, 0o600); err != nil {
				a.t.Error(err)
			}
		}
	}
}

// duration is one in a rule: a window, an offset, or how long to wait.
var duration = regexp.MustCompile(`(\[|for: |offset )(\d+)([mhd])\b`)

// fasterRules writes a file of rules with shorter times, and gives its path.
func fasterRules(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	units := map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	short := duration.ReplaceAllStringFunc(string(text), func(match string) string {
		m := duration.FindStringSubmatch(match)
		n, _ := strconv.Atoi(m[2]) // digits
		return m[1] + strconv.FormatInt((time.Duration(n)*units[m[3]]/faster).Milliseconds(), 10) + "ms"
	})
	path := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(short, "> 600", "> 30")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
