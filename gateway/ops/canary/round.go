package canary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// round asks for the lists of one kind, with every key, and finds out what there
// is to find out.
type round struct {
	*Canary
	kind   *Kind
	caller caller
	seen   []*seen // by key
	tally  tally
}

// seen is what one key has shown in a round.
type seen struct {
	key     Key
	name    string // of the key in the configuration, with the ids of the key and its account
	account string
	first   *answer // the whole list; nil: there was none
	records map[hash]place
	bodies  map[string]hash    // of every entity tag
	newest  map[string]*answer // by filter
}

// place is where a record was seen. Records have no ids: their place in the list
// and their time are what they are found by.
type place struct {
	in        *answer
	record    int    // counts from 1
	createdAt string // empty where it has not the documented form
}

// String is as in "record 3 (created_at 2026-10-31T15:02:11.000Z)".
func (p place) String() string {
	if p.createdAt == "" {
		return fmt.Sprintf("record %d", p.record)
	}
	return fmt.Sprintf("record %d (created_at %s)", p.record, p.createdAt)
}

// newRound has asked nothing yet. A key is called by its place in the configuration
// until its owner is known.
func (c *Canary) newRound(kind *Kind, as caller) *round {
	r := &round{Canary: c, kind: kind, caller: as}
	for _, k := range kind.Keys {
		r.seen = append(r.seen, &seen{key: k, name: k.Name, records: map[hash]place{}, bodies: map[string]hash{}, newest: map[string]*answer{}})
	}
	return r
}

// accounts are those of the keys, as far as they are known.
func (r *round) accounts() []string {
	all := []string{}
	for _, s := range r.seen {
		if s.account != "" {
			all = append(all, s.account)
		}
	}
	return all
}

// run asks everything and notes the results. If the keys are no good, all other
// checks are unavailable: their results would mean nothing.
func (r *round) run(ctx context.Context) {
	if !r.knowOwners(ctx) {
		for c := crossRead; c < checkCount; c++ {
			r.tally.note(c, unavailable, nil, "not asked, because the keys are no good for it")
		}
		return
	}
	for _, s := range r.seen {
		r.askList(ctx, s)
	}
	for _, s := range r.seen {
		if s.first != nil {
			r.askAgain(ctx, s)
		}
	}
	r.compare()
	r.askRefused(ctx)
}

// knowOwners finds out whose the keys are. A list of an account that is compared
// with itself would look like a leak, and keys that are refused show no list.
func (r *round) knowOwners(ctx context.Context) bool {
	owners := map[string]string{}
	for _, s := range r.seen {
		owner, err := r.opts.Owner(ctx, r.kind.Name, s.key.Secret)
		switch {
		case errors.Is(err, ErrUndecided):
			r.tally.note(keys, unavailable, nil, "%s: %v", s.key.Name, err)
			continue
		case err != nil:
			r.tally.note(keys, failed, nil, "%s: %v", s.key.Name, err)
			continue
		}
		s.account, s.name = owner.Account, fmt.Sprintf("%s (key %s of account %s)", s.key.Name, owner.KeyID, owner.Account)
		if first, twice := owners[s.account]; twice {
			r.tally.note(keys, failed, nil, "%s is of the same account as %s, so there is nothing to compare; use a key of another account", s.name, first)
		}
		owners[s.account] = s.name
	}
	return r.tally[keys].result == ok
}

// askList asks for the whole list of a key. The other questions compare their answers
// with it.
func (r *round) askList(ctx context.Context, s *seen) {
	a := r.ask(ctx, s, question{})
	switch {
	case a == nil:
		return
	case a.code != http.StatusOK:
		r.noList(a, "%s is answered %d", s.name, a.code)
		return
	case len(s.records) == 0:
		r.tally.note(crossRead, empty, nil, "the list of %s is empty, so there is nothing to compare", s.name)
	}
	s.first = a
}

// askAgain asks with the list's own entity tag, with those of the others' lists,
// for gzip, and for a filtered list where one has a policy of its own.
func (r *round) askAgain(ctx context.Context, s *seen) {
	tag := s.first.tag
	if a := r.ask(ctx, s, question{tags: []string{tag}}); a != nil && a.code == http.StatusOK && a.tag == tag {
		r.tally.note(contract, failed, []*answer{a}, "%s: a list is sent again to who has its entity tag", s.name)
	}
	if others := r.tagsOfOthers(s); len(others) > 0 {
		if a := r.ask(ctx, s, question{tags: others}); a != nil && a.code == http.StatusNotModified {
			r.tally.note(crossRead, failed, []*answer{s.first, a}, "%s gets 304 for the entity tag of another's list", s.name)
		}
	}
	r.ask(ctx, s, question{gzip: true})
	if statuses := slices.Sorted(maps.Keys(r.kind.ByStatus)); len(statuses) > 0 {
		r.ask(ctx, s, question{status: statuses[r.rounds%len(statuses)]})
	}
}

