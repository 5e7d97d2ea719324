package drill

import (
	"context"
	"fmt"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/upstream/legacy"
)

// Trial is what one account or one address does while another account asks, and
// what that other account got. It is safe for use by one goroutine.
type Trial struct {
	Name     string // for a machine
	Does     string // what is done, for a person
	Declared Outcome
	Asked    int    // answers that the other account got
	Problem  string // empty: all of them are as declared

	configure func(*config.Config) // nil: the settings as they are
	// What is there before act: a list of the other account that is known, whether it is
	// out of date, and how the legacy system fails.
	learns, expires bool
	fault           legacy.Fault
	act             func(ctx context.Context, e *environment) ([]Seen, error)
}

// trials are what one account or one address cannot do to others.
func trials() []Trial {
	const one = legacy.BuyerTypical // of callers.known
	return []Trial{
		{Name: "failing_list", Declared: Miss, act: failingList, configure: trip, fault: legacy.Fault{Name: legacy.FaultStatus, Kind: auth.KindBuyer},
			Does: "a list of one account answers 404 and is asked for all the time, after the breaker was open"},
		{Name: "failures_in_a_row", Declared: Renewed, act: failuresInARow, learns: true, expires: true,
			fault: legacy.Fault{Name: legacy.FaultStatus, Account: one},
			Does:  "the legacy system fails for one account, again and again"},
		{Name: "told_to_wait", Declared: Miss, act: toldToWait,
			fault: legacy.Fault{Name: legacy.FaultStatus, Account: one, Code: 429, RetryAfter: int(never.Seconds())},
			Does:  "the legacy system tells one account to wait (429 with Retry-After), and it is asked for all the time"},
		{Name: "no_sign_in", Declared: Failed, act: noSignIn, configure: wantSession,
			Does: "no sign-in at the legacy system works, and lists are asked for all the time"},
		{Name: "all_places", Declared: Miss, act: allPlaces, configure: fewPlaces, fault: legacy.Fault{Name: legacy.FaultDelay, Account: one, Delay: never},
			Does: "one account asks for all its filtered lists at once, and the legacy system is slow with them"},
		{Name: "over_the_ceiling", Declared: Hit, act: overTheCeiling, learns: true, configure: lowCeiling,
			Does: "one account asks for all its filtered lists at once, and the legacy system may get a request per second"},
		{Name: "idle_connections", Declared: Hit, act: idleConnections, learns: true, configure: func(c *config.Config) { c.MaxConnections = fewConnections },
			Does: "more connections are opened than there may be, and nothing is asked on them"},
		{Name: "guessed_keys", Declared: Hit, act: guessedKeys, learns: true, configure: shortMemory,
			Does: "keys are guessed from the address that a good key comes from"},
		{Name: "told_of_a_change", Declared: Hit, act: toldOfAChange,
			Does: "the legacy system tells a node that a list has changed, long before its ttl ends"},
	}
}

// try fills in a trial.
func (r *run) try(ctx context.Context, t *Trial) {
	t.Problem = "not drilled"
	var seen []Seen
	err := r.inEnvironment(ctx, Cell{Up, Up, Up}, t.configure, func(e *environment) (err error) {
		if err = t.prepare(ctx, e); err == nil {
			seen, err = t.act(ctx, e)
			t.Does += e.found
		}
		return err
	})
	if err != nil {
		t.Problem = "it could not be drilled: " + err.Error()
		return
	}
	t.Problem, t.Asked = "", len(seen)
	wrong := 0
	for _, a := range seen {
		if problem := a.against(answers()[t.Declared]); problem != "" {
			wrong++
			t.Problem = fmt.Sprintf("%d of %d answers of another account: %s", wrong, len(seen), problem)
		}
	}
}

// prepare starts the gateway, and makes what is there before the trial acts.
func (t *Trial) prepare(ctx context.Context, e *environment) (err error) {
	if e.gateway, err = e.start(ctx); err == nil && t.learns {
		err = e.learn(ctx, question{caller: e.stranger})
	}
	if err == nil && t.expires {
		err = e.gateway.Expire()
	}
	if err == nil && t.fault.Name != "" {
		err = e.system.SetFault(t.fault)
	}
	return err
}

// sleep returns false if ctx ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
