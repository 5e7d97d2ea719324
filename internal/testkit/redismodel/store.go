package redismodel

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// store is the memory of a Server. It has the commands that the gateway sends, in the
// forms in which it sends them; any other one panics.
type store struct {
	now    func() time.Time
	values map[string]value
	writes []write // newest last: a replica that lags has not seen these
}

// value is a text, a hash, a stream or a sorted set.
type value struct {
	text   string
	hash   map[string]string
	stream []entry // oldest first
	scores map[string]int64
	end    time.Time // zero: none
}

// entry is one entry of a stream, with one field.
type entry struct {
	ms, n       int64 // its id
	field, text string
}

func (e entry) id() string { return fmt.Sprintf("%d-%d", e.ms, e.n) }

func (e entry) compare(o entry) int { return cmp.Or(cmp.Compare(e.ms, o.ms), cmp.Compare(e.n, o.n)) }

// write is what a key was before it was written.
type write struct {
	at  time.Time
	key string
	was value
	had bool
}

// writesFor is how far back a replica can lag.
const writesFor = 10 * time.Second

func newStore(now func() time.Time) *store { return &store{now: now, values: map[string]value{}} }

// clear forgets everything, as a start without a file does.
func (s *store) clear() { s.values, s.writes = map[string]value{}, nil }

// rollBack takes the writes of the last lag back, as a fail-over does to a replica that was
// behind.
func (s *store) rollBack(lag time.Duration) {
	since := s.now().Add(-lag)
	for _, w := range slices.Backward(s.writes) {
		switch {
		case !w.at.After(since):
		case w.had:
			s.values[w.key] = w.was
		default:
			delete(s.values, w.key)
		}
	}
	s.writes = nil
}

func (s *store) get(key string) (value, bool) {
	v, ok := s.values[key]
	if ok && !v.end.IsZero() && !s.now().Before(v.end) {
		delete(s.values, key)
		return value{}, false
	}
	return v, ok
}

// put writes a key; a nil value deletes it.
func (s *store) put(key string, v *value) {
	was, had := s.get(key)
	now := s.now()
	s.writes = append(s.writes, write{now, key, was, had})
	if half := len(s.writes) / 2; half > 2048 && now.Sub(s.writes[half].at) > writesFor {
		s.writes = slices.Clone(s.writes[half:])
	}
	if v == nil {
		delete(s.values, key)
	} else {
		s.values[key] = *v
	}
}

// do runs a command. What it returns is a value of RESP: see encode.
func (s *store) do(a ...string) any {
	switch strings.ToUpper(a[0]) {
	case "PING":
		return status("PONG")
	case "INFO":
		return "# Memory\r\nmaxmemory_policy:noeviction\r\n"
	case "TIME":
		now := s.now()
		return []any{strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000)}
	case "EXISTS":
		_, ok := s.get(a[1])
		return count(ok)
	case "GET":
		if v, ok := s.get(a[1]); ok {
			return v.text
		}
		return nil
	case "GETRANGE":
		v, _ := s.get(a[1])
		end := min(number(a[3])+1, int64(len(v.text)))
		return v.text[min(number(a[2]), end):end]
	case "SET":
		return s.set(a[1], a[2], a[3:])
	case "DEL":
		_, ok := s.get(a[1])
		if ok {
			s.put(a[1], nil)
		}
		return count(ok)
	case "PEXPIRE":
		v, ok := s.get(a[1])
		if v.end = s.after(a[2], time.Millisecond); ok {
			s.put(a[1], &v)
		}
		return count(ok)
	case "HSET":
		v, _ := s.get(a[1])
		if v.hash = maps.Clone(v.hash); v.hash == nil { // writes may hold the one of before
			v.hash = map[string]string{}
		}
		_, had := v.hash[a[2]]
		v.hash[a[2]] = a[3]
		s.put(a[1], &v)
		return count(!had)
	case "HGET":
		v, _ := s.get(a[1])
		if text, ok := v.hash[a[2]]; ok {
			return text
		}
		return nil
	case "ZADD": // key [GT CH] score member...
		return s.score(a[1], a[2:])
	case "ZREMRANGEBYSCORE": // key -inf most, or key least +inf
		least, most := int64(math.MinInt64), int64(math.MaxInt64)
		if a[2] != "-inf" {
			least = number(a[2])
		}
		if a[3] != "+inf" {
			most = number(a[3])
		}
		v, _ := s.get(a[1])
		before := len(v.scores)
		v.scores = maps.Clone(v.scores) // writes may hold the one of before
		maps.DeleteFunc(v.scores, func(_ string, score int64) bool { return score >= least && score <= most })
		if len(v.scores) < before {
			s.put(a[1], &v)
		}
		return int64(before - len(v.scores))
	case "ZREMRANGEBYRANK": // key 0 last, from the end
		all := s.members(a[1], 0)
		more := max(len(all)+1+int(number(a[3])), 0)
		if more > 0 {
			v, _ := s.get(a[1])
			v.scores = maps.Clone(v.scores) // writes may hold the one of before
			for _, one := range all[:more] {
				delete(v.scores, one.([]any)[0].(string))
			}
			s.put(a[1], &v)
		}
		return int64(more)
	case "ZCARD":
		return int64(len(s.members(a[1], 0)))
	case "ZSCORE":
		v, _ := s.get(a[1])
		if score, ok := v.scores[a[2]]; ok {
			return float64(score)
		}
		return nil
	case "ZRANGE": // key (most -inf BYSCORE REV LIMIT 0 1 WITHSCORES, or key least +inf BYSCORE LIMIT 0 most WITHSCORES
		if strings.ToUpper(a[5]) != "REV" {
			all := s.members(a[1], number(a[2]))
			return all[:min(len(all), int(number(a[7])))]
		}
		all, most := s.members(a[1], 0), number(a[2][1:])
		for len(all) > 0 && all[len(all)-1].([]any)[1].(float64) >= float64(most) {
			all = all[:len(all)-1]
		}
		return all[max(len(all)-1, 0):]
	case "HMGET":
		v, _ := s.get(a[1])
		out := make([]any, len(a)-2)
		for i, field := range a[2:] {
			if text, ok := v.hash[field]; ok {
				out[i] = text
			}
		}
		return out
	case "XADD": // key MAXLEN ~ most * field text
		return s.append(a[1], int(number(a[4])), a[6], a[7])
	case "XRANGE": // key first last COUNT most, where the first may have a ( before it
		return s.entries(a[1], a[2], a[3], int(number(a[5])))
	}
	panic("the model of Redis has no command " + a[0])
}

