package upstream

import "reflect"

// connection is the part of a configuration that connections and credentials
// are made of.
func (c Config) connection() Config {
	return Config{Timeout: c.Timeout, MaxConcurrent: c.MaxConcurrent, Headers: c.Headers, Auth: c.Auth, TLS: c.TLS, BaseURL: c.signInBase()}
}

// signInBase is the base URL where sign-ins depend on it.
func (c Config) signInBase() string {
	if c.Auth.Type == authSession {
		return c.BaseURL
	}
	return ""
}

// succeed takes over from the client before what both endpoints share.
func (c *Client) succeed(before *Client) {
	c.bulkhead = before.bulkhead
	if reflect.DeepEqual(c.cfg.connection(), before.cfg.connection()) {
		c.http, c.creds = before.http, before.creds
	}
}

// succeed takes over from the endpoint before what the configuration leaves as it
// is: what is known of the legacy does not depend on how its replies are mapped.
func (e *endpoint) succeed(before *endpoint, now, old Config) {
	if before == nil { // the list is new
		return
	}
	same := now.BaseURL == old.BaseURL
	if same && now.Breaker == old.Breaker {
		e.breaker = before.breaker
	}
	if same {
		e.hold, e.outage = before.hold, before.outage
	}
	if same && now.Retry == old.Retry {
		e.budget = before.budget
	}
}

// GoesOnIn tells whether next uses the connections of c, which are not to be
// closed then.
func (c *Client) GoesOnIn(next *Client) bool { return next != nil && next.http == c.http }
