package cache

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func TestACodingExistsOnlyWhereItIsSmaller(t *testing.T) {
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(spreadOf(aKey, int64(i)) * 256)
	}
	for _, tt := range []struct {
		name string
		body string
		want bool
	}{
		{"text", strings.Repeat("ab", 2000), true},
		{"under the minimum", strings.Repeat("ab", 500), false},
		{"noise", string(noise), false},
		{"empty", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := setup{fill: func(context.Context, Key) (Content, error) { return Content{Body: []byte(tt.body)}, nil }}.start(t)
			e := mustGet(t, l, aKey).Entry
			for c, decode := range map[Coding]func([]byte) ([]byte, error){Gzip: gunzip, Zstd: unzstd} {
				v := l.Coded(e, c)
				if (v != nil) != tt.want {
					t.Fatalf("coding %d exists: %t", c, v != nil)
				}
				if v == nil {
					continue
				}
				if got, err := decode(v.Body); err != nil || string(got) != tt.body {
					t.Errorf("coding %d gives %d bytes, %v", c, len(got), err)
				}
			}
		})
	}
}

func gunzip(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func unzstd(b []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(b, nil)
}

// Whoever asks gets the one that was made first, and the tier counts it.
func TestACodingIsMadeOnceAndWeighed(t *testing.T) {
	l := setup{fill: func(context.Context, Key) (Content, error) {
		return Content{Body: []byte(strings.Repeat("inquiry ", 10_000))}, nil
	}}.start(t)
	e := mustGet(t, l, aKey).Entry
	l.tier.CleanUp()
	before := l.tier.WeightedSize()
	var all sync.Map
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { all.Store(l.Coded(e, Gzip), true) })
	}
	wg.Wait()
	n := 0
	all.Range(func(any, any) bool { n++; return true })
	l.tier.CleanUp()
	grown := l.tier.WeightedSize() - before
	if size := len(l.Coded(e, Gzip).Body); n != 1 || grown != uint64(size) {
		t.Errorf("%d variants, the tier grew by %d bytes for one of %d", n, grown, size)
	}
	if r, ok := l.Lookup(aKey); !ok || r.Entry != e {
		t.Error("the entry is not the same any more")
	}
}
