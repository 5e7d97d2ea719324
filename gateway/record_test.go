package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"inquiry-gateway/auth"
	"inquiry-gateway/cache"
)

// A record is what slog would have written, whatever the strings in it.
func TestRecordIsAsSlogWritesIt(t *testing.T) {
	g := New(Options{})
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `a"b\c`, "\x00\n", "한글", "\xff"}))
		micros := rapid.Int64Range(0, int64(24*time.Hour/time.Microsecond))
		x := &exchange{
			gateway: g, request: request{Method: http.MethodGet, Peer: netip.MustParseAddr("192.0.2.1")}, begin: time.Unix(1700000000, 123456789).UTC(),
			status: rapid.IntRange(200, 599).Draw(t, "status"), sent: rapid.IntRange(0, 1<<30).Draw(t, "bytes"),
			principal: auth.Principal{Account: "a" + text.Draw(t, "account"), KeyID: text.Draw(t, "key")},
			list:      cache.Result{Outcome: cache.Hit, Tier: cache.TierLocal, Age: time.Duration(micros.Draw(t, "age")) * time.Microsecond},
			problem:   text.Draw(t, "problem"), cause: errors.New(text.Draw(t, "cause")),
		}
		x.series = g.metrics.endpoint("e")
		x.id.set("0123abcd")
		var want bytes.Buffer
		level := slog.LevelInfo
		if x.status >= 500 {
			level = slog.LevelError
		}
		record := slog.NewRecord(x.begin, level, "request", 0)
		record.Add("request_id", x.id.String(), "method", "GET", "endpoint", "e", "status", x.status, "duration_seconds", 0.0, "bytes", x.sent,
			"client_address", "192.0.2.1", "account", x.principal.Account, "key_id", x.principal.KeyID, "auth_seconds", 0.0,
			"cache", "hit", "tier", "local", "age_seconds", float64(x.list.Age.Microseconds())/1e6, "list_seconds", 0.0)
		if x.problem != "" {
			record.Add("error_code", x.problem)
		}
		record.Add("cause", x.cause.Error())
		if err := slog.NewJSONHandler(&want, nil).Handle(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		if got := g.appendRecord(nil, x); !reflect.DeepEqual(parsed(t, got), parsed(t, want.Bytes())) || bytes.Count(got, []byte("\n")) != 1 {
			t.Fatalf("got  %s\nwant %s", got, want.Bytes())
		}
	})
}

// Hits are sampled; whatever else happens always has its record.
func TestSampledHits(t *testing.T) {
	b := newBench(Options{SampleHits: 100, LogListKeys: true, Lists: warm{entryOf("acme")}})
	const n = 5000
	for range n {
		b.get()
	}
	if got := bytes.Count(b.logs.Bytes(), []byte("\n")); got < 1 || got > n/20 {
		t.Errorf("%d of %d hits have a record", got, n)
	}
	line, _, _ := bytes.Cut(b.logs.Bytes(), []byte("\n"))
	var record struct{ Kind, Key, ETag string }
	if err := json.Unmarshal(line, &record); err != nil || record.Kind != "buyer" || len(record.Key) != 16 || len(record.ETag) != 16 {
		t.Errorf("%v, %+v", err, record)
	}
	if bytes.Contains([]byte(record.Key), []byte("acme")) {
		t.Error("the key names the account")
	}
	b.logs.Reset()
	for range 10 {
		r := httptest.NewRequest(http.MethodGet, "/nowhere", nil)
		b.gateway.ServeHTTP(httptest.NewRecorder(), r)
	}
	if got := bytes.Count(b.logs.Bytes(), []byte("\n")); got != 10 {
		t.Errorf("%d of 10 errors have a record", got)
	}
}

func parsed(t *rapid.T, line []byte) map[string]any {
	var m map[string]any
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	return m
}
