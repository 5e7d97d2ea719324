package canary

import (
	"fmt"
	"net/http"
	"strings"
)

// fault is one thing that a gateway may do wrong.
type fault struct {
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

// leaks are what somebody must know at once.
func leaks() []fault {
	return []fault{
		{name: "a record too much", body: [2]string{"also of b2", "also of b1"}, check: crossRead,
			says: "records that are in the lists of both canary.buyer_keys[0] (key id-b1 of account account of b1) and canary.buyer_keys[1] (key id-b2 of account account of b2): 1; " +
				"the first is record 2 (created_at 2026-10-31T15:02:11.000Z) of the one list, record 2 (created_at 2026-10-31T15:02:11.000Z) of the other"},
		{name: "a record too much, packed only", change: func(r *http.Request, a *fakeAnswer) {
			if a.code == 200 && asB2(r) && r.Header.Get("Accept-Encoding") == "gzip" {
				a.body = `{"data":[` + fmt.Sprintf(buyerRecord, "of b1") + `],"meta":{},"errors":[]}`
				a.header.Set("Etag", `W/"packed"`)
			}
		}, check: crossRead, says: "records that are in the lists of both"},
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
		}, check: crossRead, says: "canary.buyer_keys[0] (key id-b1 of account account of b1) gets 304 for the entity tag of another's list"},
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

func breaches() []fault {
	one := func(name string, change func(*http.Request, *fakeAnswer), says string) fault {
		return fault{name: name, change: change, check: contract, says: says}
	}
	return []fault{
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
		}), "canary.buyer_keys[0] (key id-b1 of account account of b1) is good, and answered 403"),
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
func bodies() []fault {
	one := func(name, old, next, says string) fault {
		return fault{name: name, body: [2]string{old, next}, check: contract, says: says}
	}
	return []fault{
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
		one("a key at the end", `"responses":[{"content":"r","responder_type":"staff","created_at":"2026-11-01T00:00:00.123Z"}]}`, `"responses":[],"uuid":"x"}`, "canary.buyer_keys[0] (key id-b1 of account account of b1): record 1 has a key that is not documented"),
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

func ages() []fault {
	of := func(age int, status string) func(*http.Request, *fakeAnswer) {
		return func(_ *http.Request, a *fakeAnswer) {
			if a.code == 200 || a.code == 304 {
				a.header.Set("Age", fmt.Sprint(age))
				a.header.Set("Cache-Status", "inquiry-gateway; "+status)
			}
		}
	}
	one := func(name string, age int, status, says string) fault {
		return fault{name: name, change: of(age, status), check: freshness, says: says}
	}
	return []fault{
		one("a hit beyond the ttl", 31, "hit; ttl=0", "canary.buyer_keys[0] (key id-b1 of account account of b1): 31s old with 0s of the ttl left is more than the ttl of 30s"),
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
		}, check: freshness, says: "is replaced by another that was answered before it"},
	}
}
