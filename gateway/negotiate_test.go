package gateway

import (
	"strings"
	"testing"

	"inquiry-gateway/cache"
)

func TestChooseVariant(t *testing.T) {
	both := &cache.Entry{Identity: cache.Variant{Body: []byte("plain")}, Gzip: cache.Variant{Body: []byte("g")}, Zstd: cache.Variant{Body: []byte("z")}}
	gzipOnly := &cache.Entry{Identity: cache.Variant{Body: []byte("plain")}, Gzip: cache.Variant{Body: []byte("g")}}
	none := &cache.Entry{Identity: cache.Variant{Body: []byte("plain")}}
	for _, tc := range []struct {
		accept string
		entry  *cache.Entry
		want   coding
	}{
		{"", both, identity},
		{"gzip", both, gzip},
		{"x-gzip", both, gzip},
		{"GZIP", both, gzip},
		{"zstd", both, zstd},
		{"gzip, deflate, br, zstd", both, zstd},
		{"gzip;q=0.9, zstd;q=0.8", both, gzip},
		{"gzip;q=0.8,zstd;q=0.9", both, zstd},
		{"gzip, zstd", gzipOnly, gzip},
		{"zstd", gzipOnly, identity},
		{"zstd;q=0, *", both, gzip},
		{"*", both, zstd},
		{"*;q=0", both, identity},
		{"gzip;q=0", both, identity},
		{"gzip;q=0.000", both, identity},
		{"gzip;q=x, zstd;q=2, br", both, identity},
		{"gzip;level=1", both, identity},
		{"identity", both, identity},
		{"gzip, zstd", none, identity},
	} {
		t.Run(tc.accept, func(t *testing.T) {
			variant, got := chooseVariant(tc.entry, []string{tc.accept})
			if got != tc.want {
				t.Fatalf("got %d, want %d", got, tc.want)
			}
			bodies := map[coding]*cache.Variant{identity: &tc.entry.Identity, gzip: &tc.entry.Gzip, zstd: &tc.entry.Zstd}
			if variant != bodies[got] {
				t.Errorf("the body is not the one of coding %d", got)
			}
		})
	}
}

func TestNotModified(t *testing.T) {
	const etag = `W/"abc"`
	for _, tc := range []struct {
		lines []string
		want  bool
	}{
		{nil, false},
		{[]string{`W/"abc"`}, true},
		{[]string{`"abc"`}, true},
		{[]string{`*`}, true},
		{[]string{` * `}, true},
		{[]string{`"x", W/"abc"`}, true},
		{[]string{`"x,y" ,	"abc"`}, true},
		{[]string{`"x"`, `"abc"`}, true},
		{[]string{`"x,\"abc"`}, false},
		{[]string{`abc`}, false},
		{[]string{`"abc`}, false},
		{[]string{`"x" junk "abc"`}, false},
		{[]string{`w/"abc"`}, false},
		{[]string{`"ABC"`}, false},
		{[]string{`"x", *`}, false},
		{[]string{``}, false},
		{[]string{`,,,`}, false},
	} {
		if got := notModified(tc.lines, etag); got != tc.want {
			t.Errorf("%q: got %v, want %v", tc.lines, got, tc.want)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add(`W/"abc"`, "gzip;q=0.1, zstd")
	f.Add(`"a,b", *`, "*;q=")
	f.Fuzz(func(t *testing.T, ifNoneMatch, acceptEncoding string) {
		// A tag that is not in the header as a whole cannot match it.
		const tag = `"never-sent-by-anyone"`
		if notModified([]string{ifNoneMatch}, "W/"+tag) && strings.TrimSpace(ifNoneMatch) != "*" && !strings.Contains(ifNoneMatch, tag) {
			t.Fatalf("%q matched", ifNoneMatch)
		}
		gz, zs := acceptedCodings([]string{acceptEncoding})
		if gz < 0 || gz > 1000 || zs < 0 || zs > 1000 {
			t.Fatalf("%q: weights %d, %d", acceptEncoding, gz, zs)
		}
	})
}
