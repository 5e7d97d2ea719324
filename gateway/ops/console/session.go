package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	cookieName      = "inquiry_gateway_console"
	sessionLifetime = 12 * time.Hour // a night's watch
)

// Sessions lets a browser in, which cannot send a bearer token by navigation:
// whoever signs in with the token gets a cookie that holds an end and its HMAC
// under a key made from the token. Nothing is kept per session; another token
// ends them all. It is safe for concurrent use.
type Sessions struct {
	token [sha256.Size]byte // hashed, so that comparing it tells not even its length
	key   []byte
	now   func() time.Time
}

// NewSessions makes the sessions of a token. An empty token: nil, which lets
// everybody in. A nil now is time.Now.
func NewSessions(token string, now func() time.Time) *Sessions {
	if token == "" {
		return nil
	}
	if now == nil {
		now = time.Now
	}
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("inquiry-gateway console session v1"))
	return &Sessions{token: sha256.Sum256([]byte(token)), key: mac.Sum(nil), now: now}
}

// Authorized reports whether r carries the token as a bearer token, or the
// cookie of a session that has not ended. A cookie comes along without the
// person's doing, so whoever accepts it for a request that changes something
// must refuse requests of other origins, as http.CrossOriginProtection does.
func (s *Sessions) Authorized(r *http.Request) bool {
	if s == nil || s.bearer(r) {
		return true
	}
	cookie, err := r.Cookie(cookieName)
	return err == nil && s.valid(cookie.Value)
}

func (s *Sessions) bearer(r *http.Request) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && s.isToken(strings.TrimLeft(given, " "))
}

func (s *Sessions) isToken(given string) bool {
	got := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(got[:], s.token[:]) == 1
}

func (s *Sessions) valid(value string) bool {
	until, mac, _ := strings.Cut(value, ".")
	end, err := strconv.ParseInt(until, 10, 64)
	if err != nil || !hmac.Equal([]byte(mac), []byte(s.mac(until))) {
		return false
	}
	return s.now().Unix() < end
}

func (s *Sessions) mac(until string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(until))
	return hex.EncodeToString(mac.Sum(nil))
}

// begin gives the cookie of a new session; end one that removes it. Secure
// follows the connection: over plain HTTP a Secure cookie would not come back.
func (s *Sessions) begin(r *http.Request) *http.Cookie {
	until := strconv.FormatInt(s.now().Add(sessionLifetime).Unix(), 10)
	return &http.Cookie{
		Name: cookieName, Value: until + "." + s.mac(until), Path: "/", MaxAge: int(sessionLifetime.Seconds()),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}

func (s *Sessions) end(r *http.Request) *http.Cookie {
	return &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
}
