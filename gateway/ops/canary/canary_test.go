package canary

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a gateway: keys b1, b2, s1 and s2 have two records each. change spoils an answer.
type fake struct {
	lists  map[string]string // records by key
	change func(key string, r *http.Request, a *http.Response)
	err    error
	asked  int
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.asked++
	if f.err != nil {
		return nil, f.err
	}
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	records, known := f.lists[key]
	a := &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"X-Request-Id": {fmt.Sprintf("request-%d", f.asked)}}}
	body := `{"data":[` + records + `],"meta":{},"errors":[]}`
	sum := fnv.New64a()
	_, _ = io.WriteString(sum, body)
	tag := fmt.Sprintf(`W/"%x"`, sum.Sum64())
	switch {
	case !known:
		a.StatusCode, body = http.StatusUnauthorized, "{}"
	case !strings.HasPrefix(r.URL.Path, "/api/v1/"+map[byte]string{'b': "buyer", 's': "seller"}[key[0]]+"/"):
		a.StatusCode, body = http.StatusForbidden, "{}"
	default:
		a.Header.Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			a.StatusCode, body = http.StatusNotModified, ""
		}
	}
	a.Body = io.NopCloser(strings.NewReader(body))
	if f.change != nil {
		f.change(key, r, a)
	}
	return a, nil
}

// stand is a canary in front of a fake, in a bubble of its own time.
type stand struct {
	*Canary
	fake *fake
	log  *testkit.Log
}

func newStand(owner func(kind string, key Secret) (Owner, error)) *stand {
	s := &stand{log: &testkit.Log{}, fake: &fake{lists: map[string]string{}}}
	for _, key := range []string{"b1", "b2", "s1", "s2"} {
		s.fake.lists[key] = fmt.Sprintf(`{"title":"first of %s"},{"title":"second of %s"}`, key, key)
	}
	if owner == nil {
		owner = func(_ string, key Secret) (Owner, error) {
			return Owner{"account of " + string(key), "id-" + string(key)}, nil
		}
	}
	s.Canary = New(Options{
		Kinds: []Kind{
			{"buyer", []Key{{"canary.buyer_keys[0]", "b1"}, {"canary.buyer_keys[1]", "b2"}}},
			{"seller", []Key{{"canary.seller_keys[0]", "s1"}, {"canary.seller_keys[1]", "s2"}}},
		},
		Every: 30 * time.Second, Timeout: 6 * time.Second, Version: "v1",
		Owner:  func(_ context.Context, kind string, key Secret) (Owner, error) { return owner(kind, key) },
		Logger: slog.New(slog.NewJSONHandler(s.log, nil)), Registerer: prometheus.NewRegistry(),
	})
	return s
}

// rounds runs for a time that is long enough for n rounds and no more.
func (s *stand) rounds(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n-1)*34*time.Second+time.Second)
	defer cancel()
	s.run(ctx, "http://gateway.test", s.fake)
}

func (s *stand) counted(kind, check, result string) float64 {
	return testutil.ToFloat64(s.checks.WithLabelValues(kind, check, result))
}

