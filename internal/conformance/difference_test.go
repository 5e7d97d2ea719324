package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// observation is what a run has shown: for each fact its values, in any order, without what is another one each time.
type observation struct {
	run, dir string
	facts    map[fact][]string
}

// fact names a value: of an answer, a request, a line of the log, a series. An empty field stands for the whole.
type fact struct{ title, field, where string }

// difference is a value that is not the same. An empty one is none.
type difference struct {
	fact
	old, new string
}

var (
	ids       = regexp.MustCompile(`\b[0-9a-f]{16,64}\b`)
	numbers   = regexp.MustCompile(`-?\d+`)
	elements  = regexp.MustCompile(`\[\d+\]`)
	counted   = []string{"Age", "Retry-After", "Ratelimit", "Cache-Status"} // fields of a header whose numbers are times
	durations = regexp.MustCompile(`(?i)(^|[._])(time|duration|age|ago|took|since|until|seconds|ms|retry_after|pid)$|_seconds|_at$`)
	variable  = []struct {
		is *regexp.Regexp
		as string
	}{
		{ids, "{id}"}, {regexp.MustCompile(`127\.0\.0\.1:\d+`), "{address}"},
		{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "{time}"},
		{regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms)\b|\b(\d+m)?\d+\.\d+s\b`), "{duration}"},
	}
)

// mask takes out of a text what is another one each time.
func (o observation) mask(s string) string {
	if o.dir != "" {
		s = strings.ReplaceAll(s, o.dir, "{folder}")
	}
	for _, v := range variable {
		s = v.is.ReplaceAllString(s, v.as)
	}
	return s
}

func (o observation) maskField(name, value string) string {
	if durations.MatchString(name) {
		return "{duration}"
	}
	return o.mask(value)
}

func (o observation) add(title, where, value string) {
	o.record(title, where, map[string]string{"": value})
}

// record adds a fact for each field, and one for that it is there.
func (o observation) record(title, where string, fields map[string]string) {
	if where = strings.TrimSuffix(o.run+": "+where, ": "); fields[""] == "" {
		fields[""] = "there"
	}
	for field, value := range fields {
		if value == "" {
			value = `""`
		}
		f := fact{title, field, where}
		o.facts[f] = append(o.facts[f], value)
	}
}

// answer adds an answer's status, header and values of its body. Of lists every value counts; what operators get is masked as a log is.
func (o observation) answer(resp *http.Response, body []byte, where string, ops bool) {
	fields := map[string]string{"status": resp.Status, "protocol": resp.Proto}
	for name, values := range resp.Header {
		value := strings.Join(values, " | ")
		switch {
		case name == "Date" || name == "Content-Length" && ops || name == "X-Request-Id" && ids.MatchString(value):
			value = "{masked}"
		case slices.Contains(counted, name):
			value = numbers.ReplaceAllString(value, "{n}")
		}
		fields["header "+name] = value
	}
	var value any
	switch err := json.Unmarshal(body, &value); {
	case resp.Header.Get("Content-Encoding") != "":
		fields["body"] = fmt.Sprintf("%d bytes", len(body))
	case err != nil && (!ops || yaml.Unmarshal(body, &value) != nil):
		fields["body"] = o.mask(string(body))
	default:
		flatten("", value, func(path, value string) {
			switch {
			case ops:
				value = o.maskField(path, value)
			case strings.HasPrefix(path, "errors"):
				value = ids.ReplaceAllString(value, "{id}")
			}
			fields["body "+path] = fmt.Sprintf("%q", value)
		})
	}
	o.record("answer", where, fields)
}

// hasRecords reports whether a list with records was returned.
func (o observation) hasRecords() bool {
	for f := range o.facts {
		if strings.HasPrefix(f.field, "body data[0].") {
			return true
		}
	}
	return false
}

// flatten calls f for each value within a value of JSON. Empty arrays and objects are values, too.
func flatten(path string, value any, f func(path, value string)) {
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		flatten(strings.TrimPrefix(path+"."+name, "."), object[name], f)
	}
	for i, e := range list {
		flatten(fmt.Sprintf("%s[%d]", path, i), e, f)
	}
	if len(object)+len(list) == 0 && path != "" {
		f(path, fmt.Sprint(value))
	}
}

// requests adds what the legacy system was asked for.
func (o observation) requests(l *replayer) {
	for i, r := range l.seen {
		fields := map[string]string{"method": r.Method, "path": r.URL.Path, "query": r.URL.RawQuery, "body": l.bodies[i]}
		for name, values := range r.Header {
			fields["header "+name] = o.mask(strings.Join(values, " | "))
		}
		o.record("request to the legacy system", "", fields)
	}
}

// log adds the lines of a log.
func (o observation) log(text string) {
	for line := range strings.Lines(text) {
		var record map[string]any
		fields := map[string]string{}
		if json.Unmarshal([]byte(line), &record) != nil {
			fields["text"] = o.mask(line)
		}
		flatten("", record, func(path, value string) { fields[path] = o.maskField(path, value) })
		o.record(fmt.Sprintf("log line %q", record["msg"]), "", fields)
	}
}

// metrics adds the series. Sums of times, and the buckets that times fall into, are only there.
func (o observation) metrics(text string) {
	for line := range strings.Lines(text) {
		i := strings.LastIndexByte(line, ' ')
		if line[0] == '#' || i < 0 {
			continue
		}
		series, value := line[:i], strings.TrimSpace(line[i:])
		name, _, _ := strings.Cut(series, "{")
		if strings.Contains(name, "_seconds") && !strings.HasSuffix(name, "_count") {
			value = "{value}"
		}
		o.record("metric "+name, series, map[string]string{"value": value})
	}
}

// diff finds what differs between two observations of a run. Of what only one has, and of an answer with another status, not every
// field is listed.
func diff(a, b observation) (found []difference) {
	all := maps.Clone(a.facts)
	maps.Copy(all, b.facts)
	for f := range all {
		olds, news := without(a.facts[f], b.facts[f]), without(b.facts[f], a.facts[f])
		whole, status := fact{f.title, "", f.where}, fact{"answer", "status", f.where}
		if f.title == "answer" && !slices.Equal(a.facts[status], b.facts[status]) && f.field != "status" && f.field != "body errors[0].code" {
			continue
		}
		for i := range max(len(olds), len(news)) {
			d := difference{fact: f}
			if i < len(olds) {
				d.old = olds[i]
			}
			if i < len(news) {
				d.new = news[i]
			}
			if f.field == "" || i < min(len(olds), len(news)) || len(a.facts[whole]) == len(b.facts[whole]) {
				found = append(found, d)
			}
		}
	}
	return found
}

// without are the values of a that b does not have, sorted.
func without(a, b []string) []string {
	rest := slices.Sorted(slices.Values(a))
	for _, v := range b {
		if i, found := slices.BinarySearch(rest, v); found {
			rest = slices.Delete(rest, i, i+1)
		}
	}
	return rest
}

// mostPairs is up to how many pairs of values of one kind have a line each.
const mostPairs = 4

// printDifferences writes a line for each kind of differences, or for each pair of values where these are few, with an example.
func printDifferences(w io.Writer, found []difference) {
	kinds := map[string]map[string][]difference{} // by pairs
	for _, d := range found {
		kind := strings.TrimSpace(d.title + " " + elements.ReplaceAllString(d.field, "[]"))
		if kinds[kind] == nil {
			kinds[kind] = map[string][]difference{}
		}
		pair := d.old + "\n" + d.new
		if d.old == "" || d.new == "" {
			pair = fmt.Sprint("only in NEW: ", d.old == "")
		}
		kinds[kind][pair] = append(kinds[kind][pair], d)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		pairs := kinds[kind]
		if len(pairs) > mostPairs || strings.HasPrefix(kind, "metric ") && strings.HasSuffix(kind, " value") {
			pairs = map[string][]difference{"": slices.Concat(slices.Collect(maps.Values(pairs))...)}
		}
		for _, pair := range slices.Sorted(maps.Keys(pairs)) {
			d := slices.MinFunc(pairs[pair], func(d, e difference) int { return strings.Compare(d.where+d.field, e.where+e.field) })
			fmt.Fprintf(w, "%6d  %s: %.200s -> %.200s\n        in %.300s\n", len(pairs[pair]), kind, cmp.Or(d.old, "none"), cmp.Or(d.new, "none"), d.where)
		}
	}
}
