package upstream

import (
	"context"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/upstream/mapping"
)

// attach makes the requests for what the list itself does not tell of its records, if
// there are any: their details or their responses. add puts the replies in. If one
// cannot be had the list cannot: an inquiry without its responses would look unanswered.
func (f *fetch) attach(ctx context.Context, name string, s *mapping.Second, batches func() [][]string, add func([]*mapping.Attachment) error) error {
	ids := batches()
	if len(ids) == 0 {
		return nil
	}
	ctx, step := f.tracer.Start(ctx, name)
	defer step.End()
	replies, err := f.batches(ctx, s, ids)
	if err == nil {
		err = add(replies)
	}
	if err != nil && step.Recording() {
		fail(step, err)
	}
	return err
}

// batches gets what belongs to the records of all batches at the same time.
func (f *fetch) batches(ctx context.Context, s *mapping.Second, batches [][]string) ([]*mapping.Attachment, error) {
	replies := make([]*mapping.Attachment, len(batches))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.Concurrency)
	for i, ids := range batches {
		group.Go(func() (err error) {
			defer f.opts.Panics.Catch(func(p any) { err = bug(p) })
			ask, a := s.Request(f.want.Account, ids)
			a.Allow, replies[i] = f.allow, a
			return f.newPager(&s.Replies, ask, a).read(ctx)
		})
	}
	return replies, group.Wait()
}
