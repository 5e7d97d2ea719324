package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// consoleState is what these tests read of /console/state.
type consoleState struct {
	Lines []struct {
		ID, Text, Cause, Do string
		Bad, Over           bool
	}
	Sums   map[string]map[string]any
	Canary []struct {
		Check, Kind string
		Reasons     []string
	}
}

func (p *program) console() (s consoleState) {
	p.t.Helper()
	if a := p.ops("/console/state"); a.status != http.StatusOK || json.Unmarshal(a.body, &s) != nil {
		p.t.Fatalf("%d %s", a.status, a.body)
	}
	return s
}

// fails waits for the console's line about a cause.
func (p *program) fails(id string) (text, cause, do string) {
	p.t.Helper()
	p.eventually("the console says "+id, func() bool {
		for _, l := range p.console().Lines {
			if l.ID == id && !l.Over {
				text, cause, do = l.Text, l.Cause, l.Do
			}
		}
		return text != ""
	})
	return text, cause, do
}

// The console reads series that the program has: a family that is renamed fails here.
func TestTheConsoleReadsSeriesThatAreThere(t *testing.T) {
	t.Parallel() // it waits for the console
	p := start(t, setup{yaml: canarySection + "\nredis: {addrs: ['" + redistest.Start(t).Addr + "']}\nrate_limit: {per_second: 100, burst: 200}", prepare: canaryKeys})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.get(buyerList, "")
	p.eventually("all families have series", func() bool {
		missing := []string{}
		for family, series := range p.console().Sums {
			if len(series) == 0 {
				missing = append(missing, family)
			}
		}
		t.Log("no series of", missing)
		return len(missing) == 0
	})
}

// The line of a legacy system that fails says why, and what to enter, with the file and
// the account of this gateway; so do those of Redis and of a file with a mistake.
func TestTheConsoleTellsTheCause(t *testing.T) {
	t.Parallel() // it waits for the console
	server := redistest.Start(t)
	p := start(t, setup{yaml: "redis: {addrs: ['" + server.Addr + "']}", upstream: []string{"timeout: 2s", "timeout: 200ms"}})
	p.gets(http.StatusOK, buyerList, "buyer")
	if err := p.system.SetFault(legacy.Fault{Name: legacy.FaultStatus, Code: http.StatusServiceUnavailable}); err != nil {
		t.Fatal(err)
	}
	p.get(buyerList, "other-buyer")
	file := filepath.Join(p.dir, "gateway.yaml")
	text, cause, do := p.fails("legacy")
	if !strings.Contains(text, "requests for buyer lists failed") || !strings.Contains(cause, "503") || !strings.HasSuffix(cause, " (buyer list of "+legacy.BuyerOther+")") ||
		!strings.Contains(do, "`inquiry-gateway check -c "+file+" --live --buyer "+legacy.BuyerOther+"`") {
		t.Errorf("legacy: %q, %q, %q", text, cause, do)
	}
	for want, fault := range map[string]legacy.Fault{
		"text/html": {Name: legacy.FaultHTML}, "EOF": {Name: legacy.FaultRefuse}, "deadline exceeded": {Name: legacy.FaultDelay, Delay: time.Minute},
	} {
		p.system.ClearFaults("")
		if err := p.system.SetFault(fault); err != nil {
			t.Fatal(err)
		}
		p.eventually("the cause is "+want, func() bool {
			p.get(sellerList, "seller")
			for _, l := range p.console().Lines {
				cause = l.Cause
				if l.ID == "legacy" && strings.Contains(cause, want) {
					return true
				}
			}
			return false
		})
	}
	server.Kill()
	p.get(buyerList, "buyer")
	if text, cause, do = p.fails("redis"); !strings.Contains(cause, "connection refused") || !strings.Contains(do, "redis-cli -h 127.0.0.1 -p "+server.Port()) {
		t.Errorf("redis: %q, %q, %q", text, cause, do)
	}
	p.edit("listen: ", "lisen: ")
	if text, cause, do = p.fails("reload"); !strings.Contains(cause, "gateway.yaml:1:1: lisen: unknown key") || !strings.Contains(do, "check -c "+file) {
		t.Errorf("reload: %q, %q, %q", text, cause, do)
	}
}

// The console says which key the canary asked with and which record it was given, and
// neither a key nor an internal id.
func TestTheConsoleTellsWhatTheCanaryFound(t *testing.T) {
	t.Parallel() // it waits for the canary
	owner := regexp.MustCompile(`(?m)^ *owner: customer.*\n`).FindString(string(legacy.Mapping()))
	p := start(t, setup{legacy: legacy.Options{Inquiries: 300}, yaml: canarySection, prepare: canaryKeys,
		backend: mixedUp(legacy.New(legacy.Options{Inquiries: 300})), upstream: []string{owner, ""}})
	_, cause, do := p.fails("canary")
	said := regexp.MustCompile(`records that are in the lists of both canary\.buyer_keys\[0\] \(key buyer of account ` + legacy.BuyerTypical + `\) and canary\.buyer_keys\[1\] \(key other-buyer of account ` + legacy.BuyerOther +
		`\): \d+; the first is record 1 of the one list, record 1 of the other`)
	if !said.MatchString(cause) || !strings.Contains(do, "[purge](#purge)") {
		t.Errorf("%s %s", cause, do)
	}
	for _, key := range p.keys {
		if strings.Contains(cause, key) {
			t.Error("the text holds a key")
		}
	}
	for _, row := range p.console().Canary {
		if (row.Check == "cross_read" && row.Kind == "buyer") != (len(row.Reasons) > 0) {
			t.Errorf("%+v", row)
		}
	}
}

// The commands that the console tells people to enter are there, with their flags.
func TestCommandsOfTheConsole(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "gateway", "ops", "console", "causes.go"))
	if err != nil {
		t.Fatal(err)
	}
	told := regexp.MustCompile("`inquiry-gateway ([^`>]+)").FindAllStringSubmatch(string(source), -1)
	if len(told) < 4 {
		t.Errorf("%d commands", len(told))
	}
	for _, c := range told {
		commandSays(t, 0, "USAGE", append(strings.Fields(strings.NewReplacer("{kind}", "buyer", "{", "", "}", "").Replace(c[1])), "--help")...)
	}
}
