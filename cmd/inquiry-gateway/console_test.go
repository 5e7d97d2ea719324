package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/docs"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// consoleState is what these tests read of /console/state.
type consoleState struct {
	Lines []consoleLine
	Sums  map[string]map[string]any
}

type consoleLine struct {
	ID, Text, Cause, Do string
}

func (p *program) console() (s consoleState) {
	p.t.Helper()
	if a := p.ops("/console/state"); a.status != http.StatusOK || json.Unmarshal(a.body, &s) != nil {
		p.t.Fatalf("%d %s", a.status, a.body)
	}
	return s
}

// consoleSays waits for the console's line with that cause.
func (p *program) consoleSays(id, cause string) (line consoleLine) {
	p.t.Helper()
	p.eventually("the console says "+id+" "+cause, func() bool {
		for _, l := range p.console().Lines {
			if l.ID == id && strings.Contains(l.Cause, cause) {
				line = l
			}
		}
		return line.ID != ""
	})
	return line
}

// The console reads series that the program has: a family that is renamed fails here.
func TestTheConsoleReadsSeriesThatAreThere(t *testing.T) {
	t.Parallel()
	p := start(t, setup{yaml: "rate_limit: {per_second: 100, burst: 200}",
		redis: fmt.Sprintf("{addrs: [%q], %s}", redistest.Start(t).Addr, relaxedTimeout)})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.get(buyerList, "")
	var missing []string
	defer func() { t.Log("no series of", missing) }()
	p.eventually("all families have series", func() bool {
		missing = nil
		sums := p.console().Sums
		for family, series := range sums {
			if len(series) == 0 && family != "auth_lookups_total" { // of another store of keys
				missing = append(missing, family)
			}
		}
		return len(sums) > 0 && len(missing) == 0
	})
}

// enter runs the commands that a text has between backticks, as somebody on call would. HOST and the
// names that a manual has in capitals are this gateway's.
func (p *program) enter(text string) (said string) {
	p.t.Helper()
	names := strings.NewReplacer("FILE", p.file(), "http://HOST:9090", p.app.OpsURL(), "--seller ID", "--seller "+legacy.SellerTypical, "ID", legacy.BuyerTypical)
	for _, c := range regexp.MustCompile("`inquiry-gateway ([^`]+)`").FindAllStringSubmatch(text, -1) {
		args := strings.Fields(names.Replace(c[1]))
		if args[0] == "purge" {
			args = append(args, "--ops", p.app.OpsURL())
		}
		out, errOut, code := command(p.t, args...)
		if code > 1 {
			p.t.Errorf("%s does not run: exit code %d, %s", c[1], code, errOut)
		}
		said += out + errOut
	}
	return said
}

// For each sort of failure the console says whose it is, and what to enter; and that runs as it
// stands there, and says more. So do the commands of the runbook.
func TestTheConsoleInEachFault(t *testing.T) {
	t.Parallel()
	const unaskable = ".."
	server, clock := redistest.Start(t), testkit.NewClock(time.Now())
	p := start(t, setup{
		now: clock.Now, redis: fmt.Sprintf("{addrs: [%q], %s}", server.Addr, relaxedTimeout), upstream: []string{"upstream:\n", "upstream:\n  attempts: 1\n"},
		yaml:    "cache: {buyer: {ttl: 0s, stale_while_revalidate: 0s, stale_if_error: 0s}, seller: {ttl: 0s, stale_while_revalidate: 0s, stale_if_error: 0s}}",
		prepare: func(p *program) { p.writeKeys(gatewaytest.Paid(legacy.KindSeller, "unaskable", unaskable)) },
	})
	p.gets(http.StatusOK, buyerList, "buyer")
	for _, f := range []struct {
		legacy.Fault
		id, cause, text, said string
	}{
		{legacy.Fault{Name: legacy.FaultStatus, Code: 503}, "system-buyer", "503", "1 fetch of buyer lists failed, for one account, and no other one was asked for.", "status 503"},
		{legacy.Fault{Name: legacy.FaultGarbage}, "system-buyer", "", "buyer lists failed", "refused"},
		{legacy.Fault{Name: legacy.FaultStatus, Code: 401}, "sign_in-buyer", "401", "buyer lists failed", "status 401"},
		{legacy.Fault{Name: legacy.FaultHTML}, "sign_in-buyer", "", "buyer lists failed", "refused"},
		{legacy.Fault{Name: legacy.FaultWrongOwner}, "foreign-buyer", "owner", "buyer lists failed", "owner"},
		{legacy.Fault{Name: legacy.FaultStatus, Code: 429}, "refused-seller", "429", "seller lists failed", ""},
	} {
		p.fault(f.Fault)
		p.get(buyerList, "buyer")
		p.get(sellerList, "seller")
		line := p.consoleSays(f.id, f.cause)
		if said := p.enter(line.Do); !strings.Contains(line.Text, f.text) || !strings.Contains(said, f.said) {
			t.Errorf("%s: %+v, and the commands: %s", f.Name, line, said)
		}
		if f.id == "system-buyer" {
			p.enter(docs.Runbook)
		}
		p.system.ClearFaults("")
		clock.Add(time.Minute) // past all waits
		p.comesToGet(http.StatusOK, buyerList, "buyer")
		p.comesToGet(http.StatusOK, sellerList, "seller")
		p.eventually(f.id+" is over", func() bool {
			for _, l := range p.console().Lines {
				if l.ID == f.id {
					return false
				}
			}
			return true
		})
	}
	p.gets(http.StatusNotImplemented, sellerList, "unaskable")
	if line := p.consoleSays("account-seller", "made of dots"); !strings.Contains(p.enter(line.Do), "key unaskable of account") {
		t.Errorf("%+v: %s", line, p.enter(line.Do))
	}
	server.Kill()
	p.get(buyerList, "buyer")
	if line := p.consoleSays("redis", "connection refused"); !strings.Contains(line.Do, "redis-cli -h 127.0.0.1 -p "+server.Port()) {
		t.Errorf("%+v", line)
	}
	p.write("keys.yaml", "kezs: []\n")
	if line := p.consoleSays("reload", "keys.yaml:1:1: kezs: unknown key"); !strings.Contains(p.enter(line.Do), "keys.yaml:1:1: kezs") {
		t.Errorf("%+v", line)
	}
	p.edit("listen: ", "lisen: ")
	if line := p.consoleSays("reload", "gateway.yaml:1:1: lisen: unknown key"); !strings.Contains(p.enter(line.Do), "gateway.yaml:1:1: lisen") {
		t.Errorf("%+v", line)
	}
}
