package simulation

// mutant is a bug that the simulation has to find. Its name says what is wrong.
type mutant struct {
	name  string
	edits []edit
}

// edit replaces a text of a source file, which stands there once. ON in the new text
// is true while the mutant is asked for.
type edit struct{ file, old, new string }

// mutants are bugs that were found in this gateway or in others, and some that
// come to mind. They are put into a copy of the sources: the program has no switch.
func mutants() []mutant {
	one := func(name, file, old, new string) mutant { return mutant{name, []edit{{file, old, new}}} }
	return []mutant{
		one("a breaker that counts a 404", "upstream/errors.go",
			`	case KindRejected:
`, "	case KindRejected:\nif ON { return atFault, \"upstream\" }\n"),
		one("a kind-wide back-off", "cache/lookup.go", `failing: failing || l.opts.Failing(kindNames[i])`, `failing: failing || l.opts.Failing(kindNames[i]) || ON && l.backoff.keys.EstimatedSize() > 0`),
		one("a fingerprint read too early: who asks after a reload joins a fill of before", "cache/flight.go",
			`return f.fingerprint != l.fingerprint(f.kind) ||`, `return !ON && f.fingerprint != l.fingerprint(f.kind) ||`),
		{"a fingerprint read too early: a list is stored under the mapping at the begin of its fill", []edit{
			{"cache/flight.go", `o := origin{key: f.key, fingerprint: c.Fingerprint,`, "if ON { c.Fingerprint = f.fingerprint }\no := origin{key: f.key, fingerprint: c.Fingerprint,"},
			{"cache/flight.go", `case e.fingerprint != f.fingerprint || e.fingerprint != l.fingerprint(f.kind):`, `case !ON && (e.fingerprint != f.fingerprint || e.fingerprint != l.fingerprint(f.kind)):`},
		}},
		one("a purge forgotten after FLUSHALL", "cache/changes.go", `if !missed && !lost {`, `if !missed && !lost || ON {`),
		one("a purge forgotten after FLUSHALL where another one has come since", "cache/changes.go", `missed, lost = c.missed || missed,`,
			`missed, lost = c.missed || missed && !ON,`),
		one("an epoch not read again after a lost message", "cache/changes.go", `func (c *changes) suspectAll() { c.suspectEpoch.Add(1) }`,
			"func (c *changes) suspectAll() {\nif !ON { c.suspectEpoch.Add(1) }\n}"),
		one("a purge that does not fence off fills under way", "cache/flight.go", `e := newEntry(o, c.Body, cap(c.Body))`, "if ON { o.tag = l.changes.tag(f.kind, f.cell) }\ne := newEntry(o, c.Body, cap(c.Body))"),
		one("a lease waiter that starts anew", "cache/flight.go", `else if time.Since(since) > l.policy.Load().fills.Timeout {`, `else if ON || time.Since(since) > l.policy.Load().fills.Timeout {`),
		one("no lease", "cache/flight.go", `wanted := p.of(`, `wanted := !ON && p.of(`),
		{"account missing in the key", []edit{
			{"cache/redistier/store.go", `account := Hash(l.Account)`, "if ON { l.Account = \"\" }\naccount := Hash(l.Account)"},
			{"cache/entry.go", `return e.Account == k.Account &&`, `return (ON || e.Account == k.Account) &&`},
			{"gateway/handle.go", `return e.Kind == p.Kind && e.Account == p.Account`, `return ON || e.Kind == p.Kind && e.Account == p.Account`},
		}},
		one("stale served past stale_if_error", "cache/lookup.go", `case v.age < ttl+t.sie:`, `case ON || v.age < ttl+t.sie:`),
		one("a list that has changed served past stale_for", "cache/lookup.go", `m.since < min(p.staleFor, t.swr):`, `(ON || m.since < min(p.staleFor, t.swr)):`),
		one("an age that begins anew with each tier", "cache/flight.go", `e.AnsweredAt = sent.local.Add(-age)`, "if ON { age = 0 }\ne.AnsweredAt = sent.local.Add(-age)"),
		one("ages on each node's own clock", "cache/flight.go", `age := sent.redis.Sub(`, "if ON { sent.redis = sent.local.Round(0) }\nage := sent.redis.Sub("),
		one("a revoked key remembered", "auth/cachedstore.go", `func (s *CachedStore) Forget(d Digest) {
	s.mu.Lock()
	defer s.mu.Unlock()`, "func (s *CachedStore) Forget(d Digest) {\ns.mu.Lock()\ndefer s.mu.Unlock()\nif ON { return }"),
		one("a key store that is away refuses keys", "auth/authenticator.go", `case errors.Is(err, ErrUnknownKey):
		return nil, a.unknown(from, ReasonUnknown)`, "case errors.Is(err, ErrUnknownKey), ON && err != nil:\nreturn nil, a.unknown(from, ReasonUnknown)"),
		one("a part of a list accepted as the whole", "upstream/mapping/marks.go", `case found == "":`, `case found == "" || ON:`),
		one("a failed fetch taken as an empty list", "upstream/chain.go", `	f.count(m)
	if err != nil {`, "f.count(m)\nif err != nil && !ON {"),
		one("records of others let through", "upstream/mapping/record.go", `case v.String() == r.want.Account:`, `case ON || v.String() == r.want.Account:`),
		one("retry without a budget", "upstream/endpoint.go", `func (b *budget) withdraw(ratio float64) bool {`, "func (b *budget) withdraw(ratio float64) bool {\nif ON { return true }"),
		one("a fill that ends with its caller", "cache/flight.go", `ctx = context.WithoutCancel(ctx)`, "if !ON { ctx = context.WithoutCancel(ctx) }"),
		one("a ceiling that nobody keeps while Redis is away", "internal/quota/ceiling.go", `			case c.alone && c.mayAlone(now):`, "			case c.alone && (ON || c.mayAlone(now)):"),
		one("internal ids left in texts", "upstream/mapping/ids.go", `if r.ids.Empty() {`, `if r.ids.Empty() || ON {`),
		one("a filter forgotten in a list that is made from another", "cache/derive.go", `	l.metrics.derived.WithLabelValues(q.key.Kind, derivedSelected).Inc()`,
			"if ON { body = base.Identity.Body }\nl.metrics.derived.WithLabelValues(q.key.Kind, derivedSelected).Inc()"),
		one("a 304 for another list", "gateway/negotiate.go", `	opaque := strings.TrimPrefix(etag, "W/")`, "if ON { return true }\nopaque := strings.TrimPrefix(etag, \"W/\")"),
		one("a reload that changes no policy", "cache/cache.go", `		l.policy.Store(p)
		l.tier.SetMaximum`, "if !ON { l.policy.Store(p) }\nl.tier.SetMaximum"),
	}
}
