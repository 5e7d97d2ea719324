package ttl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"inquiry-gateway/cache"
)

func readLog(in io.Reader) (Sample, LogSummary, error) {
	return Read(in, GroupsOf(cache.DefaultConfig(), false, cache.KindBuyer, cache.KindSeller))
}

func TestLinesThatCannotBeUsed(t *testing.T) {
	good := record(start, "buyer", "a", "hit", 1, "x")
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
		"key":          {change(`"key":"a"`, `"key":"`+strings.Repeat("k", 257)+`"`), `"key" is longer than 256 bytes`},
		"long":         {change(`"msg":"`, `"msg":"`+strings.Repeat("m", 200<<10)), "longer than 64 KiB"},
		"other record": {`{"time":"2026-05-04T00:00:00Z","msg":"something else"}` + "\n", ""},
		"no such list": {change(`"hit"`, `"impossible"`), ""},
	} {
		want := LogSummary{Lines: 3, Lookups: 2, Bad: 1, FirstBad: []BadLine{{2, tt.want}}}
		if tt.want == "" {
			want = LogSummary{Lines: 3, Lookups: 2, Skipped: 1, FirstBad: []BadLine{}}
		}
		if _, sum, err := readLog(strings.NewReader(good + tt.line + good)); err != nil || !reflect.DeepEqual(sum, want) {
			t.Errorf("%s: %+v, %v\nwant %+v", name, sum, err, want)
		}
	}
}

