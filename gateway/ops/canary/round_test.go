package canary

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

var allGood = [checkCount]string{"ok", "ok", "ok", "ok", "ok"}

func TestGoodGateway(t *testing.T) {
	s := newStand(t, nil)
	for kind, name := range []string{"buyer", "seller"} {
		if r := s.round(t, kind); r.results() != allGood {
			t.Errorf("%s: %v %+v", name, r.results(), r.tally)
		}
		for _, check := range checkNames {
			if n := s.counted(name, check, "ok"); n != 1 {
				t.Errorf("%s %s: counted %v times", name, check, n)
			}
			if n := s.counted(name, check, "failed"); n != 0 {
				t.Errorf("%s %s: failed %v times", name, check, n)
			}
		}
		if at := s.lastRound(name); time.Since(at) > time.Minute {
			t.Errorf("%s: the last round was at %v", name, at)
		}
	}
	if !s.fake.agents["inquiry-gateway-canary/v1"] || len(s.fake.agents) != 1 {
		t.Errorf("asked as %v", s.fake.agents)
	}
	if s.log.Len() > 0 {
		t.Errorf("logged %s", s.log)
	}
}

// Each assertion is seen to fail, for its own reason, and fails no other check.
func TestSpoiltGateway(t *testing.T) {
	for _, group := range [][]fault{leaks(), breaches(), bodies(), ages()} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				s := newStand(t, nil)
				s.fake.change = c.change
				if c.body[0] != "" {
					s.fake.corrupt = func(body string) string { return strings.Replace(body, c.body[0], c.body[1], 1) }
				}
				r := s.round(t, 0)
				if r.tally[c.check].result != failed || !strings.Contains(r.reasons(c.check), c.says) {
					t.Errorf("%s: %s, because\n%s\nwant %q", checkNames[c.check], resultNames[r.tally[c.check].result], r.reasons(c.check), c.says)
				}
				for other := range checkCount {
					if other != c.check && r.tally[other].result == failed {
						t.Errorf("%s failed too: %s", checkNames[other], r.reasons(other))
					}
				}
				if n := s.counted("buyer", checkNames[c.check], "failed"); n != 1 {
					t.Errorf("counted %v times", n)
				}
				checkFailureLog(t, s, c)
			})
		}
	}
}

// checkFailureLog holds that a failure is found by its request, is an event of
// security where it is one, and shows neither keys nor what records hold.
func checkFailureLog(t *testing.T, s *stand, c fault) {
	t.Helper()
	log := s.log.String()
	if !strings.Contains(log, `"level":"ERROR","msg":"the canary found a failure","kind":"buyer","check":"`+checkNames[c.check]+`"`) {
		t.Errorf("logged %s", log)
	}
	if !strings.Contains(log, `"request_ids":["request-`) && c.name != "no request id" {
		t.Errorf("no request is named in %s", log)
	}
	event := map[check]string{crossRead: `"event":"canary_cross_read"`, access: `"event":"canary_access"`}[c.check]
	if event != "" && !strings.Contains(log, `"security":{`+event+`,"kind":"buyer","accounts":["account of b1","account of b2"]}`) || event == "" && strings.Contains(log, "security") {
		t.Errorf("logged %s", log)
	}
	for _, secret := range []string{"Bearer", string(s.invented), "also of", "6f1c2a34", "session=1", "PHP"} {
		if strings.Contains(log, secret) {
			t.Errorf("%q is in %s", secret, log)
		}
	}
}

// What the gateway says it cannot do is no failure of its own, unless it says
// so in a way that is not documented.
func TestUnavailable(t *testing.T) {
	for code, name := range map[int]string{429: "rate_limited", 502: "upstream_invalid_response", 503: "upstream_unavailable", 504: "upstream_timeout"} {
		s := newStand(t, nil)
		s.fake.change = func(r *http.Request, a *fakeAnswer) {
			if a.code == 200 {
				a.becomes(refused(code, name, ""))
			}
		}
		if r := s.round(t, 1); r.results() != [checkCount]string{"ok", "unavailable", "unavailable", "unavailable", "ok"} {
			t.Errorf("%d: %v %+v", code, r.results(), r.tally)
		}
		good := s.fake.change
		s.fake.change = func(r *http.Request, a *fakeAnswer) {
			if good(r, a); a.code == code {
				a.header.Set("Cache-Control", "public")
			}
		}
		if r := s.round(t, 1); r.results() != [checkCount]string{"ok", "unavailable", "failed", "unavailable", "ok"} {
			t.Errorf("%d that may be stored: %v", code, r.results())
		}
	}
}

func TestNoConnection(t *testing.T) {
	s := newStand(t, nil)
	s.fake.err = errors.New("connection refused")
	r := s.round(t, 0)
	if r.results() != [checkCount]string{"ok", "unavailable", "unavailable", "unavailable", "unavailable"} || r.reasons(access) == "" {
		t.Errorf("%v %+v", r.results(), r.tally)
	}
	if !strings.Contains(s.log.String(), `"msg":"the canary finds nothing out","kind":"buyer","checks":["cross_read unavailable","contract unavailable","freshness unavailable","access unavailable"],"reasons":["a request with a key of the other kind: no answer: connection refused",`) {
		t.Errorf("logged %s", s.log)
	}
	s.round(t, 0) // nothing new
	s.fake.err = nil
	if r := s.round(t, 0); r.results() != allGood {
		t.Errorf("%v", r.results())
	}
	if n := strings.Count(s.log.String(), "\n"); n != 2 || !strings.Contains(s.log.String(), `"msg":"the canary finds it good again","kind":"buyer","checks":["cross_read","contract","freshness","access"]`) {
		t.Errorf("%d lines: %s", n, s.log)
	}
}

