package ttl

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"
)

const (
	maxLine     = 64 << 10
	maxLogKey   = 256
	maxBadLines = 10

	maxAgeSeconds  = 30 * 24 * 3600
	maxWaitSeconds = 3600

	logSize = 1 << 20 // look-ups of a log that are kept
)

// line is one look-up: a JSON object on a line of its own, as in the request log and in the reply of
// /ops/lookups. Fields that are not named here are ignored.
type line struct {
	Time time.Time `json:"time"` // when the answer went out, RFC 3339
	Kind string    `json:"kind"` // the name of a Group
	// Key is anything that is the same for equal lists and for no others, up to
	// 256 bytes, where the list is the one that the legacy is asked for. A line without
	// one is no look-up.
	Key string `json:"key"`
	// Cache is the outcome: "miss" is a fill, "impossible" is no look-up, and every other word is
	// an answer without a fill of its own.
	Cache string  `json:"cache"`
	Age   float64 `json:"age_seconds"`  // of the list, when it was answered
	Wait  float64 `json:"list_seconds"` // how long the caller waited for it
	// ETag is anything that changes with the body. Empty: nothing is learnt about
	// changes from this line.
	ETag   string `json:"etag,omitempty"`
	Number uint64 `json:"n,omitempty"` // of /ops/lookups: as Lookup.Number
}

// head is the first line of /ops/lookups.
type head struct {
	Groups []Group   `json:"groups"`
	Halved int       `json:"halved"` // how many times half of the lists were left out
	Since  time.Time `json:"since"`
}

// Write writes the sample as lines, after a head. The error is the writer's.
func (s Sample) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	err := enc.Encode(head{s.Groups, 64 - int(math.Round(math.Log2(float64(s.Below)))), time.Unix(0, s.Since).UTC()})
	for _, l := range s.Lookups {
		if err != nil {
			break
		}
		wait := max(l.Took, 0)
		end := l.At + wait
		one := line{
			Time: time.Unix(0, end).UTC(), Kind: s.Groups[l.Group].Name, Key: fmt.Sprintf("%016x", l.List), Cache: "hit",
			Wait: float64(wait) / float64(second), Number: l.Number,
		}
		if l.Took > 0 {
			one.Cache = "miss"
		}
		if l.Body != 0 {
			one.ETag, one.Age = fmt.Sprintf("%016x", l.Body), max(float64(end-l.Answered)/float64(second), 0)
		}
		err = enc.Encode(one)
	}
	return errors.Join(err, out.Flush())
}

// LogSummary tells what became of the lines of a log.
type LogSummary struct {
	Lines    int       `json:"lines"`
	Lookups  int       `json:"lookups"`
	Skipped  int       `json:"skipped"` // other records: without a key, or of a list that cannot exist
	Bad      int       `json:"bad"`
	FirstBad []BadLine `json:"first_bad"` // at most 10
}

// BadLine is a line that could not be used.
type BadLine struct {
	Line   int    `json:"line"` // from 1
	Reason string `json:"reason"`
}

// describe says how much of the log was used, and why the rest was not.
func (l *LogSummary) describe(b *strings.Builder) {
	fmt.Fprintf(b, "%d lines: %d look-ups, %d other records, %d bad\n", l.Lines, l.Lookups, l.Skipped, l.Bad)
	for _, bad := range l.FirstBad {
		fmt.Fprintf(b, "  line %d: %s\n", bad.Line, bad.Reason)
	}
}

// Read reads look-ups: the reply of a node's /ops/lookups, which names its groups, or a log, which is
// of these groups, in any order. It keeps at most a million of them, of a part of the lists or the newest if
// need be. Lines that cannot be used are counted; an error is one of reading.
func Read(in io.Reader, groups []Group) (Sample, LogSummary, error) {
	r := reader{
		groups: groups, numbers: make([]uint64, len(groups)), sum: LogSummary{FirstBad: []BadLine{}},
		sample: sample{size: logSize, least: leastLists, below: math.MaxUint64, since: math.MaxInt64},
	}
	err := r.read(bufio.NewReaderSize(in, maxLine))
	slices.SortStableFunc(r.sample.lookups, func(a, b Lookup) int { return cmp.Compare(a.At, b.At) })
	return Sample{Groups: r.groups, Below: r.sample.below, Since: r.sample.since, Lookups: r.sample.lookups}, r.sum, err
}

// reader reads one log or node.
type reader struct {
	groups  []Group
	numbers []uint64 // of the last look-up by group
	sample  sample
	head    bool
	newer   int64 // look-ups from before were dropped
	sum     LogSummary
}

