package main

import (
	"bytes"
	"context"
	"fmt"

	"inquiry-gateway/deploy/load/measure"
	"inquiry-gateway/deploy/load/report"
)

// Groups of the table.
const (
	groupHits   = "Answers out of the cache, HTTP/1.1"
	groupTLS    = "HTTP/1.1 over TLS"
	groupH2C    = "HTTP/2 in clear text"
	groupH2     = "HTTP/2 over TLS"
	groupMisses = "Misses"
)

// Rows that others are compared with.
const (
	nameBare     = "bare net/http"
	nameNginxMap = "nginx, keys in a map file"
	nameVarnish  = "Varnish"
)

const (
	connections  = 64
	headerBytes  = 1200 // more than any answer's header
	oneClientKey = "one key, 64 connections with one stream each: h2load cannot choose among keys"
)

// missConnections are fewer for long lists: more would only wait for each other.
func missConnections(records int) int {
	if records < 1000 {
		return 16
	}
	return 4
}

// limits are the lowest and the highest mean size of a whole answer, in bytes.
type limits struct{ min, max float64 }

func (b *bench) whole() limits { return limits{0.97 * b.meanBody(), b.meanBody() + headerBytes} }

// add completes a row. A plan without requests asks for all filters over 64
// connections.
func (b *bench) add(r row, generator func(measure.Plan) (measure.Generator, error), p measure.Plan) (err error) {
	p.Keys, p.Files = b.keys, b.path(fmt.Sprintf("row-%d", len(b.rows)))
	if p.Requests == nil {
		p.Requests = requests(nil)
	}
	if p.Connections == 0 {
		p.Connections = connections
	}
	if r.bytes == (limits{}) {
		r.bytes = b.whole()
	}
	r.load, err = generator(p)
	b.rows = append(b.rows, &r)
	return err
}

// addHits adds the bare handler and the gateway's ways to answer without the
// legacy system.
func (b *bench) addHits(ctx context.Context) error {
	copies, err := b.startBare(ctx, "bare-copies", "-bodies", b.path("bodies.json"), "-keys", b.path("accounts.json"))
	if err != nil {
		return err
	}
	for _, url := range []string{b.bare.url(), copies.url()} {
		if err := b.sameBytes(ctx, url); err != nil {
			return err
		}
	}
	if err := b.warm(ctx, b.hit.url()); err != nil {
		return err
	}
	for _, h := range []struct {
		row    row
		goals  []report.Goal
		header func(query string) map[string]string
	}{
		{row: row{server: b.bare, Row: report.Row{Name: nameBare}}},
		{row: row{server: copies, Row: report.Row{
			Name: "bare net/http, a body per list", Base: nameBare,
			Note: "the first row writes the same four bodies all the time, out of the processor's caches; this one has 4 for each key, as a cache has",
		}}},
		{row: row{server: b.hit, counted: localHit(), Row: report.Row{Name: "hit, in-process tier", Base: nameBare}},
			goals: []report.Goal{{Base: nameBare, Ratio: 0.70}, {Base: nameVarnish, Ratio: 0.75}, {Base: nameNginxMap, Ratio: 1}}},
		{row: row{server: b.hit, counted: localHit(), Row: report.Row{Name: "304", Base: nameBare}, status: "304", bytes: limits{1, headerBytes}},
			goals:  []report.Goal{{Base: nameBare, Ratio: 0.58}},
			header: func(query string) map[string]string { return map[string]string{"If-None-Match": b.etags[query]} }},
		{row: row{server: b.hit, counted: localHit(), Row: report.Row{Name: "hit, gzip", Base: nameBare}, bytes: limits{1, 0.7 * b.meanBody()}},
			goals:  []report.Goal{{Base: nameBare, Ratio: 0.70}},
			header: func(string) map[string]string { return map[string]string{"Accept-Encoding": "gzip"} }},
	} {
		h.row.Group, h.row.Goals = groupHits, h.goals
		if err := b.add(h.row, measure.Wrk, measure.Plan{URL: h.row.server.url(), Requests: requests(h.header)}); err != nil {
			return err
		}
	}
	return nil
}

// addRedisHit adds a node that finds in Redis what another node has put there.
// Its own tier holds next to nothing of the lists.
func (b *bench) addRedisHit(ctx context.Context) error {
	first, err := b.startNode(ctx, node{Name: "redis-first", Records: hitRecords, Redis: b.redis.Addr})
	if err != nil {
		return err
	}
	if err := b.warm(ctx, first.url()); err != nil {
		return err
	}
	if err := first.Stop(); err != nil { // waits for its last writes to Redis
		return err
	}
	second, err := b.startNode(ctx, node{Name: "redis-second", Records: hitRecords, Redis: b.redis.Addr, Small: true})
	if err != nil {
		return err
	}
	return b.add(row{server: second, helper: b.redis, counted: redisHit(), Row: report.Row{
		Name: "hit, Redis tier", Group: groupHits, Base: nameBare, Goals: []report.Goal{{Base: nameBare, Ratio: 2.2}}, Helper: "Redis",
		Note: "a second node with the smallest in-process tier (1 MiB) reads what another node has filled; at least 93 % of its hits come from Redis. The rate limit of an account that asks seldom takes its tokens from Redis one by one",
	}}, measure.Wrk, measure.Plan{URL: second.url()})
}

