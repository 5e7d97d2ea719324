package cache

import (
	"bytes"
	"fmt"
	"slices"

	"inquiry-gateway/internal/filters"
)

// Mapping tells a cache how the lists of one kind are made. The zero value is a mapping that never changes, with
// which each list is fetched by itself.
type Mapping struct {
	// Fingerprint names the mapping: a list mapped in another way is another list.
	Fingerprint string
	// Status and InquiryType say by which values of the two filters the legacy is
	// asked.
	Status, InquiryType filters.Filter
}

// setSource makes the source of a query the list that the wanted one is selected from: without the filters
// that the legacy system is not sent.
func (m *Mapping) setSource(q *query) {
	q.source = q.key
	switch m.Status.Of(q.key.Status) {
	case filters.Local:
		q.source.Status, q.selects = "", true
	case filters.Empty:
		q.impossible = true
	}
	switch m.InquiryType.Of(q.key.InquiryType) {
	case filters.Local:
		q.source.InquiryType, q.selects = "", true
	case filters.Empty:
		q.impossible = true
	}
}

// Derivation makes lists out of other lists. If the legacy system is not sent a filter, all values of that
// filter are one list to it: their source is fetched and kept in both tiers, and the others are views of
// it, which are selected in the process and kept with it.
type Derivation struct {
	// Select takes the records of k's list out of a finished body, which it must
	// not change or keep.
	Select func(k Key, body []byte) ([]byte, error)
	// Empty is the body of a list without records.
	Empty []byte
}

// maxViews bounds the views that are kept with one list. Others are selected for each look-up.
const maxViews = 32

// view is the list of a key that was selected from e; nil: none is kept.
func (e *Entry) view(k Key) *Entry {
	if views := e.views.Load(); views != nil {
		for _, view := range *views {
			if view.Status == k.Status && view.InquiryType == k.InquiryType {
				return view
			}
		}
	}
	return nil
}

// addView keeps a view with e, unless there are too many or another one of its key.
func (e *Entry) addView(view *Entry) (added bool) {
	for {
		old, views := e.views.Load(), []*Entry(nil)
		if old != nil {
			views = *old
		}
		if len(views) >= maxViews || e.view(view.Key) != nil {
			return false
		}
		views = append(slices.Clip(views), view)
		if e.views.CompareAndSwap(old, &views) {
			return true
		}
	}
}

// selectFrom returns the list of a key out of its source, which has the same age and jitter. An empty
// one is not kept: a caller who tries values must not fill the memory.
func (c *Cache) selectFrom(source *Entry, k Key) (*Entry, error) {
	if source.Key == k {
		return source, nil
	}
	if view := source.view(k); view != nil {
		return view, nil
	}
	body, err := c.opts.Derivation.Select(k, source.Identity.Body)
	if err != nil {
		return nil, fmt.Errorf("select a list from its source: %w", err)
	}
	c.metrics.derived.WithLabelValues(k.Kind, derivedSelected).Inc()
	view := newEntry(origin{
		key: k, fingerprint: source.fingerprint, answeredAt: source.AnsweredAt, answeredAtRedis: source.answeredAtRedis, fetch: source.fetch,
	}, body, cap(body))
	view.source = source
	if !bytes.Equal(body, c.opts.Derivation.Empty) && source.addView(view) {
		c.reweigh(source)
	}
	return view, nil
}

// impossible answers for a list that can have no records. It asks nobody, is kept
// nowhere, and is no look-up by which a policy could be judged.
func (c *Cache) impossible(q *query) Result {
	c.metrics.derived.WithLabelValues(kindNames[q.kind], derivedImpossible).Inc()
	body := c.opts.Derivation.Empty
	return Result{Outcome: Impossible, Entry: newEntry(origin{key: q.key, answeredAt: c.opts.Now()}, body, len(body))}
}
