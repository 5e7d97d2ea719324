package upstream

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"inquiry-gateway/internal/ceiling"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsontree"
	"inquiry-gateway/upstream/mapping"
)

// Bounds of sign-ins, so that neither a legacy system that rejects every token nor one whose sign-in fails gets one
// for each request.
const (
	minTokenAge    = 10 * time.Second // a token is used for so long, unless there is a later one
	signInPause    = time.Second      // after a failure, doubled by each further one that is not the system's
	maxSignInPause = time.Minute      // an account that is locked stays so no longer by us
)

// token is the header that a sign-in yields and that authenticates the gateway.
type token struct {
	name, value string
	end         time.Time // when it expires; zero: it is used until it is rejected
	made        time.Time
	number      int // of the sign-in, from 1: two sign-ins may yield the same value; 0: no token, or a fixed credential
}

// credentials hold the header that authenticates the gateway: a fixed one, or a token from a sign-in, which all requests share. When
// the token expires, one sign-in is made, and all requests wait for it within their own deadlines. When it is rejected and older than
// minTokenAge, only the rejected requests wait: the others keep using it, because the legacy system may mean one account
// only. credentials are safe for concurrent use.
type credentials struct {
	name    string // for an error: type, user and file
	opts    Options
	request func(context.Context) (token, error) // one sign-in; its errors hold nothing of the reply. Nil: the token is always the same
	renewOn []int                                // statuses that reject a token
	renewIf mapping.Conditions                   // one of them in a 200 or a fault rejects a credential, too
	flight  singleflight.Group

	ok, failed, limited prometheus.Counter // sign-ins

	mu       sync.Mutex
	token    token
	accepted int   // the last sign-in whose token a reply was given to
	err      error // of the last sign-in
	failures int   // one after another
	next     time.Time
}

// newCredentials makes the credentials of auth.type. Sign-ins use network directly.
func newCredentials(cfg Config, network http.RoundTripper, opts Options) (*credentials, error) {
	a := cfg.Auth
	if err := a.checkFiles(); err != nil {
		return nil, err
	}
	results := telemetry.Series(opts.Registerer, subsystem).Counters("sign_ins_total",
		"Requests for a token or session of the legacy system; held: not sent, because of the limit.", "result")
	c := &credentials{
		name: a.String(), opts: opts, renewOn: []int{http.StatusUnauthorized},
		renewIf: mapping.CompileConditions("auth.renew_if", a.RenewIf, &setting.Problems{}),                                        // Validate has told them
		ok:      results.WithLabelValues("ok"), failed: results.WithLabelValues("error"), limited: results.WithLabelValues("held"), // of every type, so that the series are there
	}
	client := signInClient{&http.Client{CheckRedirect: noRedirect, Transport: network}, cfg.common(opts, "application/json"), opts.Ceiling}
	switch _, secret := a.secret(); a.Type {
	case authBasic:
		c.token = token{name: "Authorization", value: "Basic " + base64.StdEncoding.EncodeToString([]byte(a.user()+":"+oneLine(secret)))}
	case authBearer:
		c.token = token{name: "Authorization", value: "Bearer " + oneLine(secret)}
	case authHeader:
		c.token = token{name: a.Name, value: oneLine(secret)}
	case authOAuth2:
		c.request = a.requestToken(client, opts.Now)
	case authSession:
		if len(a.RenewOn) > 0 {
			c.renewOn = a.RenewOn
		}
		c.request = a.openSession(client, cmp.Or(a.Login.BaseURL, cfg.BaseURL), c.renewIf, opts.Now)
	}
	return c, nil
}

// header returns a credential that is newer than the rejected one. It waits for a sign-in if one is needed, within ctx; timeout
// bounds the sign-in itself. The error is an *Error.
func (c *credentials) header(ctx context.Context, rejected token, timeout time.Duration) (token, error) {
	have, err := c.current(rejected)
	if err == nil && c.request != nil && have.number == 0 {
		select {
		case r := <-c.flight.DoChan("", func() (any, error) { return c.renew(context.WithoutCancel(ctx), rejected, timeout) }):
			have, _ = r.Val.(token)
			err = r.Err
		case <-ctx.Done():
			err = failure(reasonTimeout, "no sign-in in time: %w", ctx.Err())
		}
	}
	if err == nil {
		return have, nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return token{}, classify(ctx, err)
	}
	reason, wait := reasonNoSignIn, time.Duration(0)
	if e, ok := errors.AsType[*Error](err); ok {
		reason, wait, err = e.Reason, e.Wait, e.Err
	}
	return token{}, &Error{Reason: reason, Wait: wait, Err: fmt.Errorf("%s: %w", c.name, err)}
}