// addProtocols adds the other ways to speak HTTP.
func (b *bench) addProtocols(ctx context.Context) error {
	secure, err := b.startNode(ctx, node{Name: "tls", Records: hitRecords, TLS: true})
	if err != nil {
		return err
	}
	secureURL := "https://" + secure.Addr
	if err := b.warm(ctx, secureURL); err != nil {
		return err
	}
	fields, err := b.startBare(ctx, "bare-fields", "-bodies", b.path("bodies.json"), "-fields")
	if err != nil {
		return err
	}
	for _, p := range []struct {
		group, short, note string
		generator          func(measure.Plan) (measure.Generator, error)
		bareURL, url       string
		gateway            *server
		goal               float64
	}{
		{groupTLS, "TLS", "", measure.Wrk, b.bareTLS, secureURL, secure, 0.75},
		{groupH2C, "h2c", oneClientKey, measure.H2load, b.bare.url(), b.hit.url(), b.hit, 1.2},
		{groupH2, "h2", oneClientKey, measure.H2load, b.bareTLS, secureURL, secure, 1.2},
	} {
		base := nameBare + ", " + p.short
		if err := b.add(row{server: b.bare, Row: report.Row{Name: base, Group: p.group}}, p.generator, measure.Plan{URL: p.bareURL}); err != nil {
			return err
		}
		if err := b.add(row{server: p.gateway, counted: localHit(), Row: report.Row{
			Name: "hit, " + p.short, Group: p.group, Base: base, Note: p.note, Goals: []report.Goal{{Base: base, Ratio: p.goal}},
		}}, p.generator, measure.Plan{URL: p.url}); err != nil {
			return err
		}
	}
	return b.add(row{server: fields, Row: report.Row{
		Name: nameBare + " with the gateway's fields, h2c", Group: groupH2C, Base: nameBare + ", h2c",
		Note: "what net/http alone takes for twelve fields, of which an id and the rest of a rate change with each answer",
	}}, measure.H2load, measure.Plan{URL: fields.url()})
}

// addMisses adds requests that all ask the legacy system. Nothing is kept, but
// all else is done as ever: mapping, rendering, compressing. Beside them stands
// a proxy that passes the same replies on.
func (b *bench) addMisses(ctx context.Context) error {
	proxy, err := b.startBare(ctx, "proxy", "-proxy", b.legacyURL)
	if err != nil {
		return err
	}
	for _, m := range []struct {
		records int
		goal    float64
		gzip    bool
	}{{20, 2, true}, {200, 0, false}, {1000, 5, true}, {5000, 0, false}} {
		size, err := b.legacyReply(ctx, m.records)
		if err != nil {
			return err
		}
		plan := measure.Plan{URL: proxy.url(), Connections: missConnections(m.records)}
		for _, f := range filters() {
			plan.Requests = append(plan.Requests, measure.Request{Path: legacyTarget(m.records, f)})
		}
		base := fmt.Sprintf("httputil.ReverseProxy, %d records", m.records)
		r := row{server: proxy, bytes: limits{0.9 * size, 1.1*size + headerBytes}, Row: report.Row{Name: base, Group: groupMisses}}
		r.Note = fmt.Sprintf("%d connections; the legacy's reply has %s", plan.Connections, report.Bytes(size))
		if err := b.add(r, measure.Wrk, plan); err != nil {
			return err
		}
		r = row{counted: miss(), bytes: limits{100, size}, records: m.records}
		r.Row = report.Row{Name: fmt.Sprintf("%d records", m.records), Group: groupMisses, Base: base}
		if m.goal > 0 {
			r.Goals = []report.Goal{{Base: base, Ratio: m.goal}}
		}
		if err := b.addMiss(ctx, r, ""); err != nil {
			return err
		}
		if !m.gzip {
			continue
		}
		r.Name, r.Goals = r.Name+", the caller takes gzip", nil
		if err := b.addMiss(ctx, r, "gzip"); err != nil {
			return err
		}
	}
	return nil
}

// addMiss adds a node of its own to a row of misses: what one row allocates must
// not be another's garbage.
func (b *bench) addMiss(ctx context.Context, r row, coding string) (err error) {
	if r.server, err = b.startNode(ctx, node{Name: fmt.Sprintf("miss-%d%s", r.records, coding), Records: r.records, Uncached: true}); err != nil {
		return err
	}
	plan := measure.Plan{URL: r.server.url(), Connections: missConnections(r.records)}
	if coding != "" {
		plan.Requests = requests(func(string) map[string]string { return map[string]string{"Accept-Encoding": coding} })
		r.records = 0
	}
	return b.add(r, measure.Wrk, plan)
}

// legacyReply is the mean size of the legacy's lists of so many records. A list
// that is shorter is an error.
func (b *bench) legacyReply(ctx context.Context, records int) (float64, error) {
	sum := 0
	for _, f := range filters() {
		_, body, err := b.get(ctx, b.legacyURL+legacyTarget(records, f), "", "identity")
		if err != nil {
			return 0, err
		}
		if !bytes.Contains(body, fmt.Appendf(nil, `"total":%d,`, records)) {
			return 0, fmt.Errorf("the legacy has no %d records for %q", records, f.query)
		}
		sum += len(body)
	}
	return float64(sum) / float64(len(filters())), nil
}
