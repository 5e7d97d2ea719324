package cache

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// A list that fails is in back-off until it is fetched again, here or by another node. That others are fetched
// does not end it.
func TestWhatEndsABackOff(t *testing.T) {
	for _, age := range []time.Duration{15 * time.Second, 40 * time.Second} { // for stale_while_revalidate, or stale_if_error only
		for _, works := range []string{"nothing", "another list here", "another list elsewhere", "the list elsewhere"} {
			f := newFleet(t, 2)
			here, elsewhere := f.nodes[0], f.nodes[1]
			f.warm(t, sellers)
			get := func(l *Cache, k Key) Result {
				r := mustGet(t, l, k)
				settled(l)
				return r
			}
			get(here, aKey)
			f.grow(t, age)
			f.failWith(errLegacy)
			for range 3 {
				get(here, aKey)
				f.clock.Add(2 * time.Second)
			}
			get(here, aKey) // it is in back-off for more than a second
			f.failWith(nil)
			f.clock.Add(time.Second / 2) // more than a round trip to Redis, by which an answer seems older
			switch works {
			case "another list here":
				get(here, otherKey)
			case "another list elsewhere":
				get(elsewhere, otherKey)
				get(here, otherKey) // out of Redis
			case "the list elsewhere":
				f.srv.Do("DEL", f.namesOf(aKey).Entry) // which it would take
				get(elsewhere, aKey)
				f.clock.Add(redisCheck)
			}
			before := f.calls.Load()
			first, second := get(here, aKey), get(here, aKey)
			if n := f.calls.Load() - before; n != 0 {
				t.Errorf("%s: asked %d times", works, n)
			}
			if ends := works == "the list elsewhere"; !ends && first.Outcome != StaleError || (second.Outcome == Hit) != ends {
				t.Errorf("%v old, then works %s: %s, then %s", age, works, first.Outcome, second.Outcome)
			}
		}
	}
}

// A list was fetched by another node after it had failed here for everybody who asked. By the
// time that this node reads it, its ttl is over: it is as stale as any other.
func TestAListOfAnotherNodeDoesNotFail(t *testing.T) {
	f := newFleet(t, 2)
	f.failWith(errLegacy)
	for range 17 {
		if _, err := f.nodes[0].Get(t.Context(), aKey); err == nil {
			t.Fatal("no error")
		}
		f.clock.Add(100 * time.Millisecond)
	}
	f.failWith(nil)
	n := f.calls.Load()
	mustGet(t, f.nodes[1], aKey)
	settled(f.nodes...)
	f.grow(t, 12*time.Second)
	want(t, mustGet(t, f.nodes[0], aKey), StaleRevalidate, fmt.Sprint("#", n+1))
	settled(f.nodes...)
	want(t, mustGet(t, f.nodes[0], aKey), Hit, fmt.Sprint("#", n+2))
}

// Two fills run because a purge came between them. The older one fails after the newer one has
// worked, which says nothing of the list.
func TestAnOlderFillThatFailsLater(t *testing.T) {
	older := make(chan struct{})
	l, g := alone(t, func(s *setup) {
		fill := s.Fill
		s.Fill = func(ctx context.Context, k Key, about FillInfo) (Content, error) {
			c, err := fill(ctx, k, about)
			if c.Body != nil && string(c.Body[len(c.Body)-2:]) == "#1" {
				<-older
				return Content{}, errLegacy
			}
			return c, err
		}
	})
	failed := make(chan error)
	go func() { _, err := l.Get(t.Context(), aKey); failed <- err }()
	for g.calls.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	purge(t, l, acme)
	g.clock.Add(time.Millisecond)
	want(t, mustGet(t, l, aKey), Miss, "#2")
	g.clock.Add(time.Millisecond)
	close(older)
	if err := <-failed; err == nil {
		t.Fatal("no error")
	}
	settled(l)
	g.clock.Add(11 * time.Second)
	want(t, mustGet(t, l, aKey), StaleRevalidate, "#2")
	settled(l)
	want(t, mustGet(t, l, aKey), Hit, "#3")
}

// Many callers at once do not make a back-off longer.
func TestABackOffGoesByTime(t *testing.T) {
	l, g := alone(t)
	g.failWith(errLegacy)
	for range 17 {
		g.clock.Add(time.Millisecond)
		if _, err := l.Get(t.Context(), aKey); err == nil {
			t.Fatal("no error")
		}
	}
	x, err := l.Explain(t.Context(), aKey)
	if left := x.RetryAt.Sub(g.clock.Now()); err != nil || !x.Failing || left > backoffFirst {
		t.Errorf("%s are left of it, %v", left, err)
	}
}

// A list that must not be asked for rests as long as the legacy says, for a minute at most: callers get it stale
// within its window, else the error with the time that is left.
func TestAListRestsForRetryAfter(t *testing.T) {
	for told, rests := range map[time.Duration]time.Duration{20 * time.Second: 20 * time.Second, time.Hour: time.Minute} {
		l, g := alone(t)
		mustGet(t, l, aKey)
		g.failWith(legacyDown{wait: told})
		g.clock.Add(15 * time.Second)
		mustGet(t, l, aKey)
		settled(l)
		_, _ = l.Get(t.Context(), otherKey)
		n := g.calls.Load()
		g.clock.Add(rests - time.Millisecond)
		if r, err := l.Get(t.Context(), aKey); rests < time.Minute && (err != nil || r.Outcome != StaleError) {
			t.Errorf("%v: the list that there is: %v %v", told, r.Outcome, err)
		}
		_, err := l.Get(t.Context(), otherKey)
		if rest, ok := errors.AsType[*BackoffError](err); !ok || rest.Left != time.Millisecond || g.calls.Load() != n {
			t.Errorf("%v: %v after %d fetches", told, err, g.calls.Load()-n)
		}
		g.clock.Add(time.Millisecond)
		if _, _ = l.Get(t.Context(), otherKey); g.calls.Load() != n+1 {
			t.Errorf("%v: %d fetches when it was over", told, g.calls.Load()-n)
		}
	}
}

