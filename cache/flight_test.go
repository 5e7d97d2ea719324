package cache

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFiveHundredCallersMakeOneFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g := alone(t)
		g.hold = make(chan struct{})
		var all [500]<-chan Result
		for i := range all {
			all[i] = asking(t, l, aKey)
		}
		synctest.Wait() // all of them wait for the one fill
		close(g.hold)
		count := map[Outcome]int{}
		for _, r := range all {
			count[(<-r).Outcome]++
		}
		if g.calls.Load() != 1 || count[Miss] != 1 || count[Collapsed] != 499 {
			t.Errorf("%d fills, outcomes %v", g.calls.Load(), count)
		}
	})
}

// Whoever leaves, be it the caller who has begun the fill, gets the error of its own context,
// at once; the fill goes on for the others.
func TestEachCallerFollowsItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g := alone(t)
		g.hold = make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		led := make(chan error, 1)
		go func() { _, err := l.Get(ctx, aKey); led <- err }()
		synctest.Wait()
		waits := asking(t, l, aKey)
		short, end := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer end()
		start := time.Now()
		if _, err := l.Get(short, aKey); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 30*time.Millisecond {
			t.Errorf("who has 30 ms got %v after %s", err, time.Since(start))
		}
		cancel()
		if err := <-led; !errors.Is(err, context.Canceled) {
			t.Errorf("the first caller got %v, want its own cancellation", err)
		}
		close(g.hold)
		want(t, <-waits, Collapsed, "#1")
	})
}

func TestAFillThatEndsBadlyTellsEveryWaiter(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func()
		want error
	}{
		"panic":            {func() { panic("mapping bug") }, ErrFillPanicked},
		"Goexit":           {runtime.Goexit, ErrFillPanicked},
		"nothing for ever": {func() { time.Sleep(time.Hour) }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var good atomic.Bool
				l, g := alone(t, func(s *setup) {
					s.Fill = func(context.Context, Key, FillInfo) (Content, error) {
						if !good.Swap(true) {
							time.Sleep(time.Millisecond) // of the bubble: until all callers wait
							tt.end()
						}
						return Content{Body: []byte("good")}, nil
					}
				})
				errs := make(chan error, 10)
				for range cap(errs) {
					go func() { _, err := l.Get(t.Context(), aKey); errs <- err }()
				}
				for range cap(errs) {
					if err := <-errs; !errors.Is(err, tt.want) {
						t.Errorf("a waiter got %v, want %v", err, tt.want)
					}
				}
				g.clock.Add(retryMost)
				want(t, mustGet(t, l, aKey), Miss, "good")
				time.Sleep(2 * time.Hour) // of the bubble: the stuck fill comes back
			})
		})
	}
}

func TestErrorsAndNoStoreAreNeverStored(t *testing.T) {
	noStore, g := true, newLegacy()
	l := g.node(t, nil, func(s *setup) {
		s.Fill = func(ctx context.Context, k Key, about FillInfo) (Content, error) {
			c, err := g.fill(ctx, k, about)
			c.NoStore = noStore
			return c, err
		}
	})
	g.failWith(errLegacy)
	for range 2 {
		if _, err := l.Get(t.Context(), aKey); !errors.Is(err, errLegacy) {
			t.Fatalf("error %v", err)
		}
		g.clock.Add(retryMost)
	}
	g.failWith(nil)
	for _, answer := range []string{"#3", "#4"} {
		r := mustGet(t, l, aKey)
		if want(t, r, Miss, answer); r.Stored {
			t.Error("a no-store answer was stored")
		}
	}
	noStore = false
	if r := mustGet(t, l, aKey); !r.Stored {
		t.Error("a good answer was not stored")
	}
	want(t, mustGet(t, l, aKey), Hit, "#5")
}

func TestCloseEndsFillsWhenItIsOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g := alone(t)
		g.hold = make(chan struct{}) // never closed
		ended := make(chan error, 1)
		go func() { _, err := l.Get(context.Background(), aKey); ended <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the fill ended with %v", err)
		}
		if _, err := l.Get(t.Context(), sellers); !errors.Is(err, ErrClosed) {
			t.Errorf("Get after Close: %v", err)
		}
	})
}

func TestABackgroundRefreshRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, g := alone(t)
		mustGet(t, l, aKey)
		g.hold = make(chan struct{})
		g.clock.Add(11 * time.Second)
		for range 100 {
			r := mustGet(t, l, aKey)
			if want(t, r, StaleRevalidate, "#1"); r.Wait != 0 {
				t.Errorf("waited %s", r.Wait)
			}
		}
		if _, ok := l.Lookup(aKey); !ok {
			t.Error("the hot path does not serve it while it is refreshed")
		}
		close(g.hold)
		synctest.Wait()
		if r, ok := l.Lookup(aKey); !ok || g.calls.Load() != 2 {
			t.Errorf("%d fills, fresh %t", g.calls.Load(), ok)
		} else {
			want(t, r, Hit, "#2")
		}
	})
}

// A list that was purged while its caller waited is as old as it is, and a caller whose time is up
// gets what stale_if_error lets be served.
func TestWhatACallerGetsAtTheLastMoment(t *testing.T) {
	l, g := alone(t)
	fill := l.opts.Fill
	l.opts.Fill = func(ctx context.Context, _ Key, _ FillInfo) (Content, error) {
		_, err := l.Purge(ctx, Purge{Kinds: []string{KindBuyer}})
		return Content{Body: []byte("x"), AnsweredAt: g.clock.Now().Add(-8 * time.Second)}, err
	}
	if r := mustGet(t, l, aKey); r.Age != 8*time.Second || r.TTL > 0 {
		t.Errorf("it is %v old, with %v of its ttl", r.Age, r.TTL)
	}
	l.opts.Fill = fill
	mustGet(t, l, aKey)
	g.clock.Add(40 * time.Second)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if r, err := l.Get(ctx, aKey); err != nil || r.Outcome != StaleError {
		t.Errorf("%s, %v", r.Outcome, err)
	}
}
