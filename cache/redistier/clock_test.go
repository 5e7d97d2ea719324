package redistier

import (
	"log/slog"
	"testing"
	"time"
)

func TestClockKeepsTheBestSample(t *testing.T) {
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	at := func(after, off, bound time.Duration) *clockSample {
		local := start.Add(after)
		return &clockSample{local: local, redis: local.Add(off), bound: bound}
	}
	good := at(0, time.Second, time.Millisecond)
	for name, tt := range map[string]struct {
		next  *clockSample
		taken bool
	}{
		"a shorter trip":                       {at(time.Second, time.Second, time.Millisecond/2), true},
		"a longer trip":                        {at(time.Second, time.Second+time.Millisecond, 20*time.Millisecond), false},
		"a longer trip, long after":            {at(time.Hour, time.Second, 20*time.Millisecond), true},
		"a clock was set":                      {at(time.Second, 2*time.Second, 20*time.Millisecond), true},
		"a new master's clock is a bit behind": {at(time.Second, 970*time.Millisecond, 20*time.Millisecond), true},
	} {
		c := &clock{now: func() time.Time { return tt.next.local }, log: slog.New(slog.DiscardHandler)}
		c.take(good)
		c.take(tt.next)
		if taken := c.best.Load() == tt.next; taken != tt.taken {
			t.Errorf("%s: taken %t", name, taken)
		}
	}
}

// However wrong two nodes' estimates are within their bounds, what one writes
// never seems younger to the other than it is.
func TestClockNeverMakesAListYounger(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for _, wrong := range []time.Duration{-10 * time.Millisecond, 0, 10 * time.Millisecond} {
		node := func(wrong time.Duration) *clock {
			c := &clock{now: func() time.Time { return now }, log: slog.New(slog.DiscardHandler)}
			c.take(&clockSample{local: now, redis: now.Add(time.Hour + wrong), bound: 10 * time.Millisecond})
			return c
		}
		writer, reader := node(wrong), node(-wrong)
		age := reader.Age(now, writer.Stamp(now.Add(-time.Minute)))
		if age < time.Minute || age > time.Minute+40*time.Millisecond {
			t.Errorf("estimates wrong by %s: an age of 1m0s became %s", wrong, age)
		}
		if again := writer.Age(now, writer.Stamp(now)); again < 0 {
			t.Errorf("answered %s in the future", -again)
		}
	}
}

func TestWithoutTheTimeOfRedisTheNodesClockCounts(t *testing.T) {
	now := time.Now()
	for _, c := range []*clock{{now: time.Now}, {now: time.Now, off: true}} {
		if age := c.Age(now, c.Stamp(now.Add(-time.Second))); age != time.Second {
			t.Errorf("age %s", age)
		}
	}
}