func TestALogThatCannotBeRead(t *testing.T) {
	broken := errors.New("disk")
	_, sum, err := readLog(io.MultiReader(strings.NewReader(record(start, "buyer", "a", "hit", 0, "")), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) || sum.Lookups != 1 {
		t.Errorf("%v, %+v", err, sum)
	}
	if _, sum, err := readLog(strings.NewReader("")); err != nil || sum.Lines != 0 {
		t.Errorf("an empty log: %v, %+v", err, sum)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(record(start, "buyer", "a", "miss", 0, "x") + record(at(time.Minute), "buyer", "a", "hit", 60, "y")))
	f.Add([]byte(record(start, "seller", "a", "hit", 1e6, "") + "\n{}\n[]\nnull\n{\"key\":\"a\"}"))
	f.Add([]byte(`{"time":"2026-05-04T00:00:00Z","kind":"buyer","key":"k","cache":"miss","list_seconds":3600,"age_seconds":2592000,"etag":"e","bytes":9223372036854775807}`))
	f.Add([]byte(`{"groups":[{"kind":"x","ttl_seconds":-1,"jitter":1e300}],"halved":63,"since":"0001-01-01T00:00:00Z"}` + "\n" + `{"time":"2026-05-04T00:00:00Z","kind":"x","key":"k","cache":"hit","etag":"e","n":18446744073709551615}`))
	f.Add([]byte("\xff\xfe\n\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sample, l, err := readLog(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if l.Lines < l.Lookups+l.Skipped+l.Bad || len(l.FirstBad) != min(l.Bad, maxBadLines) {
			t.Fatalf("the lines do not add up: %+v", l)
		}
		r := Replay(sample)
		r.Judge(Goals{MaxOutdated: 0.1})
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

// curve is a report of one kind with 10/ttl requests a second and a chance of
// ttl/1000 of an outdated answer.
func curve(kind string, ttl float64) GroupReport {
	k := GroupReport{Group: kind, TTL: ttl, Observed: 1000, LookupsPerSecond: 100}
	row := func(s float64) Candidate {
		return Candidate{TTL: s, HitRatio: Estimate{Value: s / (s + 10)}, Upstream: Estimate{Value: 10 / s}, Outdated: &Estimate{Value: min(s/1000, 1)}, Settled: true}
	}
	for _, d := range ttls {
		k.Candidates = append(k.Candidates, row(d.Seconds()))
	}
	k.Today = new(row(ttl))
	return k
}

// The logs of two nodes, one after the other: the newest look-ups of both count, not those that were read last.
func TestALogThatIsTooLongKeepsTheNewest(t *testing.T) {
	r := reader{groups: []Group{{Name: "buyer"}}, numbers: make([]uint64, 1), sample: sample{size: 100, least: leastLists, below: math.MaxUint64, since: math.MaxInt64}}
	for node, lines := range []int{60, 200} {
		for i := range lines {
			l := line{Time: at(time.Duration(i) * time.Hour / time.Duration(lines)), Kind: "buyer", Key: fmt.Sprint("node-", node), Cache: "hit"}
			r.add(&l, 0)
		}
	}
	kept := map[uint64]int{}
	for _, l := range r.sample.lookups {
		kept[l.List]++
		if l.At < r.sample.since {
			t.Errorf("a look-up of before %v is kept", time.Unix(0, r.sample.since).UTC())
		}
	}
	first, second := kept[hashOf("node-0")], kept[hashOf("node-1")]
	if first == 0 || second < 3*first || second > 4*first || r.sample.since <= start.UnixNano() {
		t.Errorf("kept %d and %d, since %v", first, second, time.Unix(0, r.sample.since).UTC())
	}
}

// Nodes may have different groups during a rollout: look-ups count for the group of that name.
func TestGroupsOfAnotherNode(t *testing.T) {
	node := func(names ...string) (s Sample) {
		s.Below = math.MaxUint64
		for i, name := range names {
			s.Groups = append(s.Groups, Group{Name: name, TTL: 30})
			for n := range i + 1 {
				s.Lookups = append(s.Lookups, Lookup{At: at(time.Duration(n) * time.Second).UnixNano(), List: 1, Group: i, Number: uint64(n + 1)})
			}
		}
		return s
	}
	r := Replay(node("buyer", "seller"), node("buyer", "buyer status=pending", "seller"))
	lookups := map[string]float64{}
	for _, g := range r.Groups {
		lookups[g.Group] = math.Round(g.LookupsPerSecond * g.Observed)
	}
	if want := map[string]float64{"buyer": 2, "buyer status=pending": 2, "seller": 5}; !reflect.DeepEqual(lookups, want) {
		t.Errorf("%v, want %v", lookups, want)
	}
}

// That nothing has changed for five minutes does not say that nothing changes in a day.
func TestNoChangeIsNoProof(t *testing.T) {
	s := Sample{Groups: []Group{{Name: "buyer", TTL: 30}}, Below: math.MaxUint64, Since: start.UnixNano()}
	for i := range 300 {
		now := at(time.Duration(i) * time.Second).UnixNano()
		s.Lookups = append(s.Lookups, Lookup{At: now, List: 1, Body: 7, Answered: now, Number: uint64(i + 1)})
	}
	r := Replay(s)
	r.Judge(Goals{MaxOutdated: 0.05})
	if keeps := r.Groups[0].KeepsGoals; keeps == nil || keeps.From != 1 || keeps.To < 5 || keeps.To > 60 {
		t.Errorf("%+v keep the goal", keeps)
	}
}

// The rows that surely keep both goals are marked, the other kinds staying at their ttls,
// and one sentence says it.
func TestRowsThatKeepTheGoals(t *testing.T) {
	unseen, unsure, early := curve("buyer", 30), curve("buyer", 30), curve("buyer", 30)
	unseen.Today.Outdated = nil
	for c := range unseen.Candidates {
		unseen.Candidates[c].Outdated = nil
		unsure.Candidates[c].Upstream.StdErr = unsure.Candidates[c].Upstream.Value // 1.645 of it on top
	}
	early.Observed = 20
	const says = "buyer lists, ttl 30s: 75.0 % of the look-ups do not wait, 0.333 requests/s go to the legacy system, 3.00 % of the answers are outdated"
	load, outdated := func(most float64) Goals { return Goals{MaxUpstreamPerSecond: most} }, Goals{MaxOutdated: 0.02}
	for name, tt := range map[string]struct {
		kind    GroupReport
		goals   Goals
		keeps   *Range
		summary string
	}{
		"load":               {curve("buyer", 30), load(1 + 10/30.), &Range{10, 86400}, says + "; 10s to 24h keep the goals."},
		"load, not sure":     {unsure, load(1 + 10/30.), &Range{30, 86400}, says + "; 30s to 24h keep"},
		"load of the others": {curve("buyer", 30), load(0.1), nil, says + "; no ttl keeps the goals."},
		"outdated":           {curve("buyer", 30), outdated, &Range{1, 20}, says + "; 1s to 20s keep the goals."},
		"both":               {curve("buyer", 30), Goals{1 + 10/30., 0.01}, &Range{10, 10}, says + "; 10s keeps the goals."},
		"both, too strict":   {curve("buyer", 30), Goals{1 + 10/30., 0.005}, nil, says + "; no ttl"},
		"not known":          {unseen, outdated, nil, "legacy system, how many answers are outdated is not known yet; no ttl"},
		"too early":          {early, outdated, &Range{1, 20}, " Too early to act on: 2000 look-ups in 20s."},
		"no goals":           {curve("buyer", 30), Goals{}, nil, says + "."},
		"no look-up":         {GroupReport{Group: "buyer"}, outdated, nil, "buyer lists, ttl 0s: no look-up yet."},
	} {
		r := Report{Groups: []GroupReport{tt.kind, curve("seller", 30)}}
		r.Judge(tt.goals)
		k := r.Groups[0]
		if !reflect.DeepEqual(k.KeepsGoals, tt.keeps) || !strings.Contains(k.Summary, tt.summary) {
			t.Errorf("%s: %+v keep the goals, want %+v; %q", name, k.KeepsGoals, tt.keeps, k.Summary)
		}
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil || !strings.HasPrefix(table.String(), k.Summary+"\n") || tt.keeps != nil && !strings.Contains(table.String(), "\n  + keeps the goals") {
			t.Errorf("%s: %v\n%s", name, err, &table)
		}
		for _, c := range k.Candidates {
			if want := tt.keeps != nil && c.TTL >= tt.keeps.From && c.TTL <= tt.keeps.To; tt.goals != (Goals{}) && *c.KeepsGoals != want {
				t.Errorf("%s: the row of %gs is marked: %t", name, c.TTL, *c.KeepsGoals)
			}
		}
	}
	if err := (Report{}).WriteTable(iotestWriter{}); err == nil {
		t.Error("no error of the writer")
	}
	if fmt.Sprint(short(0.25), short(90), short(86400)) != "0.25s1.5m24h" {
		t.Error(short(0.25), short(90), short(86400))
	}
}

type iotestWriter struct{}

func (iotestWriter) Write([]byte) (int, error) { return 0, errors.New("disk") }
