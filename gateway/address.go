package gateway

import (
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// proxies are the networks whose X-Forwarded-For and X-Request-Id are believed.
type proxies []netip.Prefix

func (p proxies) trust(addr netip.Addr) bool {
	addr = addr.Unmap()
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// peer is the address that the connection came from.
func (x *exchange) peer() netip.Addr {
	if x.conn != nil {
		return x.conn.peer
	}
	return parsePeer(x.request.RemoteAddr)
}

// parsePeer reads an address with its port; the zero Addr is for one that cannot
// be read.
func parsePeer(s string) netip.Addr {
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// ClientIP implements auth.Caller: the caller's address behind the trusted
// proxies, worked out only where it is asked for.
func (x *exchange) ClientIP() string { return x.clientAddress().String() }

// Deadline implements auth.Caller.
func (x *exchange) Deadline() time.Time { return x.begin.Add(x.gateway.requestTimeout) }

// LogRefusal implements auth.Caller. What it decides is for the record of the
// request too.
func (x *exchange) LogRefusal(reason string) bool {
	x.unlogged = !x.gateway.refusals.logged(x.clientAddress(), reason)
	return !x.unlogged
}

func (x *exchange) clientAddress() netip.Addr { return x.gateway.clientAddress(x.request, x.peer()) }

// clientAddress is the nearest address on the way to a peer that is not a trusted
// proxy: what a stranger wrote into X-Forwarded-For stands left of it and is not
// read.
func (g *Gateway) clientAddress(r *http.Request, addr netip.Addr) netip.Addr {
	if len(g.proxies) == 0 || !g.proxies.trust(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = hop.Unmap()
		if !g.proxies.trust(addr) {
			break
		}
	}
	return addr
}
