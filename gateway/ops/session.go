package ops

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	cookieName      = "inquiry_gateway_console"
	sessionLifetime = 12 * time.Hour // a night's watch
	// maxSessions bounds their memory to 300 KiB. Where one more begins, the one that
	// would end first ends.
	maxSessions = 1 << 12
)

// Sessions decide who may use the listener: whoever sends the token, and whoever
// has signed in with it. A browser cannot send a bearer token by navigation, so it
// gets a cookie with a random text. Only this process knows it; another token ends
// all sessions. It is safe for concurrent use.
type Sessions struct {
	// Wrong is told of wrong tokens; nil: nobody is. It is set before use.
	Wrong *WrongTokens

	now func() time.Time

	mu      sync.Mutex
	guarded bool               // there is a token
	token   hash               // of operators
	read    hash               // lets in to the metrics alone; the zero value is of no text
	open    map[hash]time.Time // cookie -> when its session ends
}

// hash stands for a secret text, so that comparing two does not tell how much of
// them is the same.
type hash [sha256.Size]byte

// NewSessions makes the sessions of a token; an empty one lets everybody in. A
// nil now is time.Now.
func NewSessions(token string, now func() time.Time) *Sessions {
	if now == nil {
		now = time.Now
	}
	s := &Sessions{now: now, open: map[hash]time.Time{}}
	s.SetTokens(token, "")
	return s
}

// SetTokens makes a token of operators and one for the metrics count from now on;
// an empty second one lets nobody in. Another token of operators than before ends
// all sessions.
func (s *Sessions) SetTokens(token, read string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.token
	s.guarded, s.token, s.read = token != "", sha256.Sum256([]byte(token)), hash{}
	if read != "" {
		s.read = sha256.Sum256([]byte(read))
	}
	if s.token != before {
		clear(s.open)
	}
}

// Guarded tells whether there is a token.
func (s *Sessions) Guarded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.guarded
}

// authorized reports whether r carries the token as a bearer token, or the cookie
// of a session that has not ended. A browser sends a cookie without the person's
// doing, so http.CrossOriginProtection must refuse requests of other origins that
// change something.
func (s *Sessions) authorized(r *http.Request) bool {
	if !s.Guarded() {
		return true
	}
	if given, ok := bearer(r); ok && s.isToken(given) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now().Before(s.open[cookieOf(r)])
}

// isToken is true for any text where there is no token.
func (s *Sessions) isToken(given string) bool {
	got := sha256.Sum256([]byte(given))
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.guarded || subtle.ConstantTimeCompare(got[:], s.token[:]) == 1
}

// mayRead reports whether r carries the token that is for the metrics alone.
func (s *Sessions) mayRead(r *http.Request) bool {
	given, ok := bearer(r)
	got := sha256.Sum256([]byte(given))
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && subtle.ConstantTimeCompare(got[:], s.read[:]) == 1
}

// bearer is the token that r carries.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimLeft(given, " "), strings.EqualFold(scheme, "Bearer")
}

// cookieOf is the request's cookie, as sessions are found by it.
func cookieOf(r *http.Request) hash {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return hash{} // of no text
	}
	return sha256.Sum256([]byte(cookie.Value))
}

// begin starts a session and gives its cookie. It forgets the sessions that are over.
func (s *Sessions) begin(r *http.Request) *http.Cookie {
	value, now := rand.Text(), s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.open, func(_ hash, end time.Time) bool { return !now.Before(end) })
	if len(s.open) == maxSessions {
		delete(s.open, slices.MinFunc(slices.Collect(maps.Keys(s.open)), func(a, b hash) int { return s.open[a].Compare(s.open[b]) }))
	}
	s.open[sha256.Sum256([]byte(value))] = now.Add(sessionLifetime)
	return newCookie(r, value, sessionLifetime)
}

// end ends the request's session and gives the cookie that removes its cookie.
func (s *Sessions) end(r *http.Request) *http.Cookie {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, cookieOf(r))
	return newCookie(r, "", -time.Second)
}

// newCookie makes a cookie. Secure follows the connection: over plain HTTP a Secure
// cookie would not come back.
func newCookie(r *http.Request, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: "/", MaxAge: int(age.Seconds()),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}
