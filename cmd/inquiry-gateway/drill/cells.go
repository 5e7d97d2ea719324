package drill

import (
	"slices"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// Source is where a gateway's keys come from.
type Source string

// The sources.
const (
	FromFile          Source = "file"
	FromRedis         Source = "redis" // the gateway's own: in trouble together
	FromIntrospection Source = "introspection"
)

// terms are what of a configuration decides which results are due.
type terms struct {
	keys         Source
	redis        bool // there is one, and it can be drilled
	keepsStale   bool // stale_if_error allows something
	keepsKeys    bool // a key is good for a time without the store
	requestLimit time.Duration
	redisTimeout time.Duration
	breakerAfter int // requests
}

// termsOf takes what decides from a configuration. Redis counts only where there is
// one to drill with.
func termsOf(c config.Config, withRedis bool) terms {
	t := terms{
		keys: FromFile, redis: withRedis && len(c.Redis.Addrs) > 0, keepsStale: c.Cache.Buyer.StaleIfError > 0, keepsKeys: true,
		requestLimit: c.RequestTimeout, redisTimeout: c.Redis.Timeout, breakerAfter: c.Upstream.Breaker.MinRequests,
	}
	switch {
	case c.Auth.Introspection != nil:
		t.keys, t.keepsKeys = FromIntrospection, c.Auth.Introspection.TTL > 0
	case c.Auth.Redis != nil:
		t.keys = FromRedis
	}
	return t
}

// Cell is one situation: how each part does. A part that the gateway does not
// have, or that cannot be drilled, is up.
type Cell struct {
	Redis  State `json:"redis"`
	Legacy State `json:"legacy"`
	Keys   State `json:"keys"`
}

// troubles are the parts that are not up.
func (c Cell) troubles() map[Part]State {
	all := map[Part]State{Redis: c.Redis, Legacy: c.Legacy, Keys: c.Keys}
	for part, state := range all {
		if state == Up {
			delete(all, part)
		}
	}
	return all
}

// cells are all situations with at most two parts in trouble.
func (t terms) cells() []Cell {
	states := func(possible bool) []State {
		if possible {
			return []State{Up, Slow, Down, Garbage}
		}
		return []State{Up}
	}
	keyStates := states(t.keys == FromIntrospection)
	if t.keys == FromFile {
		keyStates = []State{Up, Down, Garbage} // it is read into the process, and cannot be slow
	}
	var cells []Cell
	for _, r := range states(t.redis) {
		for _, l := range states(true) {
			for _, k := range keyStates {
				c := Cell{r, l, k}
				if n := len(c.troubles()); n < 2 || n == 2 && (t.keys != FromFile || k == Up) {
					cells = append(cells, c)
				}
			}
		}
	}
	slices.SortStableFunc(cells, func(a, b Cell) int { return a.place() - b.place() })
	return cells
}

// place orders cells for a reader: all well, one in trouble, two; Redis first.
func (c Cell) place() int {
	place := 8 * len(c.troubles())
	for i, state := range []State{c.Redis, c.Legacy, c.Keys} {
		if state != Up {
			place += i
		}
	}
	return place
}

// cases are those that a cell is drilled in.
func (t terms) cases(c Cell) []Case {
	switch {
	case len(c.troubles()) > 1:
		return []Case{Warm, Cold}
	case !t.redis || t.keys == FromFile && c.Keys != Up: // a node cannot start with such a file
		return []Case{Warm, Cold, Later}
	}
	return []Case{Warm, Shared, Cold, Later}
}

// adapt changes the table where the settings leave no choice.
func (t terms) adapt(m Matrix) {
	if t.keys == FromFile {
		for _, state := range []State{Down, Garbage} { // what was read stays good
			m[Keys][state] = map[Case]Expectation{Warm: {Outcome: Hit}, Cold: {Outcome: Miss}}
		}
	}
	for _, state := range []State{Slow, Down, Garbage} {
		if !t.keepsStale {
			m[Legacy][state][Warm], m[Legacy][state][Shared] = m[Legacy][state][Cold], m[Legacy][state][Cold]
		}
		if !t.keepsKeys {
			m[Keys][state][Warm] = m[Keys][state][Cold]
		}
	}
}

// expect is what is due in a cell and case; false: there is no such row.
func (t terms) expect(m Matrix, c Cell, when Case) (Expectation, bool) {
	troubles := c.troubles()
	if t.keys == FromRedis && c.Redis != Up {
		troubles[Keys] = c.Redis
	}
	if len(troubles) == 0 {
		e, ok := m[Redis][Up][when]
		return e, ok
	}
	var strictest Expectation
	rank, found := -1, false
	for _, part := range []Part{Redis, Legacy, Keys} {
		state, inTrouble := troubles[part]
		if !inTrouble {
			continue
		}
		e, ok := m[part][state][when]
		if !ok && !(when == Later && part == Keys) { // later the key is known
			return Expectation{}, false
		}
		if s := answers()[e.Outcome].strictness; ok && s > rank {
			strictest, rank, found = e, s, true
		}
	}
	if len(c.troubles()) > 1 { // times are declared for one part in trouble
		strictest.Timeouts, strictest.Added = 0, 0
	}
	return strictest, found
}
