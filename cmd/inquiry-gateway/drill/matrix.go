package drill

import (
	"slices"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// Part is what a gateway depends on.
type Part string

// The parts.
const (
	Redis  Part = "redis"
	Legacy Part = "legacy"
	Keys   Part = "keys" // the key store
)

// State is how a part does.
type State string

// The states.
const (
	Up      State = "up"
	Slow    State = "slow" // past every timeout
	Down    State = "down"
	Garbage State = "garbage" // it answers, and nothing of it can be right
)

// Case is what a gateway knows when a caller asks.
type Case string

// The cases.
const (
	Warm   Case = "warm"   // the key, and the list in the process
	Shared Case = "shared" // nothing, as it has just started; the list is in Redis
	Cold   Case = "cold"   // neither the key nor the list
	Later  Case = "later"  // the key, not the list; and that the part is away, as its breaker is open
)

// Outcome is the name of what a caller may get.
type Outcome string

// The outcomes, from the best to the strictest: with two parts in trouble the
// later one of the two wins.
const (
	Hit             Outcome = "hit"
	Miss            Outcome = "miss"
	Renewed         Outcome = "renewed"
	Stale           Outcome = "stale"
	TooSlow         Outcome = "too_slow"
	Failed          Outcome = "failed"
	Invalid         Outcome = "invalid"
	Unavailable     Outcome = "unavailable"
	KeysUnavailable Outcome = "keys_unavailable"
)

// Answer is an outcome as HTTP has it.
type Answer struct {
	Status      int
	Code        string // of the error; empty with a list
	CacheStatus string // what the header begins with after the cache's name; empty with an error
	Detail      string // what the header ends with
	Means       string // for a person
	strictness  int
}

// answers says what each outcome is.
func answers() map[Outcome]Answer {
	return map[Outcome]Answer{
		Hit:             {200, "", "hit", "", "the list that is known is served", 0},
		Miss:            {200, "", "fwd=miss", "", "the list is fetched from the legacy system", 1},
		Renewed:         {200, "", "fwd=stale", "", "the list that is known is too old, and fetched from the legacy system", 2},
		Stale:           {200, "", "hit", "detail=stale-error", "the list that is known is served, marked as stale", 3},
		TooSlow:         {504, "upstream_timeout", "", "", "the legacy system was too slow, and is not waited for any longer", 4},
		Failed:          {502, "upstream_error", "", "", "the legacy system cannot be asked", 5},
		Invalid:         {502, "upstream_invalid_response", "", "", "nothing of what the legacy system says is believed", 6},
		Unavailable:     {503, "upstream_unavailable", "", "", "the legacy system is left alone for a while", 7},
		KeysUnavailable: {503, "auth_unavailable", "", "", "a key that cannot be checked is neither let in nor called wrong", 8},
	}
}

// Expectation is one cell of the table: the outcome, and how much longer than
// with everything well the answer may take, where that is declared.
type Expectation struct {
	Outcome  Outcome
	Timeouts float64       // of this many redis.timeout,
	Added    time.Duration // and this; both 0: nothing is declared
}

// Matrix is what is declared: the outcome for each state of a part, all others
// being up, and each case. What is not there cannot be.
type Matrix map[Part]map[State]map[Case]Expectation

// Declared is the failure matrix. It is made anew for whoever asks.
func Declared() Matrix {
	is := func(o Outcome) Expectation { return Expectation{Outcome: o} }
	waits := func(o Outcome) Expectation { return Expectation{Outcome: o, Timeouts: 1.5} }
	row := func(warm, shared, cold Expectation) map[Case]Expectation {
		return map[Case]Expectation{Warm: warm, Shared: shared, Cold: cold}
	}
	later := func(r map[Case]Expectation, e Expectation) map[Case]Expectation { r[Later] = e; return r }
	skips := Expectation{Outcome: Miss, Added: 5 * time.Millisecond}
	up := row(is(Hit), is(Hit), is(Miss))
	return Matrix{
		Redis: {
			Up:      up,
			Slow:    later(row(waits(Hit), waits(Miss), waits(Miss)), skips),
			Down:    later(row(waits(Hit), waits(Miss), waits(Miss)), skips),
			Garbage: row(is(Hit), is(Miss), is(Miss)),
		},
		Legacy: {
			Up:      up,
			Slow:    row(is(Stale), is(Stale), is(TooSlow)),
			Down:    later(row(is(Stale), is(Stale), is(Failed)), is(Unavailable)),
			Garbage: row(is(Stale), is(Stale), is(Invalid)),
		},
		Keys: {
			Up:      up,
			Slow:    row(is(Hit), is(KeysUnavailable), is(KeysUnavailable)),
			Down:    row(is(Hit), is(KeysUnavailable), is(KeysUnavailable)),
			Garbage: row(is(Hit), is(KeysUnavailable), is(KeysUnavailable)),
		},
	}
}

// Source is where a gateway's keys come from.
type Source string

// The sources.
const (
	FromFile          Source = "file"
	FromRedis         Source = "redis" // the gateway's own: in trouble together
	FromIntrospection Source = "introspection"
)

// terms are what of a configuration decides which results are due. All else of it makes
// no difference to a caller while something fails.
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

// cells are all situations with at most two parts in trouble that the drill can cause,
// in the order of place.
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

// cases are those that a cell is drilled in. With two parts in trouble there are fewer,
// as each takes a timeout or two.
func (t terms) cases(c Cell) []Case {
	switch {
	case len(c.troubles()) > 1:
		return []Case{Warm, Cold}
	case !t.redis || t.keys == FromFile && c.Keys != Up: // a node cannot start with such a file
		return []Case{Warm, Cold, Later}
	}
	return []Case{Warm, Shared, Cold, Later}
}

// adapt changes the table where the settings leave no choice: keys of a file cannot be
// slow to come, a gateway that keeps nothing stale has nothing to serve, and one that
// keeps no key must ask for each.
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

// expect is what is due in a cell and case; false: there is no such row. Of two parts in
// trouble the stricter outcome is due, without a time. Keys in Redis are in the trouble
// that Redis is in.
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
