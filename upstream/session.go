package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/mapping"
)

// LoginConfig is the request that opens a session: a POST.
type LoginConfig struct {
	// BaseURL is the server that the login is sent to; default upstream.base_url.
	BaseURL string `yaml:"base_url" form:"url"`
	// Basic sends username and password as HTTP Basic credentials. Else {username} and {password} in the body's texts stand for them.
	Basic                 bool `yaml:"basic"`
	mapping.RequestConfig `yaml:",inline"`
}

// The placeholders of a login.
const (
	loginUser     = "username"
	loginPassword = "password"
)

// The values of send_as.
const (
	sendBearer = "bearer"
	sendHeader = "header"
	sendCookie = "cookie"
)

// maxLoginBytes bounds the reply to a sign-in.
const maxLoginBytes = 1 << 20

// spec is the login as a request with two placeholders.
func (l LoginConfig) spec() address.Spec {
	sending := l.Sending
	sending.Method = http.MethodPost
	return address.Spec{Path: l.Path, Query: l.Query, InQuery: []string{loginUser, loginPassword}, Sending: sending}
}

// session is type session: one sign-in for all callers.
type session struct{ AuthConfig }

// sendAs is how the token is sent, and under which name.
func (a session) sendAs() (as, name string) {
	as = a.SendAs
	switch {
	case as != "":
	case a.TokenCookie != "":
		as = sendCookie
	case a.TokenHeader != "":
		as = sendHeader
	default:
		as = sendBearer
	}
	if as == sendCookie {
		return as, cmp.Or(a.Name, a.TokenCookie)
	}
	return as, cmp.Or(a.Name, a.TokenHeader)
}

func (a session) check(base string, p *setting.Problems) {
	if !setting.Says(a.Login) {
		return // which is said already
	}
	if a.Login.BaseURL != "" {
		base = a.Login.BaseURL
	}
	for name, value := range a.Login.Query {
		p.AddIf(strings.Contains(value, "{"), "auth.login.query."+name, "an address is logged on its way: put {username} and {password} into the body")
	}
	p.AddIf(a.Login.Method == http.MethodGet, "auth.login.method", "has no meaning for a login, which is a POST; remove it")
	plan := a.Login.spec().Compile(base, "auth.login", p)
	p.AddIf(!a.Login.Basic && !plan.Has(loginPassword), "auth.login.body", "the password is not sent: put {password} into a text of the body, or set basic: true")
	p.AddIf(a.Login.Basic && plan.Has(loginPassword), "auth.login.basic", "the password is in the body already; remove one of the two")
	p.AddIf(!a.PasswordFile.Set(), "auth.password_file", "missing: type session needs it")
	p.AddIf(a.Username == "" && !a.UsernameFile.Set() && (a.Login.Basic || plan.Has(loginUser)), "auth.username", "missing: the login sends it; set it or username_file")
	places := 0
	for _, set := range []bool{a.Token != "", a.TokenHeader != "", a.TokenCookie != ""} {
		if set {
			places++
		}
	}
	p.AddIf(places != 1, "auth.token", "say where the reply to the login has the token: token (a GJSON path), token_header or token_cookie; one of them")
	if a.Token != "" {
		if err := jsonwalk.CheckPath(a.Token); err != nil {
			p.Add("auth.token", "%v", err)
		}
	}
	as, name := a.sendAs()
	p.AddIf(as != sendBearer && name == "", "auth.name", "missing: the name of the %s that the token is sent in", as)
	p.AddIf(as == sendBearer && a.Name != "", "auth.name", "has no meaning unless send_as is header or cookie; remove it")
	mapping.CompileConditions("auth.renew_if", a.RenewIf, p)
	mapping.CompileConditions("auth.login.expect", a.Login.Expect, p)
}

// credentials sign in with one request. Its errors hold neither the address, which may
// have a secret in its query, nor what was sent.
func (a session) credentials(s signInOptions) credentials {
	plan := a.Login.spec().Compile(cmp.Or(a.Login.BaseURL, s.base), "auth.login", &setting.Problems{}) // Validate has told them
	statuses := a.RenewOn
	if len(statuses) == 0 {
		statuses = []int{http.StatusUnauthorized}
	}
	return newTokens(s, statuses, mapping.CompileConditions("auth.renew_if", a.RenewIf, &setting.Problems{}), func(ctx context.Context) (token, error) {
		asked, err := plan.Fill(address.Values{loginUser: {a.user()}, loginPassword: {oneLine(a.PasswordFile)}})
		if err != nil {
			return token{}, errors.New("the login cannot be sent: username or password holds what its body cannot")
		}
		r, err := http.NewRequestWithContext(ctx, asked.Method, asked.URL, strings.NewReader(asked.Body))
		if err != nil {
			return token{}, errors.New("the login makes no request") // the error's text holds the address
		}
		for name, value := range asked.Headers {
			r.Header.Set(name, value)
		}
		if a.Login.Basic {
			r.SetBasicAuth(a.user(), oneLine(a.PasswordFile))
		}
		text, err := a.signIn(s.client, r)
		if err != nil {
			return token{}, err
		}
		fresh := token{name: "Authorization", value: "Bearer " + text}
		switch as, name := a.sendAs(); as {
		case sendHeader:
			fresh.name, fresh.value = name, text
		case sendCookie:
			fresh.name, fresh.value = "Cookie", name+"="+text
		}
		if a.TTL > 0 {
			fresh.end = s.Now().Add(a.TTL)
		}
		return fresh, nil
	})
}

// signIn sends a login and gives the token of its reply. A redirect is a good reply
// where the token is in its header: it is where a form leads to. Errors hold nothing
// of what was sent or came.
func (a session) signIn(client *http.Client, r *http.Request) (string, error) {
	resp, err := client.Do(r)
	if err != nil {
		return "", fmt.Errorf("no sign-in: %w", withoutAddress(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLoginBytes+1))
	most := 299
	if a.Token == "" {
		most = 399
	}
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > most:
		return "", fmt.Errorf("the login answers status %d", resp.StatusCode)
	case err != nil:
		return "", fmt.Errorf("no sign-in: %w", withoutAddress(err))
	case len(body) > maxLoginBytes:
		return "", errors.New("the reply to the login is too large")
	}
	expect := mapping.CompileConditions("auth.login.expect", a.Login.Expect, &setting.Problems{})
	reply, err := jsonwalk.Parse(string(body))
	if len(expect) > 0 && err != nil {
		return "", errors.New("the reply to the login is not JSON, and auth.login.expect says what it has to hold")
	}
	if key := expect.Unmet(reply); key != "" {
		return "", fmt.Errorf("the reply to the login does not meet %s", key)
	}
	text := a.tokenIn(resp, reply)
	if text == "" {
		return "", errors.New("the reply to the login has no token where the configuration says")
	}
	return text, nil
}

// tokenIn finds the token; empty: there is none.
func (a session) tokenIn(resp *http.Response, reply jsonwalk.Value) string {
	if a.TokenHeader != "" {
		return resp.Header.Get(a.TokenHeader)
	}
	for _, cookie := range resp.Cookies() {
		if a.TokenCookie != "" && cookie.Name == a.TokenCookie {
			return cookie.Value
		}
	}
	if v := reply.At(a.Token); a.Token != "" && v.Scalar() {
		return v.Plain()
	}
	return ""
}
