package ttllab

import "time"

// farAhead is how far in the future a fill may lie and still be taken for one
// that runs. Beyond, the clock was set back, and like the real cache no candidate
// believes what it holds.
const farAhead = int64(time.Minute)

// simulate plays one look-up through all candidates, by the rules of the real
// cache: fresh is served; stale within stale_while_revalidate is served while one
// refresh runs; else the caller waits, and so does everyone who comes before the
// legacy has answered. An answer that was waited for is of age 0.
func (k *watched) simulate(r *rules, now, latency int64, ages *[candidateCount][ageBuckets]uint32) {
	for c := range k.cells {
		cell := &k.cells[c]
		age := now - cell.fill
		if age < 0 && age > -farAhead {
			age = k.inFlight(r, c)
		} else if s := r.judge(c, age, k.hash, cell.fill); s != fresh {
			cell.fetches++
			cell.fill = now + latency
			k.waiting &^= 1 << c
			if s == unusable {
				k.waiting |= 1 << c
				cell.waits++
				age = 0
			}
		}
		if age > 0 {
			seconds := float64(age) * 1e-9
			cell.age += seconds
			cell.ageSq += seconds * seconds
		}
		ages[c][min(uint(float64(age)*r.bucket[c]), ageBuckets-1)]++
	}
}

// inFlight is the age of an answer given while the legacy works on the next.
func (k *watched) inFlight(r *rules, c int) int64 {
	if k.waiting&(1<<c) != 0 {
		k.cells[c].waits++ // collapsed
		return 0
	}
	return r.fresh(c, k.hash, k.cells[c].fill) // served while it is refreshed: it had just gone stale
}
