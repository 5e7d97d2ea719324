package upstream

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/internal/sample"
)

// sessionLegacy wants its callers to sign in. It gives the tokens s1, s2 and so on,
// of which the last one is good.
type sessionLegacy struct {
	logins  atomic.Int64
	lists   atomic.Int64
	refuses atomic.Bool     // every sign-in
	ended   atomic.Bool     // the session
	status  atomic.Int64    // to a token that is not good
	form    string          // how the token comes and goes: bearer, header, cookie, basic
	meet    *sync.WaitGroup // refused requests wait for each other
	mu      sync.Mutex
	sent    []string // of each login
}

func (l *sessionLegacy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/login" {
		l.login(w, r)
		return
	}
	l.lists.Add(1)
	got := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch l.form {
	case "header":
		got = r.Header.Get("X-Session")
	case "cookie":
		got = strings.TrimPrefix(r.Header.Get("Cookie"), "SID=")
	}
	if l.ended.Load() || got != fmt.Sprintf("s%d", l.logins.Load()) {
		if l.meet != nil {
			l.meet.Done()
			l.meet.Wait()
		}
		status(int(l.status.Load()))(w, r)
		return
	}
	serveJSON(`{"result":{"items":[`+sample.Ticket+`]}}`)(w, r)
}

func (l *sessionLegacy) login(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	user, password, _ := r.BasicAuth()
	l.mu.Lock()
	l.sent = append(l.sent, r.Method+" "+string(body)+user+":"+password)
	l.mu.Unlock()
	n := l.logins.Add(1)
	if l.refuses.Load() {
		http.Error(w, `wrong password p"w for gw`, http.StatusForbidden)
		return
	}
	l.ended.Store(false)
	text := fmt.Sprintf("s%d", n)
	switch l.form {
	case "header":
		w.Header().Set("X-Session", text)
	case "cookie":
		w.Header().Add("Set-Cookie", "tracking=1")
		w.Header().Add("Set-Cookie", "SID="+text+"; Path=/; HttpOnly")
		http.Redirect(w, r, "/home", http.StatusFound)
	default:
		fmt.Fprintf(w, `{"data":{"token":%q}}`, text)
	}
}

// sessionAuth are the forms of signing in.
var sessionAuth = map[string]string{
	"bearer": `{type: session, username: gw, password_file: f, login: {path: /login, body: {user: "{username}", password: "{password}"}}, token: data.token}`,
	"basic":  `{type: session, username_file: f, password_file: f, login: {path: /login, basic: true}, token: data.token}`,
	"header": `{type: session, password_file: f, login: {path: /login, body: {key: "{password}"}}, token_header: x-session}`,
	"cookie": `{type: session, username: gw, password_file: f, login: {path: /login, body_type: form, body: {j_username: "{username}", j_password: "{password}"}}, token_cookie: SID, renew_on: [401, 302], ttl: 1h}`,
}

func sessionFixture(t testing.TB, clock *testkit.Clock, l *sessionLegacy, form string) *fixture {
	t.Helper()
	l.form = form
	l.status.CompareAndSwap(0, 401)
	return newFixtureAt(t, clock, l.ServeHTTP, func(c *Config) {
		c.Auth = configFrom(t, sample.YAML+"auth: "+sessionAuth[form]+"\n").Auth
		c.Auth.PasswordFile = secret("p\"w\n")
		if c.Auth.UsernameFile.Set() {
			c.Auth.UsernameFile = secret("gw\n")
		}
		c.MaxConcurrent, c.MaxConcurrentPerAccount = 200, 200
	})
}

func TestSession(t *testing.T) {
	for form, sent := range map[string]string{
		"bearer": `POST {"password":"p\"w","user":"gw"}:`, "basic": `POST gw:p"w`, "header": `POST {"key":"p\"w"}:`,
		"cookie": `POST j_password=p%22w&j_username=gw:`,
	} {
		l := &sessionLegacy{}
		f := sessionFixture(t, nil, l, form)
		for range 3 {
			if list, err := f.Fetch(t.Context(), acme); err != nil || len(list.Inquiries) != 1 {
				t.Fatalf("%s: %v", form, err)
			}
		}
		if l.logins.Load() != 1 || l.sent[0] != sent || l.lists.Load() != 3 {
			t.Errorf("%s: %d sign-ins, %q", form, l.logins.Load(), l.sent)
		}
		l.ended.Store(true)
		if _, err := f.Fetch(t.Context(), acme); err != nil || l.logins.Load() != 2 || l.lists.Load() != 5 {
			t.Errorf("%s, when the session has ended: %v, %d sign-ins, %d requests", form, err, l.logins.Load(), l.lists.Load())
		}
		if f.metric(t, "sign_ins_total", "ok") != 2 || strings.Contains(f.log.String(), "p\\\"w") {
			t.Errorf("%s: %v sign-ins counted", form, f.metric(t, "sign_ins_total", "ok"))
		}
	}
}

