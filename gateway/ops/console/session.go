package console

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	cookieName      = "inquiry_gateway_console"
	sessionLifetime = 12 * time.Hour // a night's watch
)

// Sessions lets a browser in, which cannot send a bearer token by navigation:
// whoever signs in with the token gets a cookie that holds an end, a random part
// and their HMAC under a key of this process. Only sessions that were signed out
// before their end are kept; another process, or another token, ends them all. It
// is safe for concurrent use. A nil Sessions has no token.
type Sessions struct {
	// Wrong is told of wrong tokens; nil: nobody is. It is set before use.
	Wrong *WrongTokens

	secret atomic.Pointer[secret] // nil: everybody is let in
	now    func() time.Time

	mu    sync.Mutex
	ended map[string]int64 // what the cookie says, and the end that it would have had, Unix seconds
}

// secret is what a token comes down to.
type secret struct {
	token [sha256.Size]byte // hashed, so that comparing it tells not even its length
	key   []byte
}

// NewSessions makes the sessions of a token; an empty one lets everybody in. A
// nil now is time.Now.
func NewSessions(token string, now func() time.Time) *Sessions {
	if now == nil {
		now = time.Now
	}
	s := &Sessions{now: now, ended: map[string]int64{}}
	s.SetToken(token)
	return s
}

// SetToken makes a token count from now on. Another one than before ends all
// sessions.
func (s *Sessions) SetToken(token string) {
	switch x := s.secret.Load(); {
	case token == "":
		s.secret.Store(nil)
	case x == nil || !x.is(token):
		s.secret.Store(&secret{token: sha256.Sum256([]byte(token)), key: []byte(rand.Text())})
	}
}

// Guarded tells whether there is a token.
func (s *Sessions) Guarded() bool { return s != nil && s.secret.Load() != nil }

// Authorized reports whether r carries the token as a bearer token, or the
// cookie of a session that has not ended. A cookie comes along without the
// person's doing, so whoever accepts it for a request that changes something
// must refuse requests of other origins, as http.CrossOriginProtection does.
func (s *Sessions) Authorized(r *http.Request) bool {
	if !s.Guarded() || s.bearer(r) {
		return true
	}
	_, _, ok := s.session(r)
	return ok
}

func (s *Sessions) bearer(r *http.Request) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && s.isToken(strings.TrimLeft(given, " "))
}

// isToken tells whether a person who signs in knows the token.
func (s *Sessions) isToken(given string) bool {
	x := s.secret.Load()
	return x == nil || x.is(given)
}

func (x *secret) is(given string) bool {
	got := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(got[:], x.token[:]) == 1
}

// session reads the request's cookie: what it says, and until when it is good.
func (s *Sessions) session(r *http.Request) (said string, end int64, ok bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return "", 0, false
	}
	said, mac, _ := strings.Cut(cookie.Value, ".")
	until, _, _ := strings.Cut(said, "-")
	end, err = strconv.ParseInt(until, 10, 64)
	if err != nil || !hmac.Equal([]byte(mac), []byte(s.mac(said))) || s.now().Unix() >= end {
		return "", 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, over := s.ended[said]
	return said, end, !over
}

// mac is empty without a token.
func (s *Sessions) mac(said string) string {
	x := s.secret.Load()
	if x == nil {
		return ""
	}
	mac := hmac.New(sha256.New, x.key)
	mac.Write([]byte(said))
	return hex.EncodeToString(mac.Sum(nil))
}

// begin gives the cookie of a new session; end ends the request's and gives one
// that removes it. Secure follows the connection: over plain HTTP a Secure cookie
// would not come back.
func (s *Sessions) begin(r *http.Request) *http.Cookie {
	said := strconv.FormatInt(s.now().Add(sessionLifetime).Unix(), 10) + "-" + rand.Text()
	return &http.Cookie{
		Name: cookieName, Value: said + "." + s.mac(said), Path: "/", MaxAge: int(sessionLifetime.Seconds()),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}

func (s *Sessions) end(r *http.Request) *http.Cookie {
	if said, end, ok := s.session(r); ok {
		s.mu.Lock()
		maps.DeleteFunc(s.ended, func(_ string, end int64) bool { return end <= s.now().Unix() })
		s.ended[said] = end
		s.mu.Unlock()
	}
	return &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode}
}
