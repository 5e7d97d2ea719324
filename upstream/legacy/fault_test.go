package legacy_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"inquiry-gateway/upstream/legacy"
)

func TestFaults(t *testing.T) {
	s, web := start(t, legacy.Options{})
	items := func(a answer) gjson.Result { return gjson.GetBytes(a.body, "result.items") }
	last := func(a answer) gjson.Result { all := items(a).Array(); return all[len(all)-1] }
	for name, check := range map[legacy.FaultName]func(answer) bool{
		legacy.FaultDelay:    func(a answer) bool { return a.status == 200 && len(items(a).Array()) == 24 },
		legacy.FaultStatus:   func(a answer) bool { return a.status == 500 && !json.Valid(a.body) },
		legacy.FaultRefuse:   func(a answer) bool { return a.err != nil && a.status == 0 },
		legacy.FaultTruncate: func(a answer) bool { return a.err != nil && a.status == 200 },
		legacy.FaultHTML:     func(a answer) bool { return strings.HasPrefix(a.header.Get("Content-Type"), "text/html") },
		legacy.FaultNotJSON: func(a answer) bool {
			return strings.HasPrefix(a.header.Get("Content-Type"), "application/json") && !json.Valid(a.body)
		},
		legacy.FaultRedirect:     func(a answer) bool { return a.status == 302 && a.header.Get("Location") != "" },
		legacy.FaultHuge:         func(a answer) bool { return len(items(a).Array()) == 20_000 },
		legacy.FaultWrongOwner:   func(a answer) bool { return last(a).Get("customer.id").String() == legacy.BuyerOther },
		legacy.FaultMissingField: func(a answer) bool { return json.Valid(a.body) && !last(a).Get("subject").Exists() },
		legacy.FaultNullField: func(a answer) bool {
			return json.Valid(a.body) && last(a).Get("subject").Type == gjson.Null && last(a).Get("subject").Exists()
		},
		legacy.FaultWrongType:     func(a answer) bool { return json.Valid(a.body) && last(a).Get("subject").IsObject() },
		legacy.FaultDuplicateKeys: func(a answer) bool { return strings.Count(last(a).Raw, `"subject":`) == 2 },
		legacy.FaultInvalidUTF8:   func(a answer) bool { return !utf8.Valid(a.body) },
		legacy.FaultDeep:          func(a answer) bool { return strings.Contains(string(a.body), strings.Repeat("[", 100_000)) },
	} {
		t.Run(string(name), func(t *testing.T) {
			if err := s.SetFault(legacy.Fault{Name: name, Kind: legacy.KindBuyer}); err != nil {
				t.Fatal(err)
			}
			web.Client().CloseIdleConnections() // on a used one, http.Transport repeats a refused request
			if a := do(t, web, http.MethodGet, "/v2/tickets?customer=acme"); !check(a) {
				t.Errorf("status %d, header %v, error %v, body %.200s", a.status, a.header, a.err, a.body)
			}
			if a := get(t, web, "/v2/vendors/hanriver/tickets"); a.status != 200 || !json.Valid(a.body) {
				t.Errorf("sellers are hit as well: %d", a.status)
			}
			s.ClearFaults("")
			if a := get(t, web, "/v2/tickets?customer=acme"); a.status != 200 || !json.Valid(a.body) {
				t.Errorf("after clearing: %d", a.status)
			}
			if n := s.Stats().Faults[name]; n != 1 {
				t.Errorf("counted %d times", n)
			}
		})
	}
	if n := len(legacy.FaultNames()); n != 15 {
		t.Errorf("%d faults, this table has 15", n)
	}
}

