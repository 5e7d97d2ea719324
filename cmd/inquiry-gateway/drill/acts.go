package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/upstream"
	"inquiry-gateway/upstream/legacy"
)

// tripped is for how long the breaker of a trial is open.
const tripped = time.Second

// trip makes a breaker that opens quickly, and not for long.
func trip(c *config.Config) {
	c.Upstream.Breaker = config.Default().Upstream.Breaker
	c.Upstream.Breaker.MinRequests, c.Upstream.Breaker.OpenFor = 5, tripped
}

// failingList: a 404 is the answer of a legacy system that works, so that it closes
// the breaker for all other lists. A gateway that counted it as a failure would leave
// everybody without lists because of one account. It gets three times as long as the
// breaker is open.
func failingList(ctx context.Context, e *environment) ([]Seen, error) {
	if err := poll(ctx, func() error {
		if seen := e.ask(ctx, e.gateway, question{caller: e.known}); seen.Code != answers()[Unavailable].Code {
			return fmt.Errorf("the breaker does not open: %s", seen.text())
		}
		return nil
	}); err != nil {
		return nil, err
	}
	e.system.ClearFaults("")
	if err := e.system.SetFault(legacy.Fault{Name: legacy.FaultStatus, Account: e.known.account, Code: 404}); err != nil {
		return nil, err
	}
	defer e.keepAsking(ctx, question{caller: e.known})()
	var last Seen
	waiting, cancel := context.WithTimeout(ctx, 3*tripped)
	defer cancel()
	_ = poll(waiting, func() error { // the answer says what became of it
		if last = e.ask(ctx, e.gateway, question{caller: e.stranger}); last.Status != 200 {
			return fmt.Errorf("not yet: %s", last.text())
		}
		return nil
	})
	return []Seen{last}, nil
}

// keepAsking asks all the time, several callers at once, until the function that it
// returns is called.
func (e *environment) keepAsking(ctx context.Context, q question) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	for range repeats {
		asking.Go(func() {
			for ctx.Err() == nil {
				e.ask(ctx, e.gateway, q)
			}
		})
	}
	return func() { cancel(); asking.Wait() }
}

// failuresInARow: the other account's list is stale but can be fetched, and is. A
// back-off for all lists together would serve it stale instead.
func failuresInARow(ctx context.Context, e *environment) ([]Seen, error) {
	if err := e.allAre(ctx, Failed, question{caller: e.known}); err != nil {
		return nil, fmt.Errorf("with a legacy system that fails: %w", err)
	}
	return []Seen{e.ask(ctx, e.gateway, question{caller: e.stranger})}, nil
}

// allAre asks again and again; an answer that is not the outcome is an error.
func (e *environment) allAre(ctx context.Context, want Outcome, q question) error {
	for range repeats {
		if seen := e.ask(ctx, e.gateway, q); seen.against(answers()[want]) != "" {
			return errors.New(seen.text())
		}
	}
	return nil
}

// toldToWait: a quota may be one account's own. That account gets no further request
// before the time is over, and all others go on.
func toldToWait(ctx context.Context, e *environment) ([]Seen, error) {
	if err := e.allAre(ctx, Unavailable, question{caller: e.known}); err != nil {
		return nil, fmt.Errorf("with a legacy system that tells to wait: %w", err)
	}
	if n := e.system.Requests().Buyer; n != 1 {
		return nil, fmt.Errorf("the legacy system got %d requests, and has told to wait at the first", n)
	}
	return []Seen{e.ask(ctx, e.gateway, question{caller: e.stranger})}, nil
}

// mostSignIns is how many sign-ins that fail are not too many for a trial.
const mostSignIns = 3

// wantSession has the gateway sign in where the legacy system has a page for people.
func wantSession(c *config.Config) {
	c.Upstream.Auth = upstream.AuthConfig{
		Type: "session", PasswordFile: secretfile.New("password", "drill"), Token: "token",
		Login: upstream.LoginConfig{Path: "/login", Body: map[string]any{"password": "{password}"}},
	}
}

// noSignIn: callers are not told that they are not allowed, and the legacy system gets
// few sign-ins, as too many may lock the account.
func noSignIn(ctx context.Context, e *environment) (seen []Seen, err error) {
	for range repeats {
		for _, c := range []caller{e.known, e.stranger} {
			seen = append(seen, e.ask(ctx, e.gateway, question{c, "", ""}))
		}
	}
	if n := e.system.Requests().Login; n == 0 || n > mostSignIns {
		return nil, fmt.Errorf("the legacy system got %d sign-ins", n)
	}
	return seen, nil
}

// fewPlaces makes it easy to take all places to the legacy system.
func fewPlaces(c *config.Config) {
	c.Upstream.MaxConcurrent = 8
	c.Upstream.Timeout, c.RequestTimeout = relaxedTimeout, max(c.RequestTimeout, relaxedTimeout)
}

// allPlaces: sixteen lists of one account want the eight places to the legacy system,
// and keep them for as long as they may. The other account gets a place all the same.
func allPlaces(ctx context.Context, e *environment) ([]Seen, error) {
	asking, cancel := context.WithCancel(ctx)
	wait := e.askForAll(asking, e.known, func(Seen) {})
	defer wait()
	defer cancel()
	if err := poll(ctx, func() error {
		if e.system.Requests().Buyer == 0 {
			return errors.New("the legacy system is not asked")
		}
		return nil
	}); err != nil {
		return nil, err
	}
	var seen []Seen
	for _, status := range []string{"pending", "answered", "closed", ""} {
		seen = append(seen, e.ask(ctx, e.gateway, question{caller: e.stranger, status: status}))
	}
	return seen, nil
}

