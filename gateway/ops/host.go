package ops

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

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
