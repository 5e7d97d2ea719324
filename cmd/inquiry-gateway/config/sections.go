package config

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
	switch section := doc.root.get("upstream"); {
	case section == nil:
		doc.wrong("upstream", "missing; add the section with %s", needed)
		return
	case section.kind == null || section.kind == mapping && len(section.entries) == 0:
		doc.wrong("upstream", "is empty; add %s", needed)
		return
	}
	doc.invalid("upstream", c.Upstream.Validate())
	if c.RequestTimeout > 0 && c.Upstream.Timeout > c.RequestTimeout {
		doc.wrong("upstream.timeout", "%s is more than request_timeout (%s): no answer could be waited for that long; lower it, or raise request_timeout",
			c.Upstream.Timeout, c.RequestTimeout)
	}
}
