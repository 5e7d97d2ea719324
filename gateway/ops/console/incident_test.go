package console

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"inquiry-gateway/deploy"
)

// Each finding comes from the figures that it speaks of, and a quiet gateway has none.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(f *feed)
		level   level
		says    string
	}{
		"breaker open":        {func(f *feed) { f.gauge("upstream_breaker_state", 2, "buyer") }, levelBad, "breaker of the buyer lists is open"},
		"breaker half-open":   {func(f *feed) { f.gauge("upstream_breaker_state", 1, "seller") }, levelWarn, "seller lists is half-open"},
		"failing":             {func(f *feed) { f.count("upstream_requests_total", 2, "buyer", "timeout") }, levelWarn, "2 requests to the legacy system failed in the last minute, 100 % of all. 2 were too slow."},
		"down":                {func(f *feed) { f.count("upstream_requests_total", 5, "buyer", "upstream") }, levelBad, "5 requests to the legacy system failed"},
		"stale":               {func(f *feed) { f.count("cache_lookups_total", 2, "buyer", "stale-error", "local") }, levelWarn, "2 answers in the last minute were lists older"},
		"foreign":             {func(f *feed) { f.count("upstream_foreign_records_total", 1, "seller") }, levelBad, "1 seller records of another account"},
		"invalid":             {func(f *feed) { f.count("upstream_records_invalid_total", 3, "buyer", "title") }, levelWarn, "refused 3 fields of buyer records"},
		"redis down":          {func(f *feed) { f.gauge("redis_breaker_state", 2) }, levelBad, "Redis is down"},
		"redis fails":         {func(f *feed) { f.count("redis_operations_total", 5, "get", "timeout") }, levelWarn, "5 calls of Redis failed"},
		"5xx":                 {func(f *feed) { f.count("http_requests_total", 5, "buyer_inquiries", "502") }, levelBad, "5 answers failed with 5xx in the last minute, 100 % of all."},
		"key store":           {func(f *feed) { f.count("auth_requests_total", 1, "unavailable") }, levelBad, "key store"},
		"limited":             {func(f *feed) { f.count("rate_limit_decisions_total", 9, "limited", "node") }, levelWarn, "9 requests were over their account's rate"},
		"over the ceiling":    {func(f *feed) { f.count("ceiling_requests_total", 4, "asked", "refused") }, levelWarn, "4 requests to the legacy system were over"},
		"refreshes give way":  {func(f *feed) { f.count("ceiling_requests_total", 4, "background", "refused") }, "", ""},
		"reload":              {func(f *feed) { f.gauge("config_last_reload_successful", 0) }, levelWarn, "last reload"},
		"no hits":             {func(f *feed) { f.count("cache_lookups_total", 50, "buyer", "miss", "") }, levelWarn, "0 of 50 look-ups"},
		"cross-read":          {func(f *feed) { f.count("canary_checks_total", 1, "seller", "cross_read", "failed") }, levelBad, "check cross_read failed for seller lists, once in the last 4 s. The log names the requests."},
		"let in":              {func(f *feed) { f.count("canary_checks_total", 1, "buyer", "access", "failed") }, levelBad, "check access failed for buyer lists, once in the last 4 s. The log names the requests."},
		"canary":              {func(f *feed) { f.count("canary_checks_total", 2, "buyer", "freshness", "failed") }, levelWarn, "check freshness failed for buyer lists, 2 times in the last 4 s."},
		"canary keys":         {func(f *feed) { f.count("canary_checks_total", 1, "buyer", "keys", "failed") }, levelWarn, "check keys failed for buyer lists, once in the last 4 s. The log names the requests."},
		"canary blind":        {func(f *feed) { f.count("canary_checks_total", 1, "seller", "cross_read", "empty") }, levelWarn, "compared no seller lists in the last 4 s"},
		"panic":               {func(f *feed) { f.count("http_panics_total", 1) }, levelBad, "The program panicked"},
		"background panic":    {func(f *feed) { f.count("panics_total", 1, "cache") }, levelBad, "The program panicked"},
		"rates by node":       {func(f *feed) { f.gauge("rate_limit_fallback", 1) }, levelWarn, "limits rates alone"},
		"outdated":            {func(f *feed) { f.outdated(100, 40, .25) }, levelWarn, "36 % of the answers with buyer lists"},
		"too few re-checks":   {func(f *feed) { f.outdated(99, 30, .25) }, "", ""},
		"within the goal":     {func(f *feed) { f.outdated(100, 27, .25) }, "", ""},
		"some Redis failures": {func(f *feed) { f.count("redis_operations_total", 4, "get", "timeout") }, "", ""},
		"few Redis failures": {func(f *feed) {
			f.count("redis_operations_total", 5, "get", "error")
			f.count("redis_operations_total", 1000, "get", "ok")
		}, "", ""},
		"few answers fail": {func(f *feed) {
			f.count("http_requests_total", 1, "buyer_inquiries", "502")
			f.count("http_requests_total", 999, "buyer_inquiries", "200")
		}, levelWarn, "1 answers failed with 5xx in the last minute, 0.1 % of all."},
	} {
		s := newSteps()
		s.next()
		if len(s.incident.Evidence) != 0 || s.incident.Level != levelGood || s.incident.Name != "All well" {
			t.Errorf("a quiet gateway: %+v", s.incident)
		}
		c.happens(s.feed)
		s.next()
		got := s.incident
		if c.level == "" && len(got.Evidence) == 0 {
			continue
		}
		if len(got.Evidence) != 1 || got.Level != c.level || !strings.Contains(got.Text, c.says) || got.Since != s.at.Unix() {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func (f *feed) outdated(checked, outdated int, goal float64) {
	f.gauge("cache_goal_outdated_ratio", goal)
	f.count("cache_rechecks_total", checked-outdated, "buyer", "same")
	f.count("cache_rechecks_total", outdated, "buyer", "outdated")
	f.count("cache_rechecked_answers_total", 2*(checked-outdated), "buyer", "same")
	f.count("cache_rechecked_answers_total", 2*outdated, "buyer", "outdated")
	f.count("cache_lookups_total", 9*min(checked, 1), "buyer", "hit", "local") // nine tenths
	f.count("cache_lookups_total", min(checked, 1), "buyer", "miss", "")
}

func TestUnreadableMetrics(t *testing.T) {
	opts := newFeed().options(Options{})
	opts.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, errors.New("no") })
	s := newSampler(opts)
	s.take()
	if s.incident.Level != levelBad || s.incident.Name != "No metrics" {
		t.Errorf("%+v", s.incident)
	}
}

