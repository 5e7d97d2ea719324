package upstream

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"inquiry-gateway/internal/quota"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/telemetry"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsontree"
	"inquiry-gateway/upstream/mapping"
)

// Bounds of sign-ins, so that neither a legacy that rejects every token nor one
// whose sign-in fails gets one for each request.
const (
	signInBurst    = 10              // at once; then one in each signInEvery
	signInEvery    = time.Second     //
	signInPause    = time.Second     // after a failure, doubled by each further one
	maxSignInPause = 1 * time.Minute // an account that is locked stays so no longer by us

	// Of sign-ins because a token was rejected: an account that the legacy rejects for good
	// must not cost everybody the token with each of its requests. One more is left to accounts
	// that have caused none for renewMemory, for the moment when the token has ended for all.
	renewBurst  = 3
	renewEvery  = 10 * time.Second
	renewMemory = 10 * time.Minute
)

// token is what a sign-in gives: the header that identifies the gateway.
type token struct {
	name, value string
	end         time.Time // not used from then on; zero: until it is rejected
	made        int       // by which sign-in, from 1 on: two may give the same value
}

// credentials give the header that identifies the gateway: always the same one, or a token that
// a sign-in gives. One token is kept for all requests. When it runs out, one sign-in is made, and
// everybody waits for it within their own deadline. When it is rejected, those wait whose requests
// were rejected: for the others it goes on until there is a new one, as the legacy may mean one
// account only. They are safe for concurrent use.
type credentials struct {
	name    string // for an error: type, user and file
	opts    Options
	request func(context.Context) (token, error) // one sign-in; its errors hold nothing of the reply. Nil: the token is always the same
	renewOn []int                                // statuses that reject a token
	renewIf mapping.Conditions                   // one of them in a 200 does so, too
	flight  singleflight.Group
	limit   *rate.Limiter // of all sign-ins
	renewal *rate.Limiter // of those because a token was rejected

	ok, failed, limited prometheus.Counter // sign-ins

	mu       sync.Mutex
	token    token // made by none: there is none, or it is always the same
	good     int   // the last sign-in whose token a reply was given to
	renewing int   // the last sign-in whose token was rejected so that a new one is asked for
	err      error // of the last sign-in
	failures int   // one after another
	next     time.Time
	renewed  map[string]time.Time // by account: when a rejection of its requests last caused a sign-in; bounded, as these are
}

// newCredentials makes what the type of the configuration says. Sign-ins use the network
// themselves, and no other client's.
func newCredentials(cfg Config, network http.RoundTripper, opts Options) (*credentials, error) {
	a := cfg.Auth
	if err := a.checkFiles(); err != nil {
		return nil, err
	}
	results := telemetry.Series(opts.Registerer, subsystem).Counters("sign_ins_total",
		"Requests for a token or session of the legacy system by result; held: not made, because they are bounded.", "result")
	c := &credentials{
		name: a.String(), opts: opts, renewOn: []int{http.StatusUnauthorized}, renewed: map[string]time.Time{},
		limit: rate.NewLimiter(rate.Every(signInEvery), signInBurst), renewal: rate.NewLimiter(rate.Every(renewEvery), renewBurst+1),
		ok: results.WithLabelValues("ok"), failed: results.WithLabelValues("error"), limited: results.WithLabelValues("held"), // of every type, so that the series are there
	}
	client := &http.Client{CheckRedirect: noRedirect, Transport: signInTransport{network, cfg.common(opts, "application/json")}}
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
		c.renewIf = mapping.CompileConditions("auth.renew_if", a.RenewIf, &setting.Problems{}) // Validate has told them
		c.request = a.openSession(client, cmp.Or(a.Login.BaseURL, cfg.BaseURL), opts.Now)
	}
	return c, nil
}

// signInTransport adds headers where a request has none of these names.
type signInTransport struct {
	network http.RoundTripper
	headers http.Header
}

// RoundTrip implements http.RoundTripper.
func (t signInTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, values := range t.headers {
		if r.Header[name] == nil {
			r.Header[name] = values
		}
	}
	return t.network.RoundTrip(r)
}

// header gives the credential, made after the rejected one. It waits for a sign-in if need be, which has timeout,
// but no longer than the context allows. The error is an *Error.
func (c *credentials) header(ctx context.Context, rejected token, timeout time.Duration) (token, error) {
	have, err := c.current(rejected)
	if err == nil && c.request != nil && have.made == 0 {
		select {
		case r := <-c.flight.DoChan("", func() (any, error) { return c.renew(context.WithoutCancel(ctx), rejected, timeout) }):
			// A token that was just made is used even if it runs out in a moment:
			// asking for another would give another of the same kind.
			have, _ = r.Val.(token)
			err = r.Err
		case <-ctx.Done():
			err = fmt.Errorf("no sign-in in time: %w", ctx.Err())
		}
	}
	switch _, known := errors.AsType[*Error](err); {
	case err == nil:
		return have, nil
	case known || errors.Is(ctx.Err(), context.Canceled):
		return token{}, classify(ctx, err)
	}
	// A deadline, too: the list was not asked for.
	return token{}, failure(reasonNoSignIn, "%s: %w", c.name, err)
}

