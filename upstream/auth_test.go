package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/testkit"
)

func secret(text string) secretfile.File { return secretfile.New("secret", text) }

func TestCredentials(t *testing.T) {
	for _, tc := range []struct {
		auth         AuthConfig
		header, want string
	}{
		{AuthConfig{Type: "none"}, "Authorization", ""},
		{AuthConfig{Type: "basic", User: secretfile.User{Username: "gw", PasswordFile: secret("s3cr3t\n")}}, "Authorization", "Basic Z3c6czNjcjN0"},
		{AuthConfig{Type: "basic", User: secretfile.User{UsernameFile: secret("gw\n"), PasswordFile: secret("s3cr3t\n")}}, "Authorization", "Basic Z3c6czNjcjN0"},
		{AuthConfig{Type: "basic", User: secretfile.User{Username: "gw"}}, "Authorization", "Basic Z3c6"},
		{AuthConfig{Type: "bearer", TokenFile: secret("s3cr3t\n")}, "Authorization", "Bearer s3cr3t"},
		{AuthConfig{Type: "header", Name: "X-Api-Key", TokenFile: secret("s3cr3t\n")}, "X-Api-Key", "s3cr3t"},
	} {
		var got string
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get(tc.header)
			serveJSON(emptyList)(w, r)
		}, func(c *Config) { c.Auth = tc.auth })
		if _, err := f.Fetch(t.Context(), acme); err != nil || got != tc.want || f.logged("s3cr3t") > 0 {
			t.Errorf("%s: sent %q %v, want %q", tc.auth.Type, got, err, tc.want)
		}
	}
}

// A client that takes the place of another sends the secret that the file holds
// then, and goes on with the connections where nothing has changed.
func TestAnotherSecretIsSentByTheNextClient(t *testing.T) {
	var got string
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		serveJSON(emptyList)(w, r)
	}, func(c *Config) { c.Auth = AuthConfig{Type: "bearer", TokenFile: secret("old")} })
	for text, same := range map[string]bool{"old": true, "new": false} {
		cfg := f.cfg
		cfg.Auth.TokenFile = secret(text)
		next, err := New(cfg, Options{Before: f.Client})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := next.Fetch(t.Context(), acme); err != nil || got != "Bearer "+text || f.GoesOnIn(next) != same {
			t.Errorf("%s: sent %q %v, the same connections: %t", text, got, err, f.GoesOnIn(next))
		}
		if !same {
			next.Close()
		}
	}
}

// What a file holds is known when the client is made.
func TestFilesOfSecrets(t *testing.T) {
	basic := func(u secretfile.User) AuthConfig {
		u.PasswordFile = secret("pw")
		return AuthConfig{Type: "basic", User: u}
	}
	for _, tc := range []struct {
		auth      AuthConfig
		key, says string
	}{
		{AuthConfig{Type: "bearer", TokenFile: secret("")}, "auth.token_file", "empty"},
		{AuthConfig{Type: "bearer", TokenFile: secret(" \n")}, "auth.token_file", "empty"},
		{AuthConfig{Type: "bearer", TokenFile: secret("a\nb")}, "auth.token_file", "more than one line"},
		{AuthConfig{Type: "bearer", TokenFile: secret("a\x00b")}, "auth.token_file", "more than one line"},
		{basic(secretfile.User{Username: "gw", UsernameFile: secret("gw")}), "auth.username_file", "username is set, too"},
		{basic(secretfile.User{UsernameFile: secret("gw\nx")}), "auth.username_file", "the file holds more than one line"},
		{basic(secretfile.User{UsernameFile: secret("\n")}), "auth.username_file", "the file is empty"},
	} {
		c := configFrom(t, testkit.SampleYAML)
		c.Auth = tc.auth
		_, err := New(c, Options{})
		var mistake *invalid.Error
		if !errors.As(err, &mistake) || mistake.Field() != tc.key || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: got %v", tc.auth, err)
		}
	}
}