// A fetch that was refused brings back no back-off that a purge or a reload has ended, and begins none for callers.
func TestARefusalRefusesNoCaller(t *testing.T) {
	for name, end := range map[string]func(*Cache){
		"a purge": func(l *Cache) { purge(t, l, acme) },
		"a reload": func(l *Cache) {
			apply, err := l.Prepare(testConfig(), Fills{})
			if err != nil {
				t.Fatal(err)
			}
			apply()
		},
		"nothing": func(*Cache) {},
	} {
		l, g := alone(t)
		refused := legacyDown{refused: true}
		g.failWith(legacyDown{wait: time.Minute})
		_, _ = l.Get(t.Context(), aKey)
		end(l)
		if name == "nothing" {
			g.clock.Add(time.Minute)
		}
		g.failWith(refused)
		for range 3 {
			if _, err := l.Get(t.Context(), aKey); err != error(refused) {
				t.Errorf("%s: %v", name, err)
			}
			if x, err := l.Explain(t.Context(), aKey); err != nil || x.Outcome != Miss {
				t.Errorf("%s: explained as %s, %v", name, x.Outcome, err)
			}
		}
		g.failWith(nil)
		mustGet(t, l, aKey)
	}
}

// What explain says of a back-off is what is in force.
func TestExplainKnowsWhatEndsABackOff(t *testing.T) {
	l, g := alone(t)
	g.failWith(errLegacy)
	_, _ = l.Get(t.Context(), aKey)
	if x, err := l.Explain(t.Context(), aKey); err != nil || x.Outcome != outcomeFailed || x.RetryAt.IsZero() {
		t.Errorf("%+v, %v", x, err)
	}
	purge(t, l, acme)
	if x, err := l.Explain(t.Context(), aKey); err != nil || x.Outcome != Miss || !x.RetryAt.IsZero() {
		t.Errorf("after a purge %+v, %v", x, err)
	}
}

// Who asks for a cold list that has failed gets that error, until its time is over or something
// says that another try may work.
func TestAColdListThatFailsIsNotFetchedForEachLookUp(t *testing.T) {
	for name, end := range map[string]func(*Cache) error{
		"nothing": func(*Cache) error { return nil },
		"a purge": func(l *Cache) error {
			_, err := l.Purge(t.Context(), Purge{Accounts: []string{aKey.Account}})
			return err
		},
		"a soft purge": func(l *Cache) error {
			_, err := l.Purge(t.Context(), Purge{Kinds: []string{aKey.Kind}, Soft: true})
			return err
		},
		"a reload": func(l *Cache) error {
			apply, err := l.Prepare(testConfig(), Fills{})
			apply()
			return err
		},
		"another list": func(l *Cache) error { _, err := l.Get(t.Context(), Key{Kind: aKey.Kind, Account: "other"}); return err },
		"an open breaker": func(l *Cache) error {
			l.opts.Failing = func(string, string) bool { return true } // which answers then, and not the last error
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, g := alone(t)
			g.failWith(errLegacy)
			for range 100 {
				if _, err := l.Get(t.Context(), aKey); !errors.As(err, new(legacyDown)) {
					t.Fatal(err)
				}
				g.clock.Add(100 * time.Millisecond)
			}
			if n := g.calls.Load(); n < 3 || n > 6 {
				t.Errorf("fetched %d times in 10 s", n)
			}
			for { // until a new rest begins
				n := g.calls.Load()
				if _, err := l.Get(t.Context(), aKey); err == nil || g.calls.Load() > n {
					break
				}
				g.clock.Add(10 * time.Millisecond)
			}
			g.failWith(nil)
			g.clock.Add(time.Millisecond)
			if err := end(l); err != nil {
				t.Fatal(err)
			}
			g.clock.Add(time.Millisecond)
			_, err := l.Get(t.Context(), aKey)
			if rests := name == "nothing" || name == "another list" || name == "an open breaker"; (err != nil) != rests {
				t.Errorf("%v", err)
			}
			g.clock.Add(backoffMost)
			mustGet(t, l, aKey)
		})
	}
}

func never(*failure) bool { return false }

// That a fill was refused takes nothing of what is known of a list: it rests for as long, and the
// next failure is not the first.
func TestARefusalShortensNoRest(t *testing.T) {
	now := time.Now()
	b, err := newBackoff()
	if err != nil {
		t.Fatal(err)
	}
	fail := func(err error) *failure {
		b.failed(aKey, failure{began: now, err: err}, now, never)
		return b.lookup(aKey, time.Time{})
	}
	var known *failure
	for range 7 {
		known = fail(errLegacy)
		now = known.until
	}
	known = fail(errLegacy)
	now = now.Add(time.Second)
	if f := fail(legacyDown{refused: true}); f.until != known.until || f.refreshAt != known.refreshAt || f.count != known.count || f.err != known.err {
		t.Errorf("after a refusal %+v, before %+v", f, known)
	}
	now = known.until
	if f := fail(legacyDown{refused: true}); !f.refreshAt.After(now) || f.until.After(now) {
		t.Errorf("a refusal at the end of a back-off: %+v", f)
	}
	if f := fail(errLegacy); f.count < known.count {
		t.Errorf("the next failure counts as number %d", f.count)
	}
}
