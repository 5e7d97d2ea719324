package cache

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"inquiry-gateway/cache/redistier"
)

const (
	// purgeLife is how long Redis remembers a purge: longer than any list can live.
	purgeLife = maxLifetime + 24*time.Hour
	// maxKnown bounds the purges that a node remembers, each in 160 bytes. With more it forgets the older
	// half, and asks again for all lists that were fetched before those.
	maxKnown = 1 << 17
	// maxRepeated bounds the purges that a node repeats at once. They get one moment, and one call must read
	// all of a moment.
	maxRepeated = redistier.PerRead / 2
)

// fetchVersion says when the fetch of a list began. A purge at that moment or later applies to the list.
type fetchVersion struct {
	account string // hashed
	began   uint64 // microseconds on the clock of Redis; 1 or so if that is not known: before all purges
}

// invalidation is the effect of all purges on a list.
type invalidation struct {
	hard bool      // the list must not be served
	soft time.Time // its ttl has ended at this moment; zero: there is no soft purge
}

// invalidations are the purges that this node knows. It is safe for concurrent use.
//
// A purge has a moment on the clock of Redis, and each list carries when its fetch began. So it does
// not matter when, in which order and how often a node learns of purges.
type invalidations struct {
	version atomic.Uint64 // grows with each purge

	mu           sync.RWMutex
	known        map[redistier.Purge]purgeMoment
	life         time.Duration // how long a purge can apply to a list that is of use
	unread       uint64        // no older purge was read, because no list could be so old
	purgedBefore uint64        // all lists that were fetched by then count as purged: purges of then are not known
	confirmed    time.Time     // when this node made its newest purge
	newest       uint64        // when the newest fetch of this node began
	timed        bool          // the clock of Redis was read
	cursor       uint64        // purges of Redis were read up to here
	synced       bool          // all of them were, once
}

// purgeMoment is when a purge was made: on the clock of Redis in microseconds, and on this node's.
type purgeMoment struct {
	redis  uint64
	at     time.Time
	shared uint64 // the newest moment that Redis has taken; redis may be this node's guess, later by a round trip
	mine   bool   // this node made it
}

func newInvalidations(life time.Duration) *invalidations {
	v := &invalidations{known: map[redistier.Purge]purgeMoment{}, life: life}
	v.version.Store(1) // an entry's unpurgedAsOf is 0 before its first check
	return v
}

// keepFor follows a policy by which purges matter for longer. A list that is older than the purges which this
// node has read may be of use again, and counts as purged.
func (v *invalidations) keepFor(life time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if life > v.life {
		v.life, v.purgedBefore = life, max(v.purgedBefore, v.unread)
		v.version.Add(1)
	}
}

// begin returns the version of a fetch that begins now, after all purges that are known. now is the
// clock of Redis, or zero. It is never later than the present, at which another node may purge the list.
func (v *invalidations) begin(kind, account string, now time.Time) fetchVersion {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := fetchVersion{account, max(micros(now), v.lastOf(kind, account, now.IsZero())+1, v.purgedBefore+1)}
	v.newest = max(v.newest, f.began)
	return f
}

// since is the effect of all purges on a list of a kind that was fetched at a version.
func (v *invalidations) since(kind string, f fetchVersion) (found invalidation) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if f.began <= v.purgedBefore {
		return invalidation{hard: true}
	}
	for _, scope := range [...]string{kind, f.account, redistier.All} {
		if hard, ok := v.known[redistier.Purge{Scope: scope}]; ok && hard.redis >= f.began {
			return invalidation{hard: true}
		}
		soft, ok := v.known[redistier.Purge{Scope: scope, Soft: true}]
		if ok && soft.redis >= f.began && (found.soft.IsZero() || soft.at.Before(found.soft)) {
			found.soft = soft.at
		}
	}
	return found
}

// sinceFetch is the effect of all purges on an entry. Mostly there is none, which the entry remembers.
func (v *invalidations) sinceFetch(e *Entry) invalidation {
	version := v.version.Load()
	if e.unpurgedAsOf.Load() == version {
		return invalidation{}
	}
	found := v.since(e.Kind, e.fetch)
	if found == (invalidation{}) {
		e.unpurgedAsOf.Store(version)
	}
	return found
}