// A hundred requests that are refused with the same token are one sign-in.
func TestRefusedTogetherIsOneSignIn(t *testing.T) {
	l := &sessionLegacy{}
	f := sessionFixture(t, nil, l, "bearer")
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	l.ended.Store(true)
	l.meet = &sync.WaitGroup{}
	l.meet.Add(100)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if _, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "acme", RequestID: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if l.logins.Load() != 2 || l.lists.Load() != 201 {
		t.Errorf("%d sign-ins, %d requests", l.logins.Load(), l.lists.Load())
	}
}

// A sign-in that fails is the legacy's failure. It is tried again after 1 s, 2 s and
// so on, and its text has nothing of what was sent or came.
func TestSignInFails(t *testing.T) {
	clock := testkit.NewClock(time.Now())
	l := &sessionLegacy{}
	l.refuses.Store(true)
	f := sessionFixture(t, clock, l, "bearer")
	for _, step := range []struct {
		wait time.Duration
		want int64
	}{{0, 1}, {0, 1}, {999 * time.Millisecond, 1}, {time.Millisecond, 2}, {time.Second, 2}, {time.Second, 3}, {4 * time.Second, 4}, {time.Hour, 5}, {time.Hour, 6}} {
		clock.Add(step.wait)
		e := failed(t, f, t.Context(), "upstream", "auth")
		if l.logins.Load() != step.want || strings.Contains(e.Error(), "p\"w") || !strings.Contains(e.Error(), "403") {
			t.Errorf("after %v: %d sign-ins, want %d, %v", step.wait, l.logins.Load(), step.want, e)
		}
	}
	if f.calls.Load() != l.logins.Load() || f.BreakerState("buyer") != "closed" || f.metric(t, "sign_ins_total", "error") != 6 {
		t.Errorf("%d requests, breaker %s", f.calls.Load(), f.BreakerState("buyer"))
	}
	l.refuses.Store(false)
	clock.Add(time.Minute)
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Error(err)
	}
}

// An account that the legacy refuses for good, whatever the token, costs the others
// nothing: neither the token nor the sign-ins.
func TestOneAccountsRefusalSignsNobodyOut(t *testing.T) {
	var logins atomic.Int64
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/login":
			serveJSON(fmt.Sprintf(`{"data":{"token":"s%d"}}`, logins.Add(1)))(w, r)
		case r.URL.Query().Get("customer") == "locked":
			status(401)(w, r)
		default:
			serveJSON(`{"result":{"items":[`+sample.Ticket+`]}}`)(w, r)
		}
	}, func(c *Config) {
		c.Auth = configFrom(t, sample.YAML+"auth: "+sessionAuth["bearer"]+"\n").Auth
		c.Auth.PasswordFile = secret("pw")
	})
	for i := range 40 {
		_, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: "locked"})
		if e := asError(err); err == nil || e.Reason != "status_4xx" {
			t.Fatalf("fetch %d of the locked account: %v", i, err)
		}
		if _, err := f.Fetch(t.Context(), acme); err != nil {
			t.Fatalf("after %d fetches of the locked account: %v", i+1, err)
		}
	}
	if n := logins.Load(); n > 1+renewBurst {
		t.Errorf("%d sign-ins", n)
	}
}

// An account that the legacy refuses for good leaves a sign-in for the end of the
// session, so that the others do not wait until there may be another one.
func TestOneAccountsRefusalLeavesASignIn(t *testing.T) {
	var logins, ended atomic.Int64 // ended: the last session that is good no more
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		var session int64
		_, _ = fmt.Sscanf(r.Header.Get("Authorization"), "Bearer s%d", &session)
		switch {
		case r.URL.Path == "/login":
			serveJSON(fmt.Sprintf(`{"data":{"token":"s%d"}}`, logins.Add(1)))(w, r)
		case r.URL.Query().Get("customer") == "locked", session <= ended.Load():
			status(401)(w, r)
		default:
			serveJSON(`{"result":{"items":[`+sample.Ticket+`]}}`)(w, r)
		}
	}, func(c *Config) {
		c.Auth = configFrom(t, sample.YAML+"auth: "+sessionAuth["bearer"]+"\n").Auth
		c.Auth.PasswordFile = secret("pw")
	})
	locked := func() {
		for range 2 * renewBurst {
			_, _ = f.Fetch(t.Context(), Request{Kind: "buyer", Account: "locked"})
		}
	}
	locked()
	ended.Store(logins.Load())
	locked()
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Errorf("after the end of the session, with %d sign-ins: %v", logins.Load(), err)
	}
}