// current returns the token in use, unless it is the rejected one. Otherwise it returns the error of the last sign-in while that
// is too recent to try again, or no token and no error: a sign-in is due.
func (c *credentials) current(rejected token) (token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, have := c.opts.Now(), c.token
	switch {
	case c.request == nil:
		return have, nil
	case have.number > rejected.number && (have.end.IsZero() || now.Before(have.end) || now.Sub(have.made) < minTokenAge):
		return have, nil
	case c.err != nil && now.Before(c.next):
		return token{}, c.err
	}
	return token{}, nil
}

// renew signs in and keeps the token. It belongs to no single request, and is bounded by timeout.
func (c *credentials) renew(ctx context.Context, rejected token, timeout time.Duration) (token, error) {
	if have, err := c.current(rejected); have.number > 0 || err != nil { // another call has just ended
		return have, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	fresh, err := c.signIn(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	now, whose := c.opts.Now(), FailureSignIn
	if e, ok := errors.AsType[*Error](err); ok {
		whose = e.Failure()
	}
	if whose == FailureRefused { // by the ceiling: nothing has failed
		c.limited.Inc()
		return token{}, err
	}
	if c.err = err; err == nil {
		c.ok.Inc()
		fresh.number, fresh.made = c.token.number+1, now
		c.token, c.failures = fresh, 0
		return fresh, nil
	}
	if c.failed.Inc(); whose == FailureSystem { // breaker and back-off bound the sign-ins then
		c.failures = 0
	}
	c.next = now.Add(min(signInPause<<min(c.failures, 10), maxSignInPause))
	c.failures++
	return token{}, err
}

// signIn makes one sign-in. A panic in it becomes the error of the requests that wait for it.
func (c *credentials) signIn(ctx context.Context) (fresh token, err error) {
	defer c.opts.Panics.Catch(func(p any) { err = bug(p) })
	fresh, err = c.request(ctx)
	if err == nil && !address.ValidHeader(fresh.name, fresh.value) {
		return token{}, errors.New("the token cannot be sent in a header")
	}
	return fresh, err
}

// whyRejected returns why the legacy system rejected a credential, judging by its reply or err; nil: it did not. If that is not
// definite, the reply is of a kind that often comes when a session has ended, and the token has worked before.
func (c *credentials) whyRejected(r reply, err error, used token, format *mapping.Format) (why *Error, definite bool) {
	switch {
	case err != nil && format.MayBeMissing && isMissing(r.status): // which is about a record
		return nil, false
	case err != nil && asError(err).Reason == reasonDenied:
		return asError(err), true
	case c.request != nil && slices.Contains(c.renewOn, r.status):
		return failure(reasonDenied, "status %d", r.status), true
	case (isFault(err) || err == nil && r.status == http.StatusOK) && c.renewIf.Any(r.body, err != nil):
		return failure(reasonDenied, "the reply meets auth.renew_if"), true
	case err != nil && c.request != nil && c.hasWorked(used) && mayBeEnd(r, asError(err)):
		return asError(err), false
	}
	return nil, false
}

// sessionWord matches an error page about a session that has ended.
var sessionWord = regexp.MustCompile(`(?i)session|log-?_? ?in\b|sign-?_? ?in\b|not authenticated|unauthori[sz]ed`)

// mayBeEnd reports whether a failed reply is of a kind that comes when a session has ended.
func mayBeEnd(r reply, e *Error) bool {
	switch {
	case e.Reason == "media_type", isFault(e), r.status == 419, r.status == 440:
		return true
	}
	return r.status == http.StatusInternalServerError && sessionWord.MatchString(r.body)
}

// mayRenew reports whether a request whose token was rejected may be sent again with a newer one now.
func (c *credentials) mayRenew(rejected token) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.request == nil:
		return false
	case rejected.number == c.token.number && c.opts.Now().Sub(c.token.made) < minTokenAge:
		c.limited.Inc()
		return false
	}
	return true
}

