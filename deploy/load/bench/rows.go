package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

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

// wrkOf loads an address with all keys and filters. header gives each filter's
// further request headers; nil for none.
func (s *stand) wrkOf(name, url string, conns int, header func(query string) map[string]string) (func(context.Context, time.Duration) (measure.Load, error), error) {
	var requests []measure.Request
	for _, query := range filters() {
		r := measure.Request{Path: target(query)}
		if header != nil {
			r.Header = header(query)
		}
		requests = append(requests, r)
	}
	script := s.fixture.path(name + ".lua")
	err := os.WriteFile(script, []byte(measure.Script(s.fixture.keys, requests)), 0o600)
	return measure.Wrk{URL: url, Script: script, Connections: conns}.Run, err
}

func (s *stand) h2loadOf(name, url string) (func(context.Context, time.Duration) (measure.Load, error), error) {
	var urls strings.Builder
	for _, query := range filters() {
		fmt.Fprintf(&urls, "%s%s\n", url, target(query))
	}
	file := s.fixture.path(name + ".urls")
	err := os.WriteFile(file, []byte(urls.String()), 0o600)
	return measure.H2load{URLs: file, Key: s.fixture.keys[0], Log: s.fixture.path(name + ".h2log"), Connections: connections}.Run, err
}

func (s *stand) whole() [2]float64 {
	return [2]float64{0.97 * s.meanBody(), s.meanBody() + headerBytes}
}

