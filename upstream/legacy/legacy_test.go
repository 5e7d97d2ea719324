package legacy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a legacy system with little data behind a real listener.
func start(t *testing.T, seed uint64) (*legacy.Server, *httptest.Server) {
	t.Helper()
	s := legacy.New(legacy.Options{Seed: seed, Inquiries: 1000, Buyers: 40})
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	return s, web
}

type answer struct {
	status int
	media  string
	body   string
	err    error
}

func do(t *testing.T, web *httptest.Server, method, path string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := web.Client().Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header.Get("Content-Type"), fmt.Sprint(res.Header) + string(body), err}
}

// newClient is the gateway's client with the embedded mapping. It shares no code
// with Truth or the rendering, so that they can only agree where all are right.
func newClient(t *testing.T, web *httptest.Server) *upstream.Client {
	t.Helper()
	file := struct {
		Upstream upstream.Config `yaml:"upstream"`
	}{upstream.DefaultConfig()}
	if err := yamlfile.Decode(strings.Replace(string(legacy.Mapping()), legacy.MappingBaseURL, web.URL, 1), &file); err != nil {
		t.Fatal(err)
	}
	client, err := upstream.New(file.Upstream, upstream.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func agree(t *testing.T, c *upstream.Client, s *legacy.Server, r upstream.Request) {
	t.Helper()
	got, err := c.Fetch(t.Context(), r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	want := s.Truth(r.Kind, r.Account, r.Status, r.InquiryType)
	for i, q := range got.Inquiries {
		if len(q.Responses) == 0 && i < len(want) && len(want[i].Responses) == 0 {
			got.Inquiries[i].Responses = want[i].Responses // nil and empty are one
		}
	}
	if len(got.Inquiries) != len(want) || len(want) > 0 && !reflect.DeepEqual(got.Inquiries, want) {
		t.Fatalf("%+v:\n got %+v\nwant %+v", r, got.Inquiries, want)
	}
}

// Lists under every kind of filter are what Truth says, and each change shows in both of
// them, past the last pending inquiry, too. That all accounts' are is a test of the program.
func TestTruth(t *testing.T) {
	s, web := start(t, 7)
	if again, _ := start(t, 7); !slices.Equal(again.InternalIDs(), s.InternalIDs()) {
		t.Error("one seed gave other data")
	}
	client := newClient(t, web)
	for _, account := range []string{legacy.BuyerTypical, legacy.BuyerBusy, legacy.BuyerEmpty, "o'hara&sons", "nobody"} {
		for _, status := range []string{"", "pending", "closed", "unheard-of"} {
			for _, inquiryType := range []string{"", "product", "other"} {
				agree(t, client, s, upstream.Request{Kind: legacy.KindBuyer, Account: account, Status: status, InquiryType: inquiryType})
			}
		}
	}
	for _, account := range []string{legacy.BuyerTypical, legacy.BuyerEmpty} {
		for range 30 {
			before := s.Truth(legacy.KindBuyer, account, "", "")
			if !s.Answer(account) || reflect.DeepEqual(before, s.Truth(legacy.KindBuyer, account, "", "")) {
				t.Fatalf("%s has not changed", account)
			}
			agree(t, client, s, upstream.Request{Kind: legacy.KindBuyer, Account: account})
		}
	}
	for _, account := range append(s.Accounts(legacy.KindSeller), "nobody") {
		agree(t, client, s, upstream.Request{Kind: legacy.KindSeller, Account: account, InquiryType: "other"})
		agree(t, client, s, upstream.Request{Kind: legacy.KindSeller, Account: account})
	}
	if s.Answer("nobody") {
		t.Error("an unknown account has changed")
	}
}

// Lists change by themselves as often as they should, with the same changes for the same
// seed; after a year alone they catch up in bounded time.
func TestListsChangeByThemselves(t *testing.T) {
	changes := func(every time.Duration) (n int) {
		synctest.Test(t, func(*testing.T) {
			s := legacy.New(legacy.Options{ChangeEvery: every, Inquiries: 100})
			last := s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "", "")
			for range 1000 {
				time.Sleep(time.Second)
				list := s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "", "")
				if !reflect.DeepEqual(last, list) {
					n++
				}
				last = list
			}
			time.Sleep(365 * 24 * time.Hour)
			s.Truth(legacy.KindBuyer, legacy.BuyerTypical, "", "")
		})
		return n
	}
	if a, b, off := changes(20*time.Second), changes(20*time.Second), changes(0); a < 30 || a > 70 || a != b || off != 0 {
		t.Errorf("%d and %d changes in 1,000 s at one every 20 s, %d with changes off", a, b, off)
	}
}

// All UUIDs of a reply are known as internal ids, one of them is quoted from outside the
// filtered reply, and all markers are sent to somebody.
func TestWhatMustNotLeaveIsKnown(t *testing.T) {
	s, web := start(t, 0)
	if err := s.SetFault(legacy.Fault{Name: legacy.FaultStatus, Kind: legacy.KindSeller}); err != nil {
		t.Fatal(err)
	}
	busy := do(t, web, http.MethodGet, "/v2/tickets?state=N&customer="+legacy.BuyerBusy).body
	sent := busy + do(t, web, http.MethodGet, "/v2/vendors/hanriver/tickets").body + do(t, web, http.MethodGet, "/nothing").body
	s.ClearFaults("")
	if err := s.SetFault(legacy.Fault{Name: legacy.FaultHTML}); err != nil {
		t.Fatal(err)
	}
	sent += do(t, web, http.MethodGet, "/v2/tickets").body
	uuid := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	ids, quoted := s.InternalIDs(), false
	for _, id := range uuid.FindAllString(sent, -1) {
		if !slices.Contains(ids, id) {
			t.Fatalf("%s is in no list", id)
		}
		quoted = quoted || !strings.Contains(busy, `"uuid":"`+id) && strings.Contains(busy, "/t/"+id)
	}
	if !quoted {
		t.Error("no text quotes the id of a record that the filter has left out")
	}
	for _, m := range s.Markers() {
		if !strings.Contains(sent, m) {
			t.Errorf("marker %q is in no reply", m)
		}
	}
}

// The admin routes set each fault, which hits one account of one kind until it is cleared.
func TestFaults(t *testing.T) {
	_, web := start(t, 0)
	for query, hit := range map[string]func(answer) bool{
		"fault=delay&delay=1ms":   func(a answer) bool { return a.status == 200 && strings.Contains(a.body, `"total":24`) },
		"fault=status":            func(a answer) bool { return a.status == 500 },
		"fault=status&status=503": func(a answer) bool { return a.status == 503 },
		"fault=refuse":            func(a answer) bool { return a.err != nil && a.status == 0 },
		"fault=truncate":          func(a answer) bool { return a.err != nil && a.status == 200 },
		"fault=html":              func(a answer) bool { return strings.HasPrefix(a.media, "text/html") },
		"fault=garbage":           func(a answer) bool { return !json.Valid([]byte(a.body)) && a.media == "application/json" },
		"fault=wrong_owner": func(a answer) bool {
			return strings.Contains(a.body, `"total":25`) && strings.Contains(a.body, `"id":"globex"`)
		},
	} {
		do(t, web, http.MethodPut, "/admin/fault?kind=buyer&account=acme&"+query)
		web.Client().CloseIdleConnections() // on a used one, http.Transport repeats a refused request
		if a := do(t, web, http.MethodGet, "/v2/tickets?customer=acme"); !hit(a) {
			t.Errorf("%s: %+v", query, a)
		}
		for _, other := range []string{"/v2/tickets?customer=globex", "/v2/vendors/acme/tickets"} {
			if a := do(t, web, http.MethodGet, other); a.status != 200 {
				t.Errorf("%s: %s is hit as well: %+v", query, other, a)
			}
		}
		if a := do(t, web, http.MethodDelete, "/admin/fault"); !strings.HasSuffix(a.body, "[]\n") {
			t.Errorf("cleared: %+v", a)
		}
	}
}

func TestFaultsByRateAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacy.New(legacy.Options{Latency: 20 * time.Millisecond, Inquiries: 40})
		if err := s.SetFault(legacy.Fault{Name: legacy.FaultStatus, Rate: 0.3, Delay: time.Second}); err != nil {
			t.Fatal(err)
		}
		hits, begin := 0, time.Now()
		for range 100 {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v2/tickets?customer=acme", nil))
			hits += w.Code / 500
		}
		if took, want := time.Since(begin), 2*time.Second+time.Duration(hits)*time.Second; hits < 15 || hits > 45 || took != want {
			t.Errorf("%d of 100 requests hit at rate 0.3, in %s, not %s", hits, took, want)
		}
	})
}

