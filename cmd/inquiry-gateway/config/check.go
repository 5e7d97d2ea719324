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

// check reports contradictions within sections, which their packages check, and between them.
func (doc document) check(c Config) {
	doc.checkListeners(c)
	doc.checkGateway(c)
	doc.Invalid("auth", c.Auth.Validate())
	if c.Auth.Redis != nil && len(c.Redis.Addrs) == 0 {
		doc.Errorf("auth.redis", "keys are in Redis, but there is none; set redis.addrs, or use auth.keys_file")
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
			doc.Errorf(yamlfile.Join(path, n.Content[i-1].Value), "%s is what check --print and /ops/config show instead of the value; write the value", hidden)
		default:
			doc.refuseHidden(inner, yamlfile.Join(path, n.Content[i-1].Value))
		}
	}
}

// minTokenLength is the minimum length of the ops listener's tokens in bytes: attempts are counted and logged, but not limited.
const minTokenLength = 16

// checkListeners reports listeners with one address, and an ops listener that is not protected: it explains and purges lists
// without a caller's key.
func (doc document) checkListeners(c Config) {
	public, ops := listenAddress(c.Listen), listenAddress(c.Ops.Listen)
	if public.collides(ops) {
		doc.Errorf("ops.listen", "is the same address as listen (%s); choose another port", c.Listen)
	}
	if !ops.loopback() && !c.Ops.TokenFile.Set() {
		doc.Errorf("ops.listen", "%s can be reached from other machines; set ops.token_file, or listen on 127.0.0.1", c.Ops.Listen)
	}
	operator, read := c.Ops.Tokens()
	switch {
	case c.Ops.ReadTokenFile.Set() && !c.Ops.TokenFile.Set():
		doc.Errorf("ops.read_token_file", "protects nothing without ops.token_file; set that too, or leave this out")
	case read != "" && read == operator:
		doc.Errorf("ops.read_token_file", "holds the same token as ops.token_file, so a reader of metrics could purge lists; create another one")
	default:
		for key, token := range map[string]string{"ops.token_file": operator, "ops.read_token_file": read} {
			if token != "" && len(token) < minTokenLength {
				doc.Errorf(key, "the token has %d characters and can be guessed; use %d or more, such as the output of openssl rand -hex 32", len(token), minTokenLength)
			}
		}
	}
	if remote := c.Auth.Redis != nil || c.Auth.Introspection != nil; remote && !public.loopback() && len(c.Gateway.TrustedProxies) == 0 {
		doc.Warn("gateway.trusted_proxies", "is empty, although other machines can reach %s. Behind a proxy all callers share one address, so one caller who guesses keys delays every key that this node does not know yet. List the proxy's networks, or 127.0.0.1 if there is no proxy", c.Listen)
	}
	_, err := c.Certificate()
	doc.Invalid("", err)
}

// address is where a listener listens.
type address struct{ host, port string }

// listenAddress splits host:port. The host may be a name, which is not looked up.
func listenAddress(text string) address {
	host, port, _ := net.SplitHostPort(text) // which its form has checked
	return address{host, port}
}

// loopback reports whether other machines cannot reach the address. An empty host stands for all addresses.
func (a address) loopback() bool {
	ip, err := netip.ParseAddr(a.host)
	return a.host == "localhost" || (err == nil && ip.IsLoopback())
}

// collides reports whether two listeners cannot both open. Two free ports (0) can.
func (a address) collides(b address) bool {
	all := []string{"", "0.0.0.0", "::"}
	same := a.host == b.host || slices.Contains(all, a.host) || slices.Contains(all, b.host)
	return a.port == b.port && a.port != "0" && same
}

// checkGateway reports a log that the ttl command could not use, and warns about a trusted network that is the whole internet and
// about a stop that is too short.
func (doc document) checkGateway(c Config) {
	if c.Log.AccessKeys == LogHashedKeys && c.Log.SampleHits > 1 {
		doc.Errorf("log.sample_hits", "`inquiry-gateway ttl` needs a record of every hit, and sample_hits leaves most of them out; remove sample_hits, or remove log.access_keys")
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

// checkUpstream checks the section, each of its two lists, and the timeouts elsewhere that must fit.
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
		// Without an owner nothing in a reply is compared with the account.
		list := c.Upstream.Endpoint(kind)
		if len(list.Owner.Path) == 0 {
			doc.Warn(key+".owner", "missing: the gateway cannot check that a record belongs to the account; give the path of the account within a record, if there is one")
		}
		doc.checkZone(key+".fields.created_at", list.Fields.CreatedAt)
		if kind == cache.KindBuyer {
			doc.checkZone(key+".fields.responses.fields.created_at", list.Fields.Responses.Fields.CreatedAt)
		}
	}
	if c.RequestTimeout > 0 && c.Redis.Timeout > c.RequestTimeout && len(c.Redis.Addrs) > 0 {
		doc.Errorf("redis.timeout", "%s is more than request_timeout (%s), so a slow Redis would fail every request; lower it, or raise request_timeout",
			c.Redis.Timeout, c.RequestTimeout)
	}
	if c.RequestTimeout > 0 && c.Upstream.Timeout > c.RequestTimeout {
		doc.Errorf("upstream.timeout", "%s is more than request_timeout (%s), which ends first; lower it, or raise request_timeout",
			c.Upstream.Timeout, c.RequestTimeout)
	}
}

// checkAbsent warns that one of the two lists is not served, and reports a section without content.
func (doc document) checkAbsent(key, kind string, c Config) {
	if doc.At(key) != nil {
		doc.Errorf(key, "is empty; add path and fields, or leave it out to serve no list of %ss", kind)
		return
	}
	if len(c.Upstream.Kinds()) > 0 {
		doc.Warn("upstream", "there is no %s, so no list of %ss is served: its path responds with 404", key, kind)
	}
}

// checkZone warns about times that may be read in the wrong zone.
func (doc document) checkZone(key string, field mapping.TimeField) {
	if field.Zone == "" && !timeparse.NamesZone(field.Format) {
		doc.Warn(key, "times without a zone are read as UTC; set zone, such as Asia/Seoul or UTC")
	}
}