func TestFaultOfOneAccount(t *testing.T) {
	s, web := start(t, legacy.Options{})
	for _, kind := range []string{legacy.KindBuyer, legacy.KindSeller} {
		for _, account := range []string{legacy.BuyerTypical, legacy.SellerTypical} {
			if err := s.SetFault(legacy.Fault{Name: legacy.FaultStatus, Kind: kind, Account: account}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for path, status := range map[string]int{
		"/v2/tickets?customer=acme": 500, "/v2/tickets?customer=globex": 200,
		"/v2/vendors/hanriver/tickets": 500, "/v2/vendors/fresh-start/tickets": 200,
	} {
		if a := do(t, web, http.MethodGet, path); a.status != status {
			t.Errorf("%s: status %d, want %d", path, a.status, status)
		}
	}
}

// An account without inquiries gets the bad record too, or a test that uses one
// would pass for the wrong reason.
func TestRecordFaultsShowOnEmptyLists(t *testing.T) {
	for _, c := range []struct{ kind, path, items, owner string }{
		{legacy.KindBuyer, "/v2/tickets?customer=initech", "result.items", "customer.id"},
		{legacy.KindSeller, "/v2/vendors/fresh-start/tickets", "data.list", "vendor.code"},
	} {
		s, web := start(t, legacy.Options{})
		for name, own := range map[legacy.FaultName]bool{legacy.FaultMissingField: true, legacy.FaultWrongOwner: false} {
			s.ClearFaults("")
			if err := s.SetFault(legacy.Fault{Name: name, Kind: c.kind}); err != nil {
				t.Fatal(err)
			}
			items := gjson.GetBytes(get(t, web, c.path).body, c.items).Array()
			if len(items) != 1 {
				t.Fatalf("%s %s: %d records", c.kind, name, len(items))
			}
			if owned := strings.Contains(c.path, items[0].Get(c.owner).String()); owned != own {
				t.Errorf("%s %s: owner %s", c.kind, name, items[0].Get(c.owner))
			}
		}
	}
}

func TestFaultsEndAfterTheirCount(t *testing.T) {
	s, web := start(t, legacy.Options{})
	if err := s.SetFault(legacy.Fault{Name: legacy.FaultStatus, Count: 2, Code: 503}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{503, 503, 200, 200} {
		if got := get(t, web, "/v2/tickets?customer=acme").status; got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
}

func TestFaultsByRateFollowTheSeed(t *testing.T) {
	run := func() (pattern string) {
		s, web := start(t, legacy.Options{Seed: 1, Inquiries: 40})
		if err := s.SetFault(legacy.Fault{Name: legacy.FaultStatus, Rate: 0.3}); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			pattern += string(rune('0' + get(t, web, "/v2/tickets?customer=initech").status/100))
		}
		return pattern
	}
	first, again := run(), run()
	if first != again {
		t.Errorf("one seed, two patterns:\n%s\n%s", first, again)
	}
	if n := strings.Count(first, "5"); n < 15 || n > 45 {
		t.Errorf("%d of 100 requests hit at rate 0.3", n)
	}
}

func TestImpossibleFaultsAreRefused(t *testing.T) {
	s := legacy.New(legacy.Options{})
	for _, f := range []legacy.Fault{
		{}, {Name: "nonsense"}, {Name: legacy.FaultDelay, Kind: "admin"}, {Name: legacy.FaultDelay, Rate: 1.5},
		{Name: legacy.FaultDelay, Delay: -1}, {Name: legacy.FaultStatus, Code: 99}, {Name: legacy.FaultHuge, Size: -1},
	} {
		if err := s.SetFault(f); err == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
	if left := s.Faults(); len(left) != 0 {
		t.Errorf("in force: %+v", left)
	}
}

func TestDelaysAreKept(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault legacy.Fault
		want  time.Duration
	}{
		{"latency alone", legacy.Fault{}, 20 * time.Millisecond},
		{"delay", legacy.Fault{Name: legacy.FaultDelay, Delay: time.Minute}, time.Minute + 20*time.Millisecond},
		{"late status", legacy.Fault{Name: legacy.FaultStatus, Delay: time.Second}, time.Second + 20*time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := legacy.New(legacy.Options{Latency: 20 * time.Millisecond, Inquiries: 40})
				if c.fault.Name != "" {
					if err := s.SetFault(c.fault); err != nil {
						t.Fatal(err)
					}
				}
				begin := time.Now()
				s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/tickets?customer=acme", nil))
				if took := time.Since(begin); took != c.want {
					t.Errorf("took %v, want %v", took, c.want)
				}
			})
		})
	}
}
