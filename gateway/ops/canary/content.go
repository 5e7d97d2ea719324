package canary

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strconv"
)

// body checks that of a list by the contract and keeps its records. false: it
// cannot be read.
func (r *round) body(s *seen, a *answer) bool {
	concerned := []*answer{a}
	if a.code == http.StatusNotModified {
		if len(a.body) > 0 || !slices.Contains(a.tags, a.tag) {
			r.tally.note(contract, failed, concerned, "%s: a 304 has a body, or an entity tag that was not asked for", s.name)
		}
		return true
	}
	plain, well := a.plain()
	if !well {
		r.tally.note(contract, failed, concerned, "%s: the body is not packed as Content-Encoding says, or too long", s.name)
		return false
	}
	in := inspector{noUUIDs: r.kind.NoUUIDs != nil && r.kind.NoUUIDs(), filter: a.status}
	records, well := in.list(plain, a.list)
	for sum, at := range records {
		at.in = a
		s.records[sum] = at
	}
	r.tally.noteAll(contract, a, s.name+": ", in.problems)
	// Packed or not, a list has one entity tag, and one body for it.
	sum := hash(sha256.Sum256(plain))
	if before, known := s.bodies[a.tag]; known && before != sum {
		r.tally.note(contract, failed, concerned, "%s: two bodies have one entity tag", s.name)
	}
	s.bodies[a.tag] = sum
	return well
}

// refusal checks an error by the contract and gives its code. It is empty if it
// does not belong to the status.
func (r *round) refusal(a *answer) (code string) {
	said := problems(r.rules.refusal, a.header)
	in := inspector{}
	code = in.refusal(a.body)
	said = append(said, in.problems...)
	if in.failure["status"] != strconv.Itoa(a.code) || in.failure["id"] != a.header.Get("X-Request-Id") {
		said = append(said, "an error has another status or id than its answer")
	}
	belongs := slices.Contains(codes(a.code), code)
	if !belongs {
		said = append(said, "an error has not the code that goes with its status")
	}
	// A caller is told how long to wait where waiting helps, and nowhere else.
	waits := a.code == http.StatusTooManyRequests || a.code == http.StatusServiceUnavailable
	if waits != (a.header.Get("Retry-After") != "") || a.header.Get("Www-Authenticate") != challenges()[code] {
		said = append(said, "an error has not the headers that go with its code")
	}
	r.tally.noteAll(contract, a, "", said)
	if !belongs {
		return ""
	}
	return code
}

// askRefused asks as those who must be refused.
func (r *round) askRefused(ctx context.Context) {
	// A key of the right kind would be let in, so the list of the other kind is asked
	// for.
	other := "seller"
	if r.kind.Name == other {
		other = "buyer"
	}
	for _, must := range []struct {
		who  string
		q    question
		code int
		name string
	}{
		{"without a key", question{list: r.kind.Name}, http.StatusUnauthorized, "missing_api_key"},
		{"with an invented key", question{list: r.kind.Name, key: r.invented}, http.StatusUnauthorized, "invalid_api_key"},
		{"with a key of the other kind", question{list: other, key: r.kind.Keys[0].Secret}, http.StatusForbidden, "wrong_key_kind"},
	} {
		a, err := r.caller.ask(ctx, must.q)
		if err != nil {
			r.tally.note(access, unavailable, nil, "a request %s: no answer: %v", must.who, err)
			continue
		}
		// A key that is revoked during the round is refused as one that nobody knows.
		revoked := must.code == http.StatusForbidden && a.code == http.StatusUnauthorized
		switch {
		case declared(a.code) || revoked:
			r.tally.note(access, unavailable, []*answer{a}, "a request %s is answered %d %s", must.who, a.code, r.refusal(a))
		case a.code != must.code:
			r.tally.note(access, failed, []*answer{a}, "a request %s is answered %d instead of %d", must.who, a.code, must.code)
		case r.refusal(a) != must.name:
			r.tally.note(access, failed, []*answer{a}, "a request %s is answered %d without the code %s", must.who, a.code, must.name)
		}
	}
}
