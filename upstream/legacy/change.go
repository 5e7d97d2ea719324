package legacy

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxCatchUp bounds the changes applied at one look after a long pause.
const maxCatchUp = 100

// Answer changes the list of a buyer now: the oldest pending inquiry is
// answered; where none is pending, the newest inquiry's last reply is reworded;
// where there is no inquiry, one is opened. The seller's list changes with it.
// It reports false for an unknown account, which stays without inquiries.
func (s *Server) Answer(account string) bool { return s.change(account, s.data.touch) }

// Ask opens a new pending inquiry of a buyer now, at the top of the list. It
// reports false for an unknown account.
func (s *Server) Ask(account string) bool { return s.change(account, s.data.open) }

// change applies a change to the list of a buyer, if there is such a buyer.
func (s *Server) change(account string, how func(*owner, time.Time)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.data.kinds[KindBuyer].byAccount[account]
	if ok {
		how(b, s.now())
	}
	return ok
}

// SetChangeEvery sets the mean time between two changes of one buyer's list from
// now on; see [Options]. 0 stops changes.
func (s *Server) SetChangeEvery(mean time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data.changeEvery(mean, s.now())
}

// changeEvery draws the next moment for each buyer. The ones drawn before are
// forgotten.
func (d *dataset) changeEvery(mean time.Duration, now time.Time) {
	d.every = mean
	for _, b := range d.buyers() {
		b.next = time.Time{}
		if mean > 0 {
			b.next = now.Add(b.pause(mean))
		}
	}
}

// pause draws an exponentially distributed time: changes come independently of
// each other, as people's do.
func (b *owner) pause(mean time.Duration) time.Duration {
	return time.Duration(b.rng.ExpFloat64() * float64(mean))
}

// catchUp applies the changes that were due until now.
func (s *Server) catchUp() {
	s.mu.RLock()
	off := s.data.every == 0
	s.mu.RUnlock()
	if off {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, b := range s.data.buyers() {
		s.data.catchUp(b, now)
	}
}

// catchUp applies a buyer's changes up to now. After a pause with too many it begins
// anew from now.
func (d *dataset) catchUp(b *owner, now time.Time) {
	for range maxCatchUp {
		if b.next.IsZero() || b.next.After(now) {
			return
		}
		d.touch(b, b.next)
		b.next = b.next.Add(b.pause(d.every))
	}
	b.next = now.Add(b.pause(d.every))
}

// touch changes a list as the doc of Answer says, at the given moment.
func (d *dataset) touch(b *owner, at time.Time) {
	if len(b.tickets) == 0 {
		d.open(b, at)
		return
	}
	t := b.tickets[0]
	for _, candidate := range slices.Backward(b.tickets) {
		if candidate.state == pending {
			t = candidate
			break
		}
	}
	if t.state == pending || len(t.replies) == 0 {
		if t.state == pending {
			t.state = answered
		}
		t.replies = append(t.replies, d.newReply(t, staff, at.Truncate(time.Second)))
	} else {
		reword(&t.replies[len(t.replies)-1], b.version)
	}
	t.changed()
}

// reword keeps the reply's length bounded however often it happens.
func reword(r *reply, revision int) {
	const mark = " (revised "
	for _, s := range []*string{&r.text.raw, &r.text.public} {
		before, _, _ := strings.Cut(*s, mark)
		*s = fmt.Sprintf("%s%s%d)", before, mark, revision)
	}
}

// open adds a pending inquiry on top of both lists.
func (d *dataset) open(b *owner, at time.Time) {
	t := d.addTicket(b, at.UTC().Truncate(time.Second))
	t.state = pending
	d.write(t)
	slices.SortFunc(b.tickets, newestFirst)
	slices.SortFunc(t.company.tickets, newestFirst)
	t.changed()
}

// changed makes rendered replies of both lists stale.
func (t *ticket) changed() {
	t.buyer.version++
	t.company.version++
}
