package quota

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"inquiry-gateway/internal/testkit"
)

// What a fleet does with Redis is tested in internal/simulation, which has a model of it.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHowLongARequestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		c := NewCeiling(CeilingOptions{Registerer: reg}) // without Redis
		c.Set(1, 0)
		defer c.Close()
		wait := func(class Class, ctx context.Context) (time.Duration, error) {
			begin := time.Now()
			err := c.Wait(ctx, "acme", class)
			return time.Since(begin), err
		}
		if took, err := wait(Asked, t.Context()); took != 0 || err != nil {
			t.Errorf("the first one: %v %v", took, err)
		}
		var wg sync.WaitGroup
		for range 3 { // who comes first is served after 1.1 s, the next after 2.2
			wg.Go(func() { _ = c.Wait(t.Context(), "other", Started) })
		}
		synctest.Wait()
		if took, err := wait(Asked, t.Context()); took != 1500*time.Millisecond || !errors.Is(err, ErrCeiling) {
			t.Errorf("asked: %v %v", took, err)
		}
		if took, err := wait(Background, t.Context()); took != 2*time.Second || !errors.Is(err, ErrCeiling) {
			t.Errorf("background: %v %v", took, err)
		}
		wg.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if took, err := wait(Started, ctx); took != 10*time.Millisecond || !errors.Is(err, ErrCeiling) {
			t.Errorf("started: %v %v", took, err)
		}
		left, leave := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, leave)
		if took, err := wait(Started, left); took != 10*time.Millisecond || !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who leaves: %v %v", took, err)
		}
		refused, err := testkit.Values(reg, "inquiry_gateway_ceiling_requests_total")
		if err != nil || refused["askedrefused"] != 1 || refused["backgroundrefused"] != 1 || refused["startedrefused"] != 1 {
			t.Errorf("counted %v, %v", refused, err)
		}
		c.Set(0, 0)
		if took, err := wait(Background, t.Context()); took != 0 || err != nil {
			t.Errorf("without a ceiling: %v %v", took, err)
		}
	})
}

// Without Redis nothing is kept of what was sent: nobody would ever ask for it.
func TestAloneNothingIsKeptOfWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCeiling(CeilingOptions{})
		defer c.Close()
		c.Set(1000, 1)
		for range 100 {
			if err := c.Wait(t.Context(), "acme", Asked); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(c.sent); n > 0 {
			t.Errorf("%d moments are kept", n)
		}
	})
}
