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
			if n := s.counted(t, "checks_total", "kind", name, "check", check, "result", "ok"); n != 1 {
				t.Errorf("%s %s: counted %v times", name, check, n)
			}
			if n := s.counted(t, "checks_total", "kind", name, "check", check, "result", "failed"); n != 0 {
				t.Errorf("%s %s: failed %v times", name, check, n)
			}
		}
		if at := s.counted(t, "last_round_timestamp_seconds", "kind", name); at < float64(time.Now().Add(-time.Minute).Unix()) {
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

// spoilt is one thing that a gateway may do wrong.
type spoilt struct {
	name   string
	change func(r *http.Request, a *fakeAnswer)
	check  check
	says   string
	body   [2]string // a text of a list's body, and what comes in its place
}

// list changes the answers that give a list.
func list(do func(r *http.Request, a *fakeAnswer)) func(*http.Request, *fakeAnswer) {
	return func(r *http.Request, a *fakeAnswer) {
		if a.code == http.StatusOK {
			do(r, a)
		}
	}
}

func set(name, value string) func(*http.Request, *fakeAnswer) {
	return list(func(_ *http.Request, a *fakeAnswer) { a.header.Set(name, value) })
}

func error401(do func(a *fakeAnswer)) func(*http.Request, *fakeAnswer) {
	return func(_ *http.Request, a *fakeAnswer) {
		if a.code == http.StatusUnauthorized {
			do(a)
		}
	}
}

func asB2(r *http.Request) bool { return strings.HasSuffix(r.Header.Get("Authorization"), "b2") }

// leaks are what somebody must hear of at once.
func leaks() []spoilt {
	return []spoilt{
		{name: "a record too much", body: [2]string{"also of b2", "also of b1"}, check: crossRead,
			says: "1 records stand in the lists of canary.buyer_keys[0] and of canary.buyer_keys[1]"},
		{name: "a record too much, packed only", change: func(r *http.Request, a *fakeAnswer) {
			if a.code == 200 && asB2(r) && r.Header.Get("Accept-Encoding") == "gzip" {
				a.body = `{"data":[` + fmt.Sprintf(buyerRecord, "of b1") + `],"meta":{},"errors":[]}`
				a.header.Set("Etag", `W/"packed"`)
			}
		}, check: crossRead, says: "1 records stand in the lists"},
		{name: "one entity tag", change: func(r *http.Request, a *fakeAnswer) {
			if a.header.Get("Etag") != "" {
				a.header.Set("Etag", `W/"all"`)
			}
			if r.Header.Get("If-None-Match") != "" {
				a.code, a.body = 304, ""
				a.header.Del("Content-Type")
			}
		}, check: crossRead, says: "have one entity tag"},
		{name: "304 for another's tag", change: func(r *http.Request, a *fakeAnswer) {
			if tag := r.Header.Get("If-None-Match"); tag != "" && a.code == 200 {
				a.code, a.body = 304, ""
				a.header.Set("Etag", tag)
				a.header.Del("Content-Type")
			}
		}, check: crossRead, says: "canary.buyer_keys[0] gets 304 for the entity tag of another's list"},
		{name: "open without a key", change: func(r *http.Request, a *fakeAnswer) {
			if r.Header.Get("Authorization") == "" {
				a.code = 200
			}
		}, check: access, says: "without a key is answered 200 instead of 401"},
		{name: "open to any key", change: func(r *http.Request, a *fakeAnswer) {
			if strings.Contains(r.Header.Get("Authorization"), "canary-") {
				a.code = 200
			}
		}, check: access, says: "with an invented key is answered 200 instead of 401"},
		{name: "open to the other kind", change: func(_ *http.Request, a *fakeAnswer) {
			if a.code == 403 {
				a.code = 304
			}
		}, check: access, says: "with a key of the other kind is answered 304 instead of 403"},
		{name: "another code", change: func(_ *http.Request, a *fakeAnswer) {
			if a.code == 403 {
				a.body = strings.Replace(a.body, "wrong_key_kind", "insufficient_scope", 1)
			}
		}, check: access, says: "is answered 403 without the code wrong_key_kind"},
	}
}

func breaches() []spoilt {
	one := func(name string, change func(*http.Request, *fakeAnswer), says string) spoilt {
		return spoilt{name: name, change: change, check: contract, says: says}
	}
	return []spoilt{
		one("another media type", set("Content-Type", "text/html"), "Content-Type has not the documented form"),
		one("shared caches may store", set("Cache-Control", "public, max-age=60"), "Cache-Control has not"),
		one("a strong tag", list(func(_ *http.Request, a *fakeAnswer) { a.header.Set("Etag", a.header.Get("Etag")[2:]) }), "Etag has not"),
		one("vary by nothing", set("Vary", "Accept-Encoding"), "Vary has not"),
		one("no nosniff", list(func(_ *http.Request, a *fakeAnswer) { a.header.Del("X-Content-Type-Options") }), "X-Content-Type-Options is missing"),
		one("no request id", list(func(_ *http.Request, a *fakeAnswer) { a.header.Del("X-Request-Id") }), "X-Request-Id is missing"),
		one("a cookie", set("Set-Cookie", "session=1"), "Set-Cookie is not documented"),
		one("a header of the legacy's", set("X-Powered-By", "PHP"), "X-Powered-By is not documented"),
		one("two ages", list(func(_ *http.Request, a *fakeAnswer) { a.header.Add("Age", "3") }), "Age is there more than once"),
		one("stale and not said why", set("Cache-Status", "inquiry-gateway; hit; ttl=-4"), "Cache-Status is not one of"),
		one("packed unasked", set("Content-Encoding", "gzip"), "which was not asked for"),
		one("packed wrongly", list(func(r *http.Request, a *fakeAnswer) {
			if r.Header.Get("Accept-Encoding") == "gzip" {
				a.body = strings.Replace(a.body, "b1", "bX", 1)
			}
		}), "two bodies have one entity tag"),
		one("sent again", func(r *http.Request, a *fakeAnswer) {
			if a.code == 304 {
				a.code, a.body = 200, `{"data":[`+fmt.Sprintf(buyerRecord+","+buyerRecord, "of b1", "also of b1")+`],"meta":{},"errors":[]}`
				a.header.Set("Content-Type", "application/json; charset=utf-8")
				if asB2(r) {
					a.body = strings.ReplaceAll(a.body, "b1", "b2")
				}
			}
		}, "sent again to who has its entity tag"),
		one("304 with a body", func(_ *http.Request, a *fakeAnswer) {
			if a.code == 304 {
				a.body = "x"
			}
		}, "a 304 has a body"),
		one("304 unasked", list(func(r *http.Request, a *fakeAnswer) {
			if r.Header.Get("Accept-Encoding") == "gzip" {
				a.code, a.body = 304, ""
				a.header.Del("Content-Type")
				a.header.Del("Content-Encoding")
			}
		}), "an entity tag that was not asked for"),
		one("a good key refused", list(func(r *http.Request, a *fakeAnswer) {
			if r.Header.Get("Accept-Encoding") == "gzip" {
				a.code = 403
			}
		}), "canary.buyer_keys[0] is good, and answered 403"),
		one("a bug", list(func(r *http.Request, a *fakeAnswer) {
			if r.Header.Get("Accept-Encoding") == "gzip" {
				a.code = 500
			}
		}), "answered 500"),
		one("an error that may be stored", error401(func(a *fakeAnswer) { a.header.Set("Cache-Control", "private, no-cache") }), "Cache-Control has not"),
		one("an error with a tag", error401(func(a *fakeAnswer) { a.header.Set("Etag", `W/"x"`) }), "Etag is not documented"),
		one("an error of another request", error401(func(a *fakeAnswer) { a.body = strings.Replace(a.body, "request-", "answer-", 1) }), "another status or id"),
		one("an error of another status", error401(func(a *fakeAnswer) { a.body = strings.Replace(a.body, `"401"`, `"400"`, 1) }), "another status or id"),
		one("no challenge", error401(func(a *fakeAnswer) { a.header.Del("WWW-Authenticate") }), "the headers that go with its code"),
		one("an error with data", error401(func(a *fakeAnswer) { a.body = strings.Replace(a.body, `"data":[]`, `"data":[{}]`, 1) }), "an error has 1 records"),
	}
}

// bodies are what is wrong within a list.
func bodies() []spoilt {
	one := func(name, old, next, says string) spoilt {
		return spoilt{name: name, body: [2]string{old, next}, check: contract, says: says}
	}
	return []spoilt{
		one("null for a list", `"data":[`, `"data":null,"x":[`, "is not the envelope"),
		one("another order", `"meta":{},"errors":[]`, `"errors":[],"meta":{}`, "is not the envelope"),
		one("a key more", `"meta":{}`, `"meta":{},"links":{}`, "is not the envelope"),
		one("something in meta", `"meta":{}`, `"meta":{"n":1}`, "is not the envelope"),
		one("two bodies", `"errors":[]}`, `"errors":[]}{}`, "is not the envelope"),
		one("cut off", `"errors":[]}`, `"errors":[`, "is not the envelope"),
		one("no UTF-8", "of b", "of \xff b", "is not the envelope"),
		one("a key twice", `"title":`, `"title":"x","title":`, "is not the envelope"),
		one("errors in a list", `"errors":[]`, `"errors":[{}]`, "a list that was answered has errors"),
		one("a record that is none", `"data":[`, `"data":[7,`, "record 1 is no object"),
		one("an internal id", `{"title":`, `{"id":7,"title":`, "record 1: the key title is missing, or not in its place"),
		one("a key at the end", `"responses":[{"content":"r","responder_type":"staff","created_at":"2026-11-01T00:00:00.123Z"}]}`, `"responses":[],"uuid":"x"}`, "record 1 has a key that is not documented"),
		one("a key missing", `,"responses":[{"content":"r","responder_type":"staff","created_at":"2026-11-01T00:00:00.123Z"}]`, ``, "record 1: the key responses is missing"),
		one("null responses", `[{"content":"r","responder_type":"staff","created_at":"2026-11-01T00:00:00.123Z"}]`, `null`, "record 1: responses is no list"),
		one("null for a text", `"content":"c"`, `"content":null`, "record 1: content is no text"),
		one("a number for a text", `"inquiry_type":null`, `"inquiry_type":3`, "record 1: inquiry_type is no text"),
		one("a local time", `15:02:11.000Z`, `15:02:11.000+09:00`, "record 1: created_at is no time in UTC"),
		one("no milliseconds", `15:02:11.000Z`, `15:02:11Z`, "record 1: created_at is no time in UTC"),
		one("the 31st of September", `2026-10-31T`, `2026-09-31T`, "record 1: created_at is no time that there is"),
		one("a response with an id", `{"content":"r"`, `{"id":1,"content":"r"`, "record 1: responses 1: the key content is missing"),
		one("a time of a response", `00:00:00.123Z`, `00:00:00Z`, "record 1: responses 1: created_at is no time"),
		one("a UUID", `"content":"c"`, `"content":"see 6f1c2a34-1111-4222-8333-944455566677"`, "record 1: content holds a UUID"),
	}
}

func ages() []spoilt {
	of := func(age int, status string) func(*http.Request, *fakeAnswer) {
		return func(_ *http.Request, a *fakeAnswer) {
			if a.code == 200 || a.code == 304 {
				a.header.Set("Age", fmt.Sprint(age))
				a.header.Set("Cache-Status", "inquiry-gateway; "+status)
			}
		}
	}
	one := func(name string, age int, status, says string) spoilt {
		return spoilt{name: name, change: of(age, status), check: freshness, says: says}
	}
	return []spoilt{
		one("a hit beyond the ttl", 31, "hit; ttl=0", "31s old with 0s of the ttl left is more than the ttl of 30s"),
		one("ttls that add up", 20, "hit; ttl=20", "is more than the ttl"),
		one("a ttl that is cut", 3, "hit; ttl=5", "is less than the ttl of 30s and its jitter"),
		one("too old to revalidate", 62, "hit; ttl=-33; detail=stale-revalidate", "1m2s old while it is refreshed"),
		one("too old for an error", 632, "hit; ttl=-603; detail=stale-error", "10m32s old while the legacy system fails"),
		one("an old miss", 4, "fwd=miss; stored", "just fetched is 4s old"),
		one("an old fill of another's", 33, "fwd=miss; collapsed", "fetched for another request is 33s old"),
		{name: "an older list after a newer", change: func(r *http.Request, a *fakeAnswer) {
			if a.code == 200 && r.Header.Get("Accept-Encoding") == "gzip" {
				a.header.Set("Age", "20")
				a.header.Set("Cache-Status", "inquiry-gateway; hit; ttl=9")
				a.header.Set("Etag", `W/"older`+r.Header.Get("Authorization")[7:]+`"`)
			}
		}, check: freshness, says: "gives way to another that was answered before it"},
	}
}

// Each assertion is seen to fail, for its own reason, and fails no other check.
func TestSpoiltGateway(t *testing.T) {
	for _, group := range [][]spoilt{leaks(), breaches(), bodies(), ages()} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				s := newStand(t, nil)
				s.fake.change = c.change
				if c.body[0] != "" {
					s.fake.spoil = func(body string) string { return strings.Replace(body, c.body[0], c.body[1], 1) }
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
				if n := s.counted(t, "checks_total", "kind", "buyer", "check", checkNames[c.check], "result", "failed"); n != 1 {
					t.Errorf("counted %v times", n)
				}
				checkFailureLog(t, s, c)
			})
		}
	}
}

