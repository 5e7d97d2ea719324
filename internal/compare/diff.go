package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// observation is what a run has shown, with masked values.
type observation struct {
	answers  []answer
	requests []map[string]string // to the legacy system
	log      []map[string]string
	metrics  map[string]string // by series
}

// answer is one to a caller: its status, header fields, and values of its body by their paths.
type answer struct {
	name   string
	fields map[string]string
}

// difference is one value that is not the same. An empty value is none.
type difference struct{ kind, old, new, where string }

var (
	ids       = regexp.MustCompile(`\b[0-9a-f]{16,64}\b`)
	times     = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	addresses = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	folders   = regexp.MustCompile(`/[^\s"]*/run\d+`)
	took      = regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms)\b|\b(\d+m)?\d+\.\d+s\b`)
	numbers   = regexp.MustCompile(`-?\d+`)
	elements  = regexp.MustCompile(`\[\d+\]`)

	counted   = []string{"Age", "Retry-After", "Ratelimit", "Cache-Status"} // header fields whose numbers are times
	durations = regexp.MustCompile(`(?i)(^|[._])(time|duration|age|ago|took|since|until|seconds|ms|retry_after|pid)$|_seconds|_at$`)
	buckets   = regexp.MustCompile(`le="[^+]`)
)

// maskText takes out of a text what is another one each time.
func maskText(s string) string {
	s = folders.ReplaceAllString(addresses.ReplaceAllString(s, "{address}"), "{folder}")
	return took.ReplaceAllString(times.ReplaceAllString(ids.ReplaceAllString(s, "{id}"), "{time}"), "{duration}")
}

func maskLog(path, value string) string {
	if durations.MatchString(path) {
		return "{duration}"
	}
	return maskText(value)
}

// maskMetric masks the value of a series: of the runtime, of times, and the buckets into which durations fall.
func maskMetric(series, value string) string {
	name, labels, _ := strings.Cut(series, "{")
	switch {
	case regexp.MustCompile(`^(go|process|promhttp)_`).MatchString(name),
		strings.Contains(name, "_seconds") && (!strings.HasSuffix(name, "_count") && !strings.HasSuffix(name, "_bucket") || buckets.MatchString(labels)):
		return "{value}"
	}
	return value
}

// fieldsOf are the parts of an answer that are compared. Of lists every value counts; what operators get is masked as a log is.
func fieldsOf(resp *http.Response, body []byte, ops bool) map[string]string {
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
		fields["body"] = fmt.Sprintf("%d bytes of %s", len(body), resp.Header.Get("Content-Encoding"))
	case err != nil:
		fields["body"] = maskText(string(body))
	default:
		flatten("", value, func(path, value string) {
			switch {
			case ops:
				value = maskLog(path, value)
			case strings.HasPrefix(path, "errors"):
				value = ids.ReplaceAllString(value, "{id}")
			}
			fields["body "+path] = value
		})
	}
	return fields
}

// flatten calls f for each value within a value of JSON. Empty arrays and objects are values, too.
func flatten(path string, value any, f func(path, value string)) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 && path != "" {
			f(path, "{}")
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			flatten(strings.TrimPrefix(path+"."+name, "."), v[name], f)
		}
	case []any:
		if len(v) == 0 {
			f(path, "[]")
		}
		for i, e := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), e, f)
		}
	case nil:
		f(path, "null")
	default:
		f(path, fmt.Sprint(v))
	}
}

// diff finds what differs between two observations of a run.
func diff(name string, a, b observation) (found []difference) {
	for i := range max(len(a.answers), len(b.answers)) {
		if i >= len(a.answers) || i >= len(b.answers) {
			found = append(found, difference{kind: "answers", old: fmt.Sprint(len(a.answers)), new: fmt.Sprint(len(b.answers)), where: name})
			break
		}
		found = append(found, diffFields("answer ", name+": "+a.answers[i].name, a.answers[i].fields, b.answers[i].fields)...)
	}
	found = append(found, diffRecords(name, a.requests, b.requests, func(map[string]string) string { return "legacy request" })...)
	found = append(found, diffRecords(name, a.log, b.log, func(r map[string]string) string { return fmt.Sprintf("log line %q", r["msg"]) })...)
	for _, series := range sortedKeys(a.metrics, b.metrics) {
		old, now := a.metrics[series], b.metrics[series]
		if old == now {
			continue
		}
		kind, _, _ := strings.Cut(series, "{")
		if old == "" || now == "" {
			kind += " series"
		}
		found = append(found, difference{kind: "metric " + kind, old: old, new: now, where: name + ": " + series})
	}
	return found
}

