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

// reply is a 200 with at most 64 MiB of its body.
type reply struct {
	header http.Header
	body   []byte
}

// get asks for a URL. Any other status than 200 is an error. The coding is of
// Accept-Encoding: left to itself, net/http asks for gzip and unpacks it.
func (b *bench) get(ctx context.Context, url, key, coding string) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return reply{}, err
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	r.Header.Set("Accept-Encoding", coding)
	response, err := b.client.Do(r)
	if err != nil {
		return reply{}, err
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
	return reply{response.Header, body}, err
}

// errUnauthorized is part of the error for a 401.
var errUnauthorized = errors.New("the key is not known")

// refusesStrangers makes sure that a peer checks keys, as the gateway does.
func (b *bench) refusesStrangers(ctx context.Context, base string) {
	if _, err := b.get(ctx, base+target(""), "nobodys-key", "identity"); !errors.Is(err, errUnauthorized) {
		check(fmt.Errorf("%s does not answer 401 to a key that does not exist: %w", base, err))
	}
}

// sameBytes compares a server's answers with the gateway's.
func (b *bench) sameBytes(ctx context.Context, base string) {
	for query, want := range b.bodies {
		if got := must(b.get(ctx, base+target(query), b.keys[0], "identity")).body; !bytes.Equal(got, []byte(want)) {
			check(fmt.Errorf("%s%s answers with %d bytes, not the %d bytes of the gateway", base, target(query), len(got), len(want)))
		}
	}
}

// warm asks for every list of every key once. The lists of the i-th key are
// asked of bases[i mod len(bases)].
func (b *bench) warm(ctx context.Context, bases ...string) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(warmers)
	for i, key := range b.keys {
		group.Go(func() error {
			for _, f := range filters() {
				if _, err := b.get(ctx, bases[i%len(bases)]+target(f.query), key, "identity"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	check(group.Wait())
}

// counters reads what a Go server and a gateway count. A server without an ops
// address has none.
func (b *bench) counters(ctx context.Context, s *server, gateway bool) (h measure.Heap, series measure.Series) {
	if s.ops == "" {
		return h, nil
	}
	h = must(measure.ParseHeap(must(b.get(ctx, "http://"+s.ops+"/debug/pprof/heap?debug=1", "", "identity")).body, s.Started))
	if gateway {
		series = must(measure.ParseSeries(must(b.get(ctx, "http://"+s.ops+"/metrics", "", "identity")).body))
	}
	return h, series
}
