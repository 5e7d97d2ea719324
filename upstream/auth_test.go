package upstream

import (
	"errors"
	"fmt"
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
	"inquiry-gateway/upstream/internal/sample"
)

// clock is a time that only a test moves.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Now().UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d)) }

func secret(text string) secretfile.File { return secretfile.New("secret", text) }

func TestCredentials(t *testing.T) {
	for _, tc := range []struct {
		auth         AuthConfig
		header, want string
	}{
		{AuthConfig{Type: "none"}, "Authorization", ""},
		{AuthConfig{Type: "basic", Username: "gw", PasswordFile: secret("s3cr3t\n")}, "Authorization", "Basic Z3c6czNjcjN0"},
		{AuthConfig{Type: "basic", UsernameFile: secret("gw\n"), PasswordFile: secret("s3cr3t\n")}, "Authorization", "Basic Z3c6czNjcjN0"},
		{AuthConfig{Type: "basic", Username: "gw"}, "Authorization", "Basic Z3c6"},
		{AuthConfig{Type: "bearer", TokenFile: secret("s3cr3t\n")}, "Authorization", "Bearer s3cr3t"},
		{AuthConfig{Type: "header", Header: "X-Api-Key", ValueFile: secret("s3cr3t\n")}, "X-Api-Key", "s3cr3t"},
	} {
		var got string
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Get(tc.header)
			serveJSON(`{"result":{"items":[]}}`)(w, r)
		}, func(c *Config) { c.Auth = tc.auth })
		if _, err := f.Fetch(t.Context(), acme); err != nil || got != tc.want {
			t.Errorf("%s: sent %q %v, want %q", tc.auth.Type, got, err, tc.want)
		}
		if strings.Contains(f.log.String(), "s3cr3t") {
			t.Error("the secret is in the log")
		}
	}
}

// A login of which only a part is there is told, not passed over.
func TestALoginWithoutAPath(t *testing.T) {
	c := configFrom(t, sample.YAML)
	c.Auth = AuthConfig{Type: "session", Username: "gw", PasswordFile: secret("pw"), Token: "t", Login: LoginConfig{}}
	c.Auth.Login.Headers = map[string]string{"X-A": "b"}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "must start with a slash") {
		t.Errorf("got %v", err)
	}
}

func TestFileOfTheUserName(t *testing.T) {
	for _, tc := range []struct {
		auth      AuthConfig
		key, says string
	}{
		{AuthConfig{Type: "basic"}, "auth.username", "missing: type basic needs it, or username_file"},
		{AuthConfig{Type: "basic", Username: "gw", UsernameFile: secret("gw")}, "auth.username_file", "username is set, too"},
		{AuthConfig{Type: "basic", UsernameFile: secret("gw\nx")}, "auth.username_file", "the file holds more than one line"},
		{AuthConfig{Type: "basic", UsernameFile: secret("\n")}, "auth.username_file", "the file is empty"},
		{AuthConfig{Type: "none", UsernameFile: secret("gw")}, "auth.username_file", "has no meaning with type none"},
	} {
		c := configFrom(t, sample.YAML)
		c.Auth = tc.auth
		if c.Auth.Type == "basic" {
			c.Auth.PasswordFile = secret("pw")
		}
		_, err := New(c, Options{})
		var mistake *invalid.Error
		if !errors.As(err, &mistake) || mistake.Field() != tc.key || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: got %v", tc.auth, err)
		}
	}
}

