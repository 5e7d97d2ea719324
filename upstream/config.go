package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsontree"
	"inquiry-gateway/upstream/mapping"
)

// Config is the upstream section of the configuration file: where the legacy
// system is, how hard it may be asked, and how its JSON becomes inquiries.
type Config struct {
	// BaseURL is the address of the legacy system, http or https, without a query.
	BaseURL string `yaml:"base_url" required:"the address of the legacy system, such as https://legacy.internal"`
	// Timeout is the longest time of one attempt of one request; a whole list has request_timeout.
	Timeout time.Duration `yaml:"timeout" above:"0s"`
	// MaxResponseBytes is the maximum size of all replies for one list together, after decompression. They are kept in
	// memory.
	MaxResponseBytes int64 `yaml:"max_response_bytes" above:"0" max:"1GiB"`
	// MaxTotalResponseBytes is the maximum size of the replies of all fetches in progress on this node, at least twice
	// max_response_bytes; in memory they take about twice as much. Beyond it a fetch ends with 503; the last quarter is for
	// small lists. At most an eighth of the memory limit is used.
	MaxTotalResponseBytes int64 `yaml:"max_total_response_bytes" above:"0"`
	// MaxRecords is the maximum of records of one list; a longer one is refused.
	MaxRecords int `yaml:"max_records" min:"1"`
	// MaxConcurrent is the maximum of requests in flight on this node, besides one sign-in. If none is free, a new list fails
	// with 503; further requests of a list (pages, details, responses) wait, and go before new lists.
	MaxConcurrent int `yaml:"max_concurrent" min:"1"`
	// Headers are sent with every request. They must not hold secrets: use auth.
	Headers map[string]string `yaml:"headers"`
	// Auth is how the gateway signs in at the legacy system.
	Auth AuthConfig `yaml:"auth"`
	// TLS is for a private CA or a client certificate. It also applies to the token endpoint of auth, so ca_file must hold
	// its authority, too.
	TLS setting.TLS `yaml:"tls"`
	// Attempts is the maximum of attempts of a request that is refused, or answered with 502, 503, or a 429 with Retry-After.
	// At most one request in ten is repeated. 1: none is.
	Attempts int `yaml:"attempts" min:"1"`
	// Breaker is the circuit breaker.
	Breaker BreakerConfig `yaml:"breaker"`
	// Buyer is how the lists of buyers are requested and read.
	Buyer mapping.EndpointConfig `yaml:"buyer"`
	// Seller is how the lists of sellers are requested and read.
	Seller mapping.EndpointConfig `yaml:"seller"`

	// MaxRequestsPerSecond is the maximum of requests per second of all nodes together to the legacy system: pages, second
	// requests, retries, refreshes and sign-ins. 95 % of it can be used steadily, a quarter by one account. 0: no limit.
	MaxRequestsPerSecond int `yaml:"max_requests_per_second" min:"0" max:"1000000"`
	// MaxNodes is how many nodes share max_requests_per_second while Redis is unavailable. 0: 3, or 1 without Redis.
	MaxNodes int `yaml:"max_nodes" min:"0" max:"1000"`

	// MaxConcurrentPerAccount is the maximum of requests in flight for one account on this node. 0: a quarter of
	// max_concurrent, at least 1.
	MaxConcurrentPerAccount int `yaml:"max_concurrent_per_account" min:"0"`
}

// perAccount is the bound in force for one account.
func (c *Config) perAccount() int {
	if c.MaxConcurrentPerAccount > 0 {
		return c.MaxConcurrentPerAccount
	}
	return max(1, c.MaxConcurrent/4)
}

// Endpoint is the section of one list, to read or to change.
func (c *Config) Endpoint(kind string) *mapping.EndpointConfig {
	if kind == "seller" {
		return &c.Seller
	}
	return &c.Buyer
}

