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
	i, ok := indexOf(k.Kind)
	if !ok {
		return Explanation{}, ErrUnknownKind
	}
	base, impossible := l.opts.Derivation.base(k)
	f := &flight{key: base, kind: i, fingerprint: l.fingerprint(i)}
	f.cell = l.epochs.of(redistier.Hash(k.Account))
	x := Explanation{Key: k, Base: base, Redis: l.RedisState(), Unconfirmed: f.cell.verified.Load() != l.epochs.suspectEpoch.Load()}
	for _, key := range [...]Key{base, k} {
		e, ok := l.local.GetEntryQuietly(key)
		if ok && e.Value.belongsTo(key, f.fingerprint) && l.epochs.current(i, e.Value) && !f.best.newerThan(e.Value) {
			f.best, x.Tier = e.Value, TierLocal
		}
	}
	if !impossible {
		l.explainRedis(ctx, f, &x)
	}
	p := l.policy.Load()
	x.Policy = p.source(i, k.Status)
	t := p.of(i, k.Status)
	x.PolicyTTL, x.WhileRefresh, x.IfError = t.ttl, t.swr, t.sie
	tag := l.epochs.tag(i, f.cell)
	x.KindEpoch, x.AccountEpoch = tag.kind, tag.account
	x.Failing, x.RetryAt = l.backoff.failing(i, base), l.backoff.retryAt(base)
	l.mu.Lock()
	_, x.InFlight = l.flights[base]
	l.mu.Unlock()
	if l.predict(f, &x); impossible {
		x.Outcome = Impossible
	}
	return x, nil
}

// sameMoment is by how much the clocks that an answer's age is counted by may
// differ between the copy in the process and the one in Redis.
const sameMoment = time.Millisecond

// explainRedis prefers what Redis has when it is newer.
func (l *Lists) explainRedis(ctx context.Context, f *flight, x *Explanation) {
	if l.redis == nil {
		return
	}
	f.names = l.redis.Names(f.list())
	r, err := l.redis.Read(ctx, f.names, l.policy.Load().maxEntry+redistier.SealOverhead, redistier.Only)
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

// predict fills in what follows from the entry.
func (l *Lists) predict(f *flight, x *Explanation) {
	x.Outcome = Miss
	if x.InFlight {
		x.Outcome = Collapsed
	}
	e := f.best
	if e == nil {
		return
	}
	v := l.judge(query{kind: f.kind, key: x.Key}, e, l.opts.Now())
	x.AnsweredAt, x.Age, x.TTL, x.Bytes = e.AnsweredAt, v.age, v.ttl, e.Size()
	x.JitterShorten = x.PolicyTTL - v.age - v.ttl
	x.Stored = map[string]int{"identity": len(e.Identity.Body), "gzip": e.coded[Gzip].size(), "zstd": e.coded[Zstd].size()}
	switch {
	case v.state == fresh:
		x.Outcome = Hit
	case v.state == unusable, v.state == ifError && !x.Failing:
	case x.Failing:
		x.Outcome = StaleError
	default:
		x.Outcome = StaleRevalidate
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