// current gives the token that is there, unless it is the rejected one. Without a token it gives
// why none is asked for now; no error where one is to be asked for.
func (c *credentials) current(rejected token) (token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Now()
	switch {
	case c.request == nil:
		return c.token, nil
	case c.token.made > rejected.made && (c.token.end.IsZero() || now.Before(c.token.end)):
		return c.token, nil
	case c.err != nil && now.Before(c.next):
		return token{}, c.err
	}
	return token{}, nil
}

// renew gets a new token in the place of a rejected one, or of none, and keeps it. It
// belongs to nobody's request, and ends after the timeout at the latest.
func (c *credentials) renew(ctx context.Context, rejected token, timeout time.Duration) (token, error) {
	if have, err := c.current(rejected); have.made > 0 || err != nil { // another call has just ended
		return have, err
	}
	if !c.limit.AllowN(c.opts.Now(), 1) {
		c.limited.Inc()
		return token{}, errors.New("no token: the legacy's tokens run out soon after it gives them, so sign-ins are held back")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var fresh token
	err := c.opts.Ceiling.Wait(ctx, "", quota.Started)
	if err != nil {
		err = classify(ctx, notAsked(reasonCeiling, time.Second, "%w", err))
	} else {
		fresh, err = c.signIn(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && asError(err).Failure() == FailureRefused { // by the ceiling: nothing has failed
		c.limited.Inc()
		return token{}, err
	}
	if c.err = err; err == nil {
		c.ok.Inc()
		fresh.made = c.token.made + 1
		c.token, c.failures = fresh, 0
		return fresh, nil
	}
	c.failed.Inc()
	c.next = c.opts.Now().Add(min(signInPause<<min(c.failures, 10), maxSignInPause))
	c.failures++
	return token{}, err
}

// signIn makes one sign-in. A panic in it fails those who wait for it, and not the process.
func (c *credentials) signIn(ctx context.Context) (fresh token, err error) {
	defer c.opts.Panics.Catch(func(p any) { err = bug(p) })
	fresh, err = c.request(ctx)
	if err == nil && !validHeader(fresh.name, fresh.value) {
		return token{}, errors.New("the token cannot be sent in a header")
	}
	return fresh, err
}

// rejection says why the legacy system does not take the credential, by a reply or the error in its
// place; nil: it does. configured: the configuration names such a reply as the end of a session.
func (c *credentials) rejection(r reply, err error) (why *Error, configured bool) {
	configured = c.request != nil && r.status != http.StatusOK && slices.Contains(c.renewOn, r.status)
	switch {
	case err != nil && asError(err).Reason == reasonDenied:
		return asError(err), configured
	case configured:
		return failure(reasonDenied, "status %d", r.status), true
	case (err != nil || r.status == http.StatusOK) && c.renewIf.Any(r.body): // a SOAP fault comes with an error, and a body
		return failure(reasonDenied, "the reply meets auth.renew_if"), true
	}
	return nil, false
}

// mayRenew tells whether the request for an account may be sent again with another credential after
// its own was rejected. Else the rejection is the answer to this request. It may be sent again
//   - where there is a later token already, or one is asked for;
//   - where the configuration names such a reply, for the first rejection of each token, while so
//     many sign-ins may be made;
//   - where it does not, but the token has worked before, as the legacy may have changed its secret.
//     The rejection may as well be meant for the account, which gets one sign-in in renewMemory.
func (c *credentials) mayRenew(rejected token, account string, configured bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.request == nil || rejected.made < c.token.made || rejected.made <= c.renewing {
		return c.request != nil
	}
	now := c.opts.Now()
	maps.DeleteFunc(c.renewed, func(_ string, at time.Time) bool { return now.Sub(at) >= renewMemory })
	_, again := c.renewed[account]
	if !configured && (again || c.good < rejected.made) {
		return false
	}
	if again && c.renewal.TokensAt(now) < 2 || !c.renewal.AllowN(now, 1) {
		c.limited.Inc()
		return false
	}
	c.renewing, c.renewed[account] = rejected.made, now
	return true
}

// noteGood notes that a reply was given to the credential.
func (c *credentials) noteGood(used token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.good = max(c.good, used.made)
}

// denied is the error of a request whose credential was rejected for good.
func (c *credentials) denied(used token, why *Error) *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.request == nil:
		if c.token.name == "" {
			return failure(reasonDenied, "%w; auth.type is none, so there is no sign-in besides what headers, query and body send", why.Err)
		}
		return failure(reasonDenied, "%w; look at %s", why.Err, c.name)
	case c.good >= used.made:
		return failure(reasonDenied, "%w, though the same sign-in has worked for other lists; may its user read this account? %s", why.Err, c.name)
	}
	return failure(reasonDenied, "%w right after the sign-in; look at user and password, and at what that user may read: %s", why.Err, c.name)
}

// tokenLeeway is how long before its end an access token is not used any more.
const tokenLeeway = 10 * time.Second

// requestToken signs in by type oauth2_client_credentials (RFC 6749, 4.4). Whether the endpoint
// wants the secret in a header or in the body it does not say: the next sign-in tries the other
// way, until one has succeeded. It does not run twice at a time.
func (a AuthConfig) requestToken(client *http.Client, now func() time.Time) func(context.Context) (token, error) {
	inBody, known := false, false
	return func(ctx context.Context) (token, error) {
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
			return token{}, errors.New("auth.token_url makes no request")
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if !inBody {
			r.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		}
		resp, body, err := signIn(client, r)
		switch {
		case err != nil:
			return token{}, err
		case resp.StatusCode < 200 || resp.StatusCode > 299:
			rejected := resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnauthorized
			inBody = inBody != (rejected && !known)
			return token{}, fmt.Errorf("the token endpoint answers status %d", resp.StatusCode)
		}
		reply, _ := jsontree.Parse(string(body)) // else it has no token
		access := single(reply.At("access_token"))
		if access == "" {
			return token{}, errors.New("the reply of the token endpoint has no access_token")
		}
		known = true
		scheme := cmp.Or(single(reply.At("token_type")), "Bearer")
		if strings.EqualFold(scheme, "Bearer") {
			scheme = "Bearer" // as a header has it
		}
		fresh := token{name: "Authorization", value: scheme + " " + access}
		if seconds, ok := jsontree.Count(single(reply.At("expires_in"))); ok && seconds > 0 {
			fresh.end = now().Add(time.Duration(min(seconds, 1e9))*time.Second - tokenLeeway) // 30 years: more overflows
		}
		return fresh, nil
	}
}

// single is the text of a single value; empty: it is none.
func single(v jsontree.Value) string {
	if !v.Scalar() {
		return ""
	}
	return v.Plain()
}

// openSession signs in by type session, with one request. Its errors hold neither the address,
// which may have a secret in its query, nor what was sent.
func (a AuthConfig) openSession(client *http.Client, base string, now func() time.Time) func(context.Context) (token, error) {
	plan := a.Login.spec().Compile(base, "auth.login", &setting.Problems{}) // Validate has told them
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
		resp, body, err := signIn(client, r)
		if err != nil {
			return token{}, err
		}
		text, err := a.tokenIn(resp, body)
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
			fresh.end = now().Add(a.TTL)
		}
		return fresh, nil
	}
}