// The headline is the worst finding; it says since when, whom it hits, and what
// these get. Probes of the breaker neither end nor begin it.
func TestIncident(t *testing.T) {
	s := newSteps()
	s.count("rate_limit_decisions_total", 1, "limited", "node")
	s.next()
	if s.incident.Hit != "No caller asked in the last 2 s." {
		t.Errorf("%+v", s.incident)
	}
	began := s.at.Add(sampleEvery)
	for i := range 20 {
		s.gauge("upstream_breaker_state", []float64{2, 2, 1}[i%3], "buyer")
		s.count("http_requests_total", 31, "buyer_inquiries", "200")
		s.count("http_requests_total", 19, "buyer_inquiries", "503")
		s.count("http_errors_total", 19, "buyer_inquiries", "upstream_unavailable")
		s.count("cache_lookups_total", 2, "buyer", "stale-error", "local")
		s.next()
		i := s.incident
		if i.Name != "Legacy system failing" || i.Level != levelBad || i.Since != began.Unix() || i.Evidence[0] != i.finding || len(i.Evidence) != 4 {
			t.Fatalf("%+v", i)
		}
	}
	if i := s.incident; i.Hit != "380 answers failed in the last 42 s, 38 % of all 1,000." ||
		i.Get != "Callers get 503 upstream_unavailable (380), lists older than their TTL (40, 4 %)." {
		t.Errorf("%q %q", i.Hit, i.Get)
	}
	s.gauge("upstream_breaker_state", 0, "buyer")
	for range 61 / 2 {
		s.count("http_requests_total", 1, "buyer_inquiries", "200")
		s.next()
	}
	if i := s.incident; i.Name != "All well" || len(s.since) != 0 || !strings.HasPrefix(i.Hit, "No caller is hit: none of ") || i.Get != "" {
		t.Errorf("after it is over: %+v", s.incident)
	}
}

