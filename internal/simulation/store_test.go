package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// store is the memory of a redisServer.
type store struct {
	now    func() time.Time
	values map[string]value
	log    []change // newest last, for a replica that lags
}

// value is a text, a hash or a stream.
type value struct {
	text   string
	hash   map[string]string
	stream []entry   // oldest first
	end    time.Time // zero: none
}

// entry is one entry of a stream, with one field.
type entry struct {
	id          entryID
	field, text string
}

// entryID is the number of an entry: milliseconds, and a number within one of them.
type entryID struct{ ms, n int64 }

// change is what a key was before a write.
type change struct {
	at  time.Time
	key string
	was value
	had bool
}

// logFor is how far back a replica can lag.
const logFor = 10 * time.Second

func newStore(now func() time.Time) *store { return &store{now: now, values: map[string]value{}} }

// clear forgets everything, as FLUSHALL and a start without a file do.
func (s *store) clear() { s.values, s.log = map[string]value{}, nil }

// rollBack takes the writes of the last lag back, as a fail-over does to a replica that was
// behind.
func (s *store) rollBack(lag time.Duration) {
	since := s.now().Add(-lag)
	for i := len(s.log) - 1; i >= 0 && s.log[i].at.After(since); i-- {
		c := s.log[i]
		if c.had {
			s.values[c.key] = c.was
		} else {
			delete(s.values, c.key)
		}
	}
	s.log = nil
}

func (s *store) get(key string) (value, bool) {
	v, ok := s.values[key]
	if ok && !v.end.IsZero() && !s.now().Before(v.end) {
		delete(s.values, key)
		return value{}, false
	}
	return v, ok
}

func (s *store) note(key string) {
	was, had := s.get(key)
	now := s.now()
	s.log = append(s.log, change{now, key, was, had})
	if half := len(s.log) / 2; half > 2048 && now.Sub(s.log[half].at) > logFor {
		s.log = slices.Clone(s.log[half:])
	}
}

func (s *store) put(key string, v value) {
	s.note(key)
	s.values[key] = v
}

var (
	errSyntax    = errors.New("ERR syntax error")
	errNoInteger = errors.New("ERR value is not an integer or out of range")
	errWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
)

func upper(s string) string { return strings.ToUpper(s) }

// commands are those that the gateway sends, with the least number of words.
var commands = map[string]struct {
	least int
	run   func(s *store, a []string) any
}{
	"PING":     {1, func(*store, []string) any { return status("PONG") }},
	"TIME":     {1, (*store).time},
	"GET":      {2, func(s *store, a []string) any { return s.text(a[1]) }},
	"SET":      {3, (*store).set},
	"GETRANGE": {4, (*store).getRange},
	"DEL":      {2, (*store).del},
	"EXISTS":   {2, func(s *store, a []string) any { return s.has(a[1]) }},
	"INCR":     {2, (*store).incr},
	"PEXPIRE":  {3, (*store).pexpire},
	"HSET":     {4, (*store).hset},
	"HGET":     {3, (*store).hget},
	"XADD":     {8, (*store).xadd},
	"XRANGE":   {6, (*store).xrange},
	"FLUSHALL": {1, func(s *store, _ []string) any { s.clear(); return status("OK") }},
	"WAIT":     {3, func(*store, []string) any { return int64(0) }},
}

func (s *store) do(a []string) any {
	c, ok := commands[upper(a[0])]
	switch {
	case !ok:
		return fmt.Errorf("ERR unknown command '%s'", a[0])
	case len(a) < c.least:
		return fmt.Errorf("ERR wrong number of arguments for '%s' command", strings.ToLower(a[0]))
	}
	return c.run(s, a)
}

func (s *store) time([]string) any {
	now := s.now()
	return []any{strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000)}
}

func (s *store) text(key string) any {
	v, ok := s.get(key)
	switch {
	case !ok:
		return nil
	case v.hash != nil || v.stream != nil:
		return errWrongType
	}
	return v.text
}

func (s *store) set(a []string) any {
	v, absent := value{text: a[2]}, false
	for i := 3; i < len(a); i++ {
		switch option := upper(a[i]); {
		case option == "NX":
			absent = true
		case (option == "PX" || option == "EX") && i+1 < len(a):
			n, err := strconv.ParseInt(a[i+1], 10, 64)
			if err != nil {
				return errNoInteger
			}
			if n <= 0 {
				return errors.New("ERR invalid expire time in 'set' command")
			}
			v.end = s.now().Add(time.Duration(n) * map[string]time.Duration{"PX": time.Millisecond, "EX": time.Second}[option])
			i++
		default:
			return errSyntax
		}
	}
	if _, ok := s.get(a[1]); ok && absent {
		return nil
	}
	s.put(a[1], v)
	return status("OK")
}

