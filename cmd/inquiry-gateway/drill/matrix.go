package drill

import "time"

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
