package cache

import (
	"bytes"
	"context"
	"time"
)

// Derivation makes lists out of other lists. Where the legacy is not sent a
// filter, all values of that filter are one list to it: the base is fetched and
// kept in both tiers, and the others are selected from it in the process. A
// derived list has the age, the epochs and the jitter of its base. It is kept in
// the in-process tier only, and not if it is empty: a caller who tries values
// must not push out lists that somebody needs.
type Derivation struct {
	// Base gives the key of the list that k's is selected from: k itself, or k
	// without the filters that the legacy is not sent. impossible: no record can
	// have the filter values. Nil: each key is its own base.
	Base func(k Key) (base Key, impossible bool)
	// Select takes the records of k's list out of a finished body, which it must
	// not change or keep. On an error the list is asked for by its own key.
	Select func(k Key, body []byte) ([]byte, error)
	// Empty is the body of a list without records.
	Empty []byte
}

func (d Derivation) base(k Key) (base Key, impossible bool) {
	if d.Base == nil || k.Status == "" && k.InquiryType == "" {
		return k, false
	}
	if base, impossible = d.Base(k); base.Kind != k.Kind || base.Account != k.Account {
		return k, impossible // never out of somebody else's list
	}
	return base, impossible
}

// query is one look-up.
type query struct {
	kind kindIndex
	key  Key    // of the list that is wanted
	base Key    // that the legacy is asked by; the same unless the list is derived
	have *Entry // of the base, in the in-process tier; may be nil
}

func (q query) derived() bool { return q.base != q.key }

// terms are the times that govern the wanted list, whatever its base's are.
func (l *Lists) terms(q query) terms { return l.policy.Load().of(q.kind, q.key.Status) }

// judge compares an entry of the wanted list, or of its base, with the policy of
// the wanted list.
func (l *Lists) judge(q query, e *Entry, now time.Time) verdict {
	p := l.policy.Load()
	return p.judgeBy(p.of(q.kind, q.key.Status), e, now)
}

// get finds the list or its base, and selects the one from the other.
func (l *Lists) get(ctx context.Context, q query) (Result, error) {
	r, err := l.find(ctx, q)
	if err != nil || r.Entry.key() == q.key {
		return r, err
	}
	e, kept, err := l.derive(q, r.Entry)
	if err != nil {
		return l.find(ctx, query{kind: q.kind, key: q.key, base: q.key})
	}
	r.Entry, r.Stored = e, r.Stored || kept && r.Tier == ""
	return r, nil
}

// derive makes the wanted list out of its base. kept: it is in the in-process
// tier now.
func (l *Lists) derive(q query, base *Entry) (e *Entry, kept bool, err error) {
	if d, ok := l.local.GetEntryQuietly(q.key); ok && d.Value.belongsTo(q.key, base.fingerprint) && d.Value.sameFill(base) {
		return d.Value, true, nil // by somebody who waited for the same base
	}
	body, err := l.opts.Derivation.Select(q.key, base.Identity.Body)
	if err != nil {
		l.metrics.derived.WithLabelValues(q.key.Kind, derivedFailed).Inc()
		l.opts.Logger.Error("a list cannot be selected from its base and is asked for by itself", "kind", q.key.Kind, "error", err)
		return nil, false, err
	}
	l.metrics.derived.WithLabelValues(q.key.Kind, derivedSelected).Inc()
	e = newEntry(origin{key: q.key, fingerprint: base.fingerprint, answeredAt: base.AnsweredAt, tag: base.tag}, bodySum(body), body, cap(body))
	e.spread, e.cell, e.suspectEpoch, e.name = base.spread, base.cell, base.suspectEpoch, base.name
	if bytes.Equal(body, l.opts.Derivation.Empty) || e.Size() > l.policy.Load().maxEntry || l.terms(q).lifetime() <= 0 {
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
func (l *Lists) impossible(i kindIndex, k Key) Result {
	l.metrics.derived.WithLabelValues(kindNames[i], derivedImpossible).Inc()
	body := l.opts.Derivation.Empty
	return Result{Outcome: Impossible, Entry: newEntry(origin{key: k, answeredAt: l.opts.Now()}, bodySum(body), body, len(body))}
}
