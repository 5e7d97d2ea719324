package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/quota"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream/mapping"
	"inquiry-gateway/upstream/timeparse"
)

// check reports what no single value can show: contradictions within sections, which
// their packages know, and between them.
func (doc document) check(c Config) {
	doc.checkListeners(c)
	doc.checkGateway(c.Gateway)
	doc.checkLog(c.Log)
	doc.checkCanary(c.Canary)
	doc.checkSections(c)
}

// checkLog refuses a log that the TTL lab could not read later.
func (doc document) checkLog(l Log) {
	if l.AccessKeys == LogHashedKeys && l.SampleHits > 1 {
		doc.Wrong("log.sample_hits", "a log without all hits tells the TTL lab of too few; leave it out, or leave out log.access_keys")
	}
}

// checkListeners keeps the two listeners apart, and the ops listener from strangers: it
// shows and purges lists without any key of a caller.
func (doc document) checkListeners(c Config) {
	public, ops := listenAddress(c.Listen), listenAddress(c.Ops.Listen)
	if public.collides(ops) {
		doc.Wrong("ops.listen", "is the address of listen (%s) too; give it another port", c.Listen)
	}
	if !ops.loopback() && !c.Ops.TokenFile.Set() {
		doc.Wrong("ops.listen", "%s can be reached from other machines; set ops.token_file, or listen on 127.0.0.1", c.Ops.Listen)
	}
	operator, read := c.Ops.Tokens()
	switch {
	case c.Ops.ReadTokenFile.Set() && !c.Ops.TokenFile.Set():
		doc.Wrong("ops.read_token_file", "keeps nobody out without ops.token_file; set that too, or leave this out")
	case read != "" && read == operator:
		doc.Wrong("ops.read_token_file", "holds the token of ops.token_file, so whoever reads metrics could purge; make another one")
	}
	if remote := c.Auth.Redis != nil || c.Auth.Introspection != nil; remote && !public.loopback() && len(c.Gateway.TrustedProxies) == 0 {
		doc.Warn("gateway.trusted_proxies", "is empty, and %s can be reached from other machines: behind a proxy all callers count as one address, and one who guesses keys holds up the new keys of all; name the proxy's networks, or 127.0.0.1 where there is no proxy", c.Listen)
	}
	_, err := c.Certificate()
	doc.Invalid("", err)
	if c.ShutdownGrace < c.RequestTimeout {
		doc.Warn("shutdown_grace", "%s is less than request_timeout (%s): a stop cuts off slow requests", c.ShutdownGrace, c.RequestTimeout)
	}
}

// checkGateway warns of a network that is everybody.
func (doc document) checkGateway(g Gateway) {
	for i, proxy := range g.TrustedProxies {
		if prefix, ok := yamlfile.ParseNetwork(proxy); ok && prefix.Bits() == 0 {
			doc.Warn(yamlfile.Item("gateway.trusted_proxies", i), "%s trusts every client to name its own address", proxy)
		}
	}
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

// Proxies reads TrustedProxies as networks; a single address is a network of its own.
func (g Gateway) Proxies() ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, len(g.TrustedProxies))
	for i, entry := range g.TrustedProxies {
		var ok bool
		if prefixes[i], ok = yamlfile.ParseNetwork(entry); !ok {
			return nil, fmt.Errorf("gateway.trusted_proxies: %q is no network", entry)
		}
	}
	return prefixes, nil
}

// checkSections lets the packages check their own sections, and looks for
// contradictions between them and ours.
func (doc document) checkSections(c Config) {
	doc.Invalid("auth", c.Auth.Validate())
	if c.Auth.Redis != nil && len(c.Redis.Addrs) == 0 {
		doc.Wrong("auth.redis", "keys cannot be in a Redis that is not there; set redis.addrs, or use auth.keys_file")
	}
	doc.Invalid("rate_limit", c.RateLimit.Validate())
	doc.Invalid("redis", c.Redis.Validate())
	if part := quota.Usable(c.Redis.Timeout); part < 0.75 && len(c.Redis.Addrs) > 0 && c.Upstream.MaxRequestsPerSecond > 0 {
		doc.Warn("redis.timeout", "of %s leaves %.0f %% of upstream.max_requests_per_second to be used: what a node may send can be on its way from Redis for that long; lower it to a few times what a call of Redis takes",
			c.Redis.Timeout, 100*part)
	}
	doc.Invalid("cache", c.Cache.Validate())
	const needed = "base_url, and buyer or seller or both"
	if v := doc.Root.Child("upstream"); v == nil {
		doc.Wrong("upstream", "missing; add the section with %s", needed)
		return
	} else if v.Kind == yamlfile.Null || v.Kind == yamlfile.Section && len(v.Keys) == 0 {
		doc.Wrong("upstream", "is empty; add %s", needed)
		return
	}
	doc.Invalid("upstream", c.Upstream.Validate())
	kinds := c.Upstream.Kinds()
	for _, kind := range []string{"buyer", "seller"} {
		if !slices.Contains(kinds, kind) {
			doc.checkAbsent(kind, c)
			continue
		}
		key, ec := "upstream."+kind, c.Upstream.Endpoint(kind)
		doc.checkOwner(key+".owner", ec.Owner)
		doc.checkZone(key+".fields.created_at", ec.Fields.CreatedAt)
		if kind == "buyer" {
			doc.checkZone(key+".fields.responses.fields.created_at", ec.Fields.Responses.Fields.CreatedAt)
		}
	}
	if c.RequestTimeout > 0 && c.Upstream.Timeout > c.RequestTimeout {
		doc.Wrong("upstream.timeout", "%s is more than request_timeout (%s): no answer could be waited for that long; lower it, or raise request_timeout",
			c.Upstream.Timeout, c.RequestTimeout)
	}
}

