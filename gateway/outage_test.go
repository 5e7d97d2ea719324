package gateway

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/testkit/memnet"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream"
)

const outageMapping = `
base_url: http://legacy
buyer:
  path: /list
  query: {customer: "{account}", type: "{inquiry_type}"}
  items: rows
  fields: {title: t, content: {const: ""}, status: {const: pending}, inquiry_type: {path: k, default: null}, created_at: at, responses: {items: r, fields: {content: c, responder_type: {const: x}, created_at: at}}}
`

// outageNode is a node without Redis: the cache over the client over a legacy system whose behaviour is
// one function of time. Time is virtual.
type outageNode struct {
	lists  *cache.Lists
	client *upstream.Client
	begun  time.Time

	mu             sync.Mutex
	asked          []call
	inFlight, most int
}

// call is a request that the legacy system gets.
type call struct {
	account string
	at      time.Duration
}

// reply is how a request is answered.
type reply string

const (
	replies200 reply = "answers 200"
	replies500 reply = "answers 500"
	hangs      reply = "hangs"
)

func newOutageNode(t *testing.T, answer func(account, list string, at time.Duration) reply) *outageNode {
	t.Helper()
	n := &outageNode{begun: time.Now()}
	network := memnet.Listen()
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account, list, at := r.URL.Query().Get("customer"), r.URL.Query().Get("type"), time.Since(n.begun)
		n.mu.Lock()
		n.asked = append(n.asked, call{account, at})
		n.inFlight++
		n.most = max(n.most, n.inFlight)
		n.mu.Unlock()
		defer func() {
			n.mu.Lock()
			n.inFlight--
			n.mu.Unlock()
		}()
		switch answer(account, list, at) {
		case replies200:
			time.Sleep(20 * time.Millisecond)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"rows":[]}`)
		case replies500:
			time.Sleep(10 * time.Millisecond)
			w.WriteHeader(http.StatusInternalServerError)
		case hangs:
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}
	})}
	go func() { _ = web.Serve(network) }()
	t.Cleanup(func() { _ = web.Close() })
	cfg := upstream.DefaultConfig()
	if err := yamlfile.Decode(outageMapping, &cfg); err != nil {
		t.Fatal(err)
	}
	var err error
	if n.client, err = upstream.New(cfg, upstream.Options{Dial: func(ctx context.Context, protocol, address string) (net.Conn, error) {
		return network.Dial(ctx, protocol, address)
	}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.client.Close)
	terms := cache.DefaultConfig()
	terms.Buyer.TTL, terms.Buyer.StaleWhileRevalidate, terms.Buyer.StaleIfError = outageTTL, 0, 0
	if n.lists, err = cache.New(terms, cache.Options{
		Fill: NewFill(n.client.Fetch, nil), Fills: cache.Fills{Timeout: outageDeadline, Mappings: Mappings(n.client)},
		Failing: func(kind, account string) bool { return n.client.BreakerState(kind, account) != "closed" },
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.lists.Close(context.Background()) })
	return n
}

const (
	outageTTL      = 10 * time.Second
	outageDeadline = 5 * time.Second // request_timeout
	settles        = 10 * time.Second
	noticed        = 15 * time.Second
	perAccount     = 0.4 // requests a second
	inAll          = 2.0
	leastBeside    = 95.0 // percent of the answers for accounts that do not fail
	leastAmongMost = 90.0
)

// requests counts what the legacy system was asked between two moments for accounts whose name begins so,
// in all and at most for one account.
func (n *outageNode) requests(prefix string, from, to time.Duration) (all, account int) {
	each := map[string]int{}
	for _, c := range n.asked {
		if strings.HasPrefix(c.account, prefix) && c.at >= from && c.at < to {
			each[c.account]++
			all++
			account = max(account, each[c.account])
		}
	}
	return all, account
}

// asks are requests for the lists of one account in turn, every so often. told gets what each was told.
type asks struct {
	account string
	lists   int
	every   time.Duration
	told    func(list string, at time.Duration, err error)
}

// run asks until the end, and waits for all answers.
func (n *outageNode) run(t *testing.T, end time.Duration, all []asks) {
	var wg sync.WaitGroup
	for _, a := range all {
		wg.Go(func() {
			time.Sleep(rand.N(a.every))
			for i := 0; time.Since(n.begun) < end; i++ {
				wg.Go(func() {
					list, at := fmt.Sprint("t", i%a.lists), time.Since(n.begun)
					ctx, cancel := context.WithTimeout(t.Context(), outageDeadline)
					defer cancel()
					k := cache.Key{Kind: cache.KindBuyer, Account: a.account, InquiryType: list}
					_, ok := n.lists.Lookup(k)
					var err error
					if !ok {
						_, err = n.lists.Get(ctx, k)
					}
					if a.told != nil {
						a.told(list, at, err)
					}
				})
				time.Sleep(a.every)
			}
		})
	}
	wg.Wait()
}

// share counts answers. It is safe for concurrent use.
type share struct {
	mu    sync.Mutex
	n, ok int
	last  time.Duration // of a request that got no list
	err   error         // the last
}

func (s *share) add(at time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	if err == nil {
		s.ok++
	} else {
		s.last, s.err = max(s.last, at), err
	}
}

func (s *share) percent() float64 { return 100 * float64(s.ok) / float64(s.n) }

var update = flag.Bool("update", false, "write the table of outages into the documentation")

// TestOutages holds what docs/operation.md says of outages against the cache over the client, in virtual time.
func TestOutages(t *testing.T) {
	cfg := upstream.DefaultConfig()
	t.Run("some accounts", func(t *testing.T) {
		for _, fails := range []reply{replies500, hangs} {
			for _, failing := range []int{1, 3, 5} {
				for _, lists := range []int{3, 42} {
					synctest.Test(t, func(t *testing.T) { someFail(t, fails, failing, lists) })
				}
			}
		}
	})
	t.Run("one filter", func(t *testing.T) { synctest.Test(t, oneFilterFails) })
	t.Run("most accounts", func(t *testing.T) { synctest.Test(t, mostFail) })
	t.Run("all accounts", func(t *testing.T) {
		for _, fails := range []reply{replies500, hangs} {
			for _, down := range []time.Duration{0, 30 * time.Second} {
				for _, accounts := range []int{1, 6, 50, 1000} {
					synctest.Test(t, func(t *testing.T) { allFail(t, cfg, fails, down, accounts) })
				}
			}
		}
	})
	const everyWay = ", whether it answers 500 or hangs"
	stopped := fmt.Sprintf("from %.0f s after the first failure it gets at most %.1f requests a second for one account", noticed.Seconds(), perAccount)
	checkOutages(t, [][2]string{
		{"1, 3 or 5 of 11 accounts, asked for 27 times a second each with 3 or 42 filters" + everyWay,
			fmt.Sprintf("after %.0f s at least %.0f %% of the answers for the others are 200; it gets at most %.1f requests a second for each account that fails", settles.Seconds(), leastBeside, perAccount)},
		{"one filter of an account", "the other filters of the account are answered with 200"},
		{"70 of 100 accounts", fmt.Sprintf("after %.0f s at least %.0f %% of the answers for the others are 200", settles.Seconds(), leastAmongMost)},
		{"all of 1 or 6 accounts" + everyWay, stopped},
		{"all of 50 or 1,000 accounts" + everyWay, stopped + fmt.Sprintf(", and at most %.0f in all", inAll)},
		{"nothing any more", "all lists come at the latest two `open_for` and one `upstream.timeout` later"},
	})
}

// checkOutages compares the table of the documentation.
func checkOutages(t *testing.T, rows [][2]string) {
	t.Helper()
	const doc, begin, end = "../docs/operation.md", "-update` -->\n", "<!-- end -->"
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	table := "| what fails | what holds |\n|---|---|\n"
	for _, r := range rows {
		table += "| " + r[0] + " | " + r[1] + " |\n"
	}
	head, rest, ok := bytes.Cut(text, []byte(begin))
	old, tail, ended := bytes.Cut(rest, []byte(end))
	if !ok || !ended {
		t.Fatalf("%s has no place for the table", doc)
	}
	if *update {
		if err := os.WriteFile(doc, fmt.Appendf(nil, "%s%s%s%s%s", head, begin, table, end, tail), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(old) != table {
		t.Errorf("the table of %s is not\n%s; run this test with -update", doc, table)
	}
}

// Accounts whose lists fail for good, and are asked for 27 times a second each.
func someFail(t *testing.T, fails reply, failing, lists int) {
	const accounts, length, from = 11, time.Minute, 20 * time.Second
	n := newOutageNode(t, func(account, _ string, _ time.Duration) reply {
		if strings.HasPrefix(account, "bad") {
			return fails
		}
		return replies200
	})
	var healthy share
	var all []asks
	for i := range failing {
		all = append(all, asks{account: fmt.Sprint("bad", i), lists: lists, every: time.Second / 27})
	}
	for i := range accounts - failing {
		all = append(all, asks{fmt.Sprint("good", i), 3, (accounts - time.Duration(failing)) * time.Second, func(_ string, at time.Duration, err error) {
			if at >= settles {
				healthy.add(at, err)
			}
		}})
	}
	n.run(t, length, all)
	name := fmt.Sprintf("%d of %d accounts fail (%s), %d lists", failing, accounts, fails, lists)
	if healthy.n < 40 || healthy.percent() < leastBeside {
		t.Errorf("%s: %d of %d healthy answers; %v", name, healthy.ok, healthy.n, healthy.err)
	}
	if _, account := n.requests("bad", from, length); account == 0 || float64(account) > perAccount*(length-from).Seconds() {
		t.Errorf("%s: %d requests for one of them in %v", name, account, length-from)
	}
}

// One filter of an account fails for good.
func oneFilterFails(t *testing.T) {
	n := newOutageNode(t, func(_, list string, _ time.Duration) reply {
		if list == "t3" {
			return replies500
		}
		return replies200
	})
	var others share
	n.run(t, time.Minute, []asks{{"acme", 4, time.Second / 10, func(list string, at time.Duration, err error) {
		if list != "t3" {
			others.add(at, err)
		}
	}}})
	if others.n < 400 || others.ok != others.n {
		t.Errorf("%d of %d; %v", others.ok, others.n, others.err)
	}
}

func mostFail(t *testing.T) {
	failing := func(account string) bool { i, _ := strconv.Atoi(strings.TrimPrefix(account, "a")); return i < 70 }
	n := newOutageNode(t, func(account, _ string, _ time.Duration) reply {
		if failing(account) {
			return replies500
		}
		return replies200
	})
	var healthy share
	var all []asks
	for i := range 100 {
		account := fmt.Sprint("a", i)
		all = append(all, asks{account, 3, time.Second, func(_ string, at time.Duration, err error) {
			if !failing(account) && at >= settles {
				healthy.add(at, err)
			}
		}})
	}
	n.run(t, time.Minute, all)
	if healthy.n < 1000 || healthy.percent() < leastAmongMost {
		t.Errorf("%d of %d; %v", healthy.ok, healthy.n, healthy.err)
	}
}

// All accounts fail for a minute, before or after their lists have come, and recover.
func allFail(t *testing.T, cfg upstream.Config, fails reply, down time.Duration, accounts int) {
	lists, every := 3, time.Second
	if accounts == 1000 {
		lists, every = 1, 5*time.Second
	}
	well := down + time.Minute
	n := newOutageNode(t, func(_, _ string, at time.Duration) reply {
		if at >= down && at < well {
			return fails
		}
		return replies200
	})
	var before, after share
	var all []asks
	for i := range accounts {
		all = append(all, asks{fmt.Sprint("a", i), lists, every, func(_ string, at time.Duration, err error) {
			switch {
			case at < down:
				before.add(at, err)
			case at >= well:
				after.add(at, err)
			}
		}})
	}
	recovered := well + 2*cfg.Breaker.OpenFor + cfg.Timeout
	n.run(t, recovered+settles, all)
	name := fmt.Sprintf("%d accounts fail (%s) from %v on", accounts, fails, down)
	first := well // failed request
	for _, c := range n.asked {
		if c.at >= down {
			first = min(first, c.at)
		}
	}
	if fails == hangs {
		first += cfg.Timeout
	}
	requests, account := n.requests("", first+noticed, well)
	seconds := (well - first - noticed).Seconds()
	t.Logf("%s: %.2f requests a second in all, %.2f for one account, %d at a time; the last error %v after recovery",
		name, float64(requests)/seconds, float64(account)/seconds, n.most, after.last-well)
	if down > 0 && (before.n == 0 || before.ok != before.n) {
		t.Errorf("%s: before that %d of %d; %v", name, before.ok, before.n, before.err)
	}
	if requests == 0 || float64(account) > perAccount*seconds {
		t.Errorf("%s: %d requests for one account in %.0f s", name, account, seconds)
	}
	if accounts*lists > cfg.Breaker.MinRequests && float64(requests) > inAll*seconds {
		t.Errorf("%s: %d requests in %.0f s", name, requests, seconds)
	}
	if n.most > cfg.MaxConcurrent {
		t.Errorf("%s: %d requests at a time", name, n.most)
	}
	if after.n == 0 || after.last > recovered {
		t.Errorf("%s: an error %v after the recovery: %v", name, after.last-well, after.err)
	}
}
