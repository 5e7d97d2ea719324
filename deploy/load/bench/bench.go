package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/deploy/load/report"
)

// bench is the whole run.
func (s *stand) bench(ctx context.Context, o options) error {
	o.progress("starting servers and filling caches")
	rows, err := s.rows(ctx, o)
	if err != nil {
		return err
	}
	if err := s.measureAll(ctx, rows, o); err != nil {
		return err
	}
	run := report.Run{
		Machine: report.ThisMachine(time.Now()), Quick: o.quick, Rounds: o.rounds, Seconds: o.duration.Seconds(),
		Keys: o.keys, Bytes: s.meanBody(),
	}
	for _, r := range rows {
		run.Rows = append(run.Rows, r.Row)
	}
	if o.growth {
		if run.Growth, err = s.growth(ctx, o); err != nil {
			return err
		}
		run.Growth = append([]report.Table{missTable(rows)}, run.Growth...)
	}
	return write(run, o)
}

// rows starts the servers and says what to measure of them.
func (s *stand) rows(ctx context.Context, o options) ([]*row, error) {
	hit, err := s.base(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.startRedis(ctx); err != nil {
		return nil, err
	}
	rows, err := s.hitRows(ctx, hit)
	if err != nil {
		return nil, err
	}
	bare := rows[0].Name
	redis, err := s.redisRow(ctx, bare)
	if err != nil {
		return nil, err
	}
	rows = append(rows, redis)
	if o.peers {
		peers, err := s.peerRows(ctx, bare)
		if err != nil {
			return nil, err
		}
		rows = append(rows, peers...)
	}
	protocols, err := s.protocolRows(ctx, hit)
	if err != nil {
		return nil, err
	}
	misses, err := s.missRows(ctx)
	return append(append(rows, protocols...), misses...), err
}

// base starts the backend, the gateway that hits are measured of, and the bare
// handler with that gateway's bytes.
func (s *stand) base(ctx context.Context) (*process, error) {
	if err := s.startBackend(ctx); err != nil {
		return nil, err
	}
	hit, err := s.startNode(ctx, node{name: "hit", records: hitRecords, backend: s.backend.addr})
	if err != nil {
		return nil, err
	}
	if err := s.learnBodies(ctx, hit.addr); err != nil {
		return nil, err
	}
	return hit, s.startBare(ctx)
}

// profile writes a CPU profile of one gateway under load.
func (s *stand) profile(ctx context.Context, o options) error {
	p, err := s.base(ctx)
	if err != nil {
		return err
	}
	conns := connections
	if o.records > 0 {
		conns = missConnections(o.records)
		p, err = s.startNode(ctx, node{name: "miss", records: o.records, uncached: true, backend: s.backend.addr})
	} else {
		err = s.warm(ctx, "http://"+p.addr)
	}
	if err != nil {
		return err
	}
	run, err := s.wrkOf("profile", "http://"+p.addr, conns, nil)
	if err != nil {
		return err
	}
	group, loaded := errgroup.WithContext(ctx)
	group.Go(func() error {
		load, err := run(loaded, o.duration+2*time.Second)
		return errors.Join(err, load.Check())
	})
	group.Go(func() error { return s.save(loaded, p, o) })
	return group.Wait()
}

func (s *stand) save(ctx context.Context, p *process, o options) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.ops, int(o.duration/time.Second))
	response, err := s.client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	var text bytes.Buffer
	if _, err := io.Copy(&text, io.LimitReader(response.Body, 64<<20)); err != nil {
		return err
	}
	return os.WriteFile(o.profile, text.Bytes(), 0o644)
}

// write leaves the page, its chart and the samples in the output folder.
func write(run report.Run, o options) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	files := map[string]func(io.Writer) error{
		"RESULTS.md":   func(w io.Writer) error { return report.Markdown(w, run, "chart.svg") },
		"results.json": func(w io.Writer) error { return report.JSON(w, run) },
		"chart.svg":    func(w io.Writer) error { return report.SVG(w, run) },
	}
	for name, fill := range files {
		var text bytes.Buffer
		if err := fill(&text); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(o.out, name), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	o.progress("written: %s", o.out)
	return nil
}