// read reads to the end. A line that is too long is skipped and counted, not held.
func (r *reader) read(in *bufio.Reader) error {
	for {
		raw, err := in.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) { // to the end of the line
			_, err = in.ReadSlice('\n')
		}
		if tooLong || len(raw) > 0 {
			r.sum.Lines++
			r.line(raw, tooLong)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", r.sum.Lines+1, err)
		}
	}
}

// line uses one line, or counts why it cannot.
func (r *reader) line(raw []byte, tooLong bool) {
	if tooLong {
		r.bad("longer than 64 KiB")
		return
	}
	if r.sum.Lines == 1 && r.readHead(raw) {
		return
	}
	var l line
	if err := json.Unmarshal(raw, &l); err != nil {
		r.bad(reason(err))
		return
	}
	if l.Key == "" || l.Cache == "impossible" { // nobody is asked for that one
		r.sum.Skipped++
		return
	}
	group := slices.IndexFunc(r.groups, func(g Group) bool { return g.Name == l.Kind })
	if problem := l.problem(group >= 0); problem != "" {
		r.bad(problem)
		return
	}
	r.sum.Lookups++
	r.add(&l, group)
}

// readHead takes the first line of a node's reply.
func (r *reader) readHead(raw []byte) bool {
	var h head
	if json.Unmarshal(raw, &h) != nil || h.Groups == nil || h.Halved < 0 || h.Halved > 63 {
		return false
	}
	r.groups, r.numbers, r.head = h.Groups, make([]uint64, len(h.Groups)), true
	r.sample.below, r.sample.since = math.MaxUint64>>h.Halved, h.Since.UnixNano()
	return true
}

// add takes a look-up that the line's request began with.
func (r *reader) add(l *line, group int) {
	r.numbers[group]++
	wait := int64(l.Wait * float64(second))
	one := Lookup{At: l.Time.UnixNano() - wait, List: hashOf(l.Key), Group: group, Number: r.numbers[group]}
	if l.Number > 0 {
		one.Number = l.Number
	}
	if !r.head && r.newer == 0 {
		r.sample.since = min(r.sample.since, one.At)
	}
	if l.ETag != "" {
		one.Body, one.Answered = max(hashOf(l.ETag), 1), l.Time.UnixNano()-int64(l.Age*float64(second))
	}
	if l.Cache == "miss" {
		one.Took = max(wait, 1)
	}
	if len(r.sample.lookups) >= r.sample.size && !r.sample.dropLists() {
		r.keepNewer()
	}
	if r.sample.has(one.List) && one.At >= r.newer {
		r.sample.lookups = append(r.sample.lookups, one)
	}
}

// keepNewer drops the older half of the look-ups, in whatever order they were read.
func (r *reader) keepNewer() {
	slices.SortFunc(r.sample.lookups, func(a, b Lookup) int { return cmp.Compare(a.At, b.At) })
	r.sample.lookups = slices.Delete(r.sample.lookups, 0, len(r.sample.lookups)/2)
	r.newer = r.sample.lookups[0].At
	r.sample.since = r.newer
}

// hashOf is the number that 16 hexadecimal digits are, as the gateway writes hashes, and a hash of
// any other text.
func hashOf(text string) uint64 {
	if len(text) == 16 {
		if n, err := strconv.ParseUint(text, 16, 64); err == nil {
			return n
		}
	}
	return xxh3.HashString(text)
}

// bad counts a line that cannot be used, and keeps the reason of the first ones.
func (r *reader) bad(reason string) {
	r.sum.Bad++
	if len(r.sum.FirstBad) < maxBadLines {
		r.sum.FirstBad = append(r.sum.FirstBad, BadLine{r.sum.Lines, reason})
	}
}

// reason says what is wrong with a line's JSON, without a word of the line itself.
func reason(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Sprintf("no JSON: %v at byte %d", syntax, syntax.Offset)
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Sprintf("%q must not be of type %s", kind.Field, kind.Value)
	}
	return "no JSON object, or no RFC 3339 time"
}

// problem says what makes a line unusable; empty if nothing does.
func (l *line) problem(known bool) string {
	switch {
	case !known:
		return `"kind" is not one of the configured kinds`
	case len(l.Key) > maxLogKey:
		return fmt.Sprintf(`"key" is longer than %d bytes`, maxLogKey)
	case l.Time.Year() < 1990 || l.Time.Year() > 2200:
		return `"time" is missing or not between 1990 and 2200`
	case l.Cache == "":
		return `"cache" is missing`
	case !(l.Age >= 0 && l.Age <= maxAgeSeconds):
		return `"age_seconds" must be between 0 and 30 days`
	case !(l.Wait >= 0 && l.Wait <= maxWaitSeconds):
		return `"list_seconds" must be between 0 and 1 hour`
	}
	return ""
}
