package drill

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/auth"
	v1 "inquiry-gateway/gateway/v1"
)

// repeats is how often a caller asks where one answer says too little.
const repeats = 5

// start runs one more gateway in the environment; close stops it.
func (e *environment) start(ctx context.Context) (Gateway, error) {
	g, err := e.Start(ctx, e.config)
	if err != nil {
		return g, fmt.Errorf("start a gateway: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gateways = append(e.gateways, g)
	return g, nil
}

// drill fills in the rows of a cell: all is well first, then the parts fail, and then
// the callers ask. Rows with a declared time are asked for one after the other, as each
// would slow down the next.
func (e *environment) drill(ctx context.Context, c Cell, rows []Row) error {
	if err := e.prepare(ctx, c, rows); err != nil {
		return fmt.Errorf("with everything well: %w", err)
	}
	if err := e.inject(ctx, c); err != nil {
		return err
	}
	if err := e.noticed(ctx, c); err != nil {
		return err
	}
	var group errgroup.Group
	if timed(rows) {
		group.SetLimit(1)
	}
	for i := range rows {
		if rows[i].Case != Later { // last: it needs what the others do
			group.Go(func() error { return e.row(ctx, &rows[i]) })
		}
	}
	err := group.Wait()
	for i := range rows {
		if rows[i].Case == Later && err == nil {
			err = e.row(ctx, &rows[i])
		}
	}
	return err
}

// question is a list that somebody asks for.
type question struct {
	caller              caller
	status, inquiryType string
}

// path is what a caller asks for: path and query.
func (q question) path() string {
	filter := url.Values{}
	for name, value := range map[string]string{"status": q.status, "inquiry_type": q.inquiryType} {
		if value != "" {
			filter.Set(name, value)
		}
	}
	return "/api/v1/buyer/inquiries?" + filter.Encode()
}

// ask asks a gateway, and holds a list that it gives against the truth: what the legacy
// system has for that account now, rendered by the same code.
func (e *environment) ask(ctx context.Context, g Gateway, q question) Seen {
	seen := e.client.list(ctx, g.URL+q.path(), q.caller.key)
	truth := v1.AppendBuyer(nil, e.system.Truth(auth.KindBuyer, q.caller.account, q.status, q.inquiryType))
	if seen.Status == 200 && string(seen.body) != string(truth) {
		seen.failure = "the list is not the caller's, or not the right one"
	}
	seen.by = g
	return seen
}

// prepare starts the gateway and lets it learn the caller it knows. Lists that another
// gateway is to find in Redis are waited for: they are written there after the answer.
func (e *environment) prepare(ctx context.Context, c Cell, rows []Row) (err error) {
	if e.gateway, err = e.start(ctx); err != nil {
		return err
	}
	for _, status := range []string{"pending", "answered", ""} {
		if err := e.learn(ctx, question{caller: e.known, status: status}); err != nil {
			return err
		}
	}
	reachable := c.Redis == Up || c.Redis == Garbage
	if reachable && slices.ContainsFunc(rows, func(r Row) bool { return r.Case == Shared }) {
		if err := poll(ctx, func() error { return e.shared(ctx, 3) }); err != nil {
			return err
		}
	}
	return e.expire(e.gateway, c)
}

// learn asks until the list is known, which at the first time it is, unless a
// timeout is short and the machine busy.
func (e *environment) learn(ctx context.Context, q question) error {
	return poll(ctx, func() error {
		seen := e.ask(ctx, e.gateway, q)
		if seen.against(answers()[Hit]) == "" {
			return nil
		}
		if problem := seen.against(answers()[Miss]); problem != "" {
			return errors.New(problem + seen.because(ctx))
		}
		if e.baseline == 0 || seen.Took < e.baseline {
			e.baseline = seen.Took
		}
		return errors.New("a list that was fetched is not known")
	})
}

// expire makes lists stale where the legacy system is what fails.
func (e *environment) expire(g Gateway, c Cell) error {
	if c.Legacy == Up {
		return nil
	}
	return g.Expire()
}

// shared returns an error until so many lists are in Redis.
func (e *environment) shared(ctx context.Context, n int) error {
	keys, err := e.Store.keys(ctx, e.prefix)
	lists := slices.DeleteFunc(keys, func(key string) bool { return !strings.Contains(key, ":buyer:") || strings.HasSuffix(key, ":lease") })
	if err == nil && len(lists) < n {
		err = fmt.Errorf("%d of %d lists are in Redis", len(lists), n)
	}
	return err
}

// noticed waits until the gateway has read what became of its keys file; of all
// else it hears when it asks.
func (e *environment) noticed(ctx context.Context, c Cell) error {
	if e.terms.keys != FromFile || c.Keys == Up {
		return nil
	}
	return poll(ctx, func() error {
		metrics, err := e.client.page(ctx, e.gateway.Ops+"/metrics")
		if err == nil && strings.Contains(metrics, `inquiry_gateway_auth_reloads_total{result="failed"} 0`) {
			err = errors.New("the gateway has not noticed what became of the keys file")
		}
		return err
	})
}

// row drills one row. An error is the drill's, not the gateway's.
func (e *environment) row(ctx context.Context, row *Row) error {
	var seen []Seen
	var err error
	switch row.Case {
	case Warm:
		for range repeats {
			seen = append(seen, e.ask(ctx, e.gateway, question{caller: e.known}))
		}
	case Cold:
		seen = append(seen, e.ask(ctx, e.gateway, question{caller: e.stranger}))
	case Shared:
		seen, err = e.restarted(ctx, row.Cell)
	case Later:
		seen, err = e.later(ctx, row.Cell)
	}
	if err == nil {
		err = over(ctx)
	}
	if err == nil {
		row.judge(ctx, seen, e)
	}
	return err
}

// restarted asks a second gateway, which has just been started and knows what is in
// Redis only.
func (e *environment) restarted(ctx context.Context, c Cell) ([]Seen, error) {
	g, err := e.start(ctx)
	if err == nil {
		err = e.expire(g, c)
	}
	if err != nil {
		return nil, err
	}
	return []Seen{e.ask(ctx, g, question{caller: e.known})}, nil
}

// later asks when the breaker of what is away is open.
func (e *environment) later(ctx context.Context, c Cell) ([]Seen, error) {
	if c.Legacy != Up {
		return e.untilBreaks(ctx), nil
	}
	if err := poll(ctx, func() error { return e.redisDown(ctx) }); err != nil {
		return nil, err
	}
	var all []Seen
	for i := range repeats {
		types := []string{"product", "delivery", "refund"}
		all = append(all, e.ask(ctx, e.gateway, question{e.known, []string{"closed", "answered"}[i/len(types)], types[i%len(types)]}))
	}
	slices.SortFunc(all, func(a, b Seen) int { return int(a.Took - b.Took) })
	return all[:repeats/2+1], nil // half of them may have met something else on this machine
}

// untilBreaks asks until the gateway asks the legacy system no more, and
// returns the last answer.
func (e *environment) untilBreaks(ctx context.Context) []Seen {
	var last Seen
	for range 2*e.terms.breakerAfter + 20 {
		last = e.ask(ctx, e.gateway, question{caller: e.known, status: "closed"})
		if last.Code != answers()[Failed].Code || ctx.Err() != nil {
			break
		}
	}
	return []Seen{last}
}

// redisDown returns an error until the gateway says that it asks Redis no more.
func (e *environment) redisDown(ctx context.Context) error {
	var ready struct{ Parts map[string]string }
	if err := e.client.read(ctx, e.gateway.Ops+"/readyz", &ready); err != nil {
		return err
	}
	if ready.Parts["redis"] != "down" {
		return errors.New("the breaker of Redis does not open")
	}
	return nil
}
