package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/config"
)

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
	page, err := e.client.page(ctx, e.gateway.Ops+"/ops/ttl")
	if err == nil {
		err = json.Unmarshal([]byte(page), &report)
	}
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
