package gateway

import (
	"slices"
	"testing"

	"inquiry-gateway/cache"
)

// codedLists has lists in some codings, each with its name for a body.
type codedLists struct {
	warm
	has []cache.Coding
}

func (l codedLists) Coded(_ *cache.Entry, c cache.Coding) *cache.Variant {
	if !slices.Contains(l.has, c) {
		return nil
	}
	return &cache.Variant{Body: []byte(map[cache.Coding]string{cache.Gzip: "gzip", cache.Zstd: "zstd"}[c])}
}

func TestChooseVariant(t *testing.T) {
	both, gzipOnly, none := []cache.Coding{cache.Gzip, cache.Zstd}, []cache.Coding{cache.Gzip}, []cache.Coding(nil)
	entry := &cache.Entry{Identity: cache.Variant{Body: []byte("identity")}}
	for _, tc := range []struct {
		accept string
		has    []cache.Coding
		want   string
	}{
		{"", both, "identity"},
		{"gzip", both, "gzip"},
		{"x-gzip", both, "gzip"},
		{"GZIP", both, "gzip"},
		{"zstd", both, "zstd"},
		{"gzip, deflate, br, zstd", both, "zstd"},
		{"gzip;q=0.9, zstd;q=0.8", both, "gzip"},
		{"gzip;q=0.8,zstd;q=0.9", both, "zstd"},
		{"gzip, zstd", gzipOnly, "gzip"},
		{"gzip;q=0.8, zstd;q=0.9", gzipOnly, "gzip"},
		{"zstd", gzipOnly, "identity"},
		{"zstd;q=0, *", both, "gzip"},
		{"*", both, "gzip"},
		{"gzip, *", both, "gzip"},
		{"zstd, *", both, "zstd"},
		{"*;q=0.5, zstd;q=0.4", both, "gzip"},
		{"identity, gzip;q=0.5", both, "identity"},
		{"identity;q=0.5, gzip;q=0.4, zstd;q=0.6", both, "zstd"},
		{"identity;q=0.5, zstd;q=0.6, gzip;q=0.4", gzipOnly, "identity"},
		{"gzip, identity", both, "gzip"},
		{"identity;q=0", none, "identity"},
		{"*;q=0", both, "identity"},
		{"gzip;q=0", both, "identity"},
		{"gzip;q=0.000", both, "identity"},
		{"gzip;q=x, zstd;q=2, br", both, "identity"},
		{"gzip;level=1", both, "identity"},
		{"identity", both, "identity"},
		{"gzip, zstd", none, "identity"},
	} {
		t.Run(tc.accept, func(t *testing.T) {
			variant, coding := New(Options{Lists: codedLists{has: tc.has}}).chooseVariant(entry, []string{tc.accept})
			if string(variant.Body) != tc.want {
				t.Fatalf("got %s, want %s", variant.Body, tc.want)
			}
			if (coding == nil) != (tc.want == "identity") || coding != nil && coding[0] != tc.want {
				t.Errorf("Content-Encoding is %v", coding)
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
		{[]string{`abc`}, false},
		{[]string{`"abc`}, false},
		{[]string{`"ABC"`}, false},
		{[]string{`w/"abc"`}, false},
		{[]string{`W"abc"`}, false},
		{[]string{`"x\"abc"`}, false},
		{[]string{`"x", *`}, false},
		{[]string{``}, false},
		{[]string{`,,,`}, false},
	} {
		if got := notModified(tc.lines, etag); got != tc.want {
			t.Errorf("%q: got %v, want %v", tc.lines, got, tc.want)
		}
	}
}