func TestAuthConfig(t *testing.T) {
	login := func(keys string) string {
		return "{type: session, password_file: f, token: t, login: {path: /login, body: ['{password}']}, " + keys + "}"
	}
	for auth, where := range map[string]string{
		"{type: digest}": "auth.type", "{type: basic, password_file: f}": "auth.username", "{type: bearer, token_file: f, username: a}": "auth.username",
		"{type: header, name: \"a b\", token_file: f}": "auth.name", "{username: a}": "auth.username", "{type: none, username_file: f}": "auth.username_file",
		"{type: oauth2_client_credentials, token_url: legacy, client_id: a, client_secret_file: f}": "auth.token_url",
		"{type: oauth2_client_credentials, client_id: a, client_secret_file: f, params: {x: y}}":    "auth.token_url",
		"{type: bearer, token_file: f, login: {path: /login}}":                                      "auth.login",
		"{type: session, username: u, token: t, login: {path: /login, basic: true}}":                "auth.password_file",
		"{type: session, password_file: f}":                                                         "auth.login",
		"{type: session, password_file: f, token: t, login: {headers: {X-A: b}}}":                   "auth.login.path",
		"{type: session, password_file: f, token: t, login: {path: login, body: '{password}'}}":     "auth.login.path",
		"{type: session, password_file: f, token: t, login: {path: /login}}":                        "auth.login.body",
		"{type: session, password_file: f, token: t, login: {path: /login, basic: true}}":           "auth.username",
		"{type: session, password_file: f, login: {path: /login, body: ['{password}']}}":            "auth.token",
		strings.Replace(login("username: u"), "path:", "basic: true, path:", 1):                     "auth.login.basic",
		strings.Replace(login(""), "['", "['{account}', '", 1):                                      "auth.login.body[0]",
		strings.Replace(login(""), "path:", "expect: [{equals: a}], path:", 1):                      "auth.login.expect[0].path",
		strings.Replace(login(""), "path:", "base_url: sso, path:", 1):                              "auth.login.base_url",
		strings.Replace(login(""), "path:", "headers: {Cookie: a}, path:", 1):                       "auth.login.headers.Cookie",
		strings.Replace(login(""), "path:", "body_type: yaml, path:", 1):                            "auth.login.body_type",
		login("token_cookie: c"):       "auth.token",
		login("send_as: header"):       "auth.name",
		login("send_as: cookie"):       "auth.name",
		login("send_as: query"):        "auth.send_as",
		login("name: a"):               "auth.name",
		login("renew_if: [{path: a}]"): "auth.renew_if[0]",
		login("renew_on: [200]"):       "auth.renew_on[0]",
	} {
		if found := wrongIn(t, testkit.SampleYAML+"auth: "+auth+"\n"); found[where] == "" {
			t.Errorf("%s: %v", auth, found)
		}
	}
	for form, auth := range sessionAuth {
		if found := wrongIn(t, testkit.SampleYAML+"auth: "+auth+"\n"); len(found) > 0 {
			t.Errorf("%s: %v", form, found)
		}
	}
	found := wrongIn(t, testkit.SampleYAML+"auth: {type: header, name: x-key, token_file: f}\nheaders: {X-Key: a}\n")
	if found["headers.X-Key"] == "" {
		t.Errorf("the same header twice: %v", found)
	}
}

// tokenServer gives the tokens t1, t2 and so on. It takes the secret in the header or in
// the body.
type tokenServer struct {
	*httptest.Server
	count   atomic.Int64
	refuses atomic.Bool
	inBody  bool
	expires int
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.count.Add(1)
	_, password, _ := r.BasicAuth()
	if s.inBody {
		password = r.PostFormValue("client_secret")
	}
	w.Header().Set("Content-Type", "application/json")
	if s.refuses.Load() || password != "s3cr3t" || r.PostFormValue("scope") != "a b" || r.PostFormValue("audience") != "legacy" {
		w.WriteHeader(http.StatusUnauthorized)
	}
	fmt.Fprintf(w, `{"access_token":"t%d","token_type":"bearer","expires_in":%d,"error_description":"s3cr3t"}`, n, s.expires)
}

func oauthFixture(t testing.TB, clock *testkit.Clock, s *tokenServer, serve http.HandlerFunc) *fixture {
	t.Helper()
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return newFixtureAt(t, clock, serve, func(c *Config) {
		c.Auth = AuthConfig{Type: authOAuth2, TokenURL: s.URL, Client: secretfile.Client{ClientID: "gw", ClientSecretFile: secret("s3cr3t")},
			Params: map[string]string{"scope": "a b", "audience": "legacy"}}
	})
}

