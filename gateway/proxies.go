package gateway

import (
	"net/netip"
	"strings"
)

// proxies are the networks whose X-Forwarded-For, X-Request-Id and traceparent are used.
type proxies []netip.Prefix

// trust takes 4-in-6 addresses for what they are.
func (p proxies) trust(addr netip.Addr) bool {
	addr = addr.Unmap()
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// client goes back from the peer, addr, through X-Forwarded-For, and returns the first address that is no trusted
// proxy, or the last one that can be parsed. What an untrusted client wrote stands left of it and is not read.
func (p proxies) client(forwardedFor []string, addr netip.Addr) netip.Addr {
	if len(p) == 0 || !p.trust(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(forwardedFor, ","), ",")
	for i := len(hops) - 1; i >= 0 && p.trust(addr); i-- {
		hop, ok := parseHop(strings.TrimSpace(hops[i]))
		if !ok {
			break
		}
		addr = hop
	}
	return addr
}

// parseHop reads one address of X-Forwarded-For. Some proxies write its port too, and
// IPv6 in brackets. A zone is cut off: it can be any text, and means nothing here.
func parseHop(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	if inner, found := strings.CutPrefix(s, "["); found {
		s = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(s)
	return addr.Unmap().WithZone(""), err == nil
}
