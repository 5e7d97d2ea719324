package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"inquiry-gateway/upstream/legacy"
)

// sessions is a legacy system that wants its callers to sign in. It gives the tokens
// s1, s2 and so on, of which the last one is good.
type sessions struct {
	system *legacy.Server

	mu       sync.Mutex
	password string
	logins   int // that worked
	wrong    int // sign-ins that did not
	refused  int // requests without the good token
	good     string
	meet     *sync.WaitGroup // refused requests wait for each other; nil: they do not
}

func (s *sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/api/login" {
		s.login(w, r)
		return
	}
	s.mu.Lock()
	good, meet := s.good != "" && r.Header.Get("Authorization") == "Bearer "+s.good, s.meet
	if !good {
		s.refused++
	}
	s.mu.Unlock()
	if good {
		s.system.ServeHTTP(w, r)
		return
	}
	if meet != nil {
		meet.Done()
		meet.Wait()
	}
	http.Error(w, "the session has ended", http.StatusUnauthorized)
}

func (s *sessions) login(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var body struct{ User, Password string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.User != "gw" || body.Password != s.password {
		s.wrong++
		http.Error(w, s.password+" it is", http.StatusForbidden)
		return
	}
	s.logins++
	s.good = fmt.Sprintf("s%d-of-session", s.logins)
	fmt.Fprintf(w, `{"data":{"token":%q}}`, s.good)
}

// end ends the session. So many requests will be refused at the same moment.
func (s *sessions) end(together int, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.good, s.password, s.meet = "", password, nil
	if together > 0 {
		s.meet = &sync.WaitGroup{}
		s.meet.Add(together)
	}
}

func (s *sessions) counts() (logins, wrong, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins, s.wrong, s.refused
}

// One sign-in serves all callers; when the session ends, all requests that find it out
// together make one more, and no caller notices. With a wrong password callers get 502,
// never 401, and sign-ins stay few, until the password is right.
func TestSessionOfTheLegacy(t *testing.T) {
	s := &sessions{system: legacy.New(legacy.Options{}), password: "sesame-one"}
	section := `timeout: 2s
  max_concurrent_per_account: 64
  auth: {type: session, username: gw, password_file: password, login: {path: /api/login, body: {user: "{username}", password: "{password}"}}, token: data.token}`
	p := start(t, setup{backend: s, upstream: []string{"timeout: 2s", section}, prepare: func(p *program) { p.write("password", "sesame-one\n") }})
	lists := map[string][]string{
		"buyer": {buyerList, buyerList + "?status=pending", buyerList + "?status=answered", buyerList + "?status=closed"}, "other-buyer": {buyerList}, "seller": {sellerList},
	}
	// all asks for all lists at the same time, and none is cached.
	all := func(want int) {
		t.Helper()
		for _, kind := range []string{"buyer", "seller"} {
			commandSays(t, 0, "", "purge", "--ops", p.app.OpsURL(), "--kind", kind)
		}
		var group sync.WaitGroup
		for key, targets := range lists {
			for _, target := range targets {
				r := p.request(http.MethodGet, target, key)
				group.Go(func() {
					if a := p.do(r); a.status != want || a.header.Get("Www-Authenticate") != "" || bytes.Contains(a.body, []byte("session")) {
						t.Errorf("%s of %s: %d %.200s", target, key, a.status, a.body)
					}
				})
			}
		}
		group.Wait()
	}
	all(http.StatusOK)
	all(http.StatusOK)
	if logins, _, refused := s.counts(); logins != 1 || refused != 0 {
		t.Errorf("%d sign-ins, %d requests refused", logins, refused)
	}
	s.end(6, "sesame-one")
	all(http.StatusOK)
	if logins, _, refused := s.counts(); logins != 2 || refused != 6 {
		t.Errorf("when the session has ended: %d sign-ins, %d requests refused", logins, refused)
	}
	if a := p.get(buyerList, "buyer"); !bytes.Equal(a.body, truth(s.system, "buyer", legacy.BuyerTypical, "", "")) {
		t.Errorf("%d %.300s", a.status, a.body)
	}

	s.end(0, "sesame-two")
	for range 5 {
		all(http.StatusBadGateway)
	}
	if _, wrong, _ := s.counts(); wrong == 0 || wrong > 3 {
		t.Errorf("%d sign-ins with the wrong password", wrong)
	}
	p.write("password", "sesame-two\n")
	p.eventually("the right password is taken", func() bool { return p.get(buyerList, "buyer").status == http.StatusOK })
	seen := p.logs.String() + string(p.ops("/metrics").body) + string(p.ops("/ops/config").body)
	for _, secret := range []string{"sesame", "of-session"} {
		if strings.Contains(seen, secret) {
			t.Errorf("%s is in the log or on a page", secret)
		}
	}
}
