package ttllab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/zeebo/xxh3"
)

func logKinds() []Kind {
	p := Policy{TTL: time.Minute, StaleWhileRevalidate: 30 * time.Second, StaleIfError: time.Hour}
	return []Kind{{Name: "buyer", Policy: p}, {Name: "seller", Policy: p}}
}

// line is a record as the gateway writes it, other fields included.
func line(at time.Time, kind, key, outcome string, age float64, etag string) string {
	return fmt.Sprintf(`{"time":%q,"level":"INFO","msg":"request","status":200,"kind":%q,"key":%q,"cache":%q,"tier":"local","age_seconds":%g,"list_seconds":0,"etag":%q,"bytes":512}`+"\n",
		at.Format(time.RFC3339Nano), kind, key, outcome, age, etag)
}

// A log tells the same as having been there.
func TestALogGivesTheLiveReport(t *testing.T) {
	p := logKinds()[0].Policy
	live := newNode(t, p, defaultLists, Config{}, nil)
	live.bodies = func(_ uint64, at time.Duration) uint64 { return uint64(at / (20 * time.Minute)) }
	var log strings.Builder
	trace := skewed(3, 300, 5000, time.Second)
	for i := range trace {
		trace[i].at = trace[i].at.Truncate(time.Microsecond)
	}
	second := time.Duration(0)
	for i, ev := range trace {
		for ; second <= ev.at; second += time.Second {
			steps(second, live)
		}
		key := fmt.Sprintf("%x", ev.key)
		hash := xxh3.HashString(key)
		_, held := live.filled[hash]
		age, outcome := live.ask(hash, ev.at), "hit"
		if !held || live.filled[hash] == ev.at && age == 0 {
			outcome = "miss"
		}
		log.WriteString(line(at(ev.at), "buyer", key, outcome, age.Seconds(), fmt.Sprintf(`W/"%d"`, live.bodies(0, ev.at-age))))
		if i%100 == 0 {
			log.WriteString(`{"time":"2026-05-04T00:00:00Z","msg":"something else"}` + "\n")
		}
	}
	got, err := FromLog(strings.NewReader(log.String()), logKinds(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (LogSummary{Lines: 5050, Lookups: 5000, Skipped: 50, FirstBad: []BadLine{}}); !reflect.DeepEqual(*got.Log, want) {
		t.Errorf("%+v, want %+v", *got.Log, want)
	}
	g, w := got.Kinds[0], live.Report().Kinds[0]
	if len(g.Candidates) != candidateCount || g.Changes.Changes == 0 || g.FillsPerSecond == 0 || !near(g.LookupsPerSecond, w.LookupsPerSecond) {
		t.Fatalf("%+v\nwant\n%+v", g, w)
	}
	for c := range g.Candidates {
		if !near(g.Candidates[c].HitRatio.Value, w.Candidates[c].HitRatio.Value) || !near(g.Candidates[c].Upstream.Value, w.Candidates[c].Upstream.Value) {
			t.Errorf("%+v\nwant\n%+v", g.Candidates[c], w.Candidates[c])
		}
	}
}

func TestLinesThatCannotBeUsed(t *testing.T) {
	good := line(start, "buyer", "a", "hit", 1, "x")
	change := func(old, with string) string { return strings.Replace(good, old, with, 1) }
	tests := []struct{ name, line, want string }{
		{"no JSON", "hello\n", "no JSON: invalid character 'h' looking for beginning of value at byte 1"},
		{"empty line", "\n", "no JSON: unexpected end of JSON input at byte 1"},
		{"cut off", good[:40], `no JSON: invalid character '\n' in string literal at byte 41`},
		{"no object", "[1]\n", "no JSON object, or no RFC 3339 time"},
		{"wrong type", change(`"age_seconds":1`, `"age_seconds":"1"`), `"age_seconds" must not be of type string`},
		{"no such time", change("2026-05-04T00", "2026-05-04 00"), "no JSON object, or no RFC 3339 time"},
		{"no time", change(`"time"`, `"tme"`), `"time" is missing or not between 1990 and 2200`},
		{"far future", change("2026-", "9999-"), `"time" is missing or not between 1990 and 2200`},
		{"kind", change("buyer", "admin"), `"kind" is not one of the configured kinds`},
		{"outcome", change(`"cache"`, `"cash"`), `"cache" is missing`},
		{"age", change(`"age_seconds":1`, `"age_seconds":-1`), `"age_seconds" must be between 0 and 30 days`},
		{"wait", change(`"list_seconds":0`, `"list_seconds":1e9`), `"list_seconds" must be between 0 and 1 hour`},
		{"bytes", change(`"bytes":512`, `"bytes":-1`), `"bytes" is negative`},
		{"key", change(`"key":"a"`, `"key":"`+strings.Repeat("k", 257)+`"`), `"key" is longer than 256 bytes`},
		{"long", change(`"msg":"`, `"msg":"`+strings.Repeat("m", 200<<10)), "longer than 64 KiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := good + strings.TrimSuffix(tt.line, "\n") + "\n" + good
			r, err := FromLog(strings.NewReader(log), logKinds(), Config{})
			if err != nil {
				t.Fatal(err)
			}
			if want := (LogSummary{Lines: 3, Lookups: 2, Bad: 1, FirstBad: []BadLine{{2, tt.want}}}); !reflect.DeepEqual(*r.Log, want) {
				t.Errorf("%+v\nwant\n%+v", *r.Log, want)
			}
		})
	}
}

func TestLateLinesAreLeftOut(t *testing.T) {
	log := line(at(time.Hour), "buyer", "a", "hit", 0, "") + line(at(time.Hour-4*time.Second), "buyer", "a", "hit", 0, "") +
		line(start, "buyer", "a", "hit", 0, "")
	r, err := FromLog(strings.NewReader(log), logKinds(), Config{})
	if err != nil || r.Log.Late != 1 || r.Log.Lookups != 2 || !r.To.Equal(at(time.Hour)) {
		t.Errorf("%+v, to %s, %v", r.Log, r.To, err)
	}
}

func TestALogThatCannotBeRead(t *testing.T) {
	broken := errors.New("disk")
	r, err := FromLog(io.MultiReader(strings.NewReader(line(start, "buyer", "a", "hit", 0, "")), iotest.ErrReader(broken)), logKinds(), Config{})
	if !errors.Is(err, broken) || r.Log.Lookups != 1 {
		t.Errorf("%v, %+v", err, r.Log)
	}
	if r, err := FromLog(strings.NewReader(""), logKinds(), Config{}); err != nil || r.Log.Lines != 0 {
		t.Errorf("an empty log: %v, %+v", err, r.Log)
	}
}

// endless makes lines without holding them.
type endless struct {
	n, left int
	rest    []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		if e.left == 0 {
			return 0, io.EOF
		}
		e.left--
		e.n++
		e.rest = []byte(line(at(time.Duration(e.n)*time.Millisecond), "buyer", fmt.Sprint(e.n), "miss", 0, fmt.Sprint(e.n)))
		if e.left == 1000 {
			e.rest = bytes.Repeat([]byte{'x'}, 8<<20) // and one line of 8 MiB
			e.rest = append(e.rest, '\n')
		}
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

func TestALogIsReadInBoundedMemory(t *testing.T) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := FromLog(&endless{left: 12_000}, logKinds(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if r.Log.Lookups != 11_999 || r.Log.Bad != 1 {
		t.Errorf("%+v", r.Log)
	}
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 1<<20 {
		t.Errorf("%d bytes are kept after the report", kept)
	}
	if n := r.Kinds[0].WatchedKeys; n > defaultLists {
		t.Errorf("%d keys watched", n)
	}
}

func FuzzFromLog(f *testing.F) {
	f.Add([]byte(line(start, "buyer", "a", "miss", 0, "x") + line(at(time.Minute), "buyer", "a", "hit", 60, "y")))
	f.Add([]byte(line(start, "seller", "a", "hit", 1e6, "") + "\n{}\n[]\nnull\n{\"key\":\"a\"}"))
	f.Add([]byte(`{"time":"2026-05-04T00:00:00Z","kind":"buyer","key":"k","cache":"miss","list_seconds":3600,"age_seconds":2592000,"etag":"e","bytes":9223372036854775807}`))
	f.Add([]byte("\xff\xfe\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := FromLog(bytes.NewReader(data), logKinds(), Config{})
		if err != nil {
			t.Fatal(err)
		}
		l := r.Log
		if l.Lines != l.Lookups+l.Skipped+l.Late+l.Bad || len(l.FirstBad) != min(l.Bad, maxBadLines) {
			t.Fatalf("the lines do not add up: %+v", l)
		}
		if err := r.WriteTable(io.Discard); err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err) // a figure that is no number
		}
		for _, k := range r.Kinds {
			for _, c := range k.Candidates {
				if c.HitRatio.Value < 0 || c.HitRatio.Value > 1 || c.MeanAge.Value < 0 || c.Outdated != nil && (c.Outdated.Value < 0 || c.Outdated.Value > 1) {
					t.Fatalf("%+v", c)
				}
			}
		}
	})
}