// recordAccepted records that the legacy system accepted the credential.
func (c *credentials) recordAccepted(used token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = max(c.accepted, used.number)
}

// hasWorked reports whether the legacy system has accepted the credential, or one of a later sign-in.
func (c *credentials) hasWorked(used token) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.accepted >= used.number
}

// rejectedError returns the error of a request whose credential was rejected, and what to check.
func (c *credentials) rejectedError(used token, why *Error) *Error {
	switch {
	case c.request == nil:
		if c.name == "auth.type "+authNone {
			return failure(reasonDenied, "%w; auth.type is none, so there is no sign-in besides what headers, query and body send", why.Err)
		}
		return failure(reasonDenied, "%w; look at %s", why.Err, c.name)
	case !c.hasWorked(used):
		return failure(reasonDenied, "%w right after the sign-in; look at user and password, and at what that user may read: %s", why.Err, c.name)
	case c.opts.Now().Sub(used.made) < minTokenAge:
		return failure(reasonDenied, "%w less than %v after a sign-in that has worked; if another node or program signs in as the same user, "+
			"each may end the session of the other; may its user read this account? %s", why.Err, minTokenAge, c.name)
	}
	return failure(reasonDenied, "%w, though the same sign-in has worked for other lists; may its user read this account? %s", why.Err, c.name)
}

// tokenLeeway is how long before its end an access token is not used any more.
const tokenLeeway = 10 * time.Second

