package cache

import (
	"fmt"
	"testing"
	"time"

	"inquiry-gateway/cache/redistier"
)

var epoch = time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)

// hears has a node read purges from Redis, each made some time before a moment.
func (v *invalidations) hears(now time.Time, ago map[redistier.Purge]time.Duration) {
	found := redistier.Purges{Moments: map[redistier.Purge]uint64{}}
	for p, d := range ago {
		found.Moments[p] = micros(now.Add(-d))
	}
	v.read(found, now, now)
}

// What a node knows is the same in whatever order it learns of purges. Those that were made when the
// fetch began, or later, apply to a list.
func TestWhichPurgesApplyToAList(t *testing.T) {
	const s = time.Second
	hard, soft := redistier.Purge{Scope: "a"}, redistier.Purge{Scope: "a", Soft: true}
	now := epoch.Add(time.Minute)
	type made = map[redistier.Purge]time.Duration
	for name, tt := range map[string]struct {
		heard []made
		want  invalidation // of a list whose fetch began 10 s ago
	}{
		"nothing":                       {nil, invalidation{}},
		"a purge of before":             {[]made{{hard: 11 * s}}, invalidation{}},
		"a purge":                       {[]made{{hard: 9 * s}}, invalidation{hard: true}},
		"a purge at that moment":        {[]made{{hard: 10 * s}}, invalidation{hard: true}},
		"a purge, and an older one":     {[]made{{hard: 9 * s}, {hard: 11 * s}}, invalidation{hard: true}},
		"a purge, and a soft one later": {[]made{{soft: 8 * s}, {hard: 9 * s}}, invalidation{hard: true}},
		"a purge of the kind":           {[]made{{{Scope: KindBuyer}: 9 * s}}, invalidation{hard: true}},
		"a purge of another account":    {[]made{{{Scope: "b"}: 9 * s}}, invalidation{}},
		"a purge of the other kind":     {[]made{{{Scope: KindSeller}: 9 * s}}, invalidation{}},
		"a soft one, and an older one":  {[]made{{soft: 3 * s}, {soft: 40 * s}}, invalidation{soft: now.Add(-3 * s)}},
		"soft ones of account and kind": {[]made{{soft: 3 * s, {Scope: KindBuyer, Soft: true}: 5 * s}}, invalidation{soft: now.Add(-5 * s)}},
		"a new memory of Redis":         {[]made{{{Scope: redistier.All, Soft: true}: 4 * s}}, invalidation{soft: now.Add(-4 * s)}},
	} {
		v := newInvalidations(time.Hour)
		v.hears(now, nil)
		f := v.begin(KindBuyer, "a", now.Add(-10*s))
		for _, heard := range tt.heard {
			v.hears(now, heard)
		}
		if got := v.since(KindBuyer, f); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		if later := v.begin(KindBuyer, "a", now.Add(-time.Hour)); v.since(KindBuyer, later) != (invalidation{}) {
			t.Errorf("%s: it applies to a fetch that begins now, too", name)
		}
	}
}

// A node that starts after purges that no list can be older than does not read them. Its lists are taken by
// nodes that know them.
func TestOlderNodesTakeTheListsOfANewOne(t *testing.T) {
	const life = 10 * time.Minute
	older, newer := newInvalidations(life), newInvalidations(life)
	older.hears(epoch, map[redistier.Purge]time.Duration{{Scope: "account-7"}: 0})
	now := epoch.Add(2 * life)
	newer.hears(now, nil)
	f := newer.begin(KindBuyer, "account-7", now)
	older.hears(now, nil)
	if found := older.since(KindBuyer, f); found != (invalidation{}) {
		t.Errorf("a list of the new node is taken for %+v", found)
	}
	older.hears(now.Add(time.Second), map[redistier.Purge]time.Duration{{Scope: "account-7"}: 0})
	if !older.since(KindBuyer, f).hard {
		t.Error("a purge after its fetch does not apply")
	}
}