// Each way to mix accounts up or to let strangers in is found, for its own reason, and
// nothing else is said to fail. Keys and records are in no log.
func TestWhatTheCanaryFinds(t *testing.T) {
	list := func(key string, change func(*http.Request, *http.Response)) func(string, *http.Request, *http.Response) {
		return func(got string, r *http.Request, a *http.Response) {
			if got == key {
				change(r, a)
			}
		}
	}
	body := func(a *http.Response, text string) { a.Body = io.NopCloser(strings.NewReader(text)) }
	open := func(_ *http.Request, a *http.Response) { a.StatusCode = http.StatusOK }
	oneAccount := func(string, Secret) (Owner, error) { return Owner{"acme", "k"}, nil }
	for name, c := range map[string]struct {
		lists         map[string]string
		change        func(string, *http.Request, *http.Response)
		owner         func(string, Secret) (Owner, error)
		err           error
		check, result string
		says          string
	}{
		"well":    {check: CrossRead, result: OK},
		"refused": {check: Access, result: OK},
		"a common record": {lists: map[string]string{"b2": `{"title":"own"},{"title":"second of b1"}`}, check: CrossRead, result: Failed,
			says: "records that are in the lists of both canary.buyer_keys[0] (key id-b1 of account account of b1) and canary.buyer_keys[1] (key id-b2 of account account of b2): 1; the first is record 2 of the one list, record 2 of the other"},
		"one tag": {change: func(_ string, _ *http.Request, a *http.Response) { a.Header.Set("ETag", `W/"same"`) }, check: CrossRead, result: Failed, says: "have one entity tag"},
		"the other's tag": {change: list("b2", func(r *http.Request, a *http.Response) {
			if r.Header.Get("If-None-Match") != "" {
				a.StatusCode = http.StatusNotModified
			}
		}), check: CrossRead, result: Failed, says: "gets 304 for the entity tag of the list of canary.buyer_keys[0]"},
		"open without a key": {change: list("", open), check: Access, result: Failed, says: "a request without a key is answered 200"},
		"open to an invented key": {change: func(key string, r *http.Request, a *http.Response) {
			if strings.HasPrefix(key, "canary-") {
				open(r, a)
			}
		}, check: Access, result: Failed, says: "a request with an invented key is answered 200"},
		"open to the other kind": {change: func(key string, r *http.Request, a *http.Response) {
			if key == "b1" && strings.Contains(r.URL.Path, "seller") {
				open(r, a)
			}
		}, check: Access, result: Failed, says: "a request with a key of the other kind is answered 200"},
		"no list of the other kind": {change: func(key string, r *http.Request, a *http.Response) {
			if key == "b1" && strings.Contains(r.URL.Path, "seller") {
				a.StatusCode = http.StatusNotFound
			}
		}, check: Access, result: OK},
		"an empty list":      {lists: map[string]string{"b2": ""}, check: CrossRead, result: Blind, says: "the list of canary.buyer_keys[1] (key id-b2 of account account of b2) is empty"},
		"no list":            {change: list("b1", func(_ *http.Request, a *http.Response) { body(a, "<html>") }), check: CrossRead, result: Blind, says: "gets what is no list"},
		"the legacy is away": {change: list("b1", func(_ *http.Request, a *http.Response) { a.StatusCode = http.StatusBadGateway }), check: CrossRead, result: Blind, says: "is answered 502"},
		"no connection":      {err: errors.New("connection refused"), check: CrossRead, result: Blind, says: "no answer: connection refused"},
		"and for strangers":  {err: errors.New("connection refused"), check: Access, result: Blind, says: "a request without a key: no answer"},
		"one account":        {owner: oneAccount, check: CrossRead, result: Blind, says: "is of the same account as canary.buyer_keys[0]"},
		"a key that is no good": {owner: func(string, Secret) (Owner, error) { return Owner{}, errors.New("it has expired") }, check: CrossRead, result: Blind,
			says: "canary.buyer_keys[0]: it has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand(c.owner)
				for key, records := range c.lists {
					s.fake.lists[key] = records
				}
				s.fake.change, s.fake.err = c.change, c.err
				s.rounds(t, 1)
				for _, r := range s.Last() {
					switch {
					case r.At.Location() != time.UTC:
						t.Errorf("its time is %v", r.At)
					case r.Kind != "buyer":
					case r.Check == c.check && (r.Result != c.result || !strings.Contains(strings.Join(r.Reasons, "\n"), c.says)):
						t.Errorf("%+v, want %s: %s", r, c.result, c.says)
					case r.Check != c.check && r.Result == Failed:
						t.Errorf("failed too: %+v", r)
					}
				}
				if n := s.counted("buyer", c.check, c.result); n != 1 {
					t.Errorf("counted %v times", n)
				}
				log, event := s.log.String(), `"security":{"event":"canary_`+c.check+`","kind":"buyer"`
				if strings.Contains(log, event) != (c.result == Failed) || (log == "") != (c.result == OK) || c.result == Failed && !strings.Contains(log, `"request_ids":["request-`) {
					t.Errorf("logged %s", log)
				}
				for _, secret := range []string{"Bearer", string(s.invented), "first of", "second of"} {
					if strings.Contains(log, secret) {
						t.Errorf("%q is in %s", secret, log)
					}
				}
			})
		})
	}
}

// Rounds come by the clock, a little spread. What finds nothing out is logged when it
// begins and when it is over; a round that is cut off does not count.
func TestRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(nil)
		s.rounds(t, 19)
		if n := s.counted("seller", CrossRead, OK); n < 18 || n > 23 {
			t.Errorf("%v rounds in ten minutes", n)
		}
		// Of each kind two lists, each with the tag of the other, and three that are refused.
		if asked := float64(s.fake.asked); asked != 7*(s.counted("seller", CrossRead, OK)+s.counted("buyer", CrossRead, OK)) {
			t.Errorf("%v requests in all", asked)
		}
		if refused := testutil.ToFloat64(s.refused); refused != 2*(s.counted("seller", Access, OK)+s.counted("buyer", Access, OK)) {
			t.Errorf("%v requests without a good key are said to have been made", refused)
		}
		if at := testutil.ToFloat64(s.ended.WithLabelValues("seller")); time.Since(time.UnixMilli(int64(at*1000))) > 35*time.Second {
			t.Errorf("the last round is said to have been at %v", at)
		}
		s.fake.err = errors.New("away")
		s.rounds(t, 3)
		s.fake.err = nil
		s.rounds(t, 1)
		if n := strings.Count(s.log.String(), "\n"); n != 8 { // 2 kinds, 2 checks, twice
			t.Errorf("%d records: %s", n, s.log)
		}
		before, ctx, cancel := s.counted("buyer", Access, Blind), t.Context(), func() {}
		ctx, cancel = context.WithCancel(ctx)
		s.fake.change = func(string, *http.Request, *http.Response) { cancel() }
		s.run(ctx, "http://gateway.test", s.fake)
		if s.counted("buyer", Access, Blind) != before {
			t.Error("a round that was cut off is counted")
		}
	})
}

// The keys go to whoever shows the gateway's own certificate, and to nobody else.
func TestOnlyTheListenerItselfIsAsked(t *testing.T) {
	asked := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	server.StartTLS()
	defer server.Close()
	own := server.Certificate().Raw
	other := append([]byte(nil), own...)
	other[len(other)-1] ^= 1
	for _, certificate := range [][]byte{own, other} {
		url, transport := dial(server.Listener.Addr(), certificate)
		resp, err := (&http.Client{Transport: transport}).Get(url)
		if good := &certificate[0] == &own[0]; (err == nil) != good || !good && !errors.Is(err, errOtherCertificate) || asked != 1 {
			t.Errorf("its own certificate: %t; %v, asked %d times", good, err, asked)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
		transport.CloseIdleConnections()
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	key := Key{"canary.buyer_keys[0]", "hunter2"}
	if all := fmt.Sprintf("%v %+v %#v %s %q", key, key, key, key.Secret, key.Secret); strings.Contains(all, "hunter2") {
		t.Error(all)
	}
}
