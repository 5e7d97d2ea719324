package main

import (
	"bytes"
	"cmp"
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

// add completes rows of a group.
func (b *bench) add(group string, rows ...row) {
	for _, r := range rows {
		r.Group = group
		r.plan.Keys, r.plan.Files = b.keys, b.path(fmt.Sprintf("row-%d", len(b.rows)))
		r.plan.Connections = cmp.Or(r.plan.Connections, connections)
		// A hit has the mean size of the bodies, with its header; a draw of a second
		// differs by less than three in a hundred.
		r.bytes = cmp.Or(r.bytes, limits{0.97 * b.meanBody(), b.meanBody() + headerBytes})
		if r.plan.Requests == nil {
			r.plan.Requests = requests(nil)
		}
		if r.generator == nil {
			r.generator = measure.Wrk
		}
		if r.server != nil {
			r.plan.URL = cmp.Or(r.plan.URL, r.server.url)
		}
		b.rows = append(b.rows, &r)
	}
}

// acceptGzip asks for a packed list, whatever the query is.
func acceptGzip(string) map[string]string { return map[string]string{"Accept-Encoding": "gzip"} }

// addHits adds the bare handler and the gateway's ways to answer without the
// legacy system.
func (b *bench) addHits(ctx context.Context) {
	copies := b.startBare(ctx, "bare-copies", "-bodies", b.path("bodies.json"), "-keys", b.path("accounts.json"))
	b.sameBytes(ctx, b.bare.url)
	b.sameBytes(ctx, copies.url)
	b.warm(ctx, b.hit.url)
	ifNoneMatch := func(query string) map[string]string { return map[string]string{"If-None-Match": b.etags[query]} }
	b.add(groupHits,
		row{server: b.bare, Row: report.Row{Name: nameBare}},
		row{server: copies, Row: report.Row{
			Name: "bare net/http, a body per list", Base: nameBare,
			Note: "the first row writes the same four bodies all the time, out of the processor's caches; this one has 4 for each key, as a cache has",
		}},
		row{server: b.hit, counted: localHit(), Row: report.Row{
			Name: "hit, in-process tier", Base: nameBare,
			Goals: []report.Goal{{Base: nameBare, Ratio: 0.70}, {Base: nameVarnish, Ratio: 0.75}, {Base: nameNginxMap, Ratio: 1}},
		}},
		row{server: b.hit, counted: localHit(), status: "304", bytes: limits{1, headerBytes}, plan: measure.Plan{Requests: requests(ifNoneMatch)},
			Row: report.Row{Name: "304", Base: nameBare, Goals: []report.Goal{{Base: nameBare, Ratio: 0.58}}}},
		row{server: b.hit, counted: localHit(), bytes: limits{1, 0.7 * b.meanBody()}, plan: measure.Plan{Requests: requests(acceptGzip)},
			Row: report.Row{Name: "hit, gzip", Base: nameBare, Goals: []report.Goal{{Base: nameBare, Ratio: 0.70}}}},
	)
}

// addRedisHit adds a node that finds in Redis what another node has put there.
// Its own tier holds next to nothing of the lists.
func (b *bench) addRedisHit(ctx context.Context) {
	first := b.startNode(ctx, node{Name: "redis-first", Records: hitRecords, Redis: b.redis.Addr})
	b.warm(ctx, first.url)
	check(first.Stop()) // waits for its last writes to Redis
	second := b.startNode(ctx, node{Name: "redis-second", Records: hitRecords, Redis: b.redis.Addr, Small: true})
	b.add(groupHits, row{server: second, helper: b.redis, counted: redisHit(), Row: report.Row{
		Name: "hit, Redis tier", Base: nameBare, Goals: []report.Goal{{Base: nameBare, Ratio: 2.2}}, Helper: "Redis",
		Note: "a second node with the smallest in-process tier (1 MiB) reads what another node has filled; at least 93 % of its hits come from Redis. " +
			"The rate limit of an account that asks seldom takes its tokens from Redis one by one",
	}})
}

// addProtocols adds the other ways to speak HTTP.
func (b *bench) addProtocols(ctx context.Context) {
	secure := b.startNode(ctx, node{Name: "tls", Records: hitRecords, TLS: true})
	b.warm(ctx, secure.url)
	for _, p := range []struct {
		group, short, note string
		generator          func(measure.Plan) (measure.Generator, error)
		bareURL            string
		gateway            *server
		goal               float64
	}{
		{groupTLS, "TLS", "", measure.Wrk, b.bareTLS, secure, 0.75},
		{groupH2C, "h2c", oneClientKey, measure.H2load, b.bare.url, b.hit, 1.2},
		{groupH2, "h2", oneClientKey, measure.H2load, b.bareTLS, secure, 1.2},
	} {
		base := nameBare + ", " + p.short
		b.add(p.group,
			row{server: b.bare, generator: p.generator, plan: measure.Plan{URL: p.bareURL}, Row: report.Row{Name: base}},
			row{server: p.gateway, generator: p.generator, counted: localHit(), Row: report.Row{
				Name: "hit, " + p.short, Base: base, Note: p.note, Goals: []report.Goal{{Base: base, Ratio: p.goal}},
			}})
	}
	fields := b.startBare(ctx, "bare-fields", "-bodies", b.path("bodies.json"), "-fields")
	b.add(groupH2C, row{server: fields, generator: measure.H2load, Row: report.Row{
		Name: nameBare + " with the gateway's fields, h2c", Base: nameBare + ", h2c",
		Note: "what net/http alone takes for twelve fields, of which an id and the rest of a rate change with each answer",
	}})
}

// addMisses adds requests that all ask the legacy system. Nothing is kept, but
// all else is done as ever: mapping, rendering, compressing. Beside them stands
// a proxy that passes the same replies on. Each row of the gateway has a node of its
// own: what one allocates must not be another's garbage.
func (b *bench) addMisses(ctx context.Context) {
	proxy := b.startBare(ctx, "proxy", "-proxy", b.legacyServer.URL)
	for _, m := range []struct {
		records int
		goal    float64 // 0: none
		codings []string
	}{{20, 2, []string{"", "gzip"}}, {200, 0, []string{""}}, {1000, 5, []string{"", "gzip"}}, {5000, 0, []string{""}}} {
		size := b.legacyReply(ctx, m.records)
		plan := measure.Plan{Connections: missConnections(m.records)}
		base := row{server: proxy, plan: plan, bytes: limits{0.9 * size, 1.1*size + headerBytes}, Row: report.Row{
			Name: fmt.Sprintf("httputil.ReverseProxy, %d records", m.records),
			Note: fmt.Sprintf("%d connections; the legacy's reply has %s", plan.Connections, report.Bytes(size)),
		}}
		for _, f := range filters() {
			base.plan.Requests = append(base.plan.Requests, measure.Request{Path: legacyTarget(m.records, f)})
		}
		b.add(groupMisses, base)
		for _, coding := range m.codings {
			s := b.startNode(ctx, node{Name: fmt.Sprintf("miss-%d%s", m.records, coding), Records: m.records, Uncached: true})
			r := row{server: s, counted: miss(), plan: plan, bytes: limits{100, size}, Row: report.Row{Name: fmt.Sprintf("%d records", m.records), Base: base.Name}}
			if coding == "gzip" {
				r.Name, r.plan.Requests = r.Name+", the caller takes gzip", requests(acceptGzip)
			} else if r.records = m.records; m.goal > 0 {
				r.Goals = []report.Goal{{Base: base.Name, Ratio: m.goal}}
			}
			b.add(groupMisses, r)
		}
	}
}

// legacyReply is the mean size of the legacy's lists of so many records. A list
// that is shorter is an error.
func (b *bench) legacyReply(ctx context.Context, records int) float64 {
	sum := 0
	for _, f := range filters() {
		body := must(b.get(ctx, b.legacyServer.URL+legacyTarget(records, f), "", "identity")).body
		if !bytes.Contains(body, fmt.Appendf(nil, `"total":%d,`, records)) {
			check(fmt.Errorf("the legacy has no %d records for %q", records, f.query))
		}
		sum += len(body)
	}
	return float64(sum) / float64(len(filters()))
}
