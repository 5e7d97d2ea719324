package mapping

import (
	"slices"
	"strings"

	"inquiry-gateway/upstream/address"
)

// Second is how the responses to a list's inquiries, or the details of its records,
// are asked for by further requests. It is read-only and safe for concurrent use.
type Second struct {
	Paging      PagingConfig // with its defaults
	Concurrency int          // requests at a time
	Format      *Format      // of the replies

	request address.Plan
	id      []source // within a record
	idPath  string   // as it was written
	batch   int      // records per request; 0: one
	join    string   // between the ids of a batch
	plan    *Plan    // of a reply
}

// Batches are the ids of the list's inquiries, as many together as one further
// request asks for. It is empty if there is nothing to ask for.
func (r *Reply) Batches() [][]string {
	if r.plan.Second == nil || len(r.List) == 0 {
		return nil
	}
	return slices.Collect(slices.Chunk(r.secondIDs, max(r.plan.Second.batch, 1)))
}

// Request gives the requests for what belongs to the records with the ids, and what
// takes the replies. An id comes from the legacy and must stay one value: one that
// would be read as two, or as another address, is refused with an [*Error].
func (s *Second) Request(account string, ids []string) (ask Asking, sub *Reply, err error) {
	values := address.Values{address.Account: {account}, address.ID: ids}
	if s.batch > 0 {
		values = address.Values{address.Account: {account}, address.IDs: ids}
		if s.join != repeatValues {
			values[address.IDs] = []string{strings.Join(ids, s.join)}
		}
		for _, id := range ids {
			if err := s.request.Check(address.IDs, id); err != nil {
				return ask, nil, refusal("record", "the id of a record cannot be sent: %w", err)
			}
			if s.join != repeatValues && strings.Contains(id, s.join) {
				return ask, nil, refusal("record", "the id of a record holds the separator of the batch")
			}
		}
	}
	return Asking{&s.request, values, true}, s.plan.NewReply(Request{Account: account}), nil
}

// AddResponses gives the inquiries of the list the responses in subs, which has
// one reply for each of the batches. An error is an [*Error].
func (r *Reply) AddResponses(subs []*Reply) error {
	broken := make([]violation, len(r.List))
	size := max(r.plan.Second.batch, 1)
	for i, sub := range subs {
		r.ids.Merge(&sub.ids)
		for t, n := range sub.defaulted {
			r.defaulted[t] += n
		}
		at := i * size
		if r.plan.Second.batch == 0 {
			r.List[at].Responses, broken[at] = sub.responses, sub.broken
			continue
		}
		end := min(at+size, len(r.List))
		if err := deal(r.List[at:end], r.secondIDs[at:end], sub); err != nil {
			return err
		}
	}
	return r.dropBroken(broken)
}

// deal gives each inquiry of a batch its responses, in the legacy's order. One id may
// stand for several inquiries: each of them gets all.
func deal(list []Inquiry, ids []string, sub *Reply) error {
	if sub.broken.why != "" {
		// Whose response it is cannot be told, so none of them can be used.
		return refusal("record", "%s: %s", sub.broken.field, sub.broken.why)
	}
	byID := make(map[string][]int, len(ids))
	for i, id := range ids {
		byID[id] = append(byID[id], i)
	}
	for i, key := range sub.keys {
		at, ok := byID[key]
		if !ok {
			return refusal("record", "response %d belongs to an inquiry that was not asked for", i+1)
		}
		for _, j := range at {
			list[j].Responses = append(list[j].Responses, sub.responses[i])
		}
	}
	return nil
}

// dropBroken refuses the inquiries whose responses cannot be accepted. Whether one of
// them ends the list is the configuration's choice, as for any other mistake in a
// record.
func (r *Reply) dropBroken(broken []violation) error {
	kept := r.List[:0]
	for i, inq := range r.List {
		switch bad := broken[i]; {
		case bad.why == "":
			kept = append(kept, inq)
		case !r.refuse(bad):
			return refusal("record", "responses of inquiry %d: %s: %s", i+1, bad.field, bad.why)
		}
	}
	clear(r.List[len(kept):])
	r.List = kept
	return nil
}
