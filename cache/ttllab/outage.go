package ttllab

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Outage says what share of the look-ups would be answered if the legacy system went
// away at any moment. It is about the whole fleet where nodes share their look-ups
// through Redis, and about this node alone else. It assumes that callers ask as before
// (no repeats, nobody gives up), that lists filled before the outage are not pushed out
// or purged, that Redis stays, and that the traffic is like that of the observed time:
// all moments of it count as the beginning of an outage. An answer is a list of any age
// that stale_while_revalidate or stale_if_error allows; the ttl is today's, or the plan's
// of each list where that is kept.
type Outage struct {
	Lengths []float64   `json:"for_seconds"` // of an outage
	Rows    []OutageRow `json:"rows"`        // ascending by StaleIfError
}

// OutageRow is one stale_if_error.
type OutageRow struct {
	StaleIfError float64 `json:"stale_if_error_seconds"`
	Current      bool    `json:"current"` // today's
	// Answered is the share of all look-ups during the outage, 0 to 1, by its length.
	// Null: that length, or the time for which a list may be served, has not been observed
	// yet.
	Answered []*float64 `json:"answered"`
}

var (
	outageLengths = [...]time.Duration{
		10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	}
	// outageGraces are the values of stale_if_error; today's takes its place among them.
	outageGraces = [...]time.Duration{0, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}
)

const graceRows = len(outageGraces) + 1 // the first is today's

// graces are how long lists are served after their ttl, by row; ns.
func (p Policy) graces() (all [graceRows]int64) {
	all[0] = int64(max(p.StaleWhileRevalidate, p.StaleIfError))
	for i, g := range outageGraces {
		all[i+1] = int64(max(p.StaleWhileRevalidate, g))
	}
	return all
}

// An outage that began at b answers a look-up at t when the newest fill until b is not
// too old at t. So each look-up, whenever it is made, says for all lengths at once what
// comes of it: it is answered in all outages that began after the oldest fill that may
// still be served. The time since then is its reach.

// reaches counts look-ups by their reach: those between two lengths, and the sum of
// these in seconds; aged.
type reaches struct {
	n, seconds [len(outageLengths) + 1]float64
}

// add takes in one look-up; reach in seconds.
func (r *reaches) add(reach float64) {
	i := 0
	for i < len(outageLengths) && reach >= outageLengths[i].Seconds() {
		i++
	}
	r.n[i]++
	r.seconds[i] += reach
}

func (r *reaches) count() (n float64) {
	for _, c := range r.n {
		n += c
	}
	return n
}

// answered is the share of the look-ups in an outage of this length.
func (r *reaches) answered(length int) float64 {
	seconds := outageLengths[length].Seconds()
	within := 0.0
	for i := range r.n {
		if i <= length {
			within += r.seconds[i]
		} else {
			within += r.n[i] * seconds
		}
	}
	return within / (seconds * r.count())
}

// addScaled adds o so many times.
func (r *reaches) addScaled(o *reaches, f float64) {
	for i := range r.n {
		r.n[i] += f * o.n[i]
		r.seconds[i] += f * o.seconds[i]
	}
}

// outages are the reaches by stale_if_error.
type outages [graceRows]reaches

func (o *outages) addScaled(b *outages, f float64) {
	for i := range o {
		o[i].addScaled(&b[i], f)
	}
}

// keptRuns bounds what is known of a list's fills.
const keptRuns = 12

// history is the fills of a list at the ttl that counts.
type history struct {
	last int64 // Unix ns; 0: none
	n    int
	runs [keptRuns]run // oldest first
}

// run is fills between two moments, in tenths of a second since 1970 modulo 2^32.
type run struct {
	begin, end uint32
	squares    float32 // sum of the squares of the times between two fills
}

func tenths(ns int64) uint32 { return uint32(ns / 1e8) }

// after is by how much a is later than b.
func after(a, b uint32) float64 { return float64(int32(a - b)) }

// join takes in the run that follows. Of the fills only how far they were apart is kept.
func (r *run) join(next run) {
	gap := after(next.begin, r.end)
	r.end, r.squares = next.end, r.squares+next.squares+float32(gap*gap)
}

// fill takes in a fill.
func (h *history) fill(at int64) {
	if h.n == keptRuns {
		h.shorten(tenths(at))
	}
	h.runs[h.n] = run{begin: tenths(at), end: tenths(at)}
	h.n++
	h.last = at
}