// tagsOfOthers leaves out empty lists: those are the same for everybody.
func (r *round) tagsOfOthers(s *seen) (tags []string) {
	for _, other := range r.seen {
		if other != s && other.first != nil && len(other.records) > 0 {
			tags = append(tags, other.first.tag)
		}
	}
	return tags
}

// ask asks a question with a key that is good, and checks the answer by the
// contract and the policy. Nil: there is no list.
func (r *round) ask(ctx context.Context, s *seen, q question) *answer {
	q.list, q.key = r.kind.Name, s.key.Secret
	a, err := r.caller.ask(ctx, q)
	if err != nil {
		r.noList(nil, "%s: no answer: %v", s.name, err)
		return nil
	}
	if declared(a.code) {
		r.noList(a, "%s is answered %d %s", s.name, a.code, r.refusal(a))
		return nil
	}
	if a.code != http.StatusOK && a.code != http.StatusNotModified {
		r.tally.note(contract, failed, []*answer{a}, "%s is good, and answered %d", s.name, a.code)
		r.noList(a, "%s is answered %d", s.name, a.code)
		return nil
	}
	headed := r.headers(s, a)
	if !r.body(s, a) || !headed { // a leak is one whatever stands above it
		r.noList(a, "%s gets what cannot be read", s.name)
		return nil
	}
	r.age(s, a)
	return a
}

// noList notes that what lists show cannot be found out. a is nil where there was no
// answer.
func (r *round) noList(a *answer, format string, args ...any) {
	for _, c := range []check{crossRead, contract, freshness} {
		r.tally.note(c, unavailable, []*answer{a}, format, args...)
	}
}

// headers checks those of a list by the contract, and reads what the other checks
// need. false: they lack that.
func (r *round) headers(s *seen, a *answer) bool {
	// A 304 has the fields of the list that it stands for, but none of a body.
	rules := r.rules.list
	if a.code == http.StatusNotModified {
		rules = r.rules.unchanged
	}
	said := problems(rules, a.header)
	if a.header.Get("Content-Encoding") != "" && !a.gzip {
		said = append(said, "the body is packed, which was not asked for")
	}
	var well bool
	if a.from, well = parseCacheStatus(a.header.Get("Cache-Status")); !well {
		said = append(said, "Cache-Status is not one of the documented ones")
	}
	seconds, err := strconv.Atoi(a.header.Get("Age"))
	a.tag, a.age = a.header.Get("Etag"), time.Duration(seconds)*time.Second
	r.tally.noteAll(contract, a, s.name+": ", said)
	return well && err == nil && seconds >= 0 && a.tag != ""
}

// age checks the age of a list by the policy, and by the list that was served
// before it.
func (r *round) age(s *seen, a *answer) {
	// A filter without a ttl of its own has that of the kind.
	policy, own := r.kind.ByStatus[a.status]
	if !own {
		policy = r.kind.Policy
	}
	r.tally.noteAll(freshness, a, s.name+": ", policy.judge(a))
	if before := s.newest[a.status]; before != nil && before.tag != a.tag && a.olderThan(before) {
		r.tally.note(freshness, failed, []*answer{before, a}, "%s: a list is replaced by another that was answered before it", s.name)
	}
	s.newest[a.status] = a
}

// compare looks for records of one account in the lists of another.
func (r *round) compare() {
	for i, a := range r.seen {
		for _, b := range r.seen[i+1:] {
			common, where := [][2]place{}, []*answer{}
			for record, from := range a.records {
				if to, both := b.records[record]; both {
					common, where = append(common, [2]place{from, to}), append(where, from.in, to.in)
				}
			}
			// One line for all of them: a mix-up of whole lists would fill the log. The
			// first one in the list is the easiest to find.
			if len(common) > 0 {
				first := slices.MinFunc(common, func(x, y [2]place) int { return x[0].record - y[0].record })
				r.tally.note(crossRead, failed, where, "records that are in the lists of both %s and %s: %d; the first is %v of the one list, %v of the other",
					a.name, b.name, len(common), first[0], first[1])
			}
			if a.first != nil && b.first != nil && a.first.tag == b.first.tag && len(a.records)+len(b.records) > 0 {
				r.tally.note(crossRead, failed, []*answer{a.first, b.first}, "the lists of %s and of %s have one entity tag", a.name, b.name)
			}
		}
	}
}