func diffFields(prefix, where string, a, b map[string]string) (found []difference) {
	for _, field := range sortedKeys(a, b) {
		old, isOld := a[field]
		now, isNew := b[field]
		if old != now || isOld != isNew {
			found = append(found, difference{kind: prefix + elements.ReplaceAllString(field, "[]"), old: shown(old, isOld), new: shown(now, isNew), where: where})
		}
	}
	return found
}

func shown(value string, there bool) string {
	if there {
		return fmt.Sprintf("%q", value)
	}
	return ""
}

// diffRecords compares records of which the order does not matter. What only one side has is compared with the
// most similar record of the same title that only the other side has.
func diffRecords(where string, a, b []map[string]string, title func(map[string]string) string) (found []difference) {
	left := map[string][2][]map[string]string{} // by title
	count := map[string]int{}
	key := func(r map[string]string) string { text, _ := json.Marshal(r); return string(text) } // strings always have JSON
	for _, r := range b {
		count[key(r)]++
	}
	keep := func(side int, r map[string]string) {
		pair := left[title(r)]
		pair[side] = append(pair[side], r)
		left[title(r)] = pair
	}
	for _, r := range a {
		if count[key(r)]--; count[key(r)] < 0 {
			keep(0, r)
		}
	}
	for _, r := range b {
		if count[key(r)]--; count[key(r)] >= 0 {
			keep(1, r)
		}
	}
	for _, t := range slices.Sorted(maps.Keys(left)) {
		olds, news := left[t][0], left[t][1]
		for _, old := range olds {
			if len(news) == 0 {
				found = append(found, difference{kind: t, old: "there", where: where + ": " + key(old)})
				continue
			}
			best := 0
			for i := range news {
				if len(diffFields("", "", old, news[i])) < len(diffFields("", "", old, news[best])) {
					best = i
				}
			}
			found = append(found, diffFields(t+" ", where+": "+key(old), old, news[best])...)
			news = slices.Delete(slices.Clone(news), best, best+1)
		}
		for _, r := range news {
			found = append(found, difference{kind: t, new: "there", where: where + ": " + key(r)})
		}
	}
	return found
}

// inBoth are the differences of a that b has, too.
func inBoth(a, b []difference) []difference {
	return slices.DeleteFunc(a, func(d difference) bool {
		return !slices.ContainsFunc(b, func(e difference) bool { return d.kind == e.kind && d.where == e.where })
	})
}

// differences are those of all runs, by their kinds.
type differences struct{ found map[string][]difference }

func (d *differences) add(found []difference) {
	if d.found == nil {
		d.found = map[string][]difference{}
	}
	for _, f := range found {
		d.found[f.kind] = append(d.found[f.kind], f)
	}
}

// mostPairs is up to how many pairs of values of one kind have a line each.
const mostPairs = 4

// print writes a line for each kind of differences; for each pair of values where they are few.
func (d *differences) print(w io.Writer) {
	for _, kind := range slices.Sorted(maps.Keys(d.found)) {
		pairs := map[[2]string][]difference{}
		for _, f := range d.found[kind] {
			pair := [2]string{f.old, f.new}
			pairs[pair] = append(pairs[pair], f)
		}
		if len(pairs) > mostPairs {
			pairs = map[[2]string][]difference{{}: d.found[kind]}
		}
		for _, pair := range slices.SortedFunc(maps.Keys(pairs), func(a, b [2]string) int { return strings.Compare(a[0]+"\n"+a[1], b[0]+"\n"+b[1]) }) {
			f := pairs[pair][0]
			fmt.Fprintf(w, "%6d  %s: %s -> %s\n        in %.300s\n", len(pairs[pair]), kind, value(f.old), value(f.new), f.where)
		}
	}
}

func value(s string) string {
	if s == "" {
		return "none"
	}
	return fmt.Sprintf("%.160s", s)
}