// checkFailureLog holds that a failure is found by its request, is an event of
// security where it is one, and shows neither keys nor what records hold.
func checkFailureLog(t *testing.T, s *stand, c spoilt) {
	t.Helper()
	log := s.log.String()
	if !strings.Contains(log, `"level":"ERROR","msg":"a check of the canary failed","kind":"buyer","check":"`+checkNames[c.check]+`"`) {
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
				id := a.header["X-Request-Id"]
				*a = refused(code, name, "")
				a.body = strings.ReplaceAll(a.body, "REQUEST", id[0])
				a.header["X-Request-Id"], a.header["X-Content-Type-Options"] = id, []string{"nosniff"}
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
	if n := strings.Count(s.log.String(), "finds nothing out"); n != 4 {
		t.Errorf("%d times in %s", n, s.log)
	}
	s.round(t, 0) // nothing new
	s.fake.err = nil
	if r := s.round(t, 0); r.results() != allGood {
		t.Errorf("%v", r.results())
	}
	if n := strings.Count(s.log.String(), "\n"); n != 8 || strings.Count(s.log.String(), "is good again") != 4 {
		t.Errorf("%d lines: %s", n, s.log)
	}
}

// A list without records shows nothing, and is not taken for a good one.
func TestEmptyList(t *testing.T) {
	s := newStand(t, nil)
	s.fake.lists["b2"] = ""
	if r := s.round(t, 0); r.results() != [checkCount]string{"ok", "empty", "ok", "ok", "ok"} || !strings.Contains(r.reasons(crossRead), "the list of canary.buyer_keys[1] is empty") {
		t.Errorf("%v %s", r.results(), r.reasons(crossRead))
	}
	s.fake.lists["b1"] = ""
	if r := s.round(t, 0); r.results() != [checkCount]string{"ok", "empty", "ok", "ok", "ok"} {
		t.Errorf("both empty: %v %+v", r.results(), r.tally)
	}
}

func TestKeysThatAreNoGood(t *testing.T) {
	for name, c := range map[string]struct {
		owner  func(key Secret) (string, error)
		result string
		says   string
	}{
		"one account":    {func(Secret) (string, error) { return "acme", nil }, "failed", "canary.buyer_keys[1] is of the same account as canary.buyer_keys[0]"},
		"refused":        {func(Secret) (string, error) { return "", errors.New("it has expired") }, "failed", "canary.buyer_keys[0]: it has expired"},
		"no one to tell": {func(Secret) (string, error) { return "", fmt.Errorf("the key store: %w", ErrUndecided) }, "unavailable", "canary.buyer_keys[0]: the key store: cannot be told now"},
	} {
		s := newStand(t, func(o *Options) {
			o.Owner = func(_ context.Context, kind string, key Secret) (string, error) { return c.owner(key) }
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

// A filtered list is held against the policy of its status, and its records
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
