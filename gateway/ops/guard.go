package ops

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// maxFormBytes bounds the body of the sign-in form.
const maxFormBytes = 4 << 10

// Console is the page for people. It serves "/" and what is below "/console/"
// without asking who wants it.
type Console interface {
	http.Handler
	// SignIn answers with the form that asks for the token. root is the way from
	// the page to "/", and failed says that a wrong token was sent.
	SignIn(w http.ResponseWriter, root string, failed bool)
}

// guard lets in who carries the token or is signed in. Others get the sign-in
// form where a person asks for the console, else an answer that says what to send.
func (s *Sessions) guard(console Console, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.authorized(r) {
			next.ServeHTTP(w, r)
			return
		}
		if s.mayRead(r) {
			if r.URL.Path == "/metrics" {
				next.ServeHTTP(w, r)
				return
			}
			http.Error(w, "this is the token of ops.read_token_file, which is for /metrics only; send that of ops.token_file", http.StatusForbidden)
			return
		}
		if r.Header.Get("Authorization") != "" && !s.Wrong.delay(w, r) {
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="ops"`)
		below := strings.HasPrefix(r.URL.Path, "/console/")
		person := r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
		switch {
		case !person || !below && r.URL.Path != "/":
			http.Error(w, "send the token of ops.token_file as Authorization: Bearer <token>", http.StatusUnauthorized)
		case below:
			console.SignIn(w, "../", false)
		default:
			console.SignIn(w, "", false)
		}
	})
}

// login starts a session for whoever sends the token.
func (s *Sessions) login(console Console) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && s.Guarded() {
			r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
			if !s.isToken(strings.TrimSpace(r.PostFormValue("token"))) {
				if s.Wrong.delay(w, r) {
					console.SignIn(w, "../", true)
				}
				return
			}
			http.SetCookie(w, s.begin(r))
		}
		seeConsole(w)
	}
}

// logout ends the session of the request.
func (s *Sessions) logout(w http.ResponseWriter, r *http.Request) {
	if s.Guarded() {
		http.SetCookie(w, s.end(r))
	}
	seeConsole(w)
}

// seeConsole sends the browser from a page below /console/ to the console. The
// address is relative for the sake of a proxy's prefix.
func seeConsole(w http.ResponseWriter) {
	w.Header().Set("Location", "../")
	w.WriteHeader(http.StatusSeeOther)
}

// loopbackOnly answers requests for names of this machine alone. Without a token
// nothing else tells a page in somebody's browser from its person: a page whose
// own name was made to lead to 127.0.0.1 is of the same origin as this listener,
// so http.CrossOriginProtection lets it through.
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopbackHost(r.Host) || !loopbackOrigin(r.Header.Get("Origin")) {
			http.Error(w, "without ops.token_file this listener answers to names of this machine only: ask for localhost or 127.0.0.1, from a page of that name if from one, or set ops.token_file",
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackHost tells whether a Host, with or without a port, can only mean this
// machine. HTTP/1.0 has none; browsers always send one.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// loopbackOrigin is true for requests that no page has caused.
func loopbackOrigin(origin string) bool {
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && loopbackHost(u.Host)
}
