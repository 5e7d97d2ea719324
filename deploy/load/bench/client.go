package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/deploy/load/measure"
)

// warmers are the connections that fill caches before a measurement.
const warmers = 16

// newClient keeps as many connections open as are used at once.
func newClient(connections int) *http.Client {
	return &http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			MaxIdleConnsPerHost: connections,
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // our own certificate of a minute ago
		},
	}
}

// get answers with status, header and at most 64 MiB of body.
func (s *stand) get(ctx context.Context, url, key string, header ...string) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	// net/http would ask for gzip and unpack it.
	r.Header.Set("Accept-Encoding", "identity")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := s.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	return response, body, err
}

// warm asks for every list of every key once; each must be a 200.
func (s *stand) warm(ctx context.Context, base string) error {
	group, ctx := errgroup.WithContext(ctx)
	for w := range warmers {
		group.Go(func() error {
			for i := w; i < len(s.fixture.keys); i += warmers {
				for _, query := range filters() {
					response, body, err := s.get(ctx, base+target(query), s.fixture.keys[i])
					if err != nil {
						return err
					}
					if response.StatusCode != http.StatusOK {
						return fmt.Errorf("%s%s answers %s: %.300s", base, target(query), response.Status, body)
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// series reads a gateway's /metrics.
func (s *stand) series(ctx context.Context, p *process) (measure.Series, error) {
	_, body, err := s.get(ctx, "http://"+p.ops+"/metrics", "")
	return measure.ParseSeries(body), err
}

// heap reads a Go process's memory statistics.
func (s *stand) heap(ctx context.Context, p *process) (measure.Heap, error) {
	_, body, err := s.get(ctx, "http://"+p.ops+"/debug/pprof/heap?debug=1", "")
	if err != nil {
		return measure.Heap{}, err
	}
	return measure.ParseHeap(body)
}

// served asks the backend how much it has served.
func (s *stand) served(ctx context.Context, backend string) (map[string]int64, error) {
	_, body, err := s.get(ctx, "http://"+backend+"/requests", "")
	if err != nil {
		return nil, err
	}
	var n map[string]int64
	return n, json.Unmarshal(body, &n)
}
