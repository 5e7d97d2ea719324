package cache

import (
	"context"
	"time"

	"inquiry-gateway/cache/redistier"
)

// Explanation says what the cache would do for a key now, and why. It holds no
// content.
type Explanation struct {
	Key     Key
	Base    Key     // that the legacy is asked by; the same unless the list is derived
	Outcome Outcome // of a look-up now; Miss also when the fill might fail
	Tier    string  // where the newest entry is; empty: nowhere

	AnsweredAt time.Time      // of that entry; zero without one
	Age        time.Duration  // since then
	TTL        time.Duration  // what is left of it, negative when stale
	ReadAt     time.Time      // when the legacy last sent the list; later it said that it is the same
	Validator  bool           // the legacy can be asked whether the list has changed
	Bytes      int            // with all variants
	Stored     map[string]int // bytes by coding

	Policy        string // the configuration key that the times come from
	PolicyTTL     time.Duration
	WhileRefresh  time.Duration // stale_while_revalidate
	IfError       time.Duration // stale_if_error
	JitterShorten time.Duration // what jitter takes off this entry's ttl

	KindEpoch, AccountEpoch uint64
	Unconfirmed             bool // a purge may have been missed; Redis is asked first

	Refused  string    // why the entry in Redis was refused; empty: it was not, or there is none
	Redis    string    // as RedisState
	InFlight bool      // a fill or a refresh runs
	Failing  bool      // the last fill failed
	RetryAt  time.Time // no refresh of this key before; zero: at once
}

// Explain looks like Get, but changes nothing, fills nothing and counts
// nothing. It reads Redis within its usual timeout. Errors: ErrUnknownKind.
func (l *Lists) Explain(ctx context.Context, k Key) (Explanation, error) {
	var q query
	if !l.start(&q, k) {
		return Explanation{}, ErrUnknownKind
	}
	var impossible bool
	q.base, impossible = q.mapping().base(k)
	f := &flight{key: q.base, kind: q.kind, fingerprint: q.mapping().Fingerprint, cell: l.epochs.of(redistier.Hash(k.Account))}
	tag := l.epochs.tag(q.kind, f.cell)
	x := Explanation{
		Key: k, Base: q.base, Redis: l.RedisState(), Unconfirmed: f.cell.verified.Load() != l.epochs.suspectEpoch.Load(),
		Policy: q.policy.source(q.kind, k.Status), PolicyTTL: q.terms.ttl, WhileRefresh: q.terms.swr, IfError: q.terms.sie,
		KindEpoch: tag.kind, AccountEpoch: tag.account,
		Failing: l.backoff.failing(q.kind, q.base), RetryAt: l.backoff.retryAt(q.base),
	}
	for _, key := range [...]Key{q.base, k} {
		e, ok := l.tier.GetEntryQuietly(key)
		if ok && e.Value.belongsTo(key, f.fingerprint) && l.epochs.current(q.kind, e.Value) && !f.best.newerThan(e.Value) {
			f.best, x.Tier = e.Value, TierLocal
		}
	}
	l.mu.Lock()
	_, x.InFlight = l.flights[q.base]
	l.mu.Unlock()
	if !impossible {
		l.explainRedis(ctx, f, &x)
	}
	if l.predict(&q, f.best, &x); impossible {
		x.Outcome = Impossible
	}
	return x, nil
}

// explainRedis prefers what Redis has when it is newer.
func (l *Lists) explainRedis(ctx context.Context, f *flight, x *Explanation) {
	if l.redis == nil {
		return
	}
	r, err := l.redis.Read(ctx, l.redis.Names(f.list()), l.policy.Load().mostRead(), redistier.Only)
	if err != nil || len(r.Raw) == 0 {
		return
	}
	e, err := l.decodeAndVerify(f, r.Raw)
	switch {
	case err != nil:
		x.Refused = err.Error()
	case f.best == nil || e.AnsweredAt.Sub(f.best.AnsweredAt) > sameMoment:
		f.best, x.Tier = e, TierRedis
	}
}

// predict fills in what follows from the newest entry.
func (l *Lists) predict(q *query, e *Entry, x *Explanation) {
	x.Outcome = Miss
	if x.InFlight {
		x.Outcome = Collapsed
	}
	if e == nil {
		return
	}
	v := l.judge(q.policy, q.kind, q.terms, e, l.opts.Now())
	x.AnsweredAt, x.Age, x.TTL, x.Bytes, x.PolicyTTL = e.AnsweredAt, v.age, v.ttl, e.Size(), q.terms.ttl
	x.ReadAt, x.Validator = e.known().ReadAt, e.validator != ""
	x.JitterShorten = x.PolicyTTL - v.age - v.ttl
	x.Stored = map[string]int{"identity": len(e.Identity.Body), "gzip": e.coded[Gzip].size(), "zstd": e.coded[Zstd].size()}
	if outcome, ok := l.outcomeOf(q.kind, q.base, v.state); ok {
		x.Outcome = outcome
	}
}

// source names the configuration key that governs a list.
func (p *policy) source(i kindIndex, status string) string {
	name := "cache." + kindNames[i]
	if _, ok := p.kinds[i].byStatus[status]; ok && status != "" {
		name += ".by_status." + status
	}
	return name
}
