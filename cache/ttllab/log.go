package ttllab

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"inquiry-gateway/cache"
)

const (
	maxLine     = 64 << 10
	maxLogKey   = 256
	maxBadLines = 10

	maxAgeSeconds  = 30 * 24 * 3600
	maxWaitSeconds = 3600
	// lateness is by how much a line may be older than the newest before it.
	// Lines are written when a request ends, and nodes' clocks differ.
	lateness = 5 * time.Second
)

// logLine is one look-up in a log: a JSON object on a line of its own. Fields
// that are not named here are ignored, so the gateway's whole record will do.
type logLine struct {
	Time time.Time `json:"time"` // when the answer went out, RFC 3339
	Kind string    `json:"kind"` // the name of a Group
	// Key is anything that is the same for equal lists and for no others, up to
	// 256 bytes, where the list is the one that the legacy is asked for. A line without
	// one is no look-up.
	Key string `json:"key"`
	// Cache is the outcome: "miss" is a fill, "collapsed" waited for one, "impossible"
	// is no look-up, and every other word is an answer out of the cache.
	Cache string  `json:"cache"`
	Age   float64 `json:"age_seconds"`  // of the list, when it was answered
	Wait  float64 `json:"list_seconds"` // for a fill: how long it took
	// ETag is anything that changes with the body. Empty: nothing is learnt about
	// changes from this line.
	ETag  string `json:"etag"`
	Bytes int    `json:"bytes"` // of the list; 0 unknown, as for a 304
}

// LogSummary tells what became of the lines of a log.
type LogSummary struct {
	Lines   int `json:"lines"`
	Lookups int `json:"lookups"`
	Skipped int `json:"skipped"` // other records: without a key, or of a list that cannot exist
	// Late lines are more than 5 s older than a line before them, and were left
	// out: sort the log by time.
	Late     int       `json:"late"`
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
	fmt.Fprintf(b, "%d lines: %d look-ups, %d other records, %d late, %d bad\n", l.Lines, l.Lookups, l.Skipped, l.Late, l.Bad)
	for _, bad := range l.FirstBad {
		fmt.Fprintf(b, "  line %d: %s\n", bad.Line, bad.Reason)
	}
	if l.Late > 0 {
		b.WriteString("  late lines were left out; sort the log by time\n")
	}
}

// FromLog computes the report from a log of look-ups, oldest first. It reads the
// log once and holds some seconds of it besides the sample. All of the log counts the
// same. Lines that cannot be used are counted in the report's Log; an error is one of
// reading, and what was read until then is in the report.
func FromLog(in io.Reader, groups []Group, goals cache.GoalsConfig) (Report, error) {
	l := logReader{state: newState(groups, defaultLists, 0), sum: LogSummary{FirstBad: []BadLine{}}}
	l.state.gap = math.MaxInt64
	l.begin()
	err := l.read(bufio.NewReaderSize(in, maxLine))
	l.flush()
	l.state.advance(l.newest.UnixNano())
	r := l.state.report(goals)
	sum := l.sum // a copy: the report shall not hold on to the sample
	r.Since, r.Log = nil, &sum
	return r, err
}

// logReader reads one log: what comes within a second makes a batch.
type logReader struct {
	state  *state
	batch  *batch
	newest time.Time
	sum    LogSummary
}

// begin begins another batch.
func (l *logReader) begin() {
	l.batch = &batch{groups: make([]groupBatch, len(l.state.groups))}
}

// flush ends the batch and applies what no line can be older than.
func (l *logReader) flush() {
	if l.newest.IsZero() {
		return
	}
	l.batch.Now = l.newest.UnixNano()
	l.state.add(l.batch, l.batch.Now)
	l.state.advance(l.batch.Now - int64(lateness))
	l.begin()
}

// read reads to the end. A line that is too long is skipped and counted, not held.
func (l *logReader) read(in *bufio.Reader) error {
	for {
		line, err := in.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) { // to the end of the line
			_, err = in.ReadSlice('\n')
		}
		if tooLong || len(line) > 0 {
			l.sum.Lines++
			l.line(line, tooLong)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", l.sum.Lines+1, err)
		}
	}
}

// line uses one line, or counts why it cannot.
func (l *logReader) line(raw []byte, tooLong bool) {
	if tooLong {
		l.bad("longer than 64 KiB")
		return
	}
	var line logLine
	if err := json.Unmarshal(raw, &line); err != nil {
		l.bad(reason(err))
		return
	}
	if line.Key == "" || line.Cache == "impossible" { // nobody is asked for that one
		l.sum.Skipped++
		return
	}
	group := slices.IndexFunc(l.state.groups, func(g *group) bool { return g.policy.Name == line.Kind })
	if problem := line.problem(group >= 0); problem != "" {
		l.bad(problem)
		return
	}
	if line.Time.Before(l.newest.Add(-lateness)) {
		l.sum.Late++
		return
	}
	if line.Time.After(l.newest) {
		if !line.Time.Truncate(time.Second).Equal(l.newest.Truncate(time.Second)) {
			l.flush()
		}
		l.newest = line.Time
	}
	l.sum.Lookups++
	line.note(&l.batch.groups[group], l.state.groups[group], mix(uint64(l.sum.Lookups))%drawEvery == 0)
}

// bad counts a line that cannot be used, and keeps the reason of the first ones.
func (l *logReader) bad(reason string) {
	l.sum.Bad++
	if len(l.sum.FirstBad) < maxBadLines {
		l.sum.FirstBad = append(l.sum.FirstBad, BadLine{l.sum.Lines, reason})
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
func (l *logLine) problem(known bool) string {
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
	case l.Bytes < 0:
		return `"bytes" is negative`
	}
	return ""
}

// note notes what the cache would have told the lab. A line is written at the end of a
// request; the look-up was at its beginning.
func (l *logLine) note(b *groupBatch, g *group, draw bool) {
	hash, wait := xxh3.HashString(l.Key), duration(l.Wait)
	b.Counts.Lookups++
	n := note{Hash: hash, At: l.Time.Add(-wait).UnixNano(), N: 1}
	if hash < g.below {
		n.Flags = ofSample
	}
	if _, hot := g.hot.index[hash]; hot {
		n.Flags |= ofHot
	}
	if draw {
		n.Flags |= ofDraw
	}
	if n.Flags != 0 {
		b.notes = append(b.notes, n)
	}
	own := l.Cache == "miss" && l.ETag != ""
	if own {
		b.Counts.Fills++
		b.Counts.Took += int64(wait)
	}
	if l.ETag == "" || n.Flags&(ofSample|ofHot) == 0 {
		return
	}
	b.fills = append(b.fills, fill{Hash: hash, Body: xxh3.HashString(l.ETag), At: l.Time.UnixNano(), Answered: l.Time.Add(-duration(l.Age)).UnixNano(), Size: uint32(min(l.Bytes, math.MaxUint32)), Seen: !own})
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