// One token serves all, until it runs out or is refused. A sign-in sends the secret once,
// whether the endpoint takes it in the header or in the body.
func TestOAuth(t *testing.T) {
	for _, inBody := range []bool{false, true} {
		clock := testkit.NewClock(time.Now())
		s := &tokenServer{expires: 60, inBody: inBody}
		var revoked atomic.Value
		f := oauthFixture(t, clock, s, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == revoked.Load() {
				status(401)(w, r)
				return
			}
			serveJSON(emptyList)(w, r)
		})
		step := func(what string, tokens int64, good bool) {
			t.Helper()
			before := s.count.Load()
			_, err := f.Fetch(t.Context(), acme)
			if n := s.count.Load() - before; n != tokens || (err == nil) != good || err != nil && (asError(err).Reason != "auth" || strings.Contains(err.Error(), "s3cr3t")) {
				t.Errorf("in the body %t, %s: %d requests for a token, %v", inBody, what, n, err)
			}
		}
		if inBody {
			step("the first guess", 1, false)
			step("right after it", 0, false)
			clock.Add(time.Second)
		}
		step("the first", 1, true)
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				if _, err := f.buyer(t, fmt.Sprint("a", i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		step("with a token", 0, true)
		clock.Add(time.Minute)
		step("when it has run out", 1, true)
		revoked.Store(fmt.Sprintf("Bearer t%d", s.count.Load()))
		step("when it is refused", 1, true)
		clock.Add(time.Minute)
		s.refuses.Store(true)
		step("the endpoint fails", 1, false)
		step("right after it", 0, false)
		clock.Add(time.Minute)
		step("it still fails", 1, false)
		clock.Add(time.Minute)
		s.refuses.Store(false)
		step("it is well again", 1, true)
		if f.BreakerState("buyer") != "closed" {
			t.Error("a sign-in counts for the breaker")
		}
	}
	always := oauthFixture(t, testkit.NewClock(time.Now()), &tokenServer{expires: 60}, status(401))
	if failed(t, always, t.Context(), "upstream", "status_4xx"); always.calls.Load() != 2 {
		t.Errorf("%d requests", always.calls.Load())
	}
}

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
	hold    chan struct{}   // every sign-in after the first waits for it
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
	locked := r.URL.Query().Get("customer") == "locked" // whatever the token
	if locked || l.ended.Load() || l.hold == nil && got != fmt.Sprintf("s%d", l.logins.Load()) {
		if l.meet != nil {
			l.meet.Done()
			l.meet.Wait()
		}
		status(int(l.status.Load()))(w, r)
		return
	}
	serveJSON(`{"result":{"items":[`+testkit.SampleTicket+`]}}`)(w, r)
}

