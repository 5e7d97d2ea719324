package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
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

const canarySection = "canary: {buyer_keys: [buyer.key, other-buyer.key], seller_keys: [seller.key, other-seller.key], every: 1s}"

// canaryKeys writes the files that the section names, with keys of four accounts.
func canaryKeys(p *program) {
	p.writeKeys(gatewaytest.Paid(legacy.KindSeller, "other-seller", p.system.Accounts(legacy.KindSeller)[1]),
		gatewaytest.Paid(legacy.KindBuyer, "buyer-again", legacy.BuyerTypical))
	for id, key := range p.keys {
		p.write(id+".key", key+"\n")
	}
}

// checks is how often a check of the canary ended so; -1 where it is off.
func (p *program) checks(kind, check, result string) float64 {
	p.t.Helper()
	n, found := p.hasMetric(fmt.Sprintf(`inquiry_gateway_canary_checks_total{check=%q,kind=%q,result=%q}`, check, kind, result))
	if !found {
		return -1
	}
	return n
}

// allWell waits until every check of a kind was good twice, and holds that
// none failed meanwhile.
func (p *program) allWell(kind string) {
	p.t.Helper()
	for _, check := range []string{"cross_read", "access"} {
		p.eventually(kind+" "+check+" is ok", func() bool { return p.checks(kind, check, "ok") >= 2 })
		if n := p.checks(kind, check, "failed"); n != 0 {
			p.t.Errorf("%s %s failed %v times:\n%s", kind, check, n, p.canaryLog())
		}
	}
}

// canaryLog is what the canary has logged.
func (p *program) canaryLog() string {
	return strings.Join(regexp.MustCompile(`(?m)^.*the canary.*$`).FindAllString(p.logs.String(), -1), "\n")
}

// A gateway that is well is found so, in each way in which it can be set up.
func TestCanaryOfAGoodGateway(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]setup{
		"all addresses": {yaml: "listen: '[::]:0'"},
		"TLS":           {yaml: "listen: 0.0.0.0:0\ntls: {cert_file: cert.pem, key_file: key.pem}"},
		"Redis":         {redis: fmt.Sprintf("{addrs: [%q], %s}", redistest.Start(t).Addr, relaxedTimeout), yaml: "cache: {seller: {ttl: 2s}}"},
		"no cache":      {yaml: "cache: {buyer: {ttl: 0s, stale_while_revalidate: 0s, stale_if_error: 0s}, seller: {ttl: 1s}}"},
		"limited":       {yaml: "rate_limit: {per_second: 100, burst: 200}\nlog: {sample_hits: 100}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.legacy.Inquiries = 300 // short lists are checked as long ones are
			s.prepare = func(p *program) {
				testkit.Certificate(t, p.dir, "gateway")
				if canaryKeys(p); strings.HasPrefix(s.yaml, "listen") {
					p.edit("listen: 127.0.0.1:0\n", "")
				}
			}
			s.yaml += "\n" + canarySection
			p := start(t, s)
			p.allWell(legacy.KindBuyer)
			p.allWell(legacy.KindSeller)
			if p.checks("buyer", "cross_read", "blind") != 0 || p.checks("seller", "access", "blind") != 0 {
				t.Errorf("something was not asked:\n%s", p.canaryLog())
			}
			for id, key := range p.keys {
				if strings.Contains(p.logs.String(), key) {
					t.Errorf("the key %s is in the log", id)
				}
			}
		})
	}
}

// A reload turns the canary on, takes other keys, and turns it off again.
func TestCanaryIsReloaded(t *testing.T) {
	t.Parallel()
	p := start(t, setup{prepare: canaryKeys})
	if p.checks("buyer", "access", "ok") != -1 {
		t.Fatal("it is on")
	}
	p.edit("ops: ", canarySection+"\nops: ")
	p.allWell(legacy.KindBuyer)
	p.write("other-buyer.key", p.keys["buyer-again"])
	p.eventually("a changed key file is read", func() bool { return p.checks("buyer", "cross_read", "blind") > 0 })
	p.write("other-buyer.key", p.keys["buyer"])
	p.logsEventually("canary.buyer_keys[1]: " + filepath.Join(p.dir, "other-buyer.key") + " holds the same key as canary.buyer_keys[0]")
	before := p.checks("buyer", "cross_read", "blind")
	p.eventually("the old ones stay in force", func() bool { return p.checks("buyer", "cross_read", "blind") > before })
	p.edit(canarySection+"\n", "")
	p.eventually("it is off", func() bool { return p.checks("buyer", "cross_read", "blind") == -1 })
}

// consoleState is what these tests read of /console/state.
type consoleState struct {
	Lines []consoleLine
	Sums  map[string]map[string]any
}

type consoleLine struct {
	ID, Text, Cause, Do string
	Over                bool
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
			if l.ID == id && !l.Over && strings.Contains(l.Cause, cause) {
				line = l
			}
		}
		return line.ID != ""
	})
	return line
}