// newer tells whether a is a newer answer of the legacy's than b, of one list; nil is oldest. A slow
// fetch that began before a purge does not replace one that began after it. Two entries with one answeredAtRedis
// are of one fetch, whatever the clocks say.
func (v *invalidations) newer(a, b *Entry) bool {
	if a == nil || b == nil {
		return a != nil
	}
	if purgedA, purgedB := v.sinceFetch(a) != (invalidation{}), v.sinceFetch(b) != (invalidation{}); purgedA != purgedB {
		return purgedB
	}
	return a.answeredAtRedis != b.answeredAtRedis && a.AnsweredAt.After(b.AnsweredAt)
}

// last is the moment of the newest purge of a kind or of an account, which is hashed; 0: there is none.
// Moments that may be ahead of the present count if asked for: this node guessed them, and Redis has not taken
// those purges, or not yet.
func (v *invalidations) last(kind, account string, ahead bool) uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.lastOf(kind, account, ahead)
}

// lastOf is last with v.mu held.
func (v *invalidations) lastOf(kind, account string, ahead bool) (last uint64) {
	for _, scope := range [...]string{kind, account, redistier.All} {
		for _, soft := range [...]bool{false, true} {
			m := v.known[redistier.Purge{Scope: scope, Soft: soft}]
			if last = max(last, m.shared); ahead {
				last = max(last, m.redis)
			}
		}
	}
	return last
}

// text is that of FillInfo.Changes.
func (v *invalidations) text(kind, account string) string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return fmt.Sprint(v.lastOf(kind, account, true), v.purgedBefore)
}

// purge makes purges hold on this node from now on: at the moment clock, or at that of its newest
// fetch if that is later. ahead: the clock may be later than the present.
func (v *invalidations) purge(purges []redistier.Purge, clock, now time.Time, ahead bool) (moment uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	moment = max(micros(clock), v.newest, 1)
	m := purgeMoment{redis: moment, at: now}
	if !ahead {
		m.shared = moment
	}
	for _, p := range purges {
		v.learn(p, m)
	}
	return moment
}

// confirm replaces the moment that purge gave by that of Redis.
func (v *invalidations) confirm(purges []redistier.Purge, before, moment uint64, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.confirmed = now
	for _, p := range purges {
		if v.known[p].redis == before {
			delete(v.known, p)
		}
		v.learn(p, purgeMoment{redis: moment, at: now, shared: moment, mine: true})
	}
}

// mine are the purges that this node has made lately, and maxRepeated at most.
func (v *invalidations) mine(now time.Time) map[redistier.Purge]uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	lately := map[redistier.Purge]uint64{}
	if now.Sub(v.confirmed) > repeatFor {
		return lately
	}
	for p, m := range v.known {
		if m.mine && now.Sub(m.at) <= repeatFor && len(lately) < maxRepeated {
			lately[p] = m.redis
		}
	}
	return lately
}

// read takes in what was read from Redis, at a moment of this node and of Redis.
func (v *invalidations) read(found redistier.Purges, now, clock time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.timed {
		for p, m := range v.known { // made here before the clock of Redis was read
			v.known[p] = purgeMoment{redis: micros(clock), at: m.at}
		}
		v.timed, v.unread = true, micros(clock.Add(-v.life))
	}
	for p, moment := range found.Moments {
		ago := max(clock.Sub(time.UnixMicro(int64(moment))), 0)
		v.learn(p, purgeMoment{redis: moment, at: now.Add(-ago), shared: moment, mine: v.known[p].mine})
	}
	v.cursor, v.synced = max(v.cursor, found.Newest), v.synced || !found.More
}

// learn takes in a purge, which may be known. v.mu is held.
func (v *invalidations) learn(p redistier.Purge, m purgeMoment) {
	old, known := v.known[p]
	m.shared = max(m.shared, old.shared)
	if m.redis <= max(old.redis, v.purgedBefore) {
		if old.shared = m.shared; known {
			v.known[p] = old
		}
		return
	}
	v.known[p] = m
	if len(v.known) > maxKnown {
		moments := make([]uint64, 0, len(v.known))
		for _, known := range v.known {
			moments = append(moments, known.redis)
		}
		slices.Sort(moments)
		v.purgedBefore = moments[len(moments)/2]
		maps.DeleteFunc(v.known, func(_ redistier.Purge, known purgeMoment) bool { return known.redis <= v.purgedBefore })
	}
	v.version.Add(1)
}

// position is up to where purges were read; false: not all were read yet.
func (v *invalidations) position() (cursor uint64, synced bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.cursor, v.synced
}

// newestFetch is when the newest fetch of this node began.
func (v *invalidations) newestFetch() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.newest
}

// micros is a moment in microseconds; 0 for the zero time.
func micros(t time.Time) uint64 { return uint64(max(t.UnixMicro(), 0)) }
