package legacy_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

// The decoders here read the legacy's JSON on their own, so that Truth and the
// rendering can only agree where both are right.

func decodeBuyer(t *testing.T, body []byte, clean func(string) string) []upstream.Inquiry {
	t.Helper()
	var doc struct {
		Result struct {
			Items []struct {
				UUID     string
				Customer struct{ ID string }
				Subject  string
				Body     struct{ Text string }
				State    string
				Category *string
				Opened   string
				Replies  []struct {
					UUID, Text, At string
					By             *struct{ Role string }
				}
			}
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	list := []upstream.Inquiry{}
	for _, i := range doc.Result.Items {
		q := upstream.Inquiry{
			Title: clean(i.Subject), Content: clean(i.Body.Text), CreatedAt: inSeoul(t, time.DateTime, i.Opened),
			Status:    map[string]string{"N": "pending", "A": "answered", "C": "closed"}[i.State],
			Responses: []upstream.Response{},
		}
		if i.Category != nil {
			q.InquiryType = named(map[string]string{"P": "product", "D": "delivery", "R": "refund"}[*i.Category])
		}
		for _, r := range i.Replies {
			a := upstream.Response{Content: clean(r.Text), CreatedAt: inSeoul(t, time.DateTime, r.At)}
			if r.By != nil {
				a.ResponderType = named(map[string]string{"C": "customer", "S": "staff"}[r.By.Role])
			}
			q.Responses = append(q.Responses, a)
		}
		list = append(list, q)
	}
	return list
}

func decodeSeller(t *testing.T, body []byte, clean func(string) string) []upstream.Inquiry {
	t.Helper()
	var doc struct {
		Data struct {
			List []struct {
				Ttl    string
				St     struct{ Cd string }
				Kind   *struct{ Cd string }
				RegDt  string
				Vendor struct {
					Corp struct{ Name struct{ Local string } }
				}
			}
		}
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	list := []upstream.Inquiry{}
	for _, i := range doc.Data.List {
		q := upstream.Inquiry{
			Title: clean(i.Ttl), CompanyName: i.Vendor.Corp.Name.Local, CreatedAt: inSeoul(t, "20060102150405", i.RegDt),
			Status:      map[string]string{"N": "pending", "A": "answered", "C": "closed"}[i.St.Cd],
			InquiryType: named("other"),
		}
		if i.Kind != nil {
			q.InquiryType = named(map[string]string{"PRD": "product", "DLV": "delivery", "RFD": "refund"}[i.Kind.Cd])
		}
		list = append(list, q)
	}
	return list
}

func named(s string) upstream.NullString { return upstream.NullString{String: s, Valid: true} }

func inSeoul(t *testing.T, layout, value string) time.Time {
	t.Helper()
	at, err := time.Parse(layout+" -0700", value+" +0900")
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}

// cleaner takes every internal id out of a text.
func cleaner(s *legacy.Server) func(string) string {
	var pairs []string
	for _, id := range s.InternalIDs() {
		pairs = append(pairs, id, "[removed]")
	}
	return strings.NewReplacer(pairs...).Replace
}

func buyerList(t *testing.T, web *httptest.Server, account, state, category string) []byte {
	t.Helper()
	q := url.Values{"customer": {account}, "state": {state}, "category": {category}}
	return get(t, web, "/v2/tickets?"+q.Encode()).body
}

func sellerList(t *testing.T, web *httptest.Server, account string) []byte {
	t.Helper()
	return get(t, web, "/v2/vendors/"+url.PathEscape(account)+"/tickets").body
}

func TestTruthAgreesWithTheWire(t *testing.T) {
	s, web := start(t, legacy.Options{Seed: 7, Inquiries: 600, Buyers: 30})
	clean := cleaner(s)
	for _, a := range s.Accounts(legacy.KindBuyer) {
		for _, f := range []struct{ state, status, category, inquiryType string }{
			{}, {state: "N", status: "pending"}, {category: "R", inquiryType: "refund"}, {"C", "closed", "P", "product"},
		} {
			got := decodeBuyer(t, buyerList(t, web, a, f.state, f.category), clean)
			if want := s.Truth(legacy.KindBuyer, a, f.status, f.inquiryType); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s %+v:\n got %+v\nwant %+v", a, f, got, want)
			}
		}
	}
	for _, a := range s.Accounts(legacy.KindSeller) {
		got := decodeSeller(t, sellerList(t, web, a), clean)
		if want := s.Truth(legacy.KindSeller, a, "", ""); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s:\n got %+v\nwant %+v", a, got, want)
		}
	}
}

func TestSellerTruthIsFilteredAfterMapping(t *testing.T) {
	s := legacy.New(legacy.Options{Inquiries: 500})
	n := 0
	for _, inquiryType := range []string{"product", "delivery", "refund", "other"} {
		list := s.Truth(legacy.KindSeller, legacy.SellerTypical, "", inquiryType)
		for _, q := range list {
			if q.InquiryType != named(inquiryType) {
				t.Fatalf("%+v in the list of %s", q, inquiryType)
			}
		}
		n += len(list)
	}
	if all := len(s.Truth(legacy.KindSeller, legacy.SellerTypical, "", "")); n != all || n == 0 {
		t.Errorf("the types have %d records, the whole list %d", n, all)
	}
}

func TestNobodyUnknownHasInquiries(t *testing.T) {
	s, web := start(t, legacy.Options{})
	clean := cleaner(s)
	for _, account := range []string{"nobody", legacy.BuyerEmpty, legacy.SellerEmpty} {
		if got := decodeBuyer(t, buyerList(t, web, account, "", ""), clean); len(got) != 0 {
			t.Errorf("buyer %s has %d inquiries", account, len(got))
		}
		if got := decodeSeller(t, sellerList(t, web, account), clean); len(got) != 0 {
			t.Errorf("seller %s has %d inquiries", account, len(got))
		}
		for _, kind := range []string{legacy.KindBuyer, legacy.KindSeller, "neither"} {
			if got := s.Truth(kind, account, "", ""); got == nil || len(got) != 0 {
				t.Errorf("Truth(%s, %s) = %v, want an empty list", kind, account, got)
			}
		}
	}
}
