package drill

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever differs from the declared answer is a problem; nothing else is.
func TestAgainst(t *testing.T) {
	ok := func(status string) Seen { return Seen{Status: 200, CacheStatus: "inquiry-gateway; " + status} }
	for _, tc := range []struct {
		want Outcome
		seen Seen
		says string // empty: no problem
	}{
		{Hit, ok("hit; ttl=12"), ""},
		{Hit, ok("hit; ttl=-3; detail=stale-error"), "nothing is wrong with the list"},
		{Hit, ok("fwd=miss; stored"), "hit is declared"},
		{Hit, Seen{Status: 200, CacheStatus: "other; hit"}, "hit is declared"},
		{Hit, Seen{Status: 502, Code: "upstream_error"}, "it is 502 upstream_error, and 200 hit is declared"},
		{Hit, Seen{Status: 200, CacheStatus: "inquiry-gateway; hit; ttl=1", failure: "another list"}, "another list"},
		{Miss, ok("fwd=miss; stored"), ""},
		{Stale, ok("hit; ttl=-3; detail=stale-error"), ""},
		{Stale, ok("hit; ttl=12"), "stale-error is declared"},
		{Failed, Seen{Status: 502, Code: "upstream_error"}, ""},
		{Failed, Seen{Status: 502, Code: "upstream_invalid_response"}, "upstream_error is declared"},
		{KeysUnavailable, Seen{Status: 503, Code: "auth_unavailable", retryAfter: "2"}, ""},
		{KeysUnavailable, Seen{Status: 503, Code: "auth_unavailable"}, "Retry-After"},
		{KeysUnavailable, Seen{Status: 401, Code: "invalid_api_key"}, "503 auth_unavailable is declared"},
	} {
		if got := tc.seen.against(answers()[tc.want]); (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
			t.Errorf("%s: %+v: %q", tc.want, tc.seen, got)
		}
	}
}

func TestJudgeOfTimes(t *testing.T) {
	e := &environment{run: &run{terms: terms{requestLimit: 5 * time.Second}}, baseline: 10 * time.Millisecond}
	e.Slack = 100 * time.Millisecond
	for took, says := range map[time.Duration]string{
		150 * time.Millisecond: "", 259 * time.Millisecond: "",
		261 * time.Millisecond: "it took 251ms longer than with everything well, and at most 150ms is declared",
		6 * time.Second:        "request_timeout is 5s",
	} {
		row := Row{Declared: Expectation{Outcome: Hit}, limit: 150 * time.Millisecond}
		quick := Seen{Status: 200, CacheStatus: "inquiry-gateway; hit; ttl=1", Took: time.Millisecond}
		slow := quick
		slow.Took = took
		row.judge(t.Context(), []Seen{quick, slow, quick}, e)
		if (row.Problem == "") != (says == "") || !strings.Contains(row.Problem, says) || row.Seen.Took != took || row.Added != took-e.baseline {
			t.Errorf("%s: %q, %+v", took, row.Problem, row)
		}
	}
}

func TestBusy(t *testing.T) {
	var b busy
	for _, late := range []time.Duration{time.Millisecond, time.Second, 10 * time.Millisecond, -time.Millisecond} {
		b.note(late)
	}
	if b.heldUp() != time.Second {
		t.Errorf("held up for %s", b.heldUp())
	}
	synctest.Test(t, func(t *testing.T) {
		var b busy
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.watch(ctx)
		if b.heldUp() != 0 {
			t.Errorf("held up for %s with nothing else to do", b.heldUp())
		}
	})
}

func TestList(t *testing.T) {
	for body, says := range map[string]string{
		`{"data":[],"meta":{},"errors":[]}`:                            "",
		`{"data":[],"meta":{},"errors":[{"code":"upstream_error"}]}`:   "",
		`{"data":[{}],"meta":{},"errors":[{"code":"upstream_error"}]}`: "an error with data in it",
		`<html>`: "not the envelope",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer k" {
				t.Errorf("asked with %v", r.Header)
			}
			_, _ = w.Write([]byte(body)) // the client reads it all
		}))
		c := newClient(time.Minute)
		if seen := c.list(t.Context(), server.URL, "k"); !strings.Contains(seen.failure, says) || (seen.failure == "") != (says == "") {
			t.Errorf("%s: %+v", body, seen)
		}
		server.Close()
		if seen := c.list(t.Context(), server.URL, "k"); !strings.Contains(seen.failure, "no answer") || seen.text() != seen.failure {
			t.Errorf("without a server: %+v", seen)
		}
		c.close()
	}
}

func TestRowInJSON(t *testing.T) {
	row := Row{
		Cell: Cell{Slow, Up, Up}, Case: Cold, Declared: Expectation{Outcome: Miss}, limit: 150 * time.Millisecond, Added: 2 * time.Millisecond,
		Seen: Seen{Status: 504, Code: "upstream_timeout", Took: 3 * time.Millisecond}, Problem: "slow",
	}
	got, err := json.Marshal(row)
	want := `{"redis":"slow","legacy":"up","keys":"up","case":"cold","ok":false,` +
		`"declared":{"status":200,"cache_status":"fwd=miss","added_ms":150},"seen":{"status":504,"code":"upstream_timeout","added_ms":2,"took_ms":3},` +
		`"means":"the list is fetched from the legacy system","problem":"slow"}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
}
