package legacy_test

import (
	"bytes"
	"reflect"
	"sync"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

func newClock() *testkit.Clock { return testkit.NewClock(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)) }

func TestAnswerChangesBothLists(t *testing.T) {
	s, web := start(t, legacy.Options{Now: newClock().Now, Inquiries: 60, Buyers: 6})
	client := newClient(t, web)
	for _, account := range []string{legacy.BuyerTypical, legacy.BuyerEmpty} {
		for i := range 30 { // past the last pending inquiry, into rewording
			before := s.Truth(legacy.KindBuyer, account, "", "")
			body := buyerList(t, web, account)
			if !s.Answer(account) {
				t.Fatalf("%s is unknown", account)
			}
			after := s.Truth(legacy.KindBuyer, account, "", "")
			if reflect.DeepEqual(before, after) || bytes.Equal(body, buyerList(t, web, account)) {
				t.Fatalf("%s: change %d changed nothing", account, i)
			}
			agree(t, client, s, upstream.Request{Kind: legacy.KindBuyer, Account: account})
		}
	}
	for _, account := range s.Accounts(legacy.KindSeller) {
		agree(t, client, s, upstream.Request{Kind: legacy.KindSeller, Account: account})
	}
	if s.Answer("nobody") || s.Ask("nobody") {
		t.Error("an unknown account was changed")
	}
}

func TestAskOpensAnInquiryOnTop(t *testing.T) {
	clock := newClock()
	s := legacy.New(legacy.Options{Now: clock.Now})
	before := len(s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "", ""))
	if !s.Ask(legacy.BuyerTypical) {
		t.Fatal("unknown")
	}
	list := s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "", "")
	if len(list) != before+1 || list[0].Status != "pending" || !list[0].CreatedAt.Equal(clock.Now()) {
		t.Errorf("%d records, the first is %+v", len(list), list[0])
	}
}

func TestListsChangeByThemselves(t *testing.T) {
	changes := func(every time.Duration) (n int) {
		clock := newClock()
		s := legacy.New(legacy.Options{Now: clock.Now, ChangeEvery: every, Inquiries: 100})
		last := s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "", "")
		for range 1000 {
			clock.Add(time.Second)
			list := s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "", "")
			if !reflect.DeepEqual(last, list) {
				n++
			}
			last = list
		}
		return n
	}
	if n := changes(0); n != 0 {
		t.Errorf("%d changes with changes off", n)
	}
	if n := changes(20 * time.Second); n < 30 || n > 70 {
		t.Errorf("%d changes in 1,000 s at one every 20 s", n)
	}
	if a, b := changes(20*time.Second), changes(20*time.Second); a != b {
		t.Errorf("one seed changed %d and %d times", a, b)
	}
}

// A list left alone for a year catches up in bounded time, and the moments go on
// from there.
func TestCatchingUpIsBounded(t *testing.T) {
	clock := newClock()
	s := legacy.New(legacy.Options{Now: clock.Now, ChangeEvery: time.Millisecond, Inquiries: 50, Buyers: 4})
	clock.Add(365 * 24 * time.Hour)
	if n := len(s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "pending", "")); n != 0 {
		t.Errorf("%d inquiries still pending", n)
	}
	s.SetChangeEvery(0)
	before := s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "", "")
	clock.Add(time.Hour)
	if !reflect.DeepEqual(before, s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "", "")) {
		t.Error("changed after changes were switched off")
	}
}

func TestConcurrentUse(t *testing.T) {
	s, web := start(t, legacy.Options{ChangeEvery: 20 * time.Millisecond, Inquiries: 200, Buyers: 10})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 10 {
				account := s.Accounts(legacy.KindBuyer)[i]
				buyerList(t, web, account)
				sellerList(t, web, legacy.SellerTypical)
				s.Answer(account)
				s.Truth(legacy.KindSeller, legacy.SellerTypical, "", "")
			}
		})
	}
	all.Wait()
	web.Close() // a caller has its answer a moment before the handler returns
	if n := s.Requests().Lists(); n != 2*8*10 {
		t.Errorf("%d lists counted", n)
	}
	if st := s.Stats(); st.InFlight != 0 || st.MaxInFlight < 1 {
		t.Errorf("in flight %d, at most %d", st.InFlight, st.MaxInFlight)
	}
}
