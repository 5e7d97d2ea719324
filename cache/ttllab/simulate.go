package ttllab

// simulate plays one look-up through all candidates, by the rules of the real
// cache: fresh is served; stale within stale_while_revalidate is served while one
// refresh runs; else the caller waits, and so does everyone who comes before the
// legacy has answered. An answer that was waited for is of age 0.
func (k *watched) simulate(r *rules, now, latency int64, ages *[candidateCount][ageBuckets]uint32) {
	for c := range k.cells {
		cell := &k.cells[c]
		age := now - cell.fill
		fresh := r.fresh(c, k.hash, cell.fill)
		bit := uint32(1) << c
		switch {
		case age < 0 && k.waiting&bit != 0: // collapsed
			cell.waits++
			age = 0
		case age < 0: // a refresh runs; the list it replaces had just gone stale
			age = fresh
		case age < fresh:
		case age < fresh+r.swr:
			cell.fetches++
			cell.fill = now + latency
			k.waiting &^= bit
		default:
			cell.fetches++
			cell.waits++
			cell.fill = now + latency
			k.waiting |= bit
			age = 0
		}
		seconds := float64(age) * 1e-9
		cell.age += seconds
		cell.ageSq += seconds * seconds
		ages[c][min(int(float64(age)*r.bucket[c]), ageBuckets-1)]++
	}
}
