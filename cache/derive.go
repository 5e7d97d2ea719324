package cache

import (
	"bytes"
	"time"

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

// base is the key of the list that k's is selected from: k without the filters that
// the legacy is not sent.
func (m *Mapping) base(k Key) (base Key, impossible bool) {
	status, inquiryType := m.Status.Of(k.Status), m.InquiryType.Of(k.InquiryType)
	if status == filters.NoRecord || inquiryType == filters.NoRecord {
		return k, true
	}
	if status == filters.SelectedHere {
		k.Status = ""
	}
	if inquiryType == filters.SelectedHere {
		k.InquiryType = ""
	}
	return k, false
}

// Derivation makes lists out of other lists. Where the legacy is not sent a
// filter, all values of that filter are one list to it: the base is fetched and
// kept in both tiers, and the others are selected from it in the process. A
// derived list has the age, the epochs and the jitter of its base. It is kept in
// the in-process tier only, and not if it is empty: a caller who tries values
// must not push out lists that somebody needs.
type Derivation struct {
	// Select takes the records of k's list out of a finished body, which it must
	// not change or keep. On an error the list is asked for by its own key.
	Select func(k Key, body []byte) ([]byte, error)
	// Empty is the body of a list without records.
	Empty []byte
}

// sameMoment is by how much the clocks that an answer's age is counted by may
// differ between the copy in the process and the one in Redis.
const sameMoment = time.Millisecond

// deriveFrom selects the wanted list from r's, which is its base; false: it cannot be,
// and has to be asked for by itself.
func (l *Lists) deriveFrom(q *query, r *Result) bool {
	e, kept, err := l.derive(q, r.Entry)
	if err != nil {
		return false
	}
	r.Entry, r.Stored = e, r.Stored || kept && r.Tier == ""
	return true
}

// derive makes the wanted list out of its base. kept: it is in the in-process
// tier now.
func (l *Lists) derive(q *query, base *Entry) (e *Entry, kept bool, err error) {
	if d, ok := l.tier.GetEntryQuietly(q.key); ok && d.Value.belongsTo(q.key, base.fingerprint) && d.Value.sameFill(base) {
		return d.Value, true, nil // by somebody who waited for the same base
	}
	body, err := l.opts.Derivation.Select(q.key, base.Identity.Body)
	if err != nil {
		l.metrics.derived.WithLabelValues(q.key.Kind, derivedFailed).Inc()
		l.opts.Logger.Error("a list cannot be selected from its base and is asked for by itself", "kind", q.key.Kind, "error", err)
		return nil, false, err
	}
	l.metrics.derived.WithLabelValues(q.key.Kind, derivedSelected).Inc()
	e = newEntry(origin{
		key: q.key, fingerprint: base.fingerprint, answeredAt: base.AnsweredAt, tag: base.tag, sum: bodySum(q.kind, body),
	}, body, cap(body))
	e.spread, e.cell, e.suspectEpoch = base.spread, base.cell, base.suspectEpoch
	e.list, e.source = base.list, base.source
	if bytes.Equal(body, l.opts.Derivation.Empty) || e.Size() > q.policy.maxEntry || q.terms.lifetime() <= 0 {
		return e, false, nil
	}
	l.keep(e)
	return e, true, nil
}

// sameFill tells whether e was made from what base was made from, or from what
// came right after it.
func (e *Entry) sameFill(base *Entry) bool {
	since := e.AnsweredAt.Sub(base.AnsweredAt)
	return e.tag == base.tag && since >= 0 && since < sameMoment
}

// impossible answers for a list that can have no records. It asks nobody, is kept
// nowhere, and is no look-up by which a policy could be judged.
func (l *Lists) impossible(q *query) Result {
	l.metrics.derived.WithLabelValues(kindNames[q.kind], derivedImpossible).Inc()
	body := l.opts.Derivation.Empty
	o := origin{key: q.key, answeredAt: l.opts.Now(), sum: bodySum(q.kind, body)}
	return Result{Outcome: Impossible, Entry: newEntry(o, body, len(body))}
}
