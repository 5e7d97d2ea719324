package config

import "github.com/goccy/go-yaml/ast"

// checkSections lets the packages check their own sections, and looks for
// contradictions between them and ours.
func (doc *document) checkSections(c Config) {
	doc.invalid("auth", c.Auth.Validate())
	if c.Auth.Redis != nil && len(c.Redis.Addrs) == 0 {
		doc.wrong("auth.redis", "keys cannot be in a Redis that is not there; set redis.addrs, or use auth.keys_file")
	}
	doc.invalid("rate_limit", c.RateLimit.Validate())
	doc.invalid("redis", c.Redis.Validate())
	doc.invalid("cache", c.Cache.Validate())
	const needed = "base_url, buyer and seller"
	if section := child(doc.root, "upstream"); section == nil {
		doc.wrong("upstream", "missing; add the section with %s", needed)
		return
	} else if m, ok := section.(*ast.MappingNode); ok && len(m.Values) == 0 || section.Type() == ast.NullType {
		doc.wrong("upstream", "is empty; add %s", needed)
		return
	}
	doc.invalid("upstream", c.Upstream.Validate())
	if c.RequestTimeout > 0 && c.Upstream.Timeout > c.RequestTimeout {
		doc.wrong("upstream.timeout", "%s is more than request_timeout (%s): no answer could be waited for that long; lower it, or raise request_timeout",
			c.Upstream.Timeout, c.RequestTimeout)
	}
}
