package upstream

import (
	"context"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/upstream/mapping"
)

// attach makes the requests for what the list itself does not tell of its records, if
// there are any: their details, then their responses. If one cannot be had the list cannot:
// an inquiry without its responses would look unanswered.
func (f *fetch) attach(ctx context.Context, m *mapping.Builder) error {
	for s, ids := m.Next(); s != nil; s, ids = m.Next() {
		within, step := f.tracer.Start(ctx, "upstream."+s.Name)
		replies, err := f.batches(within, s, ids)
		if err == nil {
			err = m.Attach(replies)
		}
		if err != nil && step.Recording() {
			fail(step, err)
		}
		if step.End(); err != nil {
			return err
		}
	}
	return nil
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
