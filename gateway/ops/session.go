package ops

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

// Sessions decide who may use the listener: whoever sends the token, and whoever
// has signed in with it. A browser cannot send a bearer token by navigation, so it
// gets a cookie that holds an end, a random part and their HMAC under a key of this
// process. Only sessions that were signed out before their end are kept; another
// process, or another token, ends them all. It is safe for concurrent use. A nil
// Sessions has no token.
type Sessions struct {
	// Wrong is told of wrong tokens; nil: nobody is. It is set before use.
	Wrong *WrongTokens

	secret atomic.Pointer[secret] // nil: everybody is let in
	now    func() time.Time

	mu    sync.Mutex
	ended map[string]int64 // payload of a cookie -> the end that it would have had, Unix seconds
}

// secret is made of a token.
type secret struct {
	token [sha256.Size]byte // hashed, so that comparing it does not tell its length
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

// authorized reports whether r carries the token as a bearer token, or the cookie
// of a session that has not ended. A browser sends a cookie without the person's
// doing, so http.CrossOriginProtection must refuse requests of other origins that
// change something.
func (s *Sessions) authorized(r *http.Request) bool {
	if !s.Guarded() {
		return true
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && s.isToken(strings.TrimLeft(given, " ")) {
		return true
	}
	_, _, ok := s.session(r)
	return ok
}

func (s *Sessions) isToken(given string) bool {
	x := s.secret.Load()
	return x == nil || x.is(given)
}

func (x *secret) is(given string) bool {
	got := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(got[:], x.token[:]) == 1
}

// session reads the request's cookie: its payload, and until when it is good.
func (s *Sessions) session(r *http.Request) (payload string, end int64, ok bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return "", 0, false
	}
	payload, mac, _ := strings.Cut(cookie.Value, ".")
	until, _, _ := strings.Cut(payload, "-")
	end, err = strconv.ParseInt(until, 10, 64)
	if err != nil || !hmac.Equal([]byte(mac), []byte(s.mac(payload))) || s.now().Unix() >= end {
		return "", 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, over := s.ended[payload]
	return payload, end, !over
}

// mac is empty without a token.
func (s *Sessions) mac(payload string) string {
	x := s.secret.Load()
	if x == nil {
		return ""
	}
	mac := hmac.New(sha256.New, x.key)
	mac.Write([]byte(payload))
	return hex.EncodeToString(mac.Sum(nil))
}

// begin gives the cookie of a new session.
func (s *Sessions) begin(r *http.Request) *http.Cookie {
	payload := strconv.FormatInt(s.now().Add(sessionLifetime).Unix(), 10) + "-" + rand.Text()
	return cookieOf(r, payload+"."+s.mac(payload), sessionLifetime)
}

// end ends the request's session and gives the cookie that removes its cookie.
func (s *Sessions) end(r *http.Request) *http.Cookie {
	if payload, end, ok := s.session(r); ok {
		s.mu.Lock()
		maps.DeleteFunc(s.ended, func(_ string, end int64) bool { return end <= s.now().Unix() })
		s.ended[payload] = end
		s.mu.Unlock()
	}
	return cookieOf(r, "", -time.Second)
}

// cookieOf makes a cookie. Secure follows the connection: over plain HTTP a Secure
// cookie would not come back.
func cookieOf(r *http.Request, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}
