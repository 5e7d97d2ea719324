package gateway

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream"
)

// outage is one node, its cache over its client over gobreaker, in virtual time, in front of a legacy
// system that fails by a rule.
type outage struct {
	lists  *cache.Cache
	client *upstream.Client
	cfg    upstream.Config
	start  time.Time
	fails  func(account, status string, at time.Duration) bool
	hangs  bool

	mu             sync.Mutex
	asked          []time.Duration // when each request came
	inFlight, most int
}

// What an outage may do, on each node. The table in docs/operation.md is made of these.
const (
	leastOfHealthy    = .95 // of the requests of healthy accounts that are answered, beside a few that fail
	leastBesideMany   = .85 // beside 70 of 100 that fail, on the average of manyRuns
	mostPerAccount    = .4  // requests per second, if all fail, once noticed
	mostInAll         = 2   // requests per second, with more than min_requests lists in use
	noticed           = 15 * time.Second
	outageFillTimeout = 5 * time.Second
	manyRuns          = 4 // in one of ten the breaker opens once, for a seventh of the time
)

var (
	loudAccounts = []int{1, 3, 5} // of 11
	loudLists    = []int{3, 42}
	allAccounts  = []int{1, 6, 50, 1000}
)

func outageTable() string {
	back := 2*upstream.DefaultConfig().Breaker.OpenFor + outageFillTimeout
	return fmt.Sprintf(`| accounts that fail, with 500 or by hanging | what holds, on each node |
|---|---|
| %d, %d or %d of 11, each with %d or %d lists and 27 requests per second | at least %.0f %% of the requests of the others, once a second together, are answered |
| 70 of 100 | on average at least %.0f %% of the requests of the others are answered |
| one, for one filter | all its other lists are answered |
| all of %d, %d, %d or %d | %s after the first failure the legacy system gets at most %.1f requests per second and account, and %d in all with more than min_requests lists in use; never more than max_concurrent at a time; %s after it has recovered (two open_for and one fetch) all lists are answered |
`, loudAccounts[0], loudAccounts[1], loudAccounts[2], loudLists[0], loudLists[1], 100*leastOfHealthy, 100*leastBesideMany,
		allAccounts[0], allAccounts[1], allAccounts[2], allAccounts[3], noticed, mostPerAccount, mostInAll, back)
}

// The documents promise what the tests below hold.
func TestOutageTable(t *testing.T) {
	const doc = "../docs/operation.md"
	if _, same := testkit.Table(t, doc, "outages", outageTable(), *updateOutages); !same {
		t.Errorf("the table in %s is not that of the tests; write it with: go test ./gateway -run TestOutageTable -update-outages", doc)
	}
}

var updateOutages = flag.Bool("update-outages", false, "write the table of outages into docs/operation.md")

const outageMapping = `
base_url: http://legacy
buyer:
  path: /list
  query: {customer: "{account}", state: "{status}"}
  items: rows
  paging: {style: none}
  fields: {title: t, content: {default: ""}, status: s, inquiry_type: {default: other}, created_at: at,
    responses: {items: r, fields: {content: c, responder_type: {path: by, default: null}, created_at: at}}}
`

func newOutage(t *testing.T) *outage {
	o := &outage{cfg: upstream.DefaultConfig(), start: time.Now(), fails: func(string, string, time.Duration) bool { return false }}
	if err := yamlfile.Decode(outageMapping, &o.cfg); err != nil {
		t.Fatal(err)
	}
	var err error
	o.client, err = upstream.New(o.cfg, upstream.Options{LongestFetch: outageFillTimeout, Transport: func(http.RoundTripper) http.RoundTripper { return o }})
	if err != nil {
		t.Fatal(err)
	}
	fail := func(kind, account string) bool { return o.client.BreakerState(kind, account) != "closed" }
	o.lists, err = cache.New(cache.DefaultConfig(), cache.Options{Fill: NewFill(o.client.Fetch, nil), Failing: fail, Derivation: Derivation()})
	if err != nil {
		t.Fatal(err)
	}
	o.keep(t, time.Second)
	return o
}

