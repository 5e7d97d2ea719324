package cache

import (
	"context"
	"time"

	"inquiry-gateway/cache/redistier"
)

// Explanation says what the cache would do for a key now, and why. It holds no content. Page
// and command show its JSON as it is: a moment that never was is left out.
type Explanation struct {
	Key         Key     `json:"key"`
	DerivedFrom string  `json:"derived_from,omitempty"` // the list that this one is selected from, as the legacy is not sent all filters
	Outcome     Outcome `json:"outcome"`                // of a look-up now; Miss also when the fill might fail
	Tier        string  `json:"tier,omitempty"`         // where the newest entry is, local or redis; empty: nowhere

	AnsweredAt time.Time `json:"answered_at,omitzero"` // of that entry
	Age        Seconds   `json:"age_seconds"`          // since then
	Left       Seconds   `json:"ttl_left_seconds"`     // negative when stale
	Bytes      int       `json:"bytes"`                // in Redis, without the compressed forms

	Policy               string  `json:"policy"` // the configuration key that the times come from
	TTL                  Seconds `json:"ttl_seconds"`
	Jitter               Seconds `json:"jitter_seconds"` // taken off this entry's ttl
	StaleWhileRevalidate Seconds `json:"stale_while_revalidate_seconds"`
	StaleIfError         Seconds `json:"stale_if_error_seconds"`

	KindEpoch    uint64 `json:"kind_epoch"`
	AccountEpoch uint64 `json:"account_epoch"`
	Mapping      string `json:"mapping"`               // fingerprint of the configured mapping
	Unconfirmed  bool   `json:"unconfirmed,omitempty"` // a purge may have been missed; Redis is asked first

	Refused  string    `json:"refused_entry,omitempty"` // why the entry in Redis was refused; empty: it was not, or there is none
	Redis    string    `json:"redis"`                   // as RedisState
	InFlight bool      `json:"in_flight,omitempty"`     // a fill or a refresh runs on this node
	Failing  bool      `json:"failing,omitempty"`       // the last fill failed, and nothing has shown since that the next may work
	RetryAt  time.Time `json:"retry_at,omitzero"`       // no refresh before; never in the past
}

// Seconds is a duration as JSON has it.
type Seconds float64

// Duration is the same as Go has it.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

func secondsOf(d time.Duration) Seconds { return Seconds(d.Seconds()) }

// Explain looks like Get, but changes nothing, fills nothing and counts
// nothing. It reads Redis within its usual timeout. Errors: ErrUnknownKind.
func (l *Lists) Explain(ctx context.Context, k Key) (Explanation, error) {
	var q query
	if !l.start(&q, k) {
		return Explanation{}, ErrUnknownKind
	}
	var impossible bool
	q.base, impossible = q.mapping().base(k)
	f := &flight{key: q.base, kind: q.kind, fingerprint: q.mapping().Fingerprint, cell: l.changes.accounts.Of(redistier.Hash(k.Account))}
	x := Explanation{
		Key: k, DerivedFrom: derivedFrom(k, q.base), Redis: l.RedisState(), Outcome: Miss,
		Policy: q.policy.source(q.kind, k.Status), TTL: secondsOf(q.terms.ttl),
		StaleWhileRevalidate: secondsOf(q.terms.swr), StaleIfError: secondsOf(q.terms.sie), Mapping: f.fingerprint,
	}
	l.mu.Lock()
	if _, x.InFlight = l.flights[q.base]; x.InFlight {
		x.Outcome = Collapsed
	}
	l.mu.Unlock()
	x.Unconfirmed = f.cell.confirmed.Load() != l.changes.suspectEpoch.Load()
	if !impossible && l.redis != nil { // before the tier: it tells which purges there were
		f.best, x.Refused = l.explainRedis(ctx, f)
		if f.best != nil {
			x.Tier = TierRedis
		}
	}
	for _, key := range [...]Key{q.base, k} {
		e, ok := l.tier.GetEntryQuietly(key)
		if ok && e.Value.belongsTo(key, f.fingerprint) && !l.changes.purged(q.kind, e.Value) && (f.best == nil || f.best.AnsweredAt.Sub(e.Value.AnsweredAt) <= sameMoment) {
			f.best, x.Tier = e.Value, TierLocal
		}
	}
	now, answered := l.opts.Now(), time.Time{}
	if f.best != nil {
		answered = f.best.AnsweredAt
	}
	if a := l.backoff.of(q.base, answered, now); a != nil {
		if x.Failing = true; a.next.After(now) {
			x.RetryAt = a.next.UTC()
		}
	}
	tag := l.changes.tag(q.kind, f.cell)
	x.KindEpoch, x.AccountEpoch = tag.kind, tag.account
	if e := f.best; e != nil {
		v := l.decide(&q, e, now)
		x.AnsweredAt, x.Age, x.Left, x.Bytes = e.AnsweredAt.UTC(), secondsOf(v.age), secondsOf(v.left), e.Size()
		x.Jitter = secondsOf(time.Duration(float64(q.terms.ttl) * q.policy.jitter * e.spread))
		if v.action != fetch {
			x.Outcome = v.outcome
		}
	}
	if impossible {
		x.Outcome = Impossible
	}
	return x, nil
}

// explainRedis is the entry that Redis has, or why it is refused. What Redis says of
// purges is taken in, as with any read.
func (l *Lists) explainRedis(ctx context.Context, f *flight) (e *Entry, refused string) {
	suspectEpoch, sent := l.changes.suspectEpoch.Load(), l.opts.Now()
	r, err := l.redis.Read(ctx, l.redis.Names(f.list()), l.policy.Load().mostRead(), false, "")
	if err != nil {
		return nil, ""
	}
	f.cell.learn(r.Epoch, redistier.Epoch{}, l.moment(l.opts.Now()), suspectEpoch)
	if len(r.Raw) == 0 {
		return nil, ""
	}
	if e, err = l.decodeAndVerify(f, r.Raw, redisMoment{r.Time, sent}); err != nil {
		return nil, err.Error()
	}
	return e, ""
}

// source names the configuration key that governs a list.
func (p *policy) source(i kindIndex, status string) string {
	name := "cache." + kindNames[i]
	if _, ok := p.kinds[i].byStatus[status]; ok && status != "" {
		name += ".by_status." + status
	}
	return name
}

// derivedFrom names the list that a list is selected from; empty: it is fetched itself.
func derivedFrom(k, base Key) string {
	if base == k {
		return ""
	}
	list := "the list"
	for _, filter := range [][2]string{{"status", base.Status}, {"inquiry_type", base.InquiryType}} {
		if filter[1] != "" {
			list += " with " + filter[0] + "=" + filter[1]
		}
	}
	if list == "the list" {
		list += " without filters"
	}
	return list
}