func (s *store) getRange(a []string) any {
	from, err1 := strconv.Atoi(a[2])
	to, err2 := strconv.Atoi(a[3])
	if err1 != nil || err2 != nil || from < 0 || to < 0 {
		return errNoInteger
	}
	switch v := s.text(a[1]).(type) {
	case nil:
		return ""
	case string:
		return v[min(from, len(v)):min(max(to+1, from), len(v))]
	default:
		return v
	}
}

func (s *store) has(key string) int64 {
	if _, ok := s.get(key); ok {
		return 1
	}
	return 0
}

func (s *store) del(a []string) any {
	n := int64(0)
	for _, key := range a[1:] {
		if s.has(key) == 1 {
			s.note(key)
			delete(s.values, key)
			n++
		}
	}
	return n
}

func (s *store) incr(a []string) any {
	v, _ := s.get(a[1])
	n, err := strconv.ParseInt("0"+v.text, 10, 64)
	if err != nil {
		return errNoInteger
	}
	v.text = strconv.FormatInt(n+1, 10)
	s.put(a[1], v)
	return n + 1
}

func (s *store) pexpire(a []string) any {
	n, err := strconv.ParseInt(a[2], 10, 64)
	if err != nil {
		return errNoInteger
	}
	v, ok := s.get(a[1])
	if !ok {
		return int64(0)
	}
	v.end = s.now().Add(time.Duration(n) * time.Millisecond)
	s.put(a[1], v)
	return int64(1)
}

func (s *store) hset(a []string) any {
	v, _ := s.get(a[1])
	if v.hash = maps.Clone(v.hash); v.hash == nil {
		v.hash = map[string]string{}
	}
	before := len(v.hash)
	for i := 2; i+1 < len(a); i += 2 {
		v.hash[a[i]] = a[i+1]
	}
	s.put(a[1], v)
	return int64(len(v.hash) - before)
}

func (s *store) hget(a []string) any {
	v, ok := s.get(a[1])
	if ok && v.hash == nil {
		return errWrongType
	}
	if text, ok := v.hash[a[2]]; ok {
		return text
	}
	return nil
}

func parseID(text string) (id entryID, err error) {
	ms, n, _ := strings.Cut(text, "-")
	if id.ms, err = strconv.ParseInt(ms, 10, 64); err == nil && n != "" {
		id.n, err = strconv.ParseInt(n, 10, 64)
	}
	return id, err
}

func (a entryID) String() string { return fmt.Sprintf("%d-%d", a.ms, a.n) }
func (a entryID) compare(b entryID) int {
	return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.n, b.n))
}

// xadd is XADD key MAXLEN ~ n id field value.
func (s *store) xadd(a []string) any {
	most, err := strconv.Atoi(a[4])
	if upper(a[2]) != "MAXLEN" || a[3] != "~" || err != nil || len(a) != 8 {
		return errSyntax
	}
	v, _ := s.get(a[1])
	last := entryID{}
	if len(v.stream) > 0 {
		last = v.stream[len(v.stream)-1].id
	}
	id := entryID{ms: s.now().UnixMilli()}
	if a[5] != "*" {
		if id, err = parseID(a[5]); err != nil {
			return errSyntax
		}
	} else if id.compare(last) <= 0 {
		id = entryID{last.ms, last.n + 1}
	}
	if id.compare(last) <= 0 {
		return errors.New("ERR The ID specified in XADD is equal or smaller than the target stream top item")
	}
	v.stream = append(slices.Clip(v.stream), entry{id, a[6], a[7]}) // the log may hold the slice of before
	v.stream = v.stream[max(len(v.stream)-most-100, 0):]            // trimmed by nodes of a hundred
	s.put(a[1], v)
	return id.String()
}

// xrange is XRANGE key (id + COUNT n.
func (s *store) xrange(a []string) any {
	most, err := strconv.Atoi(a[5])
	text, exclusive := strings.CutPrefix(a[2], "(")
	from, badID := parseID(text)
	if a[3] != "+" || upper(a[4]) != "COUNT" || err != nil || badID != nil || !exclusive {
		return errSyntax
	}
	v, _ := s.get(a[1])
	first, out := len(v.stream), []any{}
	for first > 0 && v.stream[first-1].id.compare(from) > 0 {
		first--
	}
	for _, e := range v.stream[first:min(first+most, len(v.stream))] {
		out = append(out, []any{e.id.String(), []any{e.field, e.text}})
	}
	return out
}