// requestToken signs in by type oauth2_client_credentials (RFC 6749, 4.4). Whether the endpoint
// wants the secret in a header or in the body it does not say: both are tried until one has worked. It does not run twice at a time.
func (a AuthConfig) requestToken(client signInClient, now func() time.Time) func(context.Context) (token, error) {
	inBody, known := false, false
	ask := func(ctx context.Context) (resp *http.Response, body string, err error) {
		form, id, secret := url.Values{"grant_type": {"client_credentials"}}, a.ClientID, oneLine(a.ClientSecretFile)
		for name, value := range a.Params {
			form.Set(name, value)
		}
		if inBody {
			form.Set("client_id", id)
			form.Set("client_secret", secret)
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.TokenURL, strings.NewReader(form.Encode()))
		if err != nil {
			return nil, "", errors.New("auth.token_url makes no request")
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if !inBody {
			r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		}
		return client.send(r)
	}
	return func(ctx context.Context) (token, error) {
		resp, body, err := ask(ctx)
		if err == nil && !known && (resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnauthorized) {
			inBody = !inBody
			resp, body, err = ask(ctx)
		}
		switch {
		case err != nil:
			return token{}, err
		case resp.StatusCode < 200 || resp.StatusCode > 299:
			return token{}, fmt.Errorf("the token endpoint answers status %d", resp.StatusCode)
		}
		reply, _ := jsontree.Parse(body) // else it has no token
		access := single(reply.At("access_token"))
		if access == "" {
			return token{}, errors.New("the reply of the token endpoint has no access_token")
		}
		known = true
		scheme := single(reply.At("token_type"))
		if !slices.ContainsFunc([]string{"DPoP", "MAC", "OAuth"}, func(other string) bool { return strings.EqualFold(scheme, other) }) {
			scheme = "Bearer" // whatever it calls that, such as BearerToken or JWT
		}
		fresh := token{name: "Authorization", value: scheme + " " + access}
		if seconds, ok := jsontree.Count(single(reply.At("expires_in"))); ok && seconds > 0 {
			fresh.end = now().Add(time.Duration(min(seconds, 1e9))*time.Second - tokenLeeway) // 30 years: more overflows
		}
		return fresh, nil
	}
}

// single returns the text of a scalar value; empty: it is not a scalar.
func single(v jsontree.Value) string {
	if !v.Scalar() {
		return ""
	}
	return v.Plain()
}

// openSession signs in by type session, with one request. A fault that meets rejects is no failure of the system.
// Its errors hold neither the address, which may have a secret in its query, nor what was sent.
func (a AuthConfig) openSession(client signInClient, base string, rejects mapping.Conditions, now func() time.Time) func(context.Context) (token, error) {
	plan := a.Login.spec().Compile(base, "auth.login", &setting.Problems{}) // Validate has told them
	expect := mapping.CompileConditions("auth.login.expect", a.Login.Expect, &setting.Problems{})
	return func(ctx context.Context) (token, error) {
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
		resp, body, err := client.send(r)
		if err != nil {
			if fault, wrong := (&decode.Format{XML: true}).Decode(body, "", decode.AtMost(maxLoginBytes)); isFault(wrong) && rejects.Any(fault, true) {
				return token{}, fmt.Errorf("the login answers status %d with a fault that meets auth.renew_if", resp.StatusCode)
			}
			return token{}, err
		}
		text, err := a.tokenIn(resp, body, expect)
		if err != nil {
			return token{}, err
		}
		name, value := a.sends()
		fresh := token{name: name, value: strings.ReplaceAll(value, tokenPlaceholder, text)}
		if a.TTL > 0 {
			fresh.end = now().Add(a.TTL)
		}
		return fresh, nil
	}
}

// tokenIn returns the token of the reply to a login, which must meet expect. A redirect is a valid reply if the token
// is in its header: a form leads there.
func (a AuthConfig) tokenIn(resp *http.Response, body string, expect mapping.Conditions) (text string, err error) {
	most := 299
	if a.Token.JSON == "" {
		most = 399
	}
	if resp.StatusCode < 200 || resp.StatusCode > most {
		return "", fmt.Errorf("the login answers status %d", resp.StatusCode)
	}
	reply, err := jsontree.Parse(body)
	if len(expect) > 0 && err != nil {
		return "", errors.New("the reply to the login is not JSON, and auth.login.expect says what it has to hold")
	}
	if key := expect.Unmet(reply); key != "" {
		return "", fmt.Errorf("the reply to the login does not meet %s", key)
	}
	switch {
	case a.Token.Header != "":
		text = resp.Header.Get(a.Token.Header)
	case a.Token.Cookie != "":
		for _, cookie := range resp.Cookies() {
			if cookie.Name == a.Token.Cookie {
				text = cookie.Value // the last one counts (RFC 6265, 5.3)
			}
		}
	default:
		text = single(reply.At(a.Token.JSON))
	}
	if text == "" {
		return "", errors.New("the reply to the login has no token where the configuration says")
	}
	return text, nil
}

// maxLoginBytes bounds the reply to a sign-in.
const maxLoginBytes = 1 << 20

// signInClient sends sign-ins, which count for the ceiling.
type signInClient struct {
	http    *http.Client
	headers http.Header // that all requests have
	ceiling *ceiling.Limiter
}

// send sends a sign-in. Its errors hold nothing of what was sent or came. A connection that fails and a status of 500 or more
// are the system's failures.
func (c signInClient) send(r *http.Request) (resp *http.Response, body string, err error) {
	if err := c.ceiling.Wait(r.Context(), "", ceiling.Continuation); err != nil {
		return nil, "", classify(r.Context(), notAsked(reasonCeiling, time.Second, "%w", err))
	}
	for name, values := range c.headers {
		if r.Header[name] == nil {
			r.Header[name] = values
		}
	}
	if resp, err = c.http.Do(r); err != nil {
		return nil, "", classify(r.Context(), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols { // see discard
		return resp, "", nil
	}
	all, err := io.ReadAll(io.LimitReader(resp.Body, maxLoginBytes+1))
	switch {
	case resp.StatusCode >= http.StatusInternalServerError: // also of a SOAP fault, whoever is to blame
		return resp, string(all), failure(reason5xx, "the sign-in is answered with status %d", resp.StatusCode)
	case err != nil:
		return nil, "", classify(r.Context(), err)
	case len(all) > maxLoginBytes:
		return nil, "", errors.New("the reply to the sign-in is too large")
	}
	return resp, strings.TrimPrefix(string(all), "\ufeff"), nil
}
