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
	Outcome     Outcome `json:"outcome"`                // of a look-up now; where that asks the legacy, Miss or Collapsed, also when the fill might fail
	IfItFails   Outcome `json:"if_it_fails,omitempty"`  // then: StaleError, or error
	Tier        string  `json:"tier,omitempty"`         // where the newest entry is, local or redis; empty: nowhere
	Err         error   `json:"-"`                      // the answer, with the outcome error

	AnsweredAt time.Time `json:"answered_at,omitzero"` // of that entry
	Age        Seconds   `json:"age_seconds"`          // since then
	Remaining  Seconds   `json:"ttl_left_seconds"`     // negative when stale
	Bytes      int       `json:"bytes"`                // in Redis, before sealing

	Policy               string  `json:"policy"` // the configuration key that the times come from
	TTL                  Seconds `json:"ttl_seconds"`
	Jitter               Seconds `json:"jitter_seconds"` // taken off this entry's ttl
	StaleWhileRevalidate Seconds `json:"stale_while_revalidate_seconds"`
	StaleIfError         Seconds `json:"stale_if_error_seconds"`

	PurgedAt    time.Time `json:"purged_at,omitzero"`    // the newest purge of the kind, the account or all lists, soft or not, on the clock of Redis
	Mapping     string    `json:"mapping"`               // fingerprint of the configured mapping
	Unconfirmed bool      `json:"unconfirmed,omitempty"` // what purges there are was never read; Redis is asked first

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

// Explain looks like Get, but changes no list, fills nothing and counts
// nothing. It reads Redis within its usual timeout. Errors: ErrUnknownKind.
func (c *Cache) Explain(ctx context.Context, k Key) (Explanation, error) {
	var q query
	if !c.start(&q, k) {
		return Explanation{}, ErrUnknownKind
	}
	x := Explanation{
		Key: k, DerivedFrom: derivedFrom(k, q.source), Redis: c.RedisState(), Policy: q.policy.governing(q.kind, k.Status),
		TTL: secondsOf(q.freshness.TTL), StaleWhileRevalidate: secondsOf(q.freshness.StaleWhileRevalidate), StaleIfError: secondsOf(q.freshness.StaleIfError),
		Mapping: q.mapping().Fingerprint,
	}
	var e *Entry
	if !q.impossible && c.redis != nil { // before the tier: at the start it tells which purges there were
		names := c.redis.Names(idOf(q.source, x.Mapping))
		raw, _, err := c.readList(ctx, names)
		if err == nil && len(raw) > 0 {
			if e, err = c.open(q.source, x.Mapping, names.Account, raw); err != nil {
				x.Refused = err.Error()
			} else {
				x.Tier = TierRedis
			}
		}
		_, synced := c.invalidations.position()
		x.Unconfirmed = !synced
	}
	now := c.opts.Now()
	if kept, ok := c.tier.GetEntryQuietly(q.source); ok && kept.Value.belongsTo(q.source, x.Mapping) &&
		!c.invalidations.sinceFetch(kept.Value).hard && !c.invalidations.newer(e, kept.Value) {
		e, x.Tier = kept.Value, TierLocal
	}
	if last := c.invalidations.last(k.Kind, redistier.Hash(k.Account), true); last > 0 {
		x.PurgedAt = time.UnixMicro(int64(last)).UTC()
	}
	h := c.healthOf(&q, e, now)
	if x.Failing = h.failed; h.inBackoff {
		x.RetryAt = h.refreshAt.UTC()
	}
	d := c.decide(&q, e, now)
	x.Outcome, x.Err = d.outcome, d.err
	if e != nil {
		x.AnsweredAt, x.Age, x.Remaining, x.Bytes = e.AnsweredAt.UTC(), secondsOf(d.age), secondsOf(d.remaining), e.Size()
		x.Jitter = secondsOf(q.jitter(e))
	}
	x.InFlight = c.inFlight(q.source)
	if d.action == fetch {
		if x.IfItFails = outcomeFailed; d.state.servable() {
			x.IfItFails = StaleError
		}
		if x.InFlight {
			x.Outcome = Collapsed
		}
	}
	if q.impossible {
		x.Outcome, x.IfItFails = Impossible, ""
	}
	return x, nil
}

// governing names the configuration key that governs a list.
func (p *policy) governing(i kindIndex, status string) string {
	name := "cache." + kindNames[i]
	if _, ok := p.kinds[i].byStatus[status]; ok {
		name += ".by_status." + status
	}
	return name
}

// derivedFrom names the list that a list is selected from; empty: it is fetched itself.
func derivedFrom(k, source Key) string {
	if source == k {
		return ""
	}
	list := "the list"
	for _, filter := range [][2]string{{"status", source.Status}, {"inquiry_type", source.InquiryType}} {
		if filter[1] != "" {
			list += " with " + filter[0] + "=" + filter[1]
		}
	}
	if list == "the list" {
		list += " without filters"
	}
	return list
}