// Kinds are the lists that the configuration has: one of the two sections may be left out.
func (c Config) Kinds() (kinds []string) {
	for _, kind := range []string{"buyer", "seller"} {
		if ec := c.Endpoint(kind); !reflect.DeepEqual(*ec, defaultEndpoint()) && !reflect.DeepEqual(*ec, mapping.EndpointConfig{}) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// BreakerWindow is the shortest period over which outcomes are counted: with a request_timeout of more than 5 s it is twice that.
// An outage is when no list has come for this long.
const BreakerWindow = 10 * time.Second

// BreakerConfig is when to stop asking a legacy system that does not answer.
type BreakerConfig struct {
	// MinRequests is how many fetches must have failed within 10 s, or within twice request_timeout if that is longer. While other lists succeed, an account that keeps failing
	// counts once. Lower it for few callers.
	MinRequests int `yaml:"min_requests" min:"1"`
	// FailureRatio is the share of fetches that must have failed, too, while other lists succeed.
	FailureRatio float64 `yaml:"failure_ratio" above:"0" max:"1"`
	// OpenFor is how long accounts and lists that have failed are not fetched; others are probed after a fifth of it, one at
	// a time.
	OpenFor time.Duration `yaml:"open_for" above:"0s"`
}

// defaultEndpoint is a list of which nothing is written.
func defaultEndpoint() mapping.EndpointConfig {
	return mapping.EndpointConfig{
		OnInvalidRecord: "fail",
		OnOwnerMismatch: "fail",
	}
}

// DefaultConfig is everything that has a usable default. The base URL and the
// two endpoints have none.
func DefaultConfig() Config {
	return Config{
		Timeout:          2 * time.Second,
		MaxResponseBytes: 16 << 20,
		MaxRecords:       10_000,
		MaxConcurrent:    64,
		Auth:             AuthConfig{Type: "none"},
		Attempts:         2,
		Breaker:          BreakerConfig{MinRequests: 20, FailureRatio: 0.5, OpenFor: 5 * time.Second},
		Buyer:            defaultEndpoint(),
		Seller:           defaultEndpoint(),

		MaxTotalResponseBytes: 256 << 20,
	}
}

// Validate reports every mistake as [setting.Problems], with keys as they are within the section.
func (c Config) Validate() error {
	_, err := c.compile()
	return err
}

// compile checks the configuration, and compiles the mapping of each list.
func (c Config) compile() (plans map[string]*mapping.Plan, err error) {
	p, plans := &setting.Problems{}, map[string]*mapping.Plan{}
	c.checkLimits(p)
	c.checkBaseURL(p)
	address.CheckHeaders("headers", c.Headers, p)
	c.checkOwnHeaders("headers.", c.Headers, p)
	c.Auth.check(c.BaseURL, p)
	c.checkOwnHeaders("auth.login.headers.", c.Auth.Login.Headers, p)
	c.TLS.Config("tls", p)
	secure := func(address string) bool { return strings.HasPrefix(strings.ToLower(address), "https:") }
	p.AddIf(c.TLS != (setting.TLS{}) && !secure(c.BaseURL) && !secure(c.Auth.TokenURL) && !secure(c.Auth.Login.BaseURL), "tls",
		"base_url is plain http, as is what auth names, so the files would not be used; change base_url or empty them")
	p.AddIf(len(c.Kinds()) == 0, "buyer", "missing, as is seller: add one of the two lists, or both")
	sendsSecret := false
	for _, kind := range c.Kinds() {
		ec := *c.Endpoint(kind)
		plans[kind] = mapping.Compile(kind, ec, c.BaseURL, c.MaxRecords, p)
		text, _ := json.Marshal(ec)
		if strings.Contains(string(text), "{"+address.Secret+"}") {
			sendsSecret = true
			p.AddIf(c.Auth.Type != authSecret, kind, "{secret} has a meaning with auth.type secret only, whose secret_file holds it")
		}
		c.checkOwnHeaders(kind+".headers.", ec.Headers, p)
		c.checkOwnHeaders(kind+".fields.responses.fetch.headers.", ec.Fields.Responses.Fetch.Headers, p)
		c.checkOwnHeaders(kind+".details.fetch.headers.", ec.Details.Fetch.Headers, p)
	}
	p.AddIf(c.Auth.Type == authSecret && !sendsSecret, "auth.secret_file", "no request has {secret} in its query or body")
	return plans, p.Err()
}

// checkLimits checks what bounds of how hard the legacy may be asked contradict each other.
func (c Config) checkLimits(p *setting.Problems) {
	p.AddIf(c.MaxConcurrentPerAccount > c.MaxConcurrent, "max_concurrent_per_account",
		"must be between 1 and max_concurrent (%d); leave it out for a quarter of that", c.MaxConcurrent)
	p.AddIf(c.MaxTotalResponseBytes < 2*c.MaxResponseBytes, "max_total_response_bytes", "must be at least twice max_response_bytes (%d), so that one list fits", c.MaxResponseBytes)
	p.AddIf(c.MaxNodes > 0 && c.MaxRequestsPerSecond == 0, "max_nodes", "has no meaning without max_requests_per_second; remove it")
}

// checkBaseURL wants an address to which paths can be added. Its messages do not repeat the
// text: it may have a password in it.
func (c Config) checkBaseURL(p *setting.Problems) {
	u, err := url.Parse(c.BaseURL)
	switch {
	case c.BaseURL == "": // its tag tells
	case err != nil:
		p.Add("base_url", "not a URL; write something like https://legacy.internal")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		p.Add("base_url", "must be an absolute http or https URL such as https://legacy.internal")
	case u.User != nil:
		p.Add("base_url", "must not hold a user or password; use auth")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		p.Add("base_url", "must not hold a query; put parameters under query of the endpoint")
	}
}

// checkOwnHeaders finds headers that have a meaning of their own.
func (c Config) checkOwnHeaders(at string, headers map[string]string, p *setting.Problems) {
	for name := range headers {
		p.AddIf(reserved(name), at+name, "the gateway sets this header itself; remove it (for credentials use auth)")
		p.AddIf(http.CanonicalHeaderKey(name) == http.CanonicalHeaderKey(c.Auth.headerName()), at+name, "auth sets this header; remove it here")
	}
}

// reserved names the headers whose meaning this package depends on.
func reserved(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Accept-Encoding", "Connection", "Content-Length", "Cookie", "Host", "Transfer-Encoding", "Via", "X-Request-Id", "Range",
		"If-None-Match", "If-Modified-Since", "Authorization", "Proxy-Authorization":
		return true
	}
	return false
}

// AuthConfig says how the gateway identifies itself to the legacy system.
// Secrets are in files of one line each.
type AuthConfig struct {
	// Type is how the gateway signs in: basic, bearer and header send a fixed credential, secret sends one in the requests'
	// query or body, oauth2_client_credentials and session get a token first.
	Type string `yaml:"type" enum:",none,basic,bearer,header,secret,oauth2_client_credentials,session"`

	setting.User `yaml:",inline" with:"type=basic,session"`
	// TokenFile is the file with the bearer token, or with the value of the header.
	TokenFile setting.File `yaml:"token_file" with:"type=bearer!,header!"`
	// SecretFile is the file with the value of {secret} in query and body.
	SecretFile setting.File `yaml:"secret_file" with:"type=secret!"`
	// Name is the name of the header with the credential.
	Name string `yaml:"name" with:"type=header!"`

	// TokenURL is the token endpoint of the authorization server (RFC 6749, 4.4).
	TokenURL       string `yaml:"token_url" with:"type=oauth2_client_credentials!"`
	setting.Client `yaml:",inline" with:"type=oauth2_client_credentials!"`
	// Params are further parameters of the token request, such as scope or audience.
	Params map[string]string `yaml:"params" with:"type=oauth2_client_credentials"`

	// Login is the request that opens a session, for all callers.
	Login LoginConfig `yaml:"login" with:"type=session!"`
	// Token is where the reply to the login has the token.
	Token TokenConfig `yaml:"token" with:"type=session!"`
	// Send is the header with the token, such as {X-Token: "{token}"} or {Cookie: "SID={token}"}. Default: Authorization:
	// "Bearer {token}" for token.json, else as it came.
	Send map[string]string `yaml:"send" with:"type=session"`
	// RenewOn are statuses that mean that the session has ended; default 401.
	RenewOn []int `yaml:"renew_on" min:"300" max:"599" with:"type=session"`
	// RenewIf are conditions, one of which means that the session has ended or the credential is wrong, for replies with status 200 and SOAP faults.
	// Right after a sign-in such a reply with status 200 is accepted if it fits the mapping.
	RenewIf []mapping.Condition `yaml:"renew_if" with:"type=basic,bearer,header,secret,oauth2_client_credentials,session"`
	// TTL is how long a session is used before the next sign-in. 0s: until it ends.
	TTL time.Duration `yaml:"ttl" with:"type=session"`
}

// Values of auth.type.
const (
	authNone    = "none"
	authBasic   = "basic"
	authBearer  = "bearer"
	authHeader  = "header"
	authSecret  = "secret"
	authOAuth2  = "oauth2_client_credentials"
	authSession = "session"
)

// LoginConfig is the request that opens a session: a POST.
type LoginConfig struct {
	// BaseURL is the server of the login; default upstream.base_url.
	BaseURL string `yaml:"base_url" form:"url"`
	// Basic sends username and password as HTTP Basic credentials, instead of {username} and {password} in the body.
	Basic                 bool `yaml:"basic"`
	mapping.RequestConfig `yaml:",inline"`
}

// The placeholders of a login.
const (
	loginUser     = "username"
	loginPassword = "password"
)

// TokenConfig is one place of a reply.
type TokenConfig struct {
	// JSON is the GJSON path of the token in the body.
	JSON string `yaml:"json" form:"gjson"`
	// Header is the response header that has the token.
	Header string `yaml:"header"`
	// Cookie is the cookie that has the token. No other cookie is kept.
	Cookie string `yaml:"cookie"`
}

// tokenPlaceholder stands for the token in auth.send.
const tokenPlaceholder = "{token}"

// spec is the login as a request with two placeholders.
func (l LoginConfig) spec() address.Spec {
	sending := l.Sending
	sending.Method = http.MethodPost
	return address.Spec{Path: l.Path, Query: l.Query, InQuery: []string{loginUser, loginPassword}, Sending: sending}
}

// secret is the one secret that the type has, with its key; without a key it has none.
func (a AuthConfig) secret() (key string, file setting.File) {
	switch a.Type {
	case authBasic, authSession:
		return "password_file", a.PasswordFile
	case authBearer, authHeader:
		return "token_file", a.TokenFile
	case authSecret:
		return "secret_file", a.SecretFile
	case authOAuth2:
		return "client_secret_file", a.ClientSecretFile
	}
	return "", setting.File{}
}

// requestSecret is what {secret} stands for.
func (a AuthConfig) requestSecret() string {
	if a.Type != authSecret {
		return ""
	}
	return oneLine(a.SecretFile)
}

// oneLine is what a file of one line holds.
func oneLine(f setting.File) string { return strings.TrimSpace(f.Text()) }

// user is the user's name, which stands in the configuration or in a file.
func (a AuthConfig) user() string { return cmp.Or(a.Username, oneLine(a.UsernameFile)) }

// String names what the legacy may refuse, for an error: type, user and file.
func (a AuthConfig) String() string {
	text := "auth.type " + cmp.Or(a.Type, authNone)
	if user := cmp.Or(a.user(), a.ClientID); user != "" {
		text += fmt.Sprintf(", user %q", user)
	}
	if key, file := a.secret(); file.Set() {
		text += ", auth." + key + " " + file.Path()
	}
	return text
}

// sends is the header that a session's token is sent in, and its text.
func (a AuthConfig) sends() (name, text string) {
	for name, text = range a.Send {
		return name, text
	}
	switch {
	case a.Token.Header != "":
		return a.Token.Header, tokenPlaceholder
	case a.Token.Cookie != "":
		return "Cookie", a.Token.Cookie + "=" + tokenPlaceholder
	}
	return "Authorization", "Bearer " + tokenPlaceholder
}

// headerName is the header that the credential is sent in, where the configuration names it.
func (a AuthConfig) headerName() string {
	if a.Type == authSession {
		name, _ := a.sends()
		return name
	}
	return a.Name
}

// check reports what contradicts in the credentials. Keys that a type needs and lacks, or
// that it would ignore, are told by their tags.
func (a AuthConfig) check(base string, p *setting.Problems) {
	key, secret := a.secret()
	p.AddIf(a.Username != "" && a.UsernameFile.Set(), "auth.username_file", "username is set, too; remove one of the two")
	p.AddIf(strings.ContainsAny(oneLine(a.UsernameFile), "\r\n\x00"), "auth.username_file", "the file holds more than one line")
	p.AddIf(strings.ContainsAny(oneLine(secret), "\r\n\x00"), "auth."+key, "the file of the secret holds more than one line")
	mapping.CompileConditions("auth.renew_if", a.RenewIf, p)
	p.AddIf(a.Name != "" && !address.ValidHeader(a.Name, ""), "auth.name", "not a valid name of an HTTP header")
	switch a.Type {
	case authBasic:
		p.AddIf(a.Username == "" && !a.UsernameFile.Set(), "auth.username", "missing: type basic needs it, or username_file")
	case authOAuth2:
		u, err := url.Parse(a.TokenURL)
		absolute := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
		p.AddIf(a.TokenURL != "" && !absolute, "auth.token_url", "must be an absolute http or https URL")
	case authSession:
		a.checkSession(base, p)
	}
}

func (a AuthConfig) checkSession(base string, p *setting.Problems) {
	if !setting.IsSet(a.Login) {
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
	p.AddIf(plan.Has(address.Secret), "auth.login.body", "unknown placeholder {secret}; a login has {username} and {password}")
	p.AddIf(!a.Login.Basic && !plan.Has(loginPassword), "auth.login.body", "the password is not sent: put {password} into a text of the body, or set basic: true")
	p.AddIf(a.Login.Basic && plan.Has(loginPassword), "auth.login.basic", "the password is in the body already; remove one of the two")
	p.AddIf(!a.PasswordFile.Set(), "auth.password_file", "missing: type session needs it")
	p.AddIf(a.Username == "" && !a.UsernameFile.Set() && (a.Login.Basic || plan.Has(loginUser)), "auth.username", "missing: the login sends it; set it or username_file")
	t := a.Token
	p.AddIf(len(slices.DeleteFunc([]string{t.JSON, t.Header, t.Cookie}, func(s string) bool { return s == "" })) != 1, "auth.token",
		"say where the reply to the login has the token: json (a GJSON path), header or cookie; one of them")
	if t.JSON != "" {
		if _, err := jsontree.CompilePath(t.JSON); err != nil {
			p.Add("auth.token.json", "%v", err)
		}
	}
	name, text := a.sends()
	p.AddIf(len(a.Send) > 1 || !strings.Contains(text, tokenPlaceholder) || !address.ValidHeader(name, strings.ReplaceAll(text, tokenPlaceholder, "")), "auth.send",
		"wants one header with {token} in its text, such as {X-Token: \"{token}\"}")
	mapping.CompileConditions("auth.login.expect", a.Login.Expect, p)
}

// checkFiles reports what the files of the secrets lack, which may change with each reload.
func (a AuthConfig) checkFiles() error {
	var p setting.Problems
	key, secret := a.secret()
	p.AddIf(key != "" && oneLine(secret) == "" && (secret.Set() || a.Type != authBasic), "auth."+key,
		"the file of the secret is empty; with type basic leave the key out for an empty password")
	p.AddIf(a.UsernameFile.Set() && a.user() == "", "auth.username_file", "the file is empty")
	return p.Err()
}
