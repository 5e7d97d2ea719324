package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/deploy/load/report"
	"inquiry-gateway/upstream/legacy"
)

// lookups is how many timed calls make one figure.
const lookups = 200_000

// keysTable reads keys files of growing length with the gateway's own store.
func (s *stand) keysTable(ctx context.Context, o options) (report.Table, error) {
	t := report.Table{
		Title:  "Growth: keys in the keys file",
		Header: []string{"keys", "file", "read in", "memory", "memory per key", "authenticating one request"},
	}
	sizes := []int{1000, 10_000, 100_000}
	if o.quick {
		sizes = sizes[:2]
	}
	var x, bytes []float64
	for _, n := range sizes {
		if err := ctx.Err(); err != nil {
			return t, err
		}
		k, err := s.readKeys(n)
		if err != nil {
			return t, err
		}
		t.Rows = append(t.Rows, k.cells())
		if k.refused == "" {
			x, bytes = append(x, float64(n)), append(bytes, k.heap)
		}
	}
	t.Text = fmt.Sprintf("Every key has an account of its own; keys are asked for at random, on one core. Slope: %s per key.",
		report.Bytes(report.Slope(x, bytes)))
	return t, nil
}

// keysCost is what a keys file of one length costs.
type keysCost struct {
	keys            int
	file, heap      float64
	read            time.Duration
	nanosPerRequest float64
	refused         string
}

func (k keysCost) cells() []string {
	if k.refused != "" {
		return []string{report.Count(k.keys), report.Bytes(k.file), k.refused, "", "", ""}
	}
	return []string{
		report.Count(k.keys), report.Bytes(k.file), k.read.Round(time.Millisecond).String(), report.Bytes(k.heap),
		report.Bytes(k.heap / float64(k.keys)), report.Number(k.nanosPerRequest) + " ns",
	}
}

func (s *stand) readKeys(n int) (keysCost, error) {
	keys := make([]string, n)
	for i := range keys {
		key, err := auth.Generate(legacy.KindBuyer)
		if err != nil {
			return keysCost{}, err
		}
		keys[i] = key
	}
	file := s.fixture.path("many-keys.yaml")
	text := keysFile(keys)
	cost := keysCost{keys: n, file: float64(len(text))}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return cost, err
	}
	if len(text) > auth.MaxKeysFile {
		if _, err := auth.NewFileStore(file, auth.Hasher{}, auth.Options{}); err == nil {
			return cost, fmt.Errorf("a keys file of %d bytes was taken", len(text))
		}
		cost.refused = "refused: at most " + report.Bytes(auth.MaxKeysFile) + "; more keys belong into Redis"
		return cost, nil
	}
	text = ""
	before, start := heapNow(), time.Now()
	store, err := auth.NewFileStore(file, auth.Hasher{}, auth.Options{})
	if err != nil {
		return cost, err
	}
	cost.read = time.Since(start)
	cost.heap = heapNow() - before
	cost.nanosPerRequest, err = authenticating(store, keys, lookups)
	runtime.KeepAlive(store)
	return cost, err
}

// authenticating times n whole decisions, in nanoseconds per request.
func authenticating(store auth.Store, keys []string, n int) (float64, error) {
	a, err := auth.NewAuthenticator(store, auth.Hasher{}, auth.Options{})
	if err != nil {
		return 0, err
	}
	headers := make([][]string, len(keys))
	for i, j := range rand.Perm(len(keys)) {
		headers[i] = []string{"Bearer " + keys[j]}
	}
	var failed error
	nanos := timePer(n, func(i int) {
		if _, err := a.Authenticate(context.Background(), headers[i%len(headers)]); err != nil {
			failed = err
		}
	})
	return nanos, failed
}