// keep sets the ttl. Nothing is served stale: each failure shows.
func (o *outage) keep(t *testing.T, ttl time.Duration) {
	cfg := cache.DefaultConfig()
	cfg.Buyer = cache.KindConfig{Freshness: cache.Freshness{TTL: ttl}}
	apply, err := o.lists.Prepare(cfg, cache.Fills{Timeout: outageFillTimeout, Mappings: Mappings(o.client)})
	if err != nil {
		t.Fatal(err)
	}
	apply()
}

// RoundTrip is the legacy system.
func (o *outage) RoundTrip(r *http.Request) (*http.Response, error) {
	at := time.Since(o.start)
	o.mu.Lock()
	o.asked = append(o.asked, at)
	o.inFlight++
	o.most = max(o.most, o.inFlight)
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.inFlight--
		o.mu.Unlock()
	}()
	query := r.URL.Query()
	status, body := http.StatusOK, fmt.Sprintf(`{"rows":[{"t":"t","s":%q,"at":"2026-01-02T03:04:05Z","r":[]}]}`, query.Get("state"))
	time.Sleep(20 * time.Millisecond)
	if o.fails(query.Get("customer"), query.Get("state"), at) {
		if o.hangs {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		status, body = http.StatusInternalServerError, ""
	}
	return &http.Response{StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// traffic is what one account asks for: its lists in turn.
type traffic struct {
	account string
	lists   int
	every   time.Duration
	count   *tally // of its requests; nil: not counted
}

// tally counts requests of accounts after a moment.
type tally struct {
	from       time.Duration
	mu         sync.Mutex
	all, ok    int
	lastFailed time.Duration
}

func (c *tally) add(at time.Duration, err error) {
	if c == nil || at < c.from {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all++; err == nil {
		c.ok++
	} else {
		c.lastFailed = max(c.lastFailed, at)
	}
}

func (c *tally) share() float64 { return float64(c.ok) / float64(c.all) }

// run has all accounts ask until the end, and waits for the answers.
func (o *outage) run(end time.Duration, all []traffic) {
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(func() {
			time.Sleep(rand.N(one.every))
			for i := 0; time.Since(o.start) < end; i++ {
				group.Go(func() {
					at := time.Since(o.start)
					k := cache.Key{Kind: "buyer", Account: one.account, Status: fmt.Sprint("s", i%one.lists)}
					if _, ok := o.lists.Lookup(k); ok {
						one.count.add(at, nil)
						return
					}
					_, err := o.lists.Get(context.Background(), k)
					one.count.add(at, err)
				})
				time.Sleep(one.every)
			}
		})
	}
	group.Wait()
	o.client.Close()
	_ = o.lists.Close(context.Background())
}

// perSecond is how many requests the legacy system got per second.
func (o *outage) perSecond(from, to time.Duration) float64 {
	n := 0
	for _, at := range o.asked {
		if from <= at && at < to {
			n++
		}
	}
	return float64(n) / (to - from).Seconds()
}

// inOutage runs a case with a legacy system that answers 500, and with one that hangs.
func inOutage(t *testing.T, name string, test func(t *testing.T, o *outage)) {
	for _, hangs := range []bool{false, true} {
		t.Run(fmt.Sprintf("%s, hangs %t", name, hangs), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t)
				o.hangs = hangs
				test(t, o)
			})
		})
	}
}

// Accounts whose lists fail for good, and who ask 27 times a second each, harm nobody else.
func TestFailingAccountsBesideHealthyOnes(t *testing.T) {
	testkit.SkipUnderRace(t)
	for _, failing := range loudAccounts {
		for _, lists := range loudLists {
			inOutage(t, fmt.Sprintf("%d of 11, %d lists", failing, lists), func(t *testing.T, o *outage) {
				o.fails = func(account, _ string, _ time.Duration) bool { return strings.HasPrefix(account, "bad") }
				healthy := &tally{from: 10 * time.Second}
				var all []traffic
				for i := range 11 {
					if i < failing {
						all = append(all, traffic{fmt.Sprint("bad", i), lists, time.Second / 27, nil})
					} else { // once a second together
						all = append(all, traffic{fmt.Sprint("good", i), 3, time.Duration(11-failing) * time.Second, healthy})
					}
				}
				o.run(100*time.Second, all)
				t.Logf("%.1f %% of %d; %.2f requests/s", 100*healthy.share(), healthy.all, o.perSecond(10*time.Second, 100*time.Second))
				if healthy.share() < leastOfHealthy || healthy.all < 80 {
					t.Errorf("%.1f %% of %d requests of healthy accounts were answered", 100*healthy.share(), healthy.all)
				}
			})
		}
	}
	for _, ttl := range []time.Duration{time.Second, 10 * time.Second} { // with many or few lists of the others that come
		for _, hangs := range []bool{false, true} {
			sum := 0.0
			for range manyRuns {
				synctest.Test(t, func(t *testing.T) { sum += besideMany(t, ttl, hangs) })
			}
			if t.Logf("ttl %s, hangs %t: %.1f %%", ttl, hangs, 100*sum/manyRuns); sum/manyRuns < leastBesideMany {
				t.Errorf("ttl %s, hangs %t: %.1f %% of the requests of healthy accounts were answered", ttl, hangs, 100*sum/manyRuns)
			}
		}
	}
}