// Every finding leads to a chapter of the runbook, and to a part of the page,
// which the browser's test holds.
func TestRunbookChapters(t *testing.T) {
	known := map[string]bool{}
	for _, c := range chapters(deploy.Runbook) {
		known[c.name] = true
		if c.id != strings.ToLower(c.name) || strings.Contains(c.body, "](") || strings.Contains(c.body, "`") {
			t.Errorf("%s is not written out: %s", c.name, c.body)
		}
	}
	for _, r := range rules() {
		if !known[r.chapter] {
			t.Errorf("%s: no chapter %s", r.id, r.chapter)
		}
	}
	got := chapters("# Title\n## One\n\nSee <b> and\n[Two](#two),\n[a file](../x.md).\n\n1. `a` **b**\n   c\n## Two\nx")
	want := "See &lt;b&gt; and <a href=\"#two\">Two</a>, a file.\n\n1. <code>a</code> <strong>b</strong> c"
	if len(got) != 2 || got[0].body != want {
		t.Errorf("%q, want %q", got[0].body, want)
	}
}

// A check of the canary that fails says what the canary said of it last, and every
// finding says what to do.
func TestWhatTheCanarySaid(t *testing.T) {
	s := newSteps()
	s.sampler.opts.Canary = func(kind, check string) []string {
		return []string{kind + " " + check + " one", "two", "three", "four"}
	}
	s.gauge("canary_last_round_timestamp_seconds", 1, "seller")
	s.next()
	if rows := s.state().Canary; rows[0].Reasons != nil {
		t.Errorf("no check has failed: %+v", rows)
	}
	s.count("canary_checks_total", 1, "seller", "contract", "failed")
	s.next()
	s.count("http_requests_total", 7, "seller_inquiries", "200")
	s.next()
	if s.incident.Hit != "None of 7 answers failed in the last 6 s." { // but what they were is not known
		t.Errorf("%+v", s.incident)
	}
	if i := s.incident; i.Text != "The canary's check contract failed for seller lists, once in the last 6 s. Last: seller contract one; two; three." {
		t.Errorf("%+v", i)
	}
	if got := s.row("contract", "seller").Reasons; len(got) != 4 {
		t.Errorf("%q", got)
	}
	for _, r := range append(rules(), unreadable(nil)) {
		if r.press == "" {
			t.Errorf("%s says nothing of what to do", r.id)
		}
	}
}

// Marks are reloads, purges, and a breaker's first opening and its closing.
func TestMarks(t *testing.T) {
	s := newSteps()
	begin := s.at
	for _, state := range []float64{0, 2, 1, 2, 0} {
		s.gauge("upstream_breaker_state", state, "seller")
		s.next()
	}
	s.count("config_reloads_total", 1, "failed")
	s.next()
	s.count("config_reloads_total", 1, "ok")
	s.count("cache_purges_total", 2)
	s.next()
	var got []string
	for _, m := range s.marks {
		got = append(got, m.Kind+" "+m.Text+" "+duration(float64(m.At-begin.Unix())))
	}
	if all := strings.Join(got, "; "); all != "breaker seller breaker opened 4 s; breaker seller breaker closed 10 s; reload reload failed 12 s; reload configuration reloaded 14 s; purge purge on this node 14 s" {
		t.Error(all)
	}
	for range maxSamples {
		s.next()
	}
	if len(s.marks) != 0 {
		t.Errorf("after an hour: %+v", s.marks)
	}
}
