package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

const canarySection = "canary: {buyer_keys: [buyer.key, other-buyer.key], seller_keys: [seller.key, other-seller.key], every: 1s}"

// canaryKeys writes the files that the section names, with keys of four accounts.
func canaryKeys(p *program) {
	paid := auth.Account{ID: p.system.Accounts(legacy.KindSeller)[1], APIAccess: auth.AccessPaid}
	again := auth.Account{ID: legacy.BuyerTypical, APIAccess: auth.AccessPaid}
	read := []string{auth.ScopeInquiriesRead}
	p.writeKeys([]caller{
		{kind: legacy.KindSeller, account: paid, record: auth.KeyRecord{ID: "other-seller", Scopes: read}},
		{kind: legacy.KindBuyer, account: again, record: auth.KeyRecord{ID: "buyer-again", Scopes: read}},
	})
	for _, id := range []string{"buyer", "other-buyer", "empty-buyer", "seller", "other-seller", "buyer-again", "expired"} {
		p.write(id+".key", p.keys[id]+"\n")
	}
}

// checks is how often a check of the canary ended so.
func (p *program) checks(kind, check, result string) int {
	p.t.Helper()
	series := fmt.Sprintf(`inquiry_gateway_canary_checks_total{check=%q,kind=%q,result=%q} `, check, kind, result)
	_, rest, found := strings.Cut(string(p.ops("/metrics").body), series)
	if !found {
		return -1
	}
	n, err := strconv.Atoi(rest[:strings.IndexByte(rest, '\n')])
	if err != nil {
		p.t.Fatal(err)
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
			p.t.Errorf("%s %s failed %d times:\n%s", kind, check, n, p.canaryLog())
		}
	}
}

// canaryLog is what the canary has logged.
func (p *program) canaryLog() string {
	return strings.Join(regexp.MustCompile(`(?m)^.*the canary.*$`).FindAllString(p.logs.String(), -1), "\n")
}

// A gateway that is well is found so, in each way in which it can be set up.
func TestCanaryOfAGoodGateway(t *testing.T) {
	t.Parallel() // it waits for the canary
	for name, s := range map[string]setup{
		"plain":    {yaml: "listen: '[::]:0'"},
		"TLS":      {yaml: "listen: 0.0.0.0:0\ntls: {cert_file: cert.pem, key_file: key.pem}", prepare: func(p *program) { testkit.Certificate(t, p.dir, "gateway") }},
		"Redis":    {yaml: "redis: {addrs: [\"" + redistest.Start(t).Addr + "\"]}\ncache: {buyer: {ttl: 3s}, seller: {ttl: 2s, stale_while_revalidate: 1s}}"},
		"no cache": {yaml: "cache: {buyer: {ttl: 0s, stale_while_revalidate: 0s, stale_if_error: 0s}, seller: {ttl: 1s}}"},
		"limited":  {yaml: "rate_limit: {per_second: 100, burst: 200}\nlog: {sample_hits: 100}"},
	} {
		t.Run(name, func(t *testing.T) {
			s.yaml += "\n" + canarySection
			s.legacy.Inquiries = 300 // short lists are checked as long ones are
			prepare := s.prepare
			s.prepare = func(p *program) {
				if canaryKeys(p); prepare != nil {
					prepare(p)
				}
				if strings.HasPrefix(s.yaml, "listen") {
					p.edit("listen: 127.0.0.1:0\n", "")
				}
			}
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

// mixedUp is a legacy system that takes one customer for another.
func mixedUp(system *legacy.Server) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("customer") == legacy.BuyerOther {
			q.Set("customer", legacy.BuyerTypical)
			r.URL.RawQuery = q.Encode()
		}
		system.ServeHTTP(w, r)
	})
}

// Without an owner to check, a legacy system that mixes accounts up goes
// unnoticed by everything but the canary.
func TestCanaryFindsACrossRead(t *testing.T) {
	t.Parallel() // it waits for the canary
	system := legacy.New(legacy.Options{Inquiries: 300})
	owner := regexp.MustCompile(`(?m)^ *owner: customer.*\n`).FindString(string(legacy.Mapping()))
	p := start(t, setup{legacy: legacy.Options{Inquiries: 300}, yaml: canarySection, prepare: canaryKeys, backend: mixedUp(system), upstream: []string{owner, ""}})
	p.eventually("the cross-read is counted", func() bool { return p.checks("buyer", "cross_read", "failed") > 0 })
	p.eventually("and logged", func() bool {
		return strings.Contains(p.canaryLog(), `"security":{"event":"canary_cross_read","kind":"buyer","accounts":["`+legacy.BuyerTypical+`","`+legacy.BuyerOther+`"]}`)
	})
	id := regexp.MustCompile(`"check":"cross_read".*"request_ids":\["([0-9a-f]{32})"`).FindStringSubmatch(p.canaryLog())
	if id == nil || !strings.Contains(p.logs.String(), `"msg":"request","request_id":"`+id[1]+`"`) {
		t.Errorf("no record of the request %q", id)
	}
	p.allWell(legacy.KindSeller)
	if n := p.checks("buyer", "access", "failed"); n != 0 {
		t.Errorf("access failed: %s", p.canaryLog())
	}
}

// A reload turns the canary on, takes other keys, and turns it off again.
func TestCanaryIsReloaded(t *testing.T) {
	t.Parallel() // it waits for the canary
	p := start(t, setup{prepare: canaryKeys})
	if p.checks("buyer", "access", "ok") != -1 {
		t.Fatal("it is on")
	}
	p.edit("ops: ", canarySection+"\nops: ")
	p.allWell(legacy.KindBuyer)
	p.write("other-buyer.key", p.keys["buyer-again"])
	p.eventually("a changed key file is read", func() bool { return p.checks("buyer", "cross_read", "blind") > 0 })
	p.write("other-buyer.key", p.keys["buyer"])
	p.eventually("a key file that is no good is refused", func() bool {
		return strings.Contains(p.logs.String(), "canary.buyer_keys[1]: "+filepath.Join(p.dir, "other-buyer.key")+" holds the same key as canary.buyer_keys[0]")
	})
	before := p.checks("buyer", "cross_read", "blind")
	p.eventually("the old ones stay in force", func() bool { return p.checks("buyer", "cross_read", "blind") > before })
	p.edit(canarySection+"\n", "")
	p.eventually("it is off", func() bool { return p.checks("buyer", "cross_read", "blind") == -1 })
}