// askForAll asks for the sixteen lists of an account at once. wait waits for the answers.
// answered is called by several goroutines.
func (e *environment) askForAll(ctx context.Context, c caller, answered func(Seen)) (wait func()) {
	var group sync.WaitGroup
	for _, q := range lists(c) {
		group.Go(func() { answered(e.ask(ctx, e.gateway, q)) })
	}
	return group.Wait
}

// lists are the sixteen of an account: each status, or none, with each type, or none.
func lists(c caller) (all []question) {
	for _, status := range []string{"", "pending", "answered", "closed"} {
		for _, inquiryType := range []string{"", "product", "delivery", "refund"} {
			all = append(all, question{c, status, inquiryType})
		}
	}
	return all
}

// lowCeiling lets the legacy system get one request per second.
func lowCeiling(c *config.Config) { c.Upstream.MaxRequestsPerSecond = 1 }

// overTheCeiling: what the legacy system may not be asked for is refused with
// Retry-After, and no list that is there suffers. At most one request per second that
// has begun may reach the legacy system.
func overTheCeiling(ctx context.Context, e *environment) ([]Seen, error) {
	before, begin := e.system.Requests(), time.Now()
	var mu sync.Mutex
	var refused int
	var wrong error
	wait := e.askForAll(ctx, e.known, func(seen Seen) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case seen.against(answers()[Unavailable]) == "":
			refused++
		case seen.against(answers()[Miss]) != "":
			wrong = fmt.Errorf("over the ceiling: %s", seen.text())
		}
	})
	var seen []Seen
	for range repeats {
		seen = append(seen, e.ask(ctx, e.gateway, question{caller: e.stranger}))
	}
	wait()
	asked, most := e.system.Requests().Buyer-before.Buyer, 1+int(time.Since(begin)/time.Second)
	switch {
	case wrong != nil:
		return nil, wrong
	case refused == 0:
		return nil, errors.New("nothing was refused")
	case asked > most:
		return nil, fmt.Errorf("the legacy system got %d requests, of %d at most", asked, most)
	}
	return seen, nil
}

// fewConnections are easily taken.
const fewConnections = 8

// idleConnections: whoever has not authenticated makes room for a new connection. Each
// answer needs a connection of its own, which at the limit there is only then.
func idleConnections(ctx context.Context, e *environment) ([]Seen, error) {
	other := question{caller: e.stranger}
	var seen []Seen
	for range 2 * fewConnections {
		idle, err := net.Dial("tcp", strings.TrimPrefix(e.gateway.URL, "http://"))
		if err != nil {
			return nil, err
		}
		defer idle.Close()
		e.client.close() // the next answer needs a connection, too
		seen = append(seen, e.ask(ctx, e.gateway, other))
	}
	return seen, over(ctx)
}

// cachedFor is how long a trial's keys are good without the store.
const cachedFor = time.Second

// shortMemory makes a node ask its key store again soon.
func shortMemory(c *config.Config) {
	if c.Auth.Redis != nil {
		c.Auth.Redis.TTL = cachedFor
	}
	if c.Auth.Introspection != nil {
		c.Auth.Introspection.TTL = cachedFor
	}
}

// guessedKeys: the key store is asked about the good key while guesses are held back.
// It goes on for twice as long as a key is good without the store, so that the good one
// must be asked about.
func guessedKeys(ctx context.Context, e *environment) ([]Seen, error) {
	var seen []Seen
	for begin := time.Now(); time.Since(begin) < 2*cachedFor; {
		for range 20 {
			key, err := auth.Generate(auth.KindBuyer)
			if err != nil {
				return nil, err
			}
			e.ask(ctx, e.gateway, question{caller: caller{e.stranger.account, key}})
		}
		if err := over(ctx); err != nil {
			return nil, err
		}
		seen = append(seen, e.ask(ctx, e.gateway, question{caller: e.stranger}))
	}
	return seen, nil
}

// toldOfAChange: all nodes have the list as it is now, and not as it was. With Redis
// there are two nodes, of which one is told.
func toldOfAChange(ctx context.Context, e *environment) (seen []Seen, err error) {
	other, nodes := question{caller: e.stranger}, []Gateway{e.gateway}
	if e.terms.redis {
		second, err := e.start(ctx)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, second)
	}
	eachHas := func() error {
		return poll(ctx, func() error {
			for _, g := range nodes {
				if problem := e.ask(ctx, g, other).against(answers()[Hit]); problem != "" {
					return errors.New(problem)
				}
			}
			return nil
		})
	}
	if err := eachHas(); err != nil {
		return nil, err
	}
	if !e.system.Answer(other.caller.account) {
		return nil, errors.New("the list does not change")
	}
	for _, g := range nodes {
		if e.ask(ctx, g, other).failure == "" {
			return nil, errors.New("the list has changed, and nobody has told")
		}
	}
	if err := e.client.post(ctx, e.gateway.Ops+"/ops/changed", fmt.Sprintf(`{"accounts":[%q],"hard":true}`, other.caller.account)); err != nil {
		return nil, err
	}
	_ = eachHas() // the answers say what became of it
	for _, g := range nodes {
		seen = append(seen, e.ask(ctx, g, other))
	}
	return seen, nil
}
