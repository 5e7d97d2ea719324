package upstream

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An incident says since when lists fail, how often, and for how many of the accounts that were asked for. It is over
// once a list has come and nothing has failed for half a minute, however long nobody asks.
func TestIncidents(t *testing.T) {
	var replies sync.Map // by account
	list, foreign := serveJSON(rows("")), serveJSON(rows("", "a"))
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		serve, _ := replies.Load(r.URL.Query().Get("customer"))
		serve.(http.HandlerFunc)(w, r)
	}, "{attempts: 1, breaker: {min_requests: 40}, buyer: {owner: t, query: {customer: \"{account}\", q: \"of:{account}\"}}}", func(t *testing.T, f *fixture) {
		begin := time.Now()
		for _, step := range []struct {
			at      time.Duration // in seconds
			account string
			serve   http.HandlerFunc
			want    string
		}{
			{0, "acme", list, ""},
			// An outage of all, which one account's list ends.
			{100, "acme", status(500), "system 100 to 100: 1 by 1/1, acme status_5xx; "},
			{140, "other", status(500), "system 100 to 140: 2 by 2/2, other status_5xx; "},
			{400, "acme", hang, "system 100 to 402: 3 by 2/2, acme timeout; "},
			{410, "other", list, "system 100 to 402: 3 by 1/2, acme timeout, a list at 410; "},
			{433, "third", list, ""},
			// One account fails while others have lists.
			{500, "acme", status(500), "system 500 to 500: 1 by 1/1, acme status_5xx; "},
			{501, "other", list, "system 500 to 500: 1 by 1/2, acme status_5xx, a list at 501; "},
			{520, "acme", status(500), "system 500 to 520: 2 by 1/2, acme status_5xx; "},
			{549, "other", list, "system 500 to 520: 2 by 1/2, acme status_5xx, a list at 549; "},
			{550, "acme", list, ""},
			// Each failure is an incident of its own.
			{600, "acme", status(401), "sign_in 600 to 600: 1 by 1/1, acme denied; "},
			{601, "acme", status(500), "sign_in 600 to 600: 1 by 1/1, acme denied; system 601 to 601: 1 by 1/1, acme status_5xx; "},
			{640, "acme", list, ""},
			{700, "acme", serveJSON("{}"), "mapping 700 to 700: 1 by 1/1, acme items; "},
			{701, "other", foreign, "mapping 700 to 700: 1 by 1/1, acme items; foreign 701 to 701: 1 by 1/1, other owner; "},
			{702, "a b", list, "mapping 700 to 700: 1 by 1/1, acme items; foreign 701 to 701: 1 by 1/1, other owner; account 702 to 702: 1 by 1/1, a b account; "},
			{740, "acme", list, ""},
		} {
			replies.Store(step.account, step.serve)
			time.Sleep(step.at*time.Second - time.Since(begin))
			_ = buyer(t, f.Client, step.account)
			got := ""
			for _, i := range f.Incidents("buyer") {
				got += fmt.Sprintf("%s %.0f to %.0f: %d by %d/%d, %s %s", i.Failure, i.Since.Sub(begin).Seconds(), i.Last.Sub(begin).Seconds(), i.Fetches, i.Accounts, i.Asked, i.Account, i.Reason)
				if !i.Worked.IsZero() {
					got += fmt.Sprintf(", a list at %.0f", i.Worked.Sub(begin).Seconds())
				}
				got += "; "
			}
			if got != step.want {
				t.Errorf("%s at %d:\n%s, want\n%s", step.account, step.at, got, step.want)
			}
		}
		if e := f.Askable("buyer", "a b"); e == nil || f.Askable("buyer", "acme") != nil || f.Askable("seller", "a b") != nil {
			t.Errorf("who can be asked for: %v", e)
		}
		gauges := func(want ...float64) {
			t.Helper()
			if got := []float64{f.metric(t, "accounts", "buyer", "asked"), f.metric(t, "accounts", "buyer", "failing")}; got[0] != want[0] || got[1] != want[1] {
				t.Errorf("accounts asked for and failing: %v, want %v", got, want)
			}
		}
		for _, step := range []struct {
			account string
			serve   http.HandlerFunc
		}{{"acme", status(500)}, {"other", list}, {"third", status(401)}} {
			replies.Store(step.account, step.serve)
			_ = buyer(t, f.Client, step.account)
		}
		gauges(2, 1)
		if e := f.LastFailure("buyer", "acme"); e == nil || e.Reason != "status_5xx" || f.LastFailure("buyer", "other") != nil || f.LastFailure("buyer", "nobody") != nil {
			t.Errorf("the last of acme: %v", e)
		}
		replies.Store("acme", list)
		if _ = buyer(t, f.Client, "acme"); f.LastFailure("buyer", "acme") != nil {
			t.Errorf("acme's list has come: %v", f.LastFailure("buyer", "acme"))
		}
		gauges(2, 0)
		time.Sleep(recentFailure + time.Second)
		gauges(0, 0)
	})
}

// In an outage of more accounts than are counted, each further failure costs what the first ones did.
func TestIncidentOfManyAccounts(t *testing.T) {
	s, at := newGuard("buyer", slog.New(slog.DiscardHandler)).incidents, time.Now()
	failed := failure(reason5xx, "status 500")
	for i := range maxAccounts + 10 {
		s.recordFailure(Request{Account: fmt.Sprint(i)}, failed, at.Add(time.Duration(i)))
	}
	s.recordList("0", at.Add(time.Second))
	if all := s.list(at.Add(time.Second)); len(all) != 1 || all[0].Since != at.UTC() || all[0].Fetches != maxAccounts+10 || all[0].Accounts != maxAccounts-1 || all[0].Asked != maxAccounts {
		t.Errorf("%+v", all)
	}
	request := Request{Account: "one more"}
	if n := testing.AllocsPerRun(100, func() { s.recordFailure(request, failed, at.Add(time.Second)) }); n > 10 {
		t.Errorf("a further failure makes %v allocations", n)
	}
}

// What the gateway refuses by itself does not keep the failures of the legacy system out of the log.
func TestRefusedFetchesLeaveTheLogToOthers(t *testing.T) {
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("customer") == "slow" {
			time.Sleep(time.Second)
		}
		status(429)(w, r)
	}, "{max_concurrent: 1, attempts: 1}", func(t *testing.T, f *fixture) {
		var under sync.WaitGroup
		under.Go(func() { _ = buyer(t, f.Client, "slow") })
		synctest.Wait()
		if got := buyer(t, f.Client, "acme"); got != "bulkhead_full" {
			t.Error(got)
		}
		under.Wait()
		if text := f.log.String(); !strings.Contains(text, "a list cannot be fetched") {
			t.Errorf("the 429 is not in the log: %s", text)
		}
	})
}
