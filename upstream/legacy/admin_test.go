package legacy_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/upstream/legacy"
)

func TestAdminRoutes(t *testing.T) {
	s, web := start(t, legacy.Options{Inquiries: 100})
	for _, c := range []struct {
		method, path string
		status       int
		says         string
	}{
		{"PUT", "/admin/fault?fault=status&kind=buyer&account=acme&status=503&rate=0.25&count=3&delay=5ms", 200, `"account":"acme"`},
		{"PUT", "/admin/fault?fault=huge&size=7&kind=seller", 200, `"size":7`},
		{"GET", "/admin/fault", 200, `"fault":"huge"`},
		{"PUT", "/admin/fault?fault=nonsense", 400, "is none of delay, status"},
		{"PUT", "/admin/fault?fault=delay&delay=soon&rate=x", 400, "delay: time: invalid duration"},
		{"DELETE", "/admin/fault?kind=buyer", 200, `[{"fault":"huge"`},
		{"DELETE", "/admin/fault", 200, "[]"},
		{"PUT", "/admin/latency?delay=1ms", 200, `"delay":"1ms"`},
		{"PUT", "/admin/latency", 400, "delay: "},
		{"PUT", "/admin/changes?every=-1s", 400, "negative"},
		{"PUT", "/admin/changes?every=0s", 200, `"every":"0s"`},
		{"POST", "/admin/answer?account=acme", 200, `"changed":"acme"`},
		{"POST", "/admin/ask?account=nobody", 400, `no buyer "nobody"`},
		{"GET", "/", 200, "Heal"},
		{"POST", "/", 404, "no such page"},
		{"GET", "/admin/accounts", 200, `{"kind":"buyer","account":"acme","inquiries":24}`},
		{"GET", "/admin/stats", 200, `"requests":{"buyer":0,"seller":0,"login":0,"other":1}`},
	} {
		a := do(t, web, c.method, c.path)
		if a.status != c.status || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	if left := s.Faults(); len(left) != 0 {
		t.Errorf("in force: %+v", left)
	}
}

func TestAdminSetsTheWholeFault(t *testing.T) {
	s, web := start(t, legacy.Options{Inquiries: 100})
	want := legacy.Fault{
		Name: legacy.FaultStatus, Kind: legacy.KindSeller, Rate: 0.5, Count: 9, Delay: time.Second, Code: 502, Size: 20_000, RetryAfter: 2,
	}
	a := do(t, web, http.MethodPut, "/admin/fault?fault=status&kind=seller&status=502&rate=0.5&count=9&delay=1s&retry_after=2")
	var shown []legacy.Fault
	if err := json.Unmarshal(a.body, &shown); err != nil {
		t.Fatal(err)
	}
	if got := s.Faults(); len(got) != 1 || got[0] != want || shown[0] != want {
		t.Errorf("set %+v, shown %+v, want %+v", got, shown, want)
	}
}

func TestAdminAnswersThisMachineOnly(t *testing.T) {
	s := legacy.New(legacy.Options{Inquiries: 40})
	for from, want := range map[string]int{
		"127.0.0.1:1": 200, "[::1]:1": 200, "[::ffff:127.0.0.1]:1": 200, "192.0.2.1:1": 403, "[2001:db8::1]:1": 403, "@": 403,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/stats", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("from %s: %d, want %d", from, w.Code, want)
		}
	}
}
