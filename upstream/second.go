package upstream

import (
	"context"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/upstream/mapping"
)

// responses gets the responses of all inquiries of a list, where further requests
// are needed for them. If one cannot be had the list cannot: an inquiry without its
// responses would look unanswered.
func (f *fetcher) responses(ctx context.Context, account string, r *mapping.Reply) error {
	batches := r.Batches()
	if len(batches) == 0 {
		return nil
	}
	ctx, step := f.tracer.Start(ctx, "upstream.responses")
	defer step.End()
	subs, err := f.batches(ctx, account, f.plan.Second, batches)
	if err == nil {
		err = r.AddResponses(subs)
	}
	if err != nil && step.Recording() {
		fail(step, err)
	}
	return err
}

// details gets the details of all records of a list, where it does not have them.
func (f *fetcher) details(ctx context.Context, account string, r *mapping.Reply) error {
	batches := r.DetailBatches()
	if len(batches) == 0 {
		return nil
	}
	ctx, step := f.tracer.Start(ctx, "upstream.details")
	defer step.End()
	subs, err := f.batches(ctx, account, f.plan.Details, batches)
	if err == nil {
		err = r.AddDetails(subs)
	}
	if err != nil && step.Recording() {
		fail(step, err)
	}
	return err
}

// batches gets what belongs to the records of all batches at the same time.
func (f *fetcher) batches(ctx context.Context, account string, s *mapping.Second, batches [][]string) ([]*mapping.Reply, error) {
	subs := make([]*mapping.Reply, len(batches))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.Concurrency)
	for i, ids := range batches {
		group.Go(func() (err error) {
			defer f.panics.Catch(func(p any) { err = bug(p) })
			subs[i], err = f.batch(ctx, account, s, ids)
			return err
		})
	}
	return subs, group.Wait()
}

// batch gets what belongs to some records.
func (f *fetcher) batch(ctx context.Context, account string, s *mapping.Second, ids []string) (*mapping.Reply, error) {
	ask, sub, err := s.Request(account, ids)
	if err != nil {
		return nil, err
	}
	sub.KeepSamples = f.keepResponses
	own := *f
	own.format = s.Format
	return sub, own.pages(ctx, s.Paging, ask, sub)
}