func (l *sessionLegacy) login(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	user, password, _ := r.BasicAuth()
	l.mu.Lock()
	l.sent = append(l.sent, r.Method+" "+string(body)+user+":"+password)
	l.mu.Unlock()
	n := l.logins.Add(1)
	if l.hold != nil && n > 1 {
		<-l.hold
	}
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

// signIn is a change of the configuration.
func signIn(t testing.TB, auth string) func(*Config) {
	return func(c *Config) {
		c.Auth = configFrom(t, testkit.SampleYAML+"auth: "+auth+"\n").Auth
		c.Auth.PasswordFile = secret("p\"w\n")
		if c.Auth.UsernameFile.Set() {
			c.Auth.UsernameFile = secret("gw\n")
		}
		c.MaxConcurrent, c.MaxConcurrentPerAccount = 200, 200
	}
}

func sessionFixture(t testing.TB, clock *testkit.Clock, l *sessionLegacy, form string) *fixture {
	t.Helper()
	l.form = form
	l.status.CompareAndSwap(0, 401)
	return newFixtureAt(t, clock, l.ServeHTTP, signIn(t, sessionAuth[form]))
}

func TestSession(t *testing.T) {
	for form, sent := range map[string]string{
		"bearer": `POST {"password":"p\"w","user":"gw"}:`, "basic": `POST gw:p"w`, "header": `POST {"key":"p\"w"}:`,
		"cookie": `POST j_password=p%22w&j_username=gw:`,
	} {
		clock := testkit.NewClock(time.Now())
		l := &sessionLegacy{}
		f := sessionFixture(t, clock, l, form)
		fetch := func(what string, logins, lists int64) {
			t.Helper()
			if list, err := f.Fetch(t.Context(), acme); err != nil || len(list.Inquiries) != 1 || l.logins.Load() != logins || l.lists.Load() != lists {
				t.Fatalf("%s, %s: %v, %d sign-ins, %d requests", form, what, err, l.logins.Load(), l.lists.Load())
			}
		}
		fetch("first", 1, 1)
		fetch("again", 1, 2)
		l.ended.Store(true)
		fetch("when the session has ended", 2, 4)
		clock.Add(61 * time.Minute)
		if form == "cookie" {
			fetch("after ttl", 3, 5)
		}
		if l.sent[0] != sent || f.metric(t, "sign_ins_total", "ok") != float64(l.logins.Load()) || f.logged("p\\\"w") > 0 {
			t.Errorf("%s: %q; %v sign-ins counted", form, l.sent, f.metric(t, "sign_ins_total", "ok"))
		}
	}
}

// A hundred requests that are refused with the same token are one sign-in.
func TestRefusedTogetherIsOneSignIn(t *testing.T) {
	l := &sessionLegacy{}
	f := sessionFixture(t, testkit.NewClock(time.Now()), l, "bearer")
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Fatal(err)
	}
	l.ended.Store(true)
	l.meet = &sync.WaitGroup{}
	l.meet.Add(100)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := f.Fetch(t.Context(), acme); err != nil {
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
// nothing: neither the token, nor the sign-in that the end of the session needs.
func TestOneAccountsRefusalSignsNobodyOut(t *testing.T) {
	l := &sessionLegacy{}
	f := sessionFixture(t, testkit.NewClock(time.Now()), l, "bearer")
	both := func() {
		t.Helper()
		if _, err := f.buyer(t, "locked"); err == nil || asError(err).Reason != "status_4xx" {
			t.Fatalf("the locked account: %v", err)
		}
		if _, err := f.Fetch(t.Context(), acme); err != nil {
			t.Fatalf("another one: %v", err)
		}
	}
	for range 40 {
		both()
	}
	if n := l.logins.Load(); n > 1+renewBurst {
		t.Errorf("%d sign-ins", n)
	}
	l.ended.Store(true)
	for range 2 * renewBurst {
		_, _ = f.buyer(t, "locked")
	}
	both()
}

// While a new token is asked for because one account was refused, the others go on
// with the one that is there.
func TestOthersDoNotWaitForASignIn(t *testing.T) {
	l := &sessionLegacy{hold: make(chan struct{})}
	f := sessionFixture(t, testkit.NewClock(time.Now()), l, "bearer")
	var locked sync.WaitGroup
	locked.Go(func() { _, _ = f.buyer(t, "locked") })
	waitFor(t, func() bool { return l.logins.Load() == 2 })
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Error(err)
	}
	close(l.hold)
	locked.Wait()
}

// A legacy that refuses each token at once gets a bounded number of sign-ins.
func TestSignInsAreBounded(t *testing.T) {
	clock := testkit.NewClock(time.Now())
	l := &sessionLegacy{}
	l.status.Store(403)
	f := sessionFixture(t, clock, l, "bearer")
	failing := func(times int, want int64) {
		t.Helper()
		for range times {
			l.ended.Store(true)
			_, _ = f.Fetch(t.Context(), acme)
		}
		if got := l.logins.Load(); got != want {
			t.Errorf("%d sign-ins, want %d", got, want)
		}
	}
	failing(1, 1) // 403 ends no session here
	l.status.Store(401)
	failing(50, 1+renewBurst)
	if f.metric(t, "sign_ins_total", "held") == 0 {
		t.Error("none is counted as held")
	}
	clock.Add(renewEvery)
	failing(2, 2+renewBurst)
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
		failed(t, newFixture(t, tc.say, signIn(t, sessionAuth[tc.form])), t.Context(), "upstream", "auth")
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
			serveJSON(emptyList)(w, r)
		default:
			serveJSON(`{"code":"EXPIRED"}`)(w, r)
		}
	}, signIn(t, `{type: session, username: gw, password_file: f, token: data.token, renew_if: [{path: code, equals: EXPIRED}],
  login: {path: /login, body: {user: "{username}", password: "{password}"}, expect: [{path: code, equals: OK}]}}`))
	for _, step := range []struct{ ended, logins int64 }{{0, 1}, {0, 1}, {1, 2}} {
		ended.Store(step.ended)
		if _, err := f.Fetch(t.Context(), acme); err != nil || logins.Load() != step.logins {
			t.Errorf("%v after %d sign-ins, want %d", err, logins.Load(), step.logins)
		}
	}
	ended.Store(5) // whatever the token
	failed(t, f, t.Context(), "upstream", "auth")
	wrong.Store(1)
	if e := failed(t, f, t.Context(), "upstream", "auth"); !strings.Contains(e.Error(), "auth.login.expect[0]") {
		t.Error(e)
	}
}