// The admin routes and the page answer callers on this machine, and tell all mistakes at once.
func TestAdminRoutes(t *testing.T) {
	s := legacy.New(legacy.Options{Inquiries: 40})
	const wrong = "/admin/fault?fault=delay&kind=admin&rate=1.5&status=99&delay=-1s"
	for _, c := range []struct {
		from, method, path string
		status             int
		says               string
	}{
		{"127.0.0.1:1", "PUT", "/admin/fault?fault=nonsense", 400, "is none of [delay status"},
		{"127.0.0.1:1", "PUT", "/admin/fault?fault=delay&delay=soon", 400, "delay: time: invalid duration"},
		{"127.0.0.1:1", "PUT", wrong, 400, "neither buyer nor seller\nrate 1.5 is not between 0 and 1\ndelay cannot be negative\nstatus 99"},
		{"[::1]:1", "GET", "/admin/fault", 200, "[]"},
		{"127.0.0.1:1", "GET", "/", 200, "Heal"},
		{"127.0.0.1:1", "POST", "/", 404, "no such page"},
		{"127.0.0.1:1", "GET", "/admin/accounts", 200, `{"buyer":["acme",`},
		{"192.0.2.1:1", "GET", "/v2/tickets?customer=acme&state=X", 200, `"total":0`},
		{"[::ffff:127.0.0.1]:1", "GET", "/admin/stats", 200, `{"requests":{"buyer":1,"seller":0},"in_flight":0}`},
		{"192.0.2.1:1", "GET", "/admin/stats", 403, "loopback"},
		{"[2001:db8::1]:1", "PUT", "/admin/fault?fault=html", 403, "loopback"},
		{"192.0.2.1:1", "GET", "/", 404, "no such page"},
		{"@", "GET", "/admin/stats", 403, "loopback"},
	} {
		r, w := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil), httptest.NewRecorder()
		r.RemoteAddr = c.from
		if s.ServeHTTP(w, r); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s from %s: %d %s", c.method, c.path, c.from, w.Code, w.Body)
		}
	}
}