// shorten joins the two runs between which the least time lies, for their age: from the
// older one on only the mean is known.
func (h *history) shorten(now uint32) {
	best, least := 0, math.Inf(1)
	for i := range h.n - 1 {
		if part := after(h.runs[i+1].begin, h.runs[i].end) / max(after(now, h.runs[i].end), 1); part < least {
			best, least = i, part
		}
	}
	h.runs[best].join(h.runs[best+1])
	copy(h.runs[best+1:h.n], h.runs[best+2:h.n])
	h.n--
}

// reach is how long ago the oldest fill of the last usable ns was, in seconds.
func (h *history) reach(now, usable int64) float64 {
	since := tenths(now - usable - 5e7) // the moments are rounded down, by half a tenth in the mean
	for i := range h.n {
		r := &h.runs[i]
		if after(r.end, since) <= 0 {
			continue
		}
		oldest := after(tenths(now), r.begin)
		if length := after(r.end, r.begin); after(since, r.begin) > 0 {
			dice := float64(mix(uint64(now))>>11) / (1 << 53) // any moment between two fills
			oldest = max(float64(usable)*1e-8-dice*float64(r.squares)/length, after(tenths(now), r.end))
		}
		return max(oldest, 0) / 10
	}
	return 0
}

// survive takes in a look-up of a list. It needs the shard's lock.
func (s *shard) survive(k *watched, r *rules, now, latency int64, o *outages) {
	ttl := r.policy.TTL
	if kept := s.lab.e.kept.Load(); kept != nil && ttl > 0 {
		ttl = kept.of(s.lab.group, k.hash)
	}
	mean, first := int64(r.policy.mean(ttl)*1e9), s.lab.first.Load()
	for i := range o {
		if usable := mean + r.grace[i]; now-first >= usable { // before, not all fills are known
			if !s.begun[i] {
				s.begun[i] = true
				s.before[i], _ = s.totals()
			}
			o[i].add(k.held.reach(now, usable))
		}
	}
	if age := now - k.held.last; age >= mean || age < -farAhead {
		k.held.fill(now + latency)
	}
}

// outage is the curve of a kind that was observed for so long; seconds. The sample stands
// for all look-ups but those of the hot keys, also of keys that it has let go since.
func (m *sample) outage(p Policy, since float64) *Outage {
	out := &Outage{Lengths: seconds(outageLengths[:])}
	graces := append([]time.Duration{p.StaleIfError}, outageGraces[:]...)
	for i, g := range graces {
		if i > 0 && g == p.StaleIfError {
			continue
		}
		row := OutageRow{StaleIfError: g.Seconds(), Current: i == 0}
		sum := m.survived[1][i]
		all := m.counted[i] * m.lookups / max(m.own[0], 1) // as many more as the other nodes have
		sum.addScaled(&m.survived[0][i], max(all-sum.count(), 0)/max(m.survived[0][i].count(), 1))
		for j := range outageLengths {
			var share *float64
			if since >= out.Lengths[j] && sum.count() > 0 {
				s := sum.answered(j)
				share = &s
			}
			row.Answered = append(row.Answered, share)
		}
		out.Rows = append(out.Rows, row)
	}
	slices.SortFunc(out.Rows, func(a, b OutageRow) int { return cmp.Compare(a.StaleIfError, b.StaleIfError) })
	return out
}

func seconds(all []time.Duration) (out []float64) {
	for _, d := range all {
		out = append(out, d.Seconds())
	}
	return out
}

// describe writes the curve for a person.
func (o *Outage) describe(b *strings.Builder) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	head, missing := "\tstale_if_error", false
	for _, l := range o.Lengths {
		head += "\t" + short(l)
	}
	fmt.Fprintln(t, head+"\t")
	for _, row := range o.Rows {
		line := "\t"
		if row.Current {
			line = "*\t"
		}
		line += short(row.StaleIfError)
		for _, a := range row.Answered {
			if a == nil {
				line, missing = line+"\t?", true
				continue
			}
			line += fmt.Sprintf("\t%.1f", 100**a)
		}
		fmt.Fprintln(t, line+"\t")
	}
	b.WriteString("  share of the look-ups, %, that are answered if the legacy system is away for a time:\n")
	_ = t.Flush() // a strings.Builder takes everything
	if missing {
		b.WriteString("  ? not observed for as long yet\n")
	}
}
