package upstream

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

// secondCalls gets the responses of all inquiries of a list. If one cannot be
// had the list cannot: an inquiry without its responses would look unanswered.
func (f *fetcher) secondCalls(ctx context.Context, r *reply) error {
	if r.plan.responses == nil || r.plan.responses.fetch == nil || len(r.list) == 0 {
		return nil
	}
	p := r.plan.responses.fetch
	size := max(p.batch, 1)
	batches := slices.Collect(slices.Chunk(r.fetchIDs, size))
	replies := make([]*reply, len(batches))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.concurrency)
	for i, ids := range batches {
		group.Go(func() (err error) {
			defer f.panics.Catch(func(p any) { err = bug(p) })
			replies[i], err = f.secondCall(ctx, p, r.account, ids)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	broken := make([]violation, len(r.list))
	for i, sub := range replies {
		r.ids.Merge(&sub.ids)
		at := i * size
		if p.batch == 0 {
			r.list[at].Responses, broken[at] = sub.responses, sub.broken
			continue
		}
		if err := deal(r.list[at:at+len(batches[i])], batches[i], sub); err != nil {
			return err
		}
	}
	return r.dropBroken(broken)
}

// secondCall asks for the responses of some inquiries.
func (f *fetcher) secondCall(ctx context.Context, p *fetchPlan, account string, ids []string) (*reply, error) {
	values := vars{varAccount: {account}, varID: ids}
	if p.batch > 0 {
		values = vars{varAccount: {account}, varIDs: ids}
		if p.join != repeatValues {
			values[varIDs] = []string{strings.Join(ids, p.join)}
		}
		for _, id := range ids {
			if err := p.request.checkValue(varIDs, id); err != nil {
				return nil, invalid("record", "the id of a record cannot be sent: %v", err)
			}
			if p.join != repeatValues && strings.Contains(id, p.join) {
				return nil, invalid("record", "the id of a record holds the separator of the batch")
			}
		}
	}
	address, err := p.request.url(values)
	if err != nil {
		return nil, invalid("record", "the id of a record cannot be sent: %v", err)
	}
	sub := newReply(p.reply, Request{Account: account})
	return sub, f.list(ctx, p.paging, address, sub.take)
}

// deal gives each inquiry of a batch its responses, in the legacy's order.
func deal(list []Inquiry, ids []string, sub *reply) error {
	if sub.broken.why != "" {
		// Whose response it is cannot be told, so none of them can be believed.
		return invalid("record", "%s: %s", sub.broken.field, sub.broken.why)
	}
	byID := make(map[string][]int, len(ids))
	for i, id := range ids {
		byID[id] = append(byID[id], i)
	}
	for i, key := range sub.keys {
		at, ok := byID[key]
		if !ok {
			return invalid("record", "response %d belongs to an inquiry that was not asked for", i+1)
		}
		for _, j := range at {
			list[j].Responses = append(list[j].Responses, sub.responses[i])
		}
	}
	return nil
}

// dropBroken refuses the inquiries whose responses cannot be accepted.
func (r *reply) dropBroken(broken []violation) error {
	kept := r.list[:0]
	for i, inq := range r.list {
		if broken[i].why != "" {
			if !r.refuse(broken[i]) {
				return invalid("record", "responses of inquiry %d: %s: %s", i+1, broken[i].field, broken[i].why)
			}
			continue
		}
		kept = append(kept, inq)
	}
	clear(r.list[len(kept):])
	r.list = kept
	return nil
}
