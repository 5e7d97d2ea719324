package config

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream/mapping"
	"inquiry-gateway/upstream/timeparse"
)

// kinds are those of lists and of keys.
var kinds = []string{cache.KindBuyer, cache.KindSeller}

// check reports what no single value can show: contradictions within sections, which
// their packages know, and between them.
func (doc document) check(c Config) {
	doc.checkListeners(c)
	doc.checkGateway(c)
	doc.Invalid("auth", c.Auth.Validate())
	if c.Auth.Redis != nil && len(c.Redis.Addrs) == 0 {
		doc.Errorf("auth.redis", "keys cannot be in a Redis that is not there; set redis.addrs, or use auth.keys_file")
	}
	doc.Invalid("rate_limit", c.RateLimit.Validate())
	doc.Invalid("redis", c.Redis.Validate())
	doc.Invalid("cache", c.Cache.Validate())
	doc.checkUpstream(c)
	doc.refuseHidden(doc.Root, "")
}

// refuseHidden reports headers with the text that Redacted shows instead of their values.
func (doc document) refuseHidden(n *yaml.Node, path string) {
	for i, inner := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			doc.refuseHidden(inner, yamlfile.Item(path, i))
		case i%2 == 0:
		case inner.Value == hidden && (path == "headers" || strings.HasSuffix(path, ".headers")):
			doc.Errorf(yamlfile.Join(path, n.Content[i-1].Value), "%s stands where check --print and /ops/config hide a value; write the value", hidden)
		default:
			doc.refuseHidden(inner, yamlfile.Join(path, n.Content[i-1].Value))
		}
	}
}

// minTokenLength of the ops listener's tokens, in bytes: wrong ones are counted and logged, and not
// slowed down.
const minTokenLength = 16

// checkListeners keeps the two listeners apart, and the ops listener closed: it explains and purges
// lists without any caller's key.
func (doc document) checkListeners(c Config) {
	public, ops := listenAddress(c.Listen), listenAddress(c.Ops.Listen)
	if public.collides(ops) {
		doc.Errorf("ops.listen", "is the address of listen (%s) too; give it another port", c.Listen)
	}
	if !ops.loopback() && !c.Ops.TokenFile.Set() {
		doc.Errorf("ops.listen", "%s can be reached from other machines; set ops.token_file, or listen on 127.0.0.1", c.Ops.Listen)
	}
	operator, read := c.Ops.Tokens()
	switch {
	case c.Ops.ReadTokenFile.Set() && !c.Ops.TokenFile.Set():
		doc.Errorf("ops.read_token_file", "keeps nobody out without ops.token_file; set that too, or leave this out")
	case read != "" && read == operator:
		doc.Errorf("ops.read_token_file", "holds the token of ops.token_file, so whoever reads metrics could purge; make another one")
	default:
		for key, token := range map[string]string{"ops.token_file": operator, "ops.read_token_file": read} {
			if token != "" && len(token) < minTokenLength {
				doc.Errorf(key, "holds a token of %d characters, which can be guessed; use %d or more, such as the output of openssl rand -hex 32", len(token), minTokenLength)
			}
		}
	}
	if remote := c.Auth.Redis != nil || c.Auth.Introspection != nil; remote && !public.loopback() && len(c.Gateway.TrustedProxies) == 0 {
		doc.Warn("gateway.trusted_proxies", "is empty, and %s can be reached from other machines: behind a proxy all callers count as one address, and one who guesses keys holds up the new keys of all; name the proxy's networks, or 127.0.0.1 where there is no proxy", c.Listen)
	}
	_, err := c.Certificate()
	doc.Invalid("", err)
}

// address is where a listener listens.
type address struct{ host, port string }

// listenAddress takes host:port apart. The host may be a name: whether this machine has it
// shows when the listener opens.
func listenAddress(text string) address {
	host, port, _ := net.SplitHostPort(text) // which its form has checked
	return address{host, port}
}

// loopback tells whether other machines cannot reach the address. An empty host is all
// addresses, and so is not.
func (a address) loopback() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.host == "localhost" || (err == nil && ip.IsLoopback())
}

