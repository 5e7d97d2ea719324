package drill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
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
		{Name: "outage", Declared: Stale, act: outage, configure: shortLived,
			Does: "the legacy system is away for 10 s"},
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

const (
	// away is how long the legacy system is: the shortest time for which the TTL lab says
	// what would be answered.
	away = 10 * time.Second
	// watched is for how long the lab sees the traffic before: away, and what the nodes of
	// a fleet wait for each other.
	watched = away + 3*time.Second
	// farOff is by how much the forecast may be wrong. Its standard deviation is 0.003 here:
	// the outage begins at one moment, and the forecast is the mean over all.
	farOff = 0.01
)

// shortLived has all lists end during the outage. Without Redis nothing but the lists' own
// times ends them: its clock is known less well on a busy machine, and then they end sooner.
func shortLived(c *config.Config) {
	c.Cache.Buyer.TTL, c.Cache.Buyer.StaleWhileRevalidate, c.Cache.Buyer.StaleIfError = 300*time.Millisecond, 0, 3*time.Second
	if c.Auth.Redis == nil {
		c.Redis.Addrs = nil
	}
}

// outage: what share of the look-ups is answered is what the TTL lab has foretold. 32
// lists are asked for, half of them seven times a second, others so rarely that they are
// not always there.
func outage(ctx context.Context, e *environment) (stale []Seen, err error) {
	type look struct {
		Seen
		at time.Time
	}
	until, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	var mu sync.Mutex
	var all []look
	start := time.Now()
	for i, q := range slices.Concat(lists(e.known), lists(e.stranger)) {
		gap := []time.Duration{150, 500, 150, 2000}[i%4] * time.Millisecond
		next := start.Add(gap * time.Duration(i) / 32)
		asking.Go(func() {
			for sleep(until, time.Until(next)) {
				l := look{at: time.Now()}
				e.busy.note(l.at.Sub(next))
				asking.Go(func() { // who waited for the answer would ask more often when it comes sooner
					l.Seen = e.client.list(ctx, e.gateway.URL+q.path(), q.caller.key)
					mu.Lock()
					defer mu.Unlock()
					all = append(all, l)
				})
				next = next.Add(time.Duration((0.5 + rand.Float64()) * float64(gap)))
			}
		})
	}
	sleep(ctx, watched)
	foretold, err := e.foretold(ctx)
	if err != nil {
		return nil, err
	}
	e.legacy.close()
	gone := time.Now()
	sleep(ctx, away)
	if err := over(ctx); err != nil {
		return nil, err
	}
	cancel()
	asking.Wait()
	var asked, answered float64
	for _, l := range all {
		if l.at.Before(gone) || !l.at.Before(gone.Add(away)) {
			continue
		}
		if asked++; l.Status != 200 {
			continue
		}
		if answered++; l.against(answers()[Hit]) != "" { // beyond its ttl, or wrong
			stale = append(stale, l.Seen)
		}
	}
	e.found = fmt.Sprintf(": %.1f %% of %g look-ups are answered, %.1f %% were foretold", 100*answered/asked, asked, 100*foretold)
	if math.Abs(answered/asked-foretold) > farOff+e.busy.heldUp().Seconds()/away.Seconds() {
		err = errors.New("not within a point" + e.found)
	}
	return stale, err
}

// foretold is what share of the look-ups the lab says would be answered.
func (e *environment) foretold(ctx context.Context) (float64, error) {
	var report struct {
		Kinds []struct {
			Kind   string
			Outage struct {
				Rows []struct {
					Current  bool
					Answered []*float64
				}
			}
		}
	}
	err := e.client.read(ctx, e.gateway.Ops+"/ops/ttl", &report)
	for _, k := range report.Kinds {
		for _, row := range k.Outage.Rows {
			if k.Kind == auth.KindBuyer && row.Current && row.Answered[0] != nil {
				return *row.Answered[0], err
			}
		}
	}
	return 0, errors.Join(err, errors.New("the TTL lab foretells nothing"))
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