// checkAbsent says that one of the two lists is not served, and finds what cannot be meant
// then.
func (doc document) checkAbsent(kind string, c Config) {
	if key := "upstream." + kind; doc.Has(key) {
		doc.Wrong(key, "is empty; add path and fields, or leave it out: then no list of %ss is served", kind)
		return
	}
	canary := map[string][]setting.File{"buyer": c.Canary.BuyerKeys, "seller": c.Canary.SellerKeys}[kind]
	if key := "canary." + kind + "_keys"; len(canary) > 0 {
		doc.Wrong(key, "there is no list of %ss to ask for; add upstream.%s, or leave this out", kind, kind)
	}
	if len(c.Upstream.Kinds()) > 0 {
		doc.Warn("upstream", "there is no upstream.%s: no list of %ss is served, and its path is answered with 404", kind, kind)
	}
}

// checkZone warns of times that may be read in the wrong zone.
func (doc document) checkZone(key string, field mapping.TimeField) {
	if field.Zone == "" && !timeparse.NamesZone(field.Format) {
		doc.Warn(key, "the times name no zone and are read as UTC; write zone: Asia/Seoul or another one, or zone: UTC")
	}
}

// checkOwner warns where nothing in a reply is compared with the account: an
// account that the legacy system confuses with another gets the other's list.
func (doc document) checkOwner(key string, owner []string) {
	if len(owner) == 0 {
		doc.Warn(key, "missing: the gateway cannot see whether a record belongs to the account that asks; give the path of the account within a record, if there is one")
	}
}

// Canary is the synthetic callers: keys of accounts of the operator's own, used
// through the public listener to see that nobody gets another's list.
type Canary struct {
	// BuyerKeys are files of one API key each, of two buyers or more. None: no buyer is tried.
	BuyerKeys []setting.File `yaml:"buyer_keys"`
	// SellerKeys are the same for sellers.
	SellerKeys []setting.File `yaml:"seller_keys"`
	// Every is the mean time between two rounds. The alerts look back half an hour, and would see too few rounds above 5m.
	Every time.Duration `yaml:"every" min:"1s" max:"5m"`
}

// canaryList is one of the canary's lists of keys.
type canaryList struct {
	key   string // of the configuration
	files []setting.File
}

// lists are both, so that a check of one is a check of the other.
func (c Canary) lists() [2]canaryList {
	return [...]canaryList{{"canary.buyer_keys", c.BuyerKeys}, {"canary.seller_keys", c.SellerKeys}}
}

// checkCanaryKey looks at the last of the files of a list, and at those before it.
func (doc document) checkCanaryKey(list string, files []setting.File) {
	last := len(files) - 1
	file, key := files[last], yamlfile.Item(list, last)
	text := strings.TrimSpace(file.Text())
	if !file.Set() {
		doc.Wrong(key, "is empty; name the file of a key")
		return
	}
	for j, other := range files[:last] {
		switch {
		case other.Path() == file.Path():
			doc.Wrong(key, "is the file of %s too; name a key of another account", yamlfile.Item(list, j))
			return
		case text != "" && strings.TrimSpace(other.Text()) == text:
			doc.Wrong(key, "%s holds the same key as %s; use a key of another account", file, yamlfile.Item(list, j))
			return
		}
	}
	if err := auth.CheckKey(text); err != nil {
		doc.Wrong(key, "%s: wants one API key and nothing else: %v", file, err)
	}
}

// checkCanary wants two accounts for each kind that has any. Whether the keys are good
// only their store knows.
func (doc document) checkCanary(c Canary) {
	for _, list := range c.lists() {
		if len(list.files) == 1 {
			doc.Wrong(list.key, "wants at least two keys, of two accounts: a list is compared with another's")
		}
		for i := range list.files {
			doc.checkCanaryKey(list.key, list.files[:i+1])
		}
	}
}