func count(one bool) int64 {
	if one {
		return 1
	}
	return 0
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// after is the moment so many units from now.
func (s *store) after(n string, unit time.Duration) time.Time {
	return s.now().Add(time.Duration(number(n)) * unit)
}

// set has the options NX, PX and EX.
func (s *store) set(key, text string, options []string) any {
	v := value{text: text}
	for i, option := range options {
		switch strings.ToUpper(option) {
		case "NX", "XX":
			if _, ok := s.get(key); ok == (strings.ToUpper(option) == "NX") {
				return nil
			}
		case "KEEPTTL":
			old, _ := s.get(key)
			v.end = old.end
		case "PX":
			v.end = s.after(options[i+1], time.Millisecond)
		case "EX":
			v.end = s.after(options[i+1], time.Second)
		}
	}
	s.put(key, &v)
	return status("OK")
}

// score sets scores in a sorted set: with GT CH only higher ones, and how many that were.
func (s *store) score(key string, a []string) any {
	v, _ := s.get(key)
	v.scores = maps.Clone(v.scores) // writes may hold the one of before
	if v.scores == nil {
		v.scores = map[string]int64{}
	}
	changed, greater := int64(0), strings.ToUpper(a[0]) == "GT"
	if greater {
		a = a[2:]
	}
	for pair := range slices.Chunk(a, 2) {
		score, old, had := number(pair[0]), int64(0), false
		if old, had = v.scores[pair[1]]; !had || score > old || score < old && !greater {
			v.scores[pair[1]] = score
			changed += count(greater || !had)
		}
	}
	s.put(key, &v)
	return changed
}

// members returns those of a sorted set from a score on, with their scores.
func (s *store) members(key string, least int64) []any {
	v, _ := s.get(key)
	names := slices.SortedFunc(maps.Keys(v.scores), func(a, b string) int {
		return cmp.Or(cmp.Compare(v.scores[a], v.scores[b]), strings.Compare(a, b))
	})
	all := []any{}
	for _, name := range names {
		if v.scores[name] >= least {
			all = append(all, []any{name, float64(v.scores[name])})
		}
	}
	return all
}

// append adds an entry to a stream, which is trimmed by nodes of a hundred, and returns its
// id.
func (s *store) append(key string, most int, field, text string) any {
	v, _ := s.get(key)
	e := entry{ms: s.now().UnixMilli(), field: field, text: text}
	if n := len(v.stream); n > 0 && e.compare(v.stream[n-1]) <= 0 {
		e.ms, e.n = v.stream[n-1].ms, v.stream[n-1].n+1
	}
	v.stream = append(slices.Clip(v.stream), e) // writes may hold the slice of before
	v.stream = v.stream[max(len(v.stream)-most-100, 0):]
	s.put(key, &v)
	return e.id()
}

// entries returns those of a stream from an id on, or after one with a ( before it, to another
// one or to +.
func (s *store) entries(key, first, last string, most int) any {
	parse := func(id string) entry {
		ms, n, _ := strings.Cut(id, "-")
		return entry{ms: number(ms), n: number(n)}
	}
	id, after := strings.CutPrefix(first, "(")
	v, _ := s.get(key)
	i, found := slices.BinarySearchFunc(v.stream, parse(id), entry.compare)
	out := []any{}
	for _, e := range v.stream[i+int(count(found && after)):] {
		if len(out) == most || last != "+" && e.compare(parse(last)) > 0 {
			break
		}
		out = append(out, []any{e.id(), []any{e.field, e.text}})
	}
	return out
}
