package cache

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestFiveHundredCallersMakeOneFill(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c, hold: make(chan struct{})}
	synctest.Test(t, func(t *testing.T) {
		g.hold = make(chan struct{})
		l := setup{fill: g.fill}.start(t)
		var wg sync.WaitGroup
		outcomes := make(chan Outcome, 500)
		for range 500 {
			wg.Go(func() { outcomes <- mustGet(t, l, aKey).Outcome })
		}
		synctest.Wait() // all of them wait for the one fill
		close(g.hold)
		wg.Wait()
		close(outcomes)
		count := map[Outcome]int{}
		for o := range outcomes {
			count[o]++
		}
		if g.calls.Load() != 1 || count[Miss] != 1 || count[Collapsed] != 499 {
			t.Errorf("%d fills, outcomes %v", g.calls.Load(), count)
		}
	})
}

func TestTheLeadersCancellationHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &legacy{clock: newClock(), hold: make(chan struct{})}
		l := setup{fill: g.fill}.start(t)
		ctx, cancel := context.WithCancel(t.Context())
		led := make(chan error, 1)
		go func() { _, err := l.Get(ctx, aKey); led <- err }()
		synctest.Wait()
		waited := make(chan Result, 1)
		go func() { waited <- mustGet(t, l, aKey) }()
		synctest.Wait()
		cancel()
		if err := <-led; !errors.Is(err, context.Canceled) {
			t.Errorf("the leader got %v, want its own cancellation", err)
		}
		close(g.hold)
		if r := <-waited; r.Outcome != Collapsed || g.calls.Load() != 1 {
			t.Errorf("the waiter got %s after %d fills", r.Outcome, g.calls.Load())
		}
	})
}

func TestWaitersFollowTheirOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &legacy{clock: newClock(), hold: make(chan struct{})}
		l := setup{fill: g.fill}.start(t)
		go func() { _, _ = l.Get(t.Context(), aKey) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := l.Get(ctx, aKey)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 30*time.Millisecond {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		close(g.hold)
		synctest.Wait()
	})
}

func TestACallerOutOfTimeGetsTheStaleList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &legacy{clock: newClock()}
		l := setup{fill: func(ctx context.Context, k Key) (Content, error) {
			c, err := g.fill(ctx, k)
			c.AnsweredAt = time.Now()
			return c, err
		}}.start(t)
		mustGet(t, l, aKey)
		g.hold = make(chan struct{})
		time.Sleep(30 * time.Second) // of the bubble: past stale_while_revalidate
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if r, err := l.Get(ctx, aKey); err != nil || r.Outcome != StaleError {
			t.Errorf("%s, %v; want the list that is good for stale_if_error", r.Outcome, err)
		}
		close(g.hold)
		synctest.Wait()
	})
}

func TestAFillThatEndsBadlyTellsEveryWaiter(t *testing.T) {
	tests := []struct {
		name string
		end  func()
		want error
	}{
		{"panic", func() { panic("mapping bug") }, ErrFillPanicked},
		{"Goexit", runtime.Goexit, ErrFillPanicked},
		{"nothing for ever", func() { time.Sleep(time.Hour) }, ErrFillOverdue},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bad atomic.Bool
				bad.Store(true)
				l := setup{limit: time.Second, fill: func(context.Context, Key) (Content, error) {
					if bad.CompareAndSwap(true, false) {
						time.Sleep(time.Millisecond) // of the bubble: until all callers wait
						tt.end()
					}
					return Content{Body: []byte("good")}, nil
				}}.start(t)
				errs := make(chan error, 10)
				for range cap(errs) {
					go func() { _, err := l.Get(t.Context(), aKey); errs <- err }()
				}
				for range cap(errs) {
					if err := <-errs; !errors.Is(err, tt.want) {
						t.Errorf("a waiter got %v, want %v", err, tt.want)
					}
				}
				if r := mustGet(t, l, aKey); body(r) != "good" {
					t.Errorf("the next fill gave %q", body(r))
				}
				time.Sleep(2 * time.Hour) // of the bubble: the stuck fill comes back
			})
		})
	}
}

func TestAFillHasItsOwnDeadlineAndTheCallersValues(t *testing.T) {
	type ctxKey struct{}
	synctest.Test(t, func(t *testing.T) {
		l := setup{limit: 3 * time.Second, fill: func(ctx context.Context, _ Key) (Content, error) {
			deadline, ok := ctx.Deadline()
			if !ok || time.Until(deadline) != 3*time.Second || ctx.Value(ctxKey{}) != "id-1" {
				t.Errorf("deadline in %s, value %v", time.Until(deadline), ctx.Value(ctxKey{}))
			}
			return Content{Body: []byte("x")}, nil
		}}.start(t)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), ctxKey{}, "id-1"), time.Second)
		defer cancel()
		if _, err := l.Get(ctx, aKey); err != nil {
			t.Error(err)
		}
	})
}

func TestErrorsAndNoStoreAreNeverStored(t *testing.T) {
	c := newClock()
	g := &legacy{clock: c}
	noStore := true
	l := setup{now: c.Now, fill: func(ctx context.Context, k Key) (Content, error) {
		content, err := g.fill(ctx, k)
		content.NoStore = noStore
		return content, err
	}}.start(t)
	g.failWith(errLegacy)
	for range 2 {
		if _, err := l.Get(t.Context(), aKey); !errors.Is(err, errLegacy) {
			t.Fatalf("error %v", err)
		}
	}
	g.failWith(nil)
	for range 2 {
		if r := mustGet(t, l, aKey); r.Outcome != Miss || r.Stored {
			t.Fatalf("a no-store answer was %s, stored %t", r.Outcome, r.Stored)
		}
	}
	noStore = false
	if r := mustGet(t, l, aKey); !r.Stored || g.calls.Load() != 5 {
		t.Fatalf("stored %t after %d fills", r.Stored, g.calls.Load())
	}
	if r := mustGet(t, l, aKey); r.Outcome != Hit {
		t.Fatalf("outcome %s", r.Outcome)
	}
}

func TestCloseWaitsForFillsAndEndsThemWhenOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		l, err := New(testConfig(), Options{Fills: Fills{Timeout: time.Hour}, Fill: func(ctx context.Context, _ Key) (Content, error) {
			<-ctx.Done()
			ended <- ctx.Err()
			return Content{}, ctx.Err()
		}})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = l.Get(t.Context(), aKey) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close: %v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the fill ended with %v", err)
		}
		if _, err := l.Get(t.Context(), Key{Kind: KindSeller}); !errors.Is(err, ErrClosed) {
			t.Errorf("Get after Close: %v", err)
		}
	})
}

func TestABackgroundRefreshRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &legacy{clock: newClock()}
		l := setup{fill: func(ctx context.Context, k Key) (Content, error) {
			c, err := g.fill(ctx, k)
			c.AnsweredAt = time.Now()
			return c, err
		}}.start(t)
		mustGet(t, l, aKey)
		g.hold = make(chan struct{})
		time.Sleep(11 * time.Second) // of the bubble
		for range 100 {
			if r := mustGet(t, l, aKey); r.Outcome != StaleRevalidate || r.Wait != 0 {
				t.Fatalf("%s, waited %s", r.Outcome, r.Wait)
			}
		}
		close(g.hold)
		synctest.Wait()
		if r, ok := l.Lookup(aKey); g.calls.Load() != 2 || !ok || body(r) != "buyer/acme/pending/ #2" {
			t.Errorf("%d fills, fresh %t", g.calls.Load(), ok)
		}
	})
}
