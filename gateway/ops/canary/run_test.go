package canary

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	v1 "inquiry-gateway/gateway/v1"
	openapi "inquiry-gateway/gateway/v1/contract"
)

// Rounds come by the clock, a little spread, until the context ends.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		s.Run(ctx, Target{URL: "http://gateway.test", Transport: s.fake})
		const least, most = 18, 23 // of 30 s up to a tenth more or less
		for _, kind := range []string{"buyer", "seller"} {
			if n := s.counted(kind, "cross_read", "ok"); n < least || n > most {
				t.Errorf("%v rounds of %s lists in ten minutes", n, kind)
			}
		}
		if at := s.lastRound("seller"); time.Since(at) > 33*time.Second {
			t.Errorf("the last round is said to have been at %v", at)
		}
	})
}

// A round that is cut off has found nothing out and does not count.
func TestRunThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		s.fake.change = func(*http.Request, *fakeAnswer) {
			if s.fake.answers == 3 {
				cancel()
			}
		}
		s.Run(ctx, Target{URL: "http://gateway.test", Transport: s.fake})
		for _, result := range resultNames {
			if n := s.counted("buyer", "contract", result); n > 0 {
				t.Errorf("counted as %s", result)
			}
		}
		if s.log.Len() > 0 {
			t.Errorf("logged %s", s.log)
		}
	})
}

// slow never answers.
type slow struct{}

func (slow) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		s.Run(ctx, Target{URL: "http://gateway.test", Transport: slow{}})
		if n := s.counted("buyer", "cross_read", "unavailable"); n != 1 { // 5 times 6 s for each kind
			t.Errorf("unavailable %v times", n)
		}
		if !strings.Contains(s.log.String(), "no answer: context deadline exceeded") {
			t.Errorf("logged %s", s.log)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	good := newStand(t, nil).opts
	for name, corrupt := range map[string]func(*Options){
		"no owner":     func(o *Options) { o.Owner = nil },
		"no time":      func(o *Options) { o.Every = 0 },
		"no timeout":   func(o *Options) { o.Timeout = 0 },
		"one key":      func(o *Options) { o.Kinds = []Kind{{Name: "buyer", Keys: o.Kinds[0].Keys[:1]}} },
		"another kind": func(o *Options) { o.Kinds = []Kind{{Name: "admin", Keys: o.Kinds[0].Keys}} },
	} {
		o := good
		o.Registerer = prometheus.NewRegistry()
		corrupt(&o)
		if c, err := New(o); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestKindsThatAreOffHaveNoSeries(t *testing.T) {
	s := newStand(t, func(o *Options) { o.Kinds = o.Kinds[:1] })
	for name, want := range map[string]int{"checks_total": len(checkNames)*3 + 1, "last_round_timestamp_seconds": 1} { // "empty" for one check alone
		if n, err := testutil.GatherAndCount(s.registry, "inquiry_gateway_canary_"+name); err != nil || n != want {
			t.Errorf("%s has %d series, want %d, %v", name, n, want, err)
		}
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	key := Key{"canary.buyer_keys[0]", "hunter2"}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", key, "secret", key.Secret)
	if all := fmt.Sprintf("%v %+v %#v %s %q", key, key, key, key.Secret, key.Secret) + log.String(); strings.Contains(all, "hunter2") {
		t.Error(all)
	}
}

// The codes were written down a second time on purpose; they are those of the
// public catalogue.
func TestCodesAreThoseOfTheContract(t *testing.T) {
	asked := []int{401, 403, 429, 502, 503, 504} // statuses that a canary may meet
	for _, p := range v1.Problems() {
		if slices.Contains(asked, p.Status) != slices.Contains(codes(p.Status), p.Code) {
			t.Errorf("%d %s", p.Status, p.Code)
		}
	}
	for _, status := range asked {
		for _, code := range codes(status) {
			if !slices.ContainsFunc(v1.Problems(), func(p v1.Problem) bool { return p.Status == status && p.Code == code }) {
				t.Errorf("%d %s is no code of the contract", status, code)
			}
		}
	}
}

// What the canary accepts is what the OpenAPI document says: the fake's answers,
// which it finds good, are good by the document too.
func TestRulesAreThoseOfTheContract(t *testing.T) {
	checker, err := openapi.New()
	if err != nil {
		t.Fatal(err)
	}
	s := newStand(t, nil)
	as := caller{url: "http://gateway.test", agent: "x"}
	check := func(q question) *http.Response {
		r, err := as.request(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.fake.RoundTrip(r)
		if err == nil {
			err = checker.Check(r, res)
		}
		if err != nil {
			t.Error(err)
		}
		return res
	}
	for _, q := range []question{
		{list: "buyer", key: "b1"}, {list: "buyer", key: "b1", gzip: true}, {list: "seller", key: "s1", status: "pending"},
		{list: "buyer"}, {list: "buyer", key: s.invented}, {list: "seller", key: "b1"},
	} {
		if tag := check(q).Header.Get("Etag"); tag != "" {
			q.tags = []string{tag}
			check(q)
		}
	}
}
