// Package ttllab tells what another TTL would do. It watches the look-ups of a
// running cache, or reads them from a log, and plays a bounded sample of the
// keys through 24 candidate TTLs at once by the rules of the real cache:
// freshness counted from the legacy's answer, stale-while-revalidate, jitter.
//
// # Sampling
//
// A key is watched when its hash is below a threshold that falls as more keys
// are seen, so that the number of watched keys stays within Options.Keys
// (SHARDS: Waldspurger, Park, Garthwaite, Ahmad: "Efficient MRC Construction
// with SHARDS", FAST 2015). All look-ups of a watched key are seen and none of
// the others, so a key's history is whole, and a key that leaves takes its
// counts with it. Figures are scaled up by the inverse of the sampling rate and
// then corrected with what is known exactly about all keys, the look-ups and
// the fills (the regression estimator: Särndal, Swensson, Wretman, "Model
// Assisted Survey Sampling", 1992, 6.4). A quarter of the places is for the
// keys that the look-ups themselves keep turning up: these hot keys stand for
// nobody but themselves. Without either, one hot key more or less in the sample
// would decide the hit ratio.
//
// The standard errors are those of this sampling. They tell how well the sample
// stands for the traffic that was watched, not how well that traffic stands for
// tomorrow's. Where every key is watched they are zero. In the first thousands
// of look-ups, before the hot keys are found, they can be too small by half.
//
// # How often lists change
//
// Each time a body is seen again its hash tells "changed" or "not changed" since
// the last time: several changes between two looks show as one, and the looks
// come when callers and TTLs make them. Counting changes over time would
// therefore be biased low; the rate is the maximum likelihood estimate for
// irregular looks of Cho and Garcia-Molina, "Estimating Frequency of Change",
// ACM TOIT 3(3), 2003, 4.3, with their correction for few looks; each list gets
// its own, drawn towards the mean of its kind while its looks are few. What
// stays: it takes changes to come at random and independently of the look-ups, a
// change that was taken back is not seen, and lists that change many times per
// look give no more than a lower bound. Re-checks look sooner than the TTL does
// and so narrow that gap.
//
// # What it does not know
//
// Entries that are evicted for want of space, purges, stale-if-error, and the
// look-ups of other nodes: a live estimate is about one node, with the legacy in
// health. Logs of all nodes, merged by time, give the estimate for the fleet.
//
// # Cost
//
// A look-up of a key that is not watched costs one hash, one atomic addition
// and two atomic reads; one in 16 of them, and all of a watched key, a short lock
// of one of 64 shards, under which it is noted; of every sixth, or once a second,
// all that were noted are played. Nothing is allocated once the sample is full.
// An Estimator holds at most about 1.6 KiB per watched key and 850 KiB per kind,
// so 14 MiB with the defaults and two kinds. It has no goroutine.
package ttllab