// While a new token is asked for because one account was refused, the others go on
// with the one that is there.
func TestOthersDoNotWaitForASignIn(t *testing.T) {
	var logins atomic.Int64
	hold := make(chan struct{})
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/login":
			if logins.Add(1) > 1 {
				<-hold
			}
			serveJSON(`{"data":{"token":"s"}}`)(w, r)
		case r.URL.Query().Get("customer") == "locked":
			status(401)(w, r)
		default:
			serveJSON(`{"result":{"items":[]}}`)(w, r)
		}
	}, func(c *Config) {
		c.Auth = configFrom(t, sample.YAML+"auth: "+sessionAuth["bearer"]+"\n").Auth
		c.Auth.PasswordFile = secret("pw")
	})
	var locked sync.WaitGroup
	locked.Go(func() { _, _ = f.Fetch(t.Context(), Request{Kind: "buyer", Account: "locked"}) })
	waitFor(t, func() bool { return logins.Load() == 2 })
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Error(err)
	}
	close(hold)
	locked.Wait()
}

// A legacy that refuses each token at once gets a bounded number of sign-ins.
func TestSignInsAreBounded(t *testing.T) {
	clock := testkit.NewClock(time.Now())
	l := &sessionLegacy{}
	l.status.Store(403)
	f := sessionFixture(t, clock, l, "bearer")
	failing := func() {
		l.ended.Store(true)
		_, _ = f.Fetch(t.Context(), acme)
	}
	failing()
	if l.logins.Load() != 1 {
		t.Errorf("%d sign-ins: 403 ends no session here", l.logins.Load())
	}
	l.status.Store(401)
	for range 50 {
		failing()
	}
	if got := l.logins.Load(); got != 1+renewBurst || f.metric(t, "sign_ins_total", "held") == 0 {
		t.Errorf("%d sign-ins", got)
	}
	clock.Add(renewEvery)
	failing()
	failing()
	if got := l.logins.Load(); got != 2+renewBurst {
		t.Errorf("%d sign-ins", got)
	}
}

func TestSessionHasItsTime(t *testing.T) {
	clock := testkit.NewClock(time.Now())
	l := &sessionLegacy{}
	f := sessionFixture(t, clock, l, "cookie")
	for i, wait := range []time.Duration{0, 59 * time.Minute, 2 * time.Minute} {
		clock.Add(wait)
		if _, err := f.Fetch(t.Context(), acme); err != nil || l.logins.Load() != int64(1+i/2) {
			t.Errorf("%d: %v, %d sign-ins", i, err, l.logins.Load())
		}
	}
}

func TestLoginRepliesThatHaveNoToken(t *testing.T) {
	for _, tc := range []struct {
		form string
		say  func(http.ResponseWriter, *http.Request)
	}{
		{"bearer", serveJSON(`{"data":{}}`)}, {"bearer", serveJSON(`{"data":{"token":{}}}`)}, {"bearer", serveJSON(`{"data":{"token":"a`)},
		{"bearer", serveJSON(`{"data":{"token":"a\nb"}}`)}, {"bearer", status(302)}, {"header", serveJSON(`{}`)}, {"cookie", serveJSON(`{}`)},
		{"bearer", serveJSON(`{"data":{"token":"` + strings.Repeat("x", maxLoginBytes) + `"}}`)},
		{"cookie", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", "OTHER=1") }},
		{"bearer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		f := newFixture(t, tc.say, func(c *Config) {
			c.Auth = configFrom(t, sample.YAML+"auth: "+sessionAuth[tc.form]+"\n").Auth
			c.Auth.PasswordFile = secret("pw")
		})
		failed(t, f, t.Context(), "upstream", "auth")
	}
}

