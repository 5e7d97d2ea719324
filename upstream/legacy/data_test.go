package legacy_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/upstream/legacy"
)

func TestOneSeedOneAnswer(t *testing.T) {
	_, first := start(t, legacy.Options{Seed: 3})
	_, again := start(t, legacy.Options{Seed: 3})
	_, other := start(t, legacy.Options{Seed: 4})
	for _, path := range []string{
		"/v2/tickets?customer=megacorp", "/v2/tickets?customer=acme&state=A&category=D", "/v2/vendors/hanriver/tickets",
	} {
		a, b, c := get(t, first, path), get(t, again, path), get(t, other, path)
		if !bytes.Equal(a.body, b.body) {
			t.Errorf("%s: one seed gave two answers", path)
		}
		if bytes.Equal(a.body, c.body) {
			t.Errorf("%s: two seeds gave one answer", path)
		}
		if cached := get(t, first, path); !bytes.Equal(a.body, cached.body) {
			t.Errorf("%s: asked again, the answer differs", path)
		}
	}
}

func TestDefaultDataIsRich(t *testing.T) {
	s := legacy.New(legacy.Options{})
	if n := len(s.Accounts(legacy.KindBuyer)); n != legacy.DefaultBuyers {
		t.Errorf("%d buyers", n)
	}
	if n := len(s.Accounts(legacy.KindSeller)); n != legacy.DefaultCompanies {
		t.Errorf("%d companies", n)
	}
	count := func(kind string) (sum int, seen map[string]int) {
		seen = map[string]int{}
		for _, a := range s.Accounts(kind) {
			list := s.Truth(kind, a, "", "")
			sum += len(list)
			for _, q := range list {
				seen["status "+q.Status]++
				seen["type "+q.InquiryType.String]++
				if strings.Contains(q.Title+q.Content, "[removed]") {
					seen["quoted"]++
				}
			}
		}
		return sum, seen
	}
	for kind, types := range map[string][]string{
		legacy.KindBuyer:  {"type product", "type delivery", "type refund", "type "},
		legacy.KindSeller: {"type product", "type delivery", "type refund", "type other"},
	} {
		sum, seen := count(kind)
		if sum != legacy.DefaultInquiries {
			t.Errorf("%ss have %d inquiries in all", kind, sum)
		}
		for _, want := range append(types, "status pending", "status answered", "status closed", "quoted") {
			if seen[want] < 50 {
				t.Errorf("only %d records of a %s have %s", seen[want], kind, want)
			}
		}
	}
	if n := len(s.Truth(legacy.KindBuyer, legacy.BuyerBusy, "", "")); n < 1000 {
		t.Errorf("the busy buyer has %d inquiries", n)
	}
}

var anyUUID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)

func TestInternalIDsAreAllOfThem(t *testing.T) {
	s, web := start(t, legacy.Options{Inquiries: 300, Buyers: 20})
	ids := s.InternalIDs()
	slices.Sort(ids)
	if n := len(ids); len(slices.Compact(ids)) != n {
		t.Error("an id occurs twice")
	}
	for _, a := range s.Accounts(legacy.KindBuyer) {
		body := buyerList(t, web, a)
		for _, id := range anyUUID.FindAllString(string(body), -1) {
			if _, known := slices.BinarySearch(ids, id); !known {
				t.Fatalf("the reply for %s has %s, which InternalIDs does not know", a, id)
			}
		}
		truth, err := json.Marshal(s.Truth(legacy.KindBuyer, a, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		if leak := anyUUID.Find(truth); leak != nil {
			t.Fatalf("the truth for %s has %s", a, leak)
		}
	}
}

// A filter can take the quoted record out of the very reply that quotes it: a
// gateway that only knows the ids of that reply would let the quotation through.
func TestIDsAreQuotedAcrossFilters(t *testing.T) {
	s, web := start(t, legacy.Options{Inquiries: legacy.DefaultInquiries})
	body := string(get(t, web, "/v2/tickets?state=N&customer="+legacy.BuyerBusy).body)
	own := map[string]bool{}
	for _, m := range regexp.MustCompile(`"uuid":"([^"]*)"`).FindAllStringSubmatch(body, -1) {
		own[m[1]] = true
	}
	across := 0
	for _, m := range regexp.MustCompile(`help\.example/t/([0-9a-f-]{36})`).FindAllStringSubmatch(body, -1) {
		if !own[m[1]] {
			across++
		}
	}
	if across == 0 || !slices.ContainsFunc(s.InternalIDs(), func(id string) bool { return !own[id] && strings.Contains(body, id) }) {
		t.Error("no text quotes an id from outside its reply")
	}
}

func TestFiltersOfTheBuyerEndpoint(t *testing.T) {
	_, web := start(t, legacy.Options{})
	total := func(query string) int {
		var doc struct {
			Result struct {
				Total int
				Items []json.RawMessage
			}
		}
		if err := json.Unmarshal(get(t, web, "/v2/tickets?customer=megacorp"+query).body, &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Result.Total != len(doc.Result.Items) {
			t.Errorf("%s: total %d of %d", query, doc.Result.Total, len(doc.Result.Items))
		}
		return doc.Result.Total
	}
	all, n, a, c := total(""), total("&state=N"), total("&state=A"), total("&state=C")
	if n+a+c != all || n*a*c == 0 {
		t.Errorf("N %d, A %d and C %d are not %d", n, a, c, all)
	}
	for query, want := range map[string]int{
		"&state=N,A": n + a, "&state=N&state=C": n + c, "&state=X": 0, "&state=": all, "&state=pending": 0,
	} {
		if got := total(query); got != want {
			t.Errorf("%s: %d records, want %d", query, got, want)
		}
	}
}

func TestRepliesDisclose(t *testing.T) {
	s, web := start(t, legacy.Options{})
	if err := s.SetFault(legacy.Fault{Name: legacy.FaultStatus, Kind: legacy.KindSeller}); err != nil {
		t.Fatal(err)
	}
	everything := ""
	for _, path := range []string{"/v2/tickets?customer=acme", "/v2/vendors/hanriver/tickets", "/nothing", "/login"} {
		a := get(t, web, path)
		for name, values := range a.header {
			everything += name + ": " + strings.Join(values, ",") + "\n"
		}
		everything += string(a.body)
		if !anyUUID.MatchString(a.header.Get("X-Internal-Trace")) {
			t.Errorf("%s has no trace id", path)
		}
	}
	if n := s.Requests(); n != (legacy.Requests{Buyer: 1, Seller: 1, Login: 1, Other: 1}) {
		t.Errorf("counted %+v", n)
	}
	for _, m := range s.Markers() {
		if !strings.Contains(everything, m) {
			t.Errorf("marker %q is in no reply", m)
		}
	}
	if a := do(t, web, http.MethodPost, "/v2/tickets"); a.status == http.StatusOK {
		t.Errorf("POST gave %d", a.status)
	}
}
