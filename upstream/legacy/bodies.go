package legacy

import "sync"

// Bounds of the rendered replies that are kept. They exist so that this server
// costs little beside the gateway that it is measured with.
const (
	maxBodies    = 8192
	maxBodyBytes = 64 << 20
)

type bodyKey struct{ kind, account, states, categories string }

type versioned struct {
	version int
	body    []byte
}

// bodyCache keeps rendered replies. Full, it starts anew: the lists that are in
// demand are rendered again soon. Its zero value is usable.
type bodyCache struct {
	mu     sync.RWMutex
	bodies map[bodyKey]versioned
	bytes  int
}

func (c *bodyCache) get(k bodyKey, version int) ([]byte, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, ok := c.bodies[k]
	return v.body, ok && v.version == version
}

func (c *bodyCache) put(k bodyKey, version int, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bodies == nil || len(c.bodies) >= maxBodies || c.bytes+len(body) > maxBodyBytes {
		c.bodies, c.bytes = make(map[bodyKey]versioned), 0
	}
	c.bytes += len(body) - len(c.bodies[k].body)
	c.bodies[k] = versioned{version, body}
}
