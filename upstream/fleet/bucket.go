package fleet

import "time"

// bucket holds the tokens of one node.
type bucket struct {
	perSecond          float64 // the node's part of the ceiling
	rate, most, tokens float64
	// spare are tokens that did not fit, for other nodes.
	mostSpare, spare float64
	at               time.Time
}

// leastShared is how many requests per second a node must have for tokens to be
// shared: it would have too few left to keep some ready.
const leastShared = 8

// set gives the node m requests per second. What it has above the new bounds is lost; a
// new bucket is empty.
func (b *bucket) set(now time.Time, m float64) {
	if b.perSecond == m && !b.at.IsZero() {
		return
	}
	b.fill(now)
	b.perSecond = m
	b.most, b.mostSpare, b.rate = 1, 0, max(m-1, m/2)
	if m >= leastShared {
		b.most, b.mostSpare = max(1, m/16), m/32
		b.rate = m - b.most - 2*b.mostSpare - 2*m/32
	}
	b.tokens, b.spare = min(b.tokens, b.most), min(b.spare, b.mostSpare)
}

// pool is how many tokens of a fleet's ceiling are in Redis at most; 0: this node has
// nothing to do with them.
func (b *bucket) pool(ceiling float64) float64 {
	if b.rate > 0 && b.mostSpare == 0 {
		return 0
	}
	return ceiling / 32
}

// fill makes the tokens since the last call. What does not fit is spare, up to a bound;
// the rest is lost.
func (b *bucket) fill(now time.Time) {
	if made := b.rate * now.Sub(b.at).Seconds(); made > 0 {
		fits := min(made, max(0, b.most-b.tokens))
		b.tokens += fits
		b.spare = min(b.mostSpare, b.spare+made-fits)
	}
	b.at = now
}

// spend takes a token. With reserve, half of what fits stays.
func (b *bucket) spend(now time.Time, reserve bool) bool {
	b.fill(now)
	least := b.least(reserve)
	if b.tokens < least {
		b.tokens, b.spare = b.tokens+b.spare, 0
	}
	const rounding = 1e-9
	if b.tokens < least-rounding {
		return false
	}
	b.tokens--
	return true
}

// least is how many tokens there must be for one to be spent.
func (b *bucket) least(reserve bool) float64 {
	if reserve {
		return min(b.most, 1+b.most/2)
	}
	return 1
}

// until is how long it takes until there are so many.
func (b *bucket) until(reserve bool) time.Duration {
	seconds := (b.least(reserve) - b.tokens) / b.rate
	return min(time.Second, max(time.Millisecond, time.Duration(seconds*float64(time.Second))+1))
}

// give takes out what others may have.
func (b *bucket) give() (tokens float64) {
	tokens, b.spare = b.spare, 0
	return tokens
}

// settle drops what was received for those who have left.
func (b *bucket) settle(now time.Time, waiting int) {
	b.fill(now)
	b.tokens = min(b.tokens, b.most+float64(waiting))
}

// receive puts in what others gave, as far as somebody waits for it.
func (b *bucket) receive(now time.Time, tokens float64, waiting int) bool {
	b.fill(now)
	b.tokens = max(b.tokens, min(b.tokens+tokens, b.most+float64(waiting)))
	return tokens > 0
}
