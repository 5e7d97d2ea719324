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

type value struct {
	text   string
	hash   map[string]string // a hash, or a set, whose members are its fields
	stream []entry           // oldest first
	end    time.Time         // zero: none
}

// entry is one entry of a stream.
type entry struct {
	id          entryID
	field, text string
}

// entryID is the number of an entry: milliseconds, and a number within one of them.
type entryID struct{ ms, n int64 }

func parseID(text string) (id entryID, err error) {
	ms, n, _ := strings.Cut(text, "-")
	if id.ms, err = strconv.ParseInt(ms, 10, 64); err == nil && n != "" {
		id.n, err = strconv.ParseInt(n, 10, 64)
	}
	return id, err
}

func (a entryID) compare(b entryID) int {
	return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.n, b.n))
}

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

// rollBack takes the writes of the last lag back, as a fail-over does to a replica
// that was behind.
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

func (s *store) remove(key string) int64 {
	if _, ok := s.get(key); !ok {
		return 0
	}
	s.note(key)
	delete(s.values, key)
	return 1
}

// fields is a copy of a hash or set, with its key's end.
func (s *store) fields(key string) value {
	v, _ := s.get(key)
	v.hash = maps.Clone(v.hash)
	if v.hash == nil {
		v.hash = map[string]string{}
	}
	return v
}

var (
	errSyntax    = errors.New("ERR syntax error")
	errNoInteger = errors.New("ERR value is not an integer or out of range")
)

func upper(s string) string { return strings.ToUpper(s) }

// commands are those with a fixed least number of arguments, the name included.
var commands = map[string]struct {
	least int
	run   func(s *store, a []string) any
}{
	"PING":     {1, func(*store, []string) any { return status("PONG") }},
	"TIME":     {1, (*store).time},
	"GET":      {2, func(s *store, a []string) any { return s.text(a[1]) }},
	"SET":      {3, (*store).set},
	"GETRANGE": {4, (*store).getRange},
	"DEL": {2, func(s *store, a []string) (n any) {
		sum := int64(0)
		for _, key := range a[1:] {
			sum += s.remove(key)
		}
		return sum
	}},
	"EXISTS": {2, func(s *store, a []string) any {
		if _, ok := s.get(a[1]); ok {
			return int64(1)
		}
		return int64(0)
	}},
	"INCR":      {2, (*store).incr},
	"PEXPIRE":   {3, (*store).pexpire},
	"PTTL":      {2, (*store).pttl},
	"HSET":      {4, (*store).hset},
	"HSETNX":    {4, (*store).hsetnx},
	"HGET":      {3, func(s *store, a []string) any { return field(s.fields(a[1]).hash, a[2]) }},
	"HMGET":     {3, (*store).hmget},
	"SADD":      {3, (*store).sadd},
	"SISMEMBER": {3, func(s *store, a []string) any { return int64(len(s.fields(a[1]).hash[a[2]])) }},
	"FLUSHALL":  {1, func(s *store, _ []string) any { s.clear(); return status("OK") }},
	"XADD":      {8, (*store).xadd},
	"XRANGE":    {6, (*store).xrange},
	"WAIT":      {3, func(*store, []string) any { return int64(0) }},
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
		return errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
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
			unit := time.Millisecond
			if option == "EX" {
				unit = time.Second
			}
			if n <= 0 {
				return errors.New("ERR invalid expire time in 'set' command")
			}
			v.end = s.now().Add(time.Duration(n) * unit)
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

func (a entryID) String() string { return fmt.Sprintf("%d-%d", a.ms, a.n) }

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

func (s *store) pttl(a []string) any {
	v, ok := s.get(a[1])
	switch {
	case !ok:
		return int64(-2)
	case v.end.IsZero():
		return int64(-1)
	}
	return v.end.Sub(s.now()).Milliseconds()
}

func (s *store) hset(a []string) any {
	v, added := s.fields(a[1]), int64(0)
	for i := 2; i+1 < len(a); i += 2 {
		if _, ok := v.hash[a[i]]; !ok {
			added++
		}
		v.hash[a[i]] = a[i+1]
	}
	s.put(a[1], v)
	return added
}

func (s *store) hsetnx(a []string) any {
	if _, ok := s.fields(a[1]).hash[a[2]]; ok {
		return int64(0)
	}
	return s.hset(a)
}

func (s *store) hmget(a []string) any {
	v, out := s.fields(a[1]), make([]any, 0, len(a)-2)
	for _, name := range a[2:] {
		out = append(out, field(v.hash, name))
	}
	return out
}

func field(hash map[string]string, name string) any {
	if v, ok := hash[name]; ok {
		return v
	}
	return nil
}

func (s *store) sadd(a []string) any {
	v, added := s.fields(a[1]), int64(0)
	for _, member := range a[2:] {
		if _, ok := v.hash[member]; !ok {
			added++
		}
		v.hash[member] = "1"
	}
	s.put(a[1], v)
	return added
}
