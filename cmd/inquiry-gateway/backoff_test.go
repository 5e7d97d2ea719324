package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"inquiry-gateway/upstream/legacy"
)

// outdated makes every list stale at once and allows it to be served for long.
const outdated = "cache: {jitter: 0, buyer: {ttl: 1ms, stale_while_revalidate: 10m, stale_if_error: 10m}}"

// warm starts a node whose legacy is unruly, and has it know the lists of three
// buyers, with and without a filter.
func warm(t *testing.T, section string) (*program, *unruly) {
	t.Helper()
	u := &unruly{}
	p := start(t, setup{backend: u, yaml: outdated, upstream: []string{"max_records: 10000", "max_records: 10000\n  " + section}})
	u.system = p.system
	for _, key := range []string{"buyer", "other-buyer", "empty-buyer"} {
		for _, filter := range []string{"", "?status=pending"} {
			p.gets(http.StatusOK, buyerList+filter, key)
		}
	}
	return p, u
}

// refreshes checks that a stale list is refreshed, and not held back as one whose
// legacy fails.
func (p *program) refreshes(u *unruly, target, key string) {
	p.t.Helper()
	asked := u.buyers.Load()
	p.eventually("the legacy is asked for "+key, func() bool {
		got := p.get(target, key).header.Get("Cache-Status") // fresh for a millisecond, then stale
		if strings.HasSuffix(got, "stale-error") {
			p.t.Fatalf("%s %s: %s", key, target, got)
		}
		return u.buyers.Load() > asked
	})
}

// A list that fails again and again holds up no other list.
func TestOneFailingListDoesNotHoldTheOthersUp(t *testing.T) {
	p, u := warm(t, "breaker: {window: 10s, min_requests: 1000, failure_ratio: 1, open_for: 1s}")
	u.answer(always(broken, legacy.BuyerTypical))
	for range 5 {
		p.gets(http.StatusBadGateway, buyerList+"?status=closed", "buyer")
	}
	for range 3 {
		p.refreshes(u, buyerList, "other-buyer")
		p.refreshes(u, buyerList, "empty-buyer")
	}
}

// A legacy that tells one account to wait gets the others' requests.
func TestOneAccountsQuotaHoldsThatAccount(t *testing.T) {
	p, u := warm(t, "retry: {attempts: 1}")
	u.answer(always(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}, legacy.BuyerTypical))
	for range 3 {
		a := p.get(buyerList+"?status=closed", "buyer")
		if wait := a.header.Get("Retry-After"); a.status != http.StatusServiceUnavailable || wait != "30" && wait != "29" {
			t.Fatalf("%d, Retry-After %q: %s", a.status, wait, a.body)
		}
	}
	p.refreshes(u, buyerList, "other-buyer")
	p.refreshes(u, buyerList, "empty-buyer")
}

// A busy gateway is no failure of the legacy's, of any list.
func TestAFullBulkheadIsNoFailure(t *testing.T) {
	p, u := warm(t, "max_concurrent: 3\n  max_concurrent_per_account: 3")
	held, release := make(chan struct{}), make(chan struct{})
	u.answer(always(func(w http.ResponseWriter, r *http.Request) {
		held <- struct{}{}
		<-release
		u.system.ServeHTTP(w, r)
	})) // everybody
	var slow sync.WaitGroup
	for _, filter := range []string{"?inquiry_type=product", "?status=answered", "?inquiry_type=refund"} {
		slow.Go(func() {
			for p.do(p.request(http.MethodGet, buyerList+filter, "buyer")).status == http.StatusServiceUnavailable { // a refresh of before was under way
			}
		})
		<-held
	}
	for _, key := range []string{"buyer", "other-buyer", "empty-buyer"} {
		p.gets(http.StatusServiceUnavailable, buyerList+"?status=closed", key)
	}
	close(release)
	slow.Wait()
	u.answer(always(nil))
	for _, key := range []string{"buyer", "other-buyer", "empty-buyer"} {
		p.refreshes(u, buyerList, key)
	}
}
