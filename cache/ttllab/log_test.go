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

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/testkit"
)

// line is a record as the gateway writes it, other fields included.
func line(at time.Time, kind, key, outcome string, age float64, etag string) string {
	return fmt.Sprintf(`{"time":%q,"level":"INFO","msg":"request","status":200,"kind":%q,"key":%q,"cache":%q,"tier":"local","age_seconds":%g,"list_seconds":0,"etag":%q,"bytes":512}`+"\n",
		at.Format(time.RFC3339Nano), kind, key, outcome, age, etag)
}

func readLog(in io.Reader) (Report, error) {
	p := Group{Terms: cache.Terms{TTL: time.Minute, StaleWhileRevalidate: 30 * time.Second, StaleIfError: time.Hour}}
	return FromLog(in, groupsOf(p), cache.GoalsConfig{})
}

func TestLinesThatCannotBeUsed(t *testing.T) {
	good := line(start, "buyer", "a", "hit", 1, "x")
	change := func(old, with string) string { return strings.Replace(good, old, with, 1) }
	for name, tt := range map[string]struct{ line, want string }{
		"no JSON":      {"hello\n", "no JSON: invalid character 'h' looking for beginning of value at byte 1"},
		"empty line":   {"\n", "no JSON: unexpected end of JSON input at byte 1"},
		"cut off":      {good[:40] + "\n", `no JSON: invalid character '\n' in string literal at byte 41`},
		"no object":    {"[1]\n", "no JSON object, or no RFC 3339 time"},
		"wrong type":   {change(`"age_seconds":1`, `"age_seconds":"1"`), `"age_seconds" must not be of type string`},
		"no such time": {change("2026-05-04T00", "2026-05-04 00"), "no JSON object, or no RFC 3339 time"},
		"no time":      {change(`"time"`, `"tme"`), `"time" is missing or not between 1990 and 2200`},
		"far future":   {change("2026-", "9999-"), `"time" is missing or not between 1990 and 2200`},
		"kind":         {change("buyer", "admin"), `"kind" is not one of the configured kinds`},
		"outcome":      {change(`"cache"`, `"cash"`), `"cache" is missing`},
		"age":          {change(`"age_seconds":1`, `"age_seconds":-1`), `"age_seconds" must be between 0 and 30 days`},
		"wait":         {change(`"list_seconds":0`, `"list_seconds":1e9`), `"list_seconds" must be between 0 and 1 hour`},
		"bytes":        {change(`"bytes":512`, `"bytes":-1`), `"bytes" is negative`},
		"key":          {change(`"key":"a"`, `"key":"`+strings.Repeat("k", 257)+`"`), `"key" is longer than 256 bytes`},
		"long":         {change(`"msg":"`, `"msg":"`+strings.Repeat("m", 200<<10)), "longer than 64 KiB"},
		"other record": {`{"time":"2026-05-04T00:00:00Z","msg":"something else"}` + "\n", ""},
		"no such list": {change(`"hit"`, `"impossible"`), ""},
	} {
		want := LogSummary{Lines: 3, Lookups: 2, Bad: 1, FirstBad: []BadLine{{2, tt.want}}}
		if tt.want == "" {
			want = LogSummary{Lines: 3, Lookups: 2, Skipped: 1, FirstBad: []BadLine{}}
		}
		if r, err := readLog(strings.NewReader(good + tt.line + good)); err != nil || !reflect.DeepEqual(*r.Log, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, *r.Log, err, want)
		}
	}
}

func TestLateLinesAreLeftOut(t *testing.T) {
	log := line(at(time.Hour), "buyer", "a", "hit", 0, "") + line(at(time.Hour-4*time.Second), "buyer", "a", "hit", 0, "") +
		line(start, "buyer", "a", "hit", 0, "")
	r, err := readLog(strings.NewReader(log))
	if err != nil || r.Log.Late != 1 || r.Log.Lookups != 2 || !r.To.Equal(at(time.Hour)) {
		t.Errorf("%+v, to %s, %v", r.Log, r.To, err)
	}
}

func TestALogThatCannotBeRead(t *testing.T) {
	broken := errors.New("disk")
	r, err := readLog(io.MultiReader(strings.NewReader(line(start, "buyer", "a", "hit", 0, "")), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || r.Log.Lookups != 1 {
		t.Errorf("%v, %+v", err, r.Log)
	}
	if r, err := readLog(strings.NewReader("")); err != nil || r.Log.Lines != 0 {
		t.Errorf("an empty log: %v, %+v", err, r.Log)
	}
}

// Of a log with more lists than are watched, and a line of 8 MiB, the report keeps nothing.
func TestALogIsReadInBoundedMemory(t *testing.T) {
	testkit.Computes(t)
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	log := bytes.NewBuffer(append(bytes.Repeat([]byte{'x'}, 8<<20), '\n'))
	for i := range 9000 {
		log.WriteString(line(at(time.Duration(i)*time.Millisecond), "buyer", fmt.Sprint(i), "miss", 0, fmt.Sprint(i)))
	}
	before := heap()
	r, err := readLog(log)
	if err != nil || r.Log.Lookups != 9000 || r.Log.Bad != 1 || r.Groups[0].WatchedLists > defaultLists {
		t.Errorf("%+v, %d lists watched, %v", r.Log, r.Groups[0].WatchedLists, err)
	}
	if kept := heap() - before; kept > 1<<20 {
		t.Errorf("%d bytes are kept after the report", kept)
	}
	runtime.KeepAlive(log)
}

func FuzzFromLog(f *testing.F) {
	f.Add([]byte(line(start, "buyer", "a", "miss", 0, "x") + line(at(time.Minute), "buyer", "a", "hit", 60, "y")))
	f.Add([]byte(line(start, "seller", "a", "hit", 1e6, "") + "\n{}\n[]\nnull\n{\"key\":\"a\"}"))
	f.Add([]byte(`{"time":"2026-05-04T00:00:00Z","kind":"buyer","key":"k","cache":"miss","list_seconds":3600,"age_seconds":2592000,"etag":"e","bytes":9223372036854775807}`))
	f.Add([]byte("\xff\xfe\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := readLog(bytes.NewReader(data))
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
		for _, k := range r.Groups {
			for _, c := range k.Candidates {
				if c.HitRatio.Value < 0 || c.HitRatio.Value > 1 || c.MeanAge.Value < 0 || c.Outdated != nil && (c.Outdated.Value < 0 || c.Outdated.Value > 1) {
					t.Fatalf("%+v", c)
				}
			}
		}
	})
}