// collides tells whether two listeners cannot both open. Two free ports (0) can.
func (a address) collides(b address) bool {
	all := []string{"", "0.0.0.0", "::"}
	same := a.host == b.host || slices.Contains(all, a.host) || slices.Contains(all, b.host)
	return a.port == b.port && a.port != "0" && same
}

// checkGateway refuses a log that the ttl command could not read later, and warns of a network that is
// everybody and of a stop that is too short.
func (doc document) checkGateway(c Config) {
	if c.Log.AccessKeys == LogHashedKeys && c.Log.SampleHits > 1 {
		doc.Errorf("log.sample_hits", "a log without all hits tells `inquiry-gateway ttl` of too few; leave it out, or leave out log.access_keys")
	}
	for i, proxy := range c.Gateway.Proxies() {
		if proxy.IsValid() && proxy.Bits() == 0 {
			doc.Warn(yamlfile.Item("gateway.trusted_proxies", i), "%s trusts every client to name its own address", c.Gateway.TrustedProxies[i])
		}
	}
	if c.ShutdownGrace < c.RequestTimeout {
		doc.Warn("shutdown_grace", "%s is less than request_timeout (%s): a stop cuts off slow requests", c.ShutdownGrace, c.RequestTimeout)
	}
}

// checkUpstream looks at the section, at each of the two lists, and at the keys elsewhere that bound
// the time and the rate of its requests.
func (doc document) checkUpstream(c Config) {
	const needed = "base_url, and buyer or seller or both"
	if v := doc.At("upstream"); v == nil {
		doc.Errorf("upstream", "missing; add the section with %s", needed)
		return
	} else if yamlfile.IsNull(v) || v.Kind == yaml.MappingNode && len(v.Content) == 0 {
		doc.Errorf("upstream", "is empty; add %s", needed)
		return
	}
	doc.Invalid("upstream", c.Upstream.Validate())
	for _, kind := range kinds {
		key := "upstream." + kind
		if !slices.Contains(c.Upstream.Kinds(), kind) {
			doc.checkAbsent(key, kind, c)
			continue
		}
		// Nothing in a reply is compared with the account then: one that the legacy system
		// confuses with another gets the other's list.
		list := c.Upstream.Endpoint(kind)
		if len(list.Owner.Path) == 0 {
			doc.Warn(key+".owner", "missing: the gateway cannot see whether a record belongs to the account that asks; give the path of the account within a record, if there is one")
		}
		doc.checkZone(key+".fields.created_at", list.Fields.CreatedAt)
		if kind == cache.KindBuyer {
			doc.checkZone(key+".fields.responses.fields.created_at", list.Fields.Responses.Fields.CreatedAt)
		}
	}
	if c.RequestTimeout > 0 && c.Redis.Timeout > c.RequestTimeout && len(c.Redis.Addrs) > 0 {
		doc.Errorf("redis.timeout", "%s is more than request_timeout (%s): while Redis is slow no request would be answered in time; lower it, or raise request_timeout",
			c.Redis.Timeout, c.RequestTimeout)
	}
	if c.RequestTimeout > 0 && c.Upstream.Timeout > c.RequestTimeout {
		doc.Errorf("upstream.timeout", "%s is more than request_timeout (%s): no answer could be waited for that long; lower it, or raise request_timeout",
			c.Upstream.Timeout, c.RequestTimeout)
	}
}

// checkAbsent warns that one of the two lists is not served, and finds what is written for it all
// the same.
func (doc document) checkAbsent(key, kind string, c Config) {
	if doc.At(key) != nil {
		doc.Errorf(key, "is empty; add path and fields, or leave it out: then no list of %ss is served", kind)
		return
	}
	if len(c.Upstream.Kinds()) > 0 {
		doc.Warn("upstream", "there is no %s: no list of %ss is served, and its path is answered with 404", key, kind)
	}
}

// checkZone warns of times that may be read in the wrong zone.
func (doc document) checkZone(key string, field mapping.TimeField) {
	if field.Zone == "" && !timeparse.NamesZone(field.Format) {
		doc.Warn(key, "the times name no zone and are read as UTC; write zone: Asia/Seoul or another one, or zone: UTC")
	}
}
