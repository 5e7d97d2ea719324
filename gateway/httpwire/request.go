package httpwire

import (
	"net/http"
	"net/netip"
)

// Request is what the gateway reads of a request, whoever has parsed it. A field
// that was not sent is nil; else it has one value for each of its lines.
type Request struct {
	Method string
	Query  string     // as it was sent
	Peer   netip.Addr // the other end of the connection
	Major  int        // of the version of HTTP
	Coded  bool       // it has Transfer-Encoding, or may have: others may see its end elsewhere

	Authorization, AcceptEncoding, IfNoneMatch []string
	RequestID, ForwardedFor                    []string // only trusted proxies may send them
}

// Read takes over what net/http has parsed. c is the connection, or nil. What only
// proxies may send is left out unless proxied is set, as each look-up costs.
func (q *Request) Read(r *http.Request, c *Conn, proxied bool) {
	h := r.Header
	q.Method, q.Query, q.Peer, q.Major = r.Method, r.URL.RawQuery, c.Peer(r), r.ProtoMajor
	// Over HTTP/1.0 net/http passes Transfer-Encoding over, does not tell, and takes the
	// body for the next request.
	q.Coded = len(r.TransferEncoding) > 0 || r.ProtoMajor == 1 && r.ProtoMinor == 0
	q.Authorization, q.AcceptEncoding, q.IfNoneMatch = h["Authorization"], h["Accept-Encoding"], h["If-None-Match"]
	if proxied {
		q.RequestID, q.ForwardedFor = h["X-Request-Id"], h["X-Forwarded-For"]
	}
}
