package upstream

import (
	"context"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/upstream/mapping"
)

// responses gets the responses of all inquiries of a list, where further requests
// are needed for them. If one cannot be had the list cannot: an inquiry without its
// responses would look unanswered.
func (f *fetcher) responses(ctx context.Context, account string, r *mapping.Builder) error {
	return f.further(ctx, "upstream.responses", account, f.plan.Second, r.Batches(), r.AddResponses)
}

// details gets the details of all records of a list, where it does not have them.
func (f *fetcher) details(ctx context.Context, account string, r *mapping.Builder) error {
	return f.further(ctx, "upstream.details", account, f.plan.Details, r.DetailBatches(), r.AddDetails)
}

// further makes the requests for batches of records, if there are any, in a span of
// the name, and adds what they give.
func (f *fetcher) further(ctx context.Context, name, account string, s *mapping.Second, batches [][]string, add func([]*mapping.Builder) error) error {
	if len(batches) == 0 {
		return nil
	}
	ctx, step := f.tracer.Start(ctx, name)
	defer step.End()
	subs, err := f.batches(ctx, account, s, batches)
	if err == nil {
		err = add(subs)
	}
	if err != nil && step.Recording() {
		fail(step, err)
	}
	return err
}

// batches gets what belongs to the records of all batches at the same time.
func (f *fetcher) batches(ctx context.Context, account string, s *mapping.Second, batches [][]string) ([]*mapping.Builder, error) {
	subs := make([]*mapping.Builder, len(batches))
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
func (f *fetcher) batch(ctx context.Context, account string, s *mapping.Second, ids []string) (*mapping.Builder, error) {
	ask, sub, err := s.Request(account, ids)
	if err != nil {
		return nil, err
	}
	sub.KeepSamples = f.keepResponses
	own := *f
	own.format = s.Format
	l := own.newPager(s.Paging, ask, sub)
	first, err := l.firstPage()
	if err != nil {
		return sub, err
	}
	a, err := own.get(ctx, first)
	if err != nil {
		return sub, err
	}
	return sub, l.readFrom(ctx, first, a)
}