// A client that takes the place of another sends the secret that the file holds
// then, and goes on with the connections where nothing has changed.
func TestAnotherSecretIsSentByTheNextClient(t *testing.T) {
	var got string
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		serveJSON(`{"result":{"items":[]}}`)(w, r)
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

func TestSecretsThatCannotBeSent(t *testing.T) {
	for _, text := range []string{"", " \n", "a\nb", "a\x00b"} {
		cfg := configFrom(t, sample.YAML)
		cfg.Auth = AuthConfig{Type: "bearer", TokenFile: secret(text)}
		_, err := New(cfg, Options{})
		var field *invalid.Error
		if !errors.As(err, &field) || field.Field() != "auth.token_file" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAuthConfig(t *testing.T) {
	for auth, where := range map[string]string{
		"{type: digest}": "auth.type", "{type: basic, password_file: f}": "auth.username", "{type: bearer, token_file: f, username: a}": "auth.username",
		"{type: header, header: \"a b\", value_file: f}": "auth.header", "{username: a}": "auth.username",
		"{type: oauth2_client_credentials, token_url: legacy, client_id: a, client_secret_file: f}": "auth.token_url",
		"{type: oauth2_client_credentials, client_id: a, client_secret_file: f, params: {x: y}}":    "auth.token_url",
	} {
		if found := wrongIn(t, sample.YAML+"auth: "+auth+"\n"); found[where] == "" {
			t.Errorf("%s: %v", auth, found)
		}
	}
	found := wrongIn(t, sample.YAML+"auth: {type: header, header: x-key, value_file: f}\nheaders: {X-Key: a}\n")
	if found["headers.X-Key"] == "" {
		t.Errorf("the same header twice: %v", found)
	}
}

// tokenServer gives tokens t1, t2 and so on.
type tokenServer struct {
	*httptest.Server
	count  atomic.Int64
	status atomic.Int64
	form   atomic.Value
}

func newTokenServer(t testing.TB, expires int) *tokenServer {
	s := &tokenServer{}
	s.status.Store(200)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.count.Add(1)
		_ = r.ParseForm()
		user, password, _ := r.BasicAuth()
		s.form.Store(fmt.Sprint(user, password, r.Form.Get("grant_type"), r.Form.Get("scope"), r.Form.Get("audience")))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(int(s.status.Load()))
		fmt.Fprintf(w, `{"access_token":"t%d","token_type":"bearer","expires_in":%d,"error_description":"s3cr3t"}`, n, expires)
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func oauthFixture(t testing.TB, s *tokenServer, serve http.HandlerFunc) *fixture {
	t.Helper()
	return newFixture(t, serve, func(c *Config) {
		c.Auth = AuthConfig{Type: authOAuth2, TokenURL: s.URL, ClientID: "gw", ClientSecretFile: secret("s3cr3t"),
			Scopes: []string{"a", "b"}, Params: map[string]string{"audience": "legacy"}}
	})
}

func TestOAuthTokenIsFetchedOnceForAll(t *testing.T) {
	s := newTokenServer(t, 3600)
	f := oauthFixture(t, s, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t1" {
			t.Errorf("sent %q", r.Header.Get("Authorization"))
		}
		serveJSON(`{"result":{"items":[]}}`)(w, r)
	})
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			if _, err := f.Fetch(t.Context(), Request{Kind: "buyer", Account: fmt.Sprint("a", i)}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if s.count.Load() != 1 {
		t.Errorf("%d token requests", s.count.Load())
	}
	if got := s.form.Load(); got != "gws3cr3tclient_credentialsa blegacy" {
		t.Errorf("asked with %v", got)
	}
}

func TestOAuthTokenRunsOut(t *testing.T) {
	s := newTokenServer(t, 1) // shorter than the leeway, so good for one use
	f := oauthFixture(t, s, serveJSON(`{"result":{"items":[]}}`))
	for i := range 3 {
		if _, err := f.Fetch(t.Context(), acme); err != nil || s.count.Load() != int64(i+1) {
			t.Errorf("%v after %d tokens", err, s.count.Load())
		}
	}
}

func TestOAuthRevokedToken(t *testing.T) {
	s := newTokenServer(t, 3600)
	f := oauthFixture(t, s, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer t1" {
			status(401)(w, r)
			return
		}
		serveJSON(`{"result":{"items":[]}}`)(w, r)
	})
	if _, err := f.Fetch(t.Context(), acme); err != nil || s.count.Load() != 2 || f.calls.Load() != 2 {
		t.Errorf("%v after %d tokens and %d requests", err, s.count.Load(), f.calls.Load())
	}
	always := oauthFixture(t, s, status(401))
	failed(t, always, t.Context(), "upstream", "status_4xx")
	if always.calls.Load() != 2 {
		t.Errorf("%d requests", always.calls.Load())
	}
}

// A sign-in sends the secret once, whether the endpoint takes it in the header or in
// the body, and after the first good one never in the wrong place.
func TestOAuthSendsTheSecretOnce(t *testing.T) {
	for _, body := range []bool{false, true} {
		var asked atomic.Int64
		good := true
		endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			_, header, _ := r.BasicAuth()
			w.Header().Set("Content-Type", "application/json")
			if !good || body && r.PostFormValue("client_secret") != "s3cr3t" || !body && header != "s3cr3t" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			fmt.Fprint(w, `{"access_token":"t","token_type":"bearer","expires_in":1}`)
		}))
		t.Cleanup(endpoint.Close)
		clock := testkit.NewClock(time.Now())
		f := newFixtureAt(t, clock, serveJSON(`{"result":{"items":[]}}`), func(c *Config) {
			c.Auth = AuthConfig{Type: authOAuth2, TokenURL: endpoint.URL, ClientID: "gw", ClientSecretFile: secret("s3cr3t")}
		})
		fetch := func(want bool) {
			t.Helper()
			before := asked.Load()
			_, err := f.Fetch(t.Context(), acme)
			if n := asked.Load() - before; n != 1 || (err == nil) != want {
				t.Errorf("in the body %t: %d requests for a token, %v", body, n, err)
			}
			clock.Add(time.Minute)
		}
		if body {
			fetch(false) // the first guess
		}
		fetch(true)
		good = false
		fetch(false)
		fetch(false)
		good = true
		fetch(true)
	}
}

func TestOAuthEndpointFails(t *testing.T) {
	s := newTokenServer(t, 3600)
	s.status.Store(400)
	f := oauthFixture(t, s, serveJSON(`{"result":{"items":[]}}`))
	clock := newClock()
	f.creds.(*tokens).Now = clock.now
	e := failed(t, f, t.Context(), "upstream", "auth")
	if strings.Contains(e.Error(), "s3cr3t") || !strings.Contains(e.Error(), "400") {
		t.Errorf("got %v", e)
	}
	asked := s.count.Load()
	failed(t, f, t.Context(), "upstream", "auth")
	if s.count.Load() != asked || f.calls.Load() != 0 || f.BreakerState("buyer") != "closed" {
		t.Errorf("%d more token requests, %d to the legacy, breaker %s", s.count.Load()-asked, f.calls.Load(), f.BreakerState("buyer"))
	}
	s.status.Store(200)
	clock.forward(2 * time.Second)
	if _, err := f.Fetch(t.Context(), acme); err != nil {
		t.Error(err)
	}
}
