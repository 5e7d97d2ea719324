package cache

import (
	"bytes"

	"inquiry-gateway/internal/filters"
)

// Mapping is what a cache is told of how the lists of one kind are made. The zero
// value is one mapping for ever, where the legacy is asked for each list by itself.
type Mapping struct {
	// Fingerprint names the mapping: a list mapped in another way is another list.
	Fingerprint string
	// Status and InquiryType say by which values of the two filters the legacy is
	// asked.
	Status, InquiryType filters.Filter
}

// sourceOf is the key of the list that k's is selected from: k without the filters that
// the legacy is not sent.
func (m *Mapping) sourceOf(k Key) (source Key, impossible bool) {
	status, inquiryType := m.Status.Of(k.Status), m.InquiryType.Of(k.InquiryType)
	if status == filters.Empty || inquiryType == filters.Empty {
		return k, true
	}
	if status == filters.Local {
		k.Status = ""
	}
	if inquiryType == filters.Local {
		k.InquiryType = ""
	}
	return k, false
}

// Derivation makes lists out of other lists. Where the legacy is not sent a
// filter, all values of that filter are one list to it: the source is fetched and
// kept in both tiers, and the others are selected from it in the process. A
// derived list has the age, the version and the jitter of its source. It is kept in
// the in-process tier only, and not if it is empty: a caller who tries values
// must not push out lists that somebody needs.
type Derivation struct {
	// Select takes the records of k's list out of a finished body, which it must
	// not change or keep. On an error the list is asked for by its own key.
	Select func(k Key, body []byte) ([]byte, error)
	// Empty is the body of a list without records.
	Empty []byte
}

// deriveFrom selects the wanted list from r's, which is its source; false: it cannot be,
// and has to be asked for by itself.
func (l *Lists) deriveFrom(q *query, r *Result) bool {
	source := r.Entry
	if e, ok := l.tier.GetEntryQuietly(q.key); ok && e.Value.belongsTo(q.key, source.fingerprint) && e.Value.stamp == source.stamp {
		r.Entry, r.Stored = e.Value, r.Tier == "" || r.Stored
		return true // by somebody who waited for the same source
	}
	body, err := l.opts.Derivation.Select(q.key, source.Identity.Body)
	if err != nil {
		l.metrics.derived.WithLabelValues(q.key.Kind, derivedFailed).Inc()
		l.opts.Logger.Error("a list cannot be selected from its source and is asked for by itself", "kind", q.key.Kind, "error", err)
		return false
	}
	l.metrics.derived.WithLabelValues(q.key.Kind, derivedSelected).Inc()
	e := newEntry(origin{
		key: q.key, fingerprint: source.fingerprint, answeredAt: source.AnsweredAt, stamp: source.stamp, fetch: source.fetch, sum: bodySum(q.kind, body),
	}, body, cap(body))
	e.spread, e.sourceKey, e.sourceBody = source.spread, source.sourceKey, source.sourceBody
	r.Entry = e
	kept := r.Tier != "" || r.Stored // the source, or it may not be
	if v := q.decide(e, e.AnsweredAt, invalidation{}, health{}); kept && v.keep > 0 && e.Size() <= q.policy.maxEntry && !bytes.Equal(body, l.opts.Derivation.Empty) {
		l.keep(e)
	}
	return true
}

// impossible answers for a list that can have no records. It asks nobody, is kept
// nowhere, and is no look-up by which a policy could be judged.
func (l *Lists) impossible(q *query) Result {
	l.metrics.derived.WithLabelValues(kindNames[q.kind], derivedImpossible).Inc()
	body := l.opts.Derivation.Empty
	o := origin{key: q.key, answeredAt: l.opts.Now(), sum: bodySum(q.kind, body)}
	return Result{Outcome: Impossible, Entry: newEntry(o, body, len(body))}
}
