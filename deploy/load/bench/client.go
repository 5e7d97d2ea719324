package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
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
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // the certificate is a minute old and our own
		},
	}
}

// get returns the header and at most 64 MiB of the body of a 200; any other
// status is an error. The coding is of Accept-Encoding.
func (b *bench) get(ctx context.Context, url, key, coding string) (http.Header, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	r.Header.Set("Accept-Encoding", coding) // left to itself, net/http asks for gzip and unpacks it
	response, err := b.client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	switch {
	case err != nil:
	case response.StatusCode == http.StatusUnauthorized:
		err = fmt.Errorf("%s: %w", url, errUnauthorized)
	case response.StatusCode != http.StatusOK:
		err = fmt.Errorf("%s answers %s: %.300s", url, response.Status, body)
	}
	return response.Header, body, err
}

// errUnauthorized is part of the error for a 401.
var errUnauthorized = errors.New("the key is not known")

// refusesStrangers makes sure that a peer checks keys, as the gateway does.
func (b *bench) refusesStrangers(ctx context.Context, base string) error {
	_, _, err := b.get(ctx, base+target(""), "nobodys-key", "identity")
	if errors.Is(err, errUnauthorized) {
		return nil
	}
	return fmt.Errorf("%s does not answer 401 to a key that does not exist: %w", base, err)
}

// sameBytes compares a server's answers with the gateway's.
func (b *bench) sameBytes(ctx context.Context, base string) error {
	for query, want := range b.bodies {
		_, body, err := b.get(ctx, base+target(query), b.keys[0], "identity")
		if err != nil {
			return err
		}
		if !bytes.Equal(body, []byte(want)) {
			return fmt.Errorf("%s%s answers with %d bytes, not the %d bytes of the gateway", base, target(query), len(body), len(want))
		}
	}
	return nil
}

// warm asks for every list of every key once. The lists of the i-th key are
// asked of bases[i mod len(bases)].
func (b *bench) warm(ctx context.Context, bases ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(warmers)
	for i, key := range b.keys {
		group.Go(func() error {
			for _, f := range filters() {
				if _, _, err := b.get(ctx, bases[i%len(bases)]+target(f.query), key, "identity"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// counters reads what a Go server and a gateway count. A server without an ops
// address has none.
func (b *bench) counters(ctx context.Context, s *server, gateway bool) (h measure.Heap, series measure.Series, err error) {
	if s.ops == "" {
		return h, nil, nil
	}
	_, text, err := b.get(ctx, "http://"+s.ops+"/debug/pprof/heap?debug=1", "", "identity")
	if err != nil {
		return h, nil, err
	}
	if h, err = measure.ParseHeap(text, s.Started); err != nil || !gateway {
		return h, nil, err
	}
	_, text, err = b.get(ctx, "http://"+s.ops+"/metrics", "", "identity")
	if err != nil {
		return h, nil, err
	}
	series, err = measure.ParseSeries(text)
	return h, series, err
}