// A key that is revoked while a round asks opens nothing.
func TestKeyRevokedDuringARound(t *testing.T) {
	s := newStand(t, nil)
	s.fake.change = func(_ *http.Request, a *fakeAnswer) {
		if a.code == 403 {
			a.becomes(refused(401, "invalid_api_key", `Bearer realm="inquiries", error="invalid_token"`))
		}
	}
	if r := s.round(t, 0); r.results() != [checkCount]string{"ok", "ok", "ok", "ok", "unavailable"} {
		t.Errorf("%v %+v", r.results(), r.tally)
	}
}

// A list without records shows nothing, and is not taken for a good one.
func TestEmptyList(t *testing.T) {
	s := newStand(t, nil)
	s.fake.lists["b2"] = ""
	if r := s.round(t, 0); r.results() != [checkCount]string{"ok", "empty", "ok", "ok", "ok"} || !strings.Contains(r.reasons(crossRead), "the list of canary.buyer_keys[1] (key id-b2 of account account of b2) is empty") {
		t.Errorf("%v %s", r.results(), r.reasons(crossRead))
	}
	s.fake.lists["b1"] = ""
	if r := s.round(t, 0); r.results() != [checkCount]string{"ok", "empty", "ok", "ok", "ok"} {
		t.Errorf("both empty: %v %+v", r.results(), r.tally)
	}
}

// What cannot be read is not taken for an empty list, nor a 304 that nobody asked
// for.
func TestListThatIsNone(t *testing.T) {
	for name, change := range map[string]func(r *http.Request, a *fakeAnswer){
		"no envelope": list(func(_ *http.Request, a *fakeAnswer) { a.body = "<html>" }),
		"no age":      list(func(_ *http.Request, a *fakeAnswer) { a.header.Del("Age") }),
		"304": list(func(_ *http.Request, a *fakeAnswer) {
			a.code, a.body = 304, ""
			a.header.Del("Content-Type")
		}),
	} {
		s := newStand(t, nil)
		s.fake.change = change
		if r := s.round(t, 0); r.results() != [checkCount]string{"ok", "unavailable", "failed", "unavailable", "ok"} {
			t.Errorf("%s: %v %+v", name, r.results(), r.tally)
		}
	}
	s := newStand(t, nil)
	s.fake.lists["b2"] = s.fake.lists["b1"]
	s.fake.change = list(func(_ *http.Request, a *fakeAnswer) { a.header.Del("Age") })
	if r := s.round(t, 0); r.results()[crossRead] != "failed" {
		t.Errorf("a leak below a bad header: %v", r.results())
	}
}

func TestKeysThatAreNoGood(t *testing.T) {
	for name, c := range map[string]struct {
		owner  func(key Secret) (Owner, error)
		result string
		says   string
	}{
		"one account": {func(key Secret) (Owner, error) { return Owner{"acme", "id-" + string(key)}, nil }, "failed",
			"canary.buyer_keys[1] (key id-b2 of account acme) is of the same account as canary.buyer_keys[0] (key id-b1 of account acme)"},
		"refused":        {func(Secret) (Owner, error) { return Owner{}, errors.New("it has expired") }, "failed", "canary.buyer_keys[0]: it has expired"},
		"no one to tell": {func(Secret) (Owner, error) { return Owner{}, fmt.Errorf("the key store: %w", ErrUndecided) }, "unavailable", "canary.buyer_keys[0]: the key store: cannot be told now"},
	} {
		s := newStand(t, func(o *Options) {
			o.Owner = func(_ context.Context, kind string, key Secret) (Owner, error) { return c.owner(key) }
		})
		r := s.round(t, 0)
		if r.results() != [checkCount]string{c.result, "unavailable", "unavailable", "unavailable", "unavailable"} || !strings.Contains(r.reasons(keys), c.says) {
			t.Errorf("%s: %v %s", name, r.results(), r.reasons(keys))
		}
		if s.fake.answers > 0 {
			t.Errorf("%s: %d requests", name, s.fake.answers)
		}
	}
}

// Where the legacy system's ids are of another form, or where nobody knows, a
// UUID in a text is its author's business.
func TestUUIDsMayBeTheCallersOwn(t *testing.T) {
	for _, known := range []func() bool{nil, func() bool { return false }} {
		s := newStand(t, func(o *Options) { o.Kinds[0].NoUUIDs = known })
		s.fake.lists["b1"] = fmt.Sprintf(buyerRecord, "order 6f1c2a34-1111-4222-8333-944455566677")
		if r := s.round(t, 0); r.results() != allGood {
			t.Errorf("%v %+v", r.results(), r.tally)
		}
	}
}

// A filtered list is checked by the policy of its status, and its records
// against the filter.
func TestFilteredLists(t *testing.T) {
	s := newStand(t, func(o *Options) {
		short := policy()
		short.TTL = 5 * time.Second
		o.Kinds[0].ByStatus = map[string]Policy{"pending": short, "closed": policy()}
	})
	s.fake.change = list(func(r *http.Request, a *fakeAnswer) {
		if r.URL.Query().Get("status") != "" {
			a.header.Set("Cache-Status", "inquiry-gateway; hit; ttl=1")
		}
	})
	r := s.round(t, 0) // closed
	if !strings.Contains(r.reasons(contract), "record 1: status is not the one that was asked for") || !strings.Contains(r.reasons(freshness), "is less than the ttl of 30s") {
		t.Errorf("closed: %+v", r.tally)
	}
	if r := s.round(t, 0); r.results() != allGood { // pending
		t.Errorf("pending: %v %+v", r.results(), r.tally)
	}
}
