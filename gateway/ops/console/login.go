package console

import (
	"net/http"
	"strings"
)

// maxFormBytes bounds the body of a form.
const maxFormBytes = 4 << 10

type loginView struct {
	Root   string
	Failed bool
}

// refuse shows people the form, and programs what to send.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "" && !c.opts.Sessions.Wrong.Delay(w, r) {
		return
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="ops"`)
	if r.Method != http.MethodGet || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Error(w, "send the token of ops.token_file as Authorization: Bearer <token>", http.StatusUnauthorized)
		return
	}
	c.write(w, http.StatusUnauthorized, "login", loginView{Root: rootOf(r)})
}

// login starts a session for whoever sends the token.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		seeHome(w)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	if !c.opts.Sessions.isToken(strings.TrimSpace(r.PostFormValue("token"))) {
		if c.opts.Sessions.Wrong.Delay(w, r) {
			c.write(w, http.StatusUnauthorized, "login", loginView{Root: "../", Failed: true})
		}
		return
	}
	http.SetCookie(w, c.opts.Sessions.begin(r))
	seeHome(w)
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if c.opts.Sessions.Guarded() {
		http.SetCookie(w, c.opts.Sessions.end(r))
	}
	seeHome(w)
}

// seeHome sends the browser from a page under /console/ to the console, with a
// relative address for the sake of a proxy's prefix.
func seeHome(w http.ResponseWriter) {
	w.Header().Set("Location", "../")
	w.WriteHeader(http.StatusSeeOther)
}

func rootOf(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, "/console/") {
		return "../"
	}
	return ""
}