func TestSessionConfig(t *testing.T) {
	for auth, where := range map[string]string{
		"{type: session, password_file: f}":                                                                                          "auth.login",
		"{type: session, password_file: f, token: t, login: {path: login, body: '{password}'}}":                                      "auth.login.path",
		"{type: session, password_file: f, token: t, login: {path: /login}}":                                                         "auth.login.body",
		"{type: session, password_file: f, token: t, login: {path: /login, basic: true}}":                                            "auth.username",
		"{type: session, password_file: f, token: t, login: {path: /login, body: ['{password}', '{account}']}}":                      "auth.login.body[1]",
		"{type: session, password_file: f, token: t, username: u, login: {path: /login, body: ['{password}'], basic: true}}":         "auth.login.basic",
		"{type: session, password_file: f, token: t, token_cookie: c, login: {path: /login, body: ['{password}']}}":                  "auth.token",
		"{type: session, password_file: f, login: {path: /login, body: ['{password}']}}":                                             "auth.token",
		"{type: session, password_file: f, token: t, send_as: header, login: {path: /login, body: ['{password}']}}":                  "auth.header",
		"{type: session, password_file: f, token: t, send_as: cookie, login: {path: /login, body: ['{password}']}}":                  "auth.cookie",
		"{type: session, password_file: f, token: t, send_as: query, login: {path: /login, body: ['{password}']}}":                   "auth.send_as",
		"{type: session, password_file: f, token: t, cookie: a, login: {path: /login, body: ['{password}']}}":                        "auth.cookie",
		"{type: session, password_file: f, token: t, renew_if: [{path: a}], login: {path: /login, body: ['{password}']}}":            "auth.renew_if[0]",
		"{type: session, password_file: f, token: t, login: {expect: [{equals: a}], path: /login, body: ['{password}']}}":            "auth.login.expect[0].path",
		"{type: session, password_file: f, token: t, renew_on: [200], login: {path: /login, body: ['{password}']}}":                  "auth.renew_on[0]",
		"{type: session, password_file: f, token: t, login: {base_url: sso, path: /login, body: ['{password}']}}":                    "auth.login.base_url",
		"{type: session, password_file: f, token: t, login: {headers: {Cookie: a}, path: /login, body: ['{password}']}}":             "auth.login.headers.Cookie",
		"{type: bearer, token_file: f, login: {path: /login}}":                                                                       "auth.login",
		"{type: session, password_file: f, token: t, login: {body_type: yaml, path: /login, body: ['{password}']}, token_header: x}": "auth.login.body_type",
	} {
		if found := wrongIn(t, sample.YAML+"auth: "+auth+"\n"); found[where] == "" {
			t.Errorf("%s: %v", auth, found)
		}
	}
	for form, auth := range sessionAuth {
		if found := wrongIn(t, sample.YAML+"auth: "+auth+"\n"); len(found) > 0 {
			t.Errorf("%s: %v", form, found)
		}
	}
}

// A legacy may say with status 200 that a session has ended, and that a sign-in failed.
func TestSessionsThatEndWith200(t *testing.T) {
	var logins, ended, wrong atomic.Int64
	f := newFixtureAt(t, testkit.NewClock(time.Now()), func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/login" && wrong.Load() > 0:
			serveJSON(`{"code":"E01","data":{"token":"none"}}`)(w, r)
		case r.URL.Path == "/login":
			serveJSON(fmt.Sprintf(`{"code":"OK","data":{"token":"s%d"}}`, logins.Add(1)))(w, r)
		case r.Header.Get("Authorization") == fmt.Sprintf("Bearer s%d", ended.Load()+1):
			serveJSON(`{"result":{"items":[]}}`)(w, r)
		default:
			serveJSON(`{"code":"EXPIRED"}`)(w, r)
		}
	}, func(c *Config) {
		c.Auth = configFrom(t, sample.YAML+`auth: {type: session, username: gw, password_file: f, token: data.token, renew_if: [{path: code, equals: EXPIRED}],
  login: {path: /login, body: {user: "{username}", password: "{password}"}, expect: [{path: code, equals: OK}]}}
`).Auth
		c.Auth.PasswordFile = secret("pw")
	})
	fetched := func(want int64) {
		t.Helper()
		if _, err := f.Fetch(t.Context(), acme); err != nil || logins.Load() != want {
			t.Errorf("%v after %d sign-ins, want %d", err, logins.Load(), want)
		}
	}
	fetched(1)
	fetched(1)
	ended.Store(1)
	fetched(2)
	ended.Store(5) // whatever the token
	failed(t, f, t.Context(), "upstream", "auth")
	wrong.Store(1)
	if e := failed(t, f, t.Context(), "upstream", "auth"); !strings.Contains(e.Error(), "auth.login.expect[0]") {
		t.Error(e)
	}
}