// hitRows are the bare handler and the gateway's ways to answer without the
// legacy system, over HTTP/1.1.
func (s *stand) hitRows(ctx context.Context, hit *process) ([]*row, error) {
	etag := func(query string) map[string]string { return map[string]string{"If-None-Match": s.etags[query]} }
	gzip := func(string) map[string]string { return map[string]string{"Accept-Encoding": "gzip"} }
	bare := s.bareRow("bare net/http", groupHits, s.bare)
	copies := s.bareRow("bare net/http, a body per list", groupHits, s.bareCopies)
	copies.Base, copies.Note = bare.Name, "the first row writes the same four bodies all the time, out of the processor's caches; this one has 4 for each key, as a cache has"
	rows := []*row{bare, copies}
	var err error
	for _, r := range rows {
		if r.load, err = s.wrkOf(r.servers[0].name, "http://"+r.servers[0].addr, connections, nil); err != nil {
			return nil, err
		}
		if err := s.sameBytes(ctx, "http://"+r.servers[0].addr); err != nil {
			return nil, err
		}
	}
	for i, h := range []struct {
		name, status string
		goal         float64
		header       func(string) map[string]string
		bytes        [2]float64
	}{
		{"hit, in-process tier", "200", 1, nil, s.whole()},
		{"304", "304", 0.85, etag, [2]float64{1, headerBytes}},
		{"hit, gzip", "200", 0.85, gzip, [2]float64{1, 0.7 * s.meanBody()}},
	} {
		r := &row{Row: report.Row{Name: h.name, Goal: report.Goal{Ratio: h.goal}}, bytes: h.bytes, check: expect(h.status, localHits())}
		s.gatewayRow(r, hit, groupHits, bare.Name)
		if r.load, err = s.wrkOf(fmt.Sprintf("hit%d", i), "http://"+hit.addr, connections, h.header); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, s.warm(ctx, "http://"+hit.addr)
}

func (s *stand) bareRow(name, group string, p *process) *row {
	return &row{Row: report.Row{Name: name, Group: group}, servers: []*process{p}, golang: p, bytes: s.whole()}
}

func (s *stand) gatewayRow(r *row, p *process, group, base string) {
	r.Group, r.Base, r.Own = group, base, true
	r.servers, r.golang, r.gateway = []*process{p}, p, p
}

// redisRow is a node that finds in Redis what another node has put there: its
// own tier is the smallest that the configuration allows and holds next to
// nothing of the lists.
func (s *stand) redisRow(ctx context.Context, base string) (*row, error) {
	first, err := s.startNode(ctx, node{name: "redis-first", records: hitRecords, redis: s.redis.addr, backend: s.backend.addr})
	if err != nil {
		return nil, err
	}
	if err := s.warm(ctx, "http://"+first.addr); err != nil {
		return nil, err
	}
	if err := first.stop(); err != nil { // waits for its last writes to Redis
		return nil, err
	}
	second, err := s.startNode(ctx, node{name: "redis-second", records: hitRecords, redis: s.redis.addr, backend: s.backend.addr, local: "1MiB"})
	if err != nil {
		return nil, err
	}
	r := &row{Row: report.Row{
		Name: "hit, Redis tier", Helper: "Redis",
		Note: "a second node with the smallest in-process tier (1 MiB) reads what another node has filled; at least 93 % of its hits come from Redis",
	}, bytes: s.whole(), helpers: []*process{s.redis}, check: expect("200", redisHits())}
	s.gatewayRow(r, second, groupHits, base)
	r.load, err = s.wrkOf("redis", "http://"+second.addr, connections, nil)
	return r, err
}

// protocolRows compare the other ways to speak HTTP.
func (s *stand) protocolRows(ctx context.Context, hit *process) ([]*row, error) {
	secure, err := s.startNode(ctx, node{name: "tls", records: hitRecords, tls: true, backend: s.backend.addr})
	if err != nil {
		return nil, err
	}
	if err := s.warm(ctx, "https://"+secure.addr); err != nil {
		return nil, err
	}
	var rows []*row
	for _, p := range []struct {
		group, short, note, bare string
		gateway                  *process
		url                      string
	}{
		{groupTLS, "TLS", "", "https://" + s.bareTLS, secure, "https://" + secure.addr},
		{groupH2C, "h2c", oneClientKey, "http://" + s.bare.addr, hit, "http://" + hit.addr},
		{groupH2, "h2", oneClientKey, "https://" + s.bareTLS, secure, "https://" + secure.addr},
	} {
		bare := s.bareRow("bare net/http, "+p.short, p.group, s.bare)
		ours := &row{Row: report.Row{Name: "hit, " + p.short, Note: p.note, Goal: report.Goal{Ratio: 1}}, bytes: s.whole(), check: expect("200", localHits())}
		s.gatewayRow(ours, p.gateway, p.group, bare.Name)
		load := s.h2loadOf
		if p.group == groupTLS {
			load = func(name, url string) (func(context.Context, time.Duration) (measure.Load, error), error) {
				return s.wrkOf(name, url, connections, nil)
			}
		}
		if bare.load, err = load("bare-"+p.short, p.bare); err != nil {
			return nil, err
		}
		if ours.load, err = load("hit-"+p.short, p.url); err != nil {
			return nil, err
		}
		rows = append(rows, bare, ours)
	}
	return rows, nil
}

// missRows ask the legacy system for every request. Nothing is kept, but all
// else is done as ever: mapping, rendering, compressing.
func (s *stand) missRows(ctx context.Context) ([]*row, error) {
	var rows []*row
	for _, m := range []struct {
		records int
		coding  string
		goal    float64
	}{{20, "", 170}, {200, "", 0}, {1000, "", 1800}, {5000, "", 0}, {20, "gzip", 0}, {1000, "gzip", 0}} {
		n := node{name: fmt.Sprintf("miss-%d%s", m.records, m.coding), records: m.records, uncached: true, backend: s.backend.addr}
		name := fmt.Sprintf("%s records", report.Count(m.records))
		counted := m.records
		var header func(query string) map[string]string
		if m.coding != "" {
			counted, name = 0, name+", the caller takes "+m.coding
			header = func(string) map[string]string { return map[string]string{"Accept-Encoding": m.coding} }
		}
		p, err := s.startNode(ctx, n)
		if err != nil {
			return nil, err
		}
		r := &row{Row: report.Row{Name: name, Goal: report.Goal{CPU: m.goal}}, records: counted, bytes: [2]float64{100, 64 << 20}, check: expect("200", misses())}
		if r.Note, err = s.replySize(ctx, m.records); err != nil {
			return nil, err
		}
		s.gatewayRow(r, p, groupMisses, "")
		if r.load, err = s.wrkOf(n.name, "http://"+p.addr, missConnections(m.records), header); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func (s *stand) replySize(ctx context.Context, records int) (string, error) {
	_, body, err := s.get(ctx, fmt.Sprintf("http://%s/r%d/v2/tickets?customer=%s", s.backend.addr, records, account(0)), "")
	return fmt.Sprintf("%d connections; the legacy's reply has %s", missConnections(records), report.Bytes(float64(len(body)))), err
}
