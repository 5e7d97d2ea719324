package drill

import (
	"context"
	"sync/atomic"
	"time"
)

// busyTick is how often the drill looks whether it is held up itself.
const busyTick = 20 * time.Millisecond

// busy notes for how long this process, whose are the gateways too, was held up
// at the most: what a machine with other work does to it is not the gateways'.
// It is safe for concurrent use.
type busy struct{ most atomic.Int64 }

// watch looks until ctx ends.
func (b *busy) watch(ctx context.Context) {
	tick := time.NewTicker(busyTick)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		b.note(now.Sub(last) - busyTick)
		last = now
	}
}

// note keeps the longest.
func (b *busy) note(late time.Duration) {
	for {
		most := b.most.Load()
		if int64(late) <= most || b.most.CompareAndSwap(most, int64(late)) {
			return
		}
	}
}

// heldUp is the longest so far.
func (b *busy) heldUp() time.Duration { return time.Duration(b.most.Load()) }