// A purge that was made before this node could read the clock of Redis hides what others have filled
// before it, and nothing of after it.
func TestAPurgeBeforeTheClockOfRedisIsKnown(t *testing.T) {
	v, p := newInvalidations(time.Hour), []redistier.Purge{{Scope: "a"}}
	before := v.begin(KindBuyer, "a", time.Time{})
	v.purge(p, time.Time{}, epoch, true)
	after := v.begin(KindBuyer, "a", time.Time{})
	if !v.since(KindBuyer, before).hard || v.since(KindBuyer, after).hard {
		t.Error("its own lists are not judged by the order of purge and fetch")
	}
	v.hears(epoch.Add(time.Second), nil)
	if others := (fetchVersion{"a", micros(epoch)}); !v.since(KindBuyer, others).hard {
		t.Error("a list that another node has filled before it is served")
	}
	if now := v.begin(KindBuyer, "a", epoch.Add(2*time.Second)); v.since(KindBuyer, now).hard {
		t.Error("a list of after it is refused")
	}
}

// The moment of Redis replaces that of the node, which may be later by a round trip.
func TestTheMomentOfRedisReplacesThatOfTheNode(t *testing.T) {
	v, p := newInvalidations(time.Hour), []redistier.Purge{{Scope: "a"}}
	v.hears(epoch, nil)
	before := v.purge(p, epoch.Add(time.Second), epoch, true)
	others := fetchVersion{"a", micros(epoch) + 500_000}
	if !v.since(KindBuyer, others).hard {
		t.Error("it does not hold before Redis has it")
	}
	// Another node may purge the list before the guessed moment.
	if f := v.begin(KindBuyer, "a", epoch.Add(time.Millisecond)); f.began > micros(epoch.Add(time.Millisecond)) {
		t.Error("a fetch counts as begun later than now")
	}
	v.confirm(p, before, micros(epoch)+400_000, epoch)
	if v.since(KindBuyer, others).hard {
		t.Error("a list of after the purge is refused")
	}
}

// What a fetch is told of an account's purges stays the same while others have any number of them.
func TestPurgesOfOthersAreNotTold(t *testing.T) {
	v, now := newInvalidations(10*time.Minute), epoch
	before := v.text(KindBuyer, "quiet")
	for i := range 3600 {
		now = now.Add(time.Second)
		v.hears(now, map[redistier.Purge]time.Duration{{Scope: fmt.Sprint(i)}: 0})
	}
	if after := v.text(KindBuyer, "quiet"); after != before {
		t.Errorf("%q, then %q", before, after)
	}
}

// What a node knows is bounded, however many accounts are purged. Lists that were fetched before those
// that it has forgotten are fetched again.
func TestPurgesBeyondTheBoundAreForgotten(t *testing.T) {
	l, g := alone(t)
	mustGet(t, l, aKey)
	purge(t, l, acme)
	mustGet(t, l, otherKey)
	for i := 0; i <= maxKnown; i += MaxPurgeIDs {
		p := Purge{Soft: true}
		for n := range MaxPurgeIDs {
			p.Accounts = append(p.Accounts, fmt.Sprint("account-", i+n))
		}
		purge(t, l, p)
		g.clock.Add(time.Millisecond)
	}
	if n := len(l.invalidations.known); n > maxKnown || n < maxKnown/3 {
		t.Errorf("%d are known", n)
	}
	want(t, mustGet(t, l, aKey), Miss, "#3")
	want(t, mustGet(t, l, otherKey), Miss, "#4")
	purge(t, l, Purge{Accounts: []string{"another"}})
	want(t, mustGet(t, l, aKey), Hit, "#3")
}

// At its start a node reads no purges that are older than any list by its policy. Under a longer policy, lists
// of before count as purged.
func TestPurgesThatWereNotReadHold(t *testing.T) {
	v := newInvalidations(10 * time.Minute)
	v.hears(epoch, nil)
	v.keepFor(2 * time.Hour)
	for ago, want := range map[time.Duration]bool{time.Hour: true, 9 * time.Minute: false} {
		if got := v.since(KindBuyer, fetchVersion{"a", micros(epoch.Add(-ago))}); got.hard != want {
			t.Errorf("of a list that was fetched %s ago: %+v", ago, got)
		}
	}
}