// besideMany is the share of the requests of 30 accounts that are answered while 70 others fail.
func besideMany(t *testing.T, ttl time.Duration, hangs bool) float64 {
	o := newOutage(t)
	o.hangs = hangs
	o.keep(t, ttl)
	o.fails = func(account, _ string, _ time.Duration) bool { return strings.HasPrefix(account, "bad") }
	healthy := &tally{from: 10 * time.Second}
	var all []traffic
	for i := range 100 {
		if i < 70 {
			all = append(all, traffic{fmt.Sprint("bad", i), 3, time.Second, nil})
		} else {
			all = append(all, traffic{fmt.Sprint("good", i), 3, time.Second, healthy})
		}
	}
	o.run(100*time.Second, all)
	return healthy.share()
}

// One filter of an account fails for good: its other lists go on.
func TestOneFilterFails(t *testing.T) {
	testkit.SkipUnderRace(t)
	inOutage(t, "one of four", func(t *testing.T, o *outage) {
		o.fails = func(_, status string, _ time.Duration) bool { return status == "s3" }
		others := &tally{from: 10 * time.Second}
		var all []traffic
		for i := range 3 {
			account := fmt.Sprint("a", i)
			all = append(all, traffic{account, 3, 200 * time.Millisecond, others}, traffic{account, 4, 200 * time.Millisecond, nil})
		}
		o.run(60*time.Second, all)
		if others.share() < 1 {
			t.Errorf("%.1f %% of the requests for other lists were answered", 100*others.share())
		}
	})
}

// All accounts fail, from the start or after lists have come: the legacy system is left alone, and
// asked again soon after it has recovered.
func TestAllAccountsFail(t *testing.T) {
	testkit.SkipUnderRace(t)
	for _, accounts := range allAccounts {
		for _, down := range []time.Duration{0, 20 * time.Second} {
			inOutage(t, fmt.Sprintf("%d accounts, down after %s", accounts, down), func(t *testing.T, o *outage) {
				recovered := down + 60*time.Second
				o.fails = func(_, _ string, at time.Duration) bool { return down <= at && at < recovered }
				after, every := &tally{from: recovered}, 500*time.Millisecond
				if accounts == 1000 {
					every = 2 * time.Second
				}
				var all []traffic
				for i := range accounts {
					all = append(all, traffic{fmt.Sprint("a", i), 3, every, after})
				}
				o.run(recovered+30*time.Second, all)
				rate, back := o.perSecond(down+noticed, recovered), after.lastFailed-recovered
				t.Logf("%.2f requests/s, at most %d at a time, the last failure %v after the recovery", rate, o.most, back)
				bound := mostPerAccount * float64(accounts)
				if 3*accounts > o.cfg.Breaker.MinRequests {
					bound = min(bound, mostInAll)
				}
				if rate > bound {
					t.Errorf("%.2f requests/s, at most %.2f are allowed", rate, bound)
				}
				if o.most > o.cfg.MaxConcurrent {
					t.Errorf("%d requests at a time", o.most)
				}
				if limit := 2*o.cfg.Breaker.OpenFor + outageFillTimeout; back > limit {
					t.Errorf("a list failed %v after the recovery, at most %v are allowed", back, limit)
				}
			})
		}
	}
}
