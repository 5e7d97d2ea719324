package upstream

import "reflect"

// connection is the part of a configuration that connections and credentials
// are made of.
func (c Config) connection() Config {
	return Config{Timeout: c.Timeout, MaxConcurrent: c.MaxConcurrent, Headers: c.Headers, Auth: c.Auth, TLS: c.TLS}
}

// succeed takes over from the client before what the configuration leaves as it
// is: what is known of the legacy does not depend on how its replies are mapped.
func (c *Client) succeed(before *Client) {
	c.bulkhead = before.bulkhead
	if c.sharesConnections(before) {
		c.http, c.creds = before.http, before.creds
	}
	same := c.cfg.BaseURL == before.cfg.BaseURL
	for kind, e := range c.endpoints {
		old := before.endpoints[kind]
		if same && c.cfg.Breaker == before.cfg.Breaker {
			e.breaker = old.breaker
		}
		if same && c.cfg.Retry == before.cfg.Retry {
			e.budget = old.budget
		}
		if e.fingerprint == old.fingerprint {
			e.drift = old.drift
			e.uuids.Store(old.uuids.Load())
		}
	}
}

func (c *Client) sharesConnections(o *Client) bool {
	return reflect.DeepEqual(c.cfg.connection(), o.cfg.connection())
}

// GoesOnIn tells whether next uses the connections of c, which are not to be
// closed then.
func (c *Client) GoesOnIn(next *Client) bool { return next != nil && next.http == c.http }