// Without an owner to check, a legacy system that mixes accounts up goes unnoticed by everything
// but the canary. Log and console say which keys it asked with and which records it was given,
// and neither a key nor an internal id.
func TestCanaryFindsACrossRead(t *testing.T) {
	t.Parallel()
	const one, two = legacy.BuyerTypical, legacy.BuyerOther
	owner := regexp.MustCompile(`(?m)^ *owner: customer.*\n`).FindString(string(legacy.Mapping()))
	p := start(t, setup{
		legacy: legacy.Options{Inquiries: 300}, yaml: canarySection, prepare: canaryKeys, upstream: []string{owner, ""},
		backend: func(system http.Handler) http.Handler { // takes one customer for another
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "customer="+two, "customer="+one, 1)
				system.ServeHTTP(w, r)
			})
		},
	})
	p.eventually("the cross-read is counted", func() bool { return p.checks("buyer", "cross_read", "failed") > 0 })
	p.logsEventually(`"security":{"event":"canary_cross_read","kind":"buyer","accounts":["` + one + `","` + two + `"]}`)
	id := regexp.MustCompile(`"check":"cross_read".*"request_ids":\["([0-9a-f]{32})"`).FindStringSubmatch(p.canaryLog())
	if id == nil || !strings.Contains(p.logs.String(), `"msg":"request","request_id":"`+id[1]+`"`) {
		t.Errorf("no record of the request %q", id)
	}
	line := p.consoleSays("canary", "records that are in the lists of both canary.buyer_keys[0] (key buyer of account "+one+
		") and canary.buyer_keys[1] (key other-buyer of account "+two+"): ")
	if !strings.Contains(line.Cause, "the first is record 1 of the one list, record 1 of the other") ||
		!strings.Contains(line.Do, "[purge](#purge)") {
		t.Errorf("%+v", line)
	}
	for _, key := range p.keys {
		if strings.Contains(line.Cause+p.logs.String(), key) {
			t.Error("a key is shown")
		}
	}
	p.allWell(legacy.KindSeller)
	if n := p.checks("buyer", "access", "failed"); n != 0 {
		t.Errorf("access failed: %s", p.canaryLog())
	}
}

// The console reads series that the program has: a family that is renamed fails here.
func TestTheConsoleReadsSeriesThatAreThere(t *testing.T) {
	t.Parallel()
	p := start(t, setup{yaml: canarySection + "\nrate_limit: {per_second: 100, burst: 200}",
		redis:   fmt.Sprintf("{addrs: [%q], %s}", redistest.Start(t).Addr, relaxedTimeout),
		prepare: canaryKeys})
	p.gets(http.StatusOK, buyerList, "buyer")
	p.get(buyerList, "")
	var missing []string
	defer func() { t.Log("no series of", missing) }()
	p.eventually("all families have series", func() bool {
		missing = nil
		for family, series := range p.console().Sums {
			if len(series) == 0 && family != "auth_lookups_total" { // of another store of keys
				missing = append(missing, family)
			}
		}
		return len(missing) == 0
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
		{legacy.Fault{Name: legacy.FaultStatus, Code: 503}, "system", "503", "1 fetch of buyer lists failed, for one account, and no other one was asked for. 1 fetch of seller lists failed", "status 503"},
		{legacy.Fault{Name: legacy.FaultGarbage}, "system", "", "buyer lists failed", "refused"},
		{legacy.Fault{Name: legacy.FaultStatus, Code: 401}, "sign_in", "401", "buyer lists failed", "status 401"},
		{legacy.Fault{Name: legacy.FaultHTML}, "sign_in", "", "buyer lists failed", "refused"},
		{legacy.Fault{Name: legacy.FaultWrongOwner}, "foreign", "owner", "buyer lists failed", "owner"},
		{legacy.Fault{Name: legacy.FaultStatus, Code: 429}, "refused", "429", "seller lists failed", ""},
	} {
		p.fault(f.Fault)
		p.get(buyerList, "buyer")
		p.get(sellerList, "seller")
		line := p.consoleSays(f.id, f.cause)
		if said := p.enter(line.Do); !strings.Contains(line.Text, f.text) || !strings.Contains(said, f.said) {
			t.Errorf("%s: %+v, and the commands: %s", f.Name, line, said)
		}
		if f.id == "system" {
			p.enter(docs.Runbook)
		}
		p.system.ClearFaults("")
		clock.Add(time.Minute) // past all waits
		p.comesToGet(http.StatusOK, buyerList, "buyer")
		p.comesToGet(http.StatusOK, sellerList, "seller")
		p.eventually(f.id+" is over", func() bool {
			for _, l := range p.console().Lines {
				if l.ID == f.id && !l.Over && f.id != "foreign" { // which must not have been seen for longer
					return false
				}
			}
			return true
		})
	}
	p.gets(http.StatusNotImplemented, sellerList, "unaskable")
	if line := p.consoleSays("account", "made of dots"); !strings.Contains(p.enter(line.Do), "key unaskable of account") {
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