// tokenIn gives the token of the reply to a login. A redirect is a good reply where the token
// is in its header: it is where a form leads to.
func (a AuthConfig) tokenIn(resp *http.Response, body []byte) (text string, err error) {
	most := 299
	if a.Token == "" {
		most = 399
	}
	if resp.StatusCode < 200 || resp.StatusCode > most {
		return "", fmt.Errorf("the login answers status %d", resp.StatusCode)
	}
	expect := mapping.CompileConditions("auth.login.expect", a.Login.Expect, &setting.Problems{})
	reply, err := jsontree.Parse(string(body))
	if len(expect) > 0 && err != nil {
		return "", errors.New("the reply to the login is not JSON, and auth.login.expect says what it has to hold")
	}
	if key := expect.Unmet(reply); key != "" {
		return "", fmt.Errorf("the reply to the login does not meet %s", key)
	}
	switch {
	case a.TokenHeader != "":
		text = resp.Header.Get(a.TokenHeader)
	case a.TokenCookie != "":
		for _, cookie := range resp.Cookies() {
			if cookie.Name == a.TokenCookie {
				text = cookie.Value // the last one counts (RFC 6265, 5.3)
			}
		}
	default:
		text = single(reply.At(a.Token))
	}
	if text == "" {
		return "", errors.New("the reply to the login has no token where the configuration says")
	}
	return text, nil
}

// maxLoginBytes bounds the reply to a sign-in.
const maxLoginBytes = 1 << 20

// signIn sends a sign-in. Its errors hold nothing of what was sent or came.
func signIn(client *http.Client, r *http.Request) (*http.Response, []byte, error) {
	resp, err := client.Do(r)
	if err != nil {
		return nil, nil, fmt.Errorf("no sign-in: %w", withoutAddress(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols { // see discard
		return resp, nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxLoginBytes+1))
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("no sign-in: %w", withoutAddress(err))
	case len(body) > maxLoginBytes:
		return nil, nil, errors.New("the reply to the sign-in is too large")
	}
	return resp, body, nil
}
