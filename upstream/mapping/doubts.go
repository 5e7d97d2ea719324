package mapping

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"inquiry-gateway/upstream/jsontree"
	"inquiry-gateway/upstream/redact"
)

// roundNumbers are the lengths at which systems cut lists.
var roundNumbers = []int{10, 20, 25, 50, 100, 200, 250, 500, 1000}

// doubts says what a list that would be served harm.
func (x *Explainer) doubts() {
	seen := map[string]bool{}
	add := func(path, format string, args ...any) {
		if d := (Doubt{path, fmt.Sprintf(format, args...)}); !seen[d.Text] {
			seen[d.Text] = true
			x.Doubts = append(x.Doubts, d)
		}
	}
	for _, path := range x.Paths {
		if path.Doubt != "" {
			add(path.Path, "%s: %s", path, path.Doubt)
		}
	}
	if x.withFetched > 0 && x.mostResponses == 0 {
		add(x.plan.responses.path, "no response came for any of %d records: %s", x.withFetched, harmResponses)
	}
	if x.Items > 0 && x.Excluded == x.Items {
		add("where", "where shows none of %d records", x.Items)
	}
	for _, path := range x.Paths {
		for i := 0; i < len(x.records) && path.In == "records" && path.harm == harmIDs; i++ {
			x.at(path.Path).eachID(x.records[i], func(id string) {
				if n := utf8.RuneCountInString(redact.TrimZeros(strings.TrimSpace(id))); n == 1 || n == 2 {
					add(path.Path, "%s has ids of one or two characters: each such word is cut out of all texts", path.Path)
				}
			})
		}
	}
	const cutThere = ", a round number%s: are lists cut there?"
	if x.Paging.Style == PageNone && slices.Contains(roundNumbers, x.Items) {
		add(x.items.path, "the list has exactly %d records"+cutThere, x.Items, ", and no paging is configured")
	}
	if r, second := x.plan.responses, x.plan.Responses; r != nil && (second == nil || second.Paging.Style == PageNone) && slices.Contains(roundNumbers, x.mostResponses) {
		add(r.path, "the longest list of responses has exactly %d"+cutThere, x.mostResponses, "")
	}
	numbers := map[string]int{}
	for i, record := range x.records {
		if first := numbers[record.Raw()]; first > 0 {
			add(x.items.path, "record %d is alike to record %d to the byte: is it one record twice?", i+1, first)
			break
		}
		numbers[record.Raw()] = i + 1
	}
	if x.Owner.Case > 0 {
		add("owner", "%d records have an owner that differs from the account in capitals only: these are two accounts", x.Owner.Case)
	}
	code := func(field, value string) {
		if value != "" && strings.Trim(value, "0123456789") == "" || value == "true" || value == "false" {
			add(field, "%s is the bare code %s: say what it means under values", field, shorten(value))
		}
	}
	for _, inq := range x.List {
		code("status", inq.Status)
		code("inquiry_type", inq.InquiryType.String)
		for _, r := range inq.Responses {
			code("responses.responder_type", r.ResponderType.String)
		}
	}
}

// unused lists the paths of the records that lie neither on the way to nor below a path
// of the mapping: what a person may have forgotten.
func (x *Explainer) unused() {
	used, kinds := x.plan.usedPrefixes(), map[string]uint8{}
	for _, raw := range x.records {
		shapes(raw, "", 0, func(path string, k jsontree.Kind) { kinds[path] |= 1 << k })
	}
	for path, set := range kinds {
		if slices.ContainsFunc(used, func(u string) bool { return below(path, u) || below(u, path) }) {
			continue
		}
		u := UnusedPath{Path: path}
		for k := jsontree.Null; k <= jsontree.Array; k++ {
			if set&(1<<k) != 0 {
				u.Types = append(u.Types, k.String())
			}
		}
		x.Unused = append(x.Unused, u)
	}
	slices.SortFunc(x.Unused, func(a, b UnusedPath) int { return strings.Compare(a.Path, b.Path) })
}

// shapes visits the paths of all values in a record that are no objects or arrays, or empty
// ones. Elements of arrays share one path with a # in it. What is deep counts as one value.
func shapes(v jsontree.Value, path string, depth int, visit func(path string, k jsontree.Kind)) {
	const deepest = 8
	empty := true
	if depth < deepest {
		for key, item := range v.All() {
			if key = shapeKey(key); v.Kind() == jsontree.Array {
				key = jsontree.Each
			}
			empty = false
			shapes(item, strings.TrimPrefix(path+"."+key, "."), depth+1, visit)
		}
	}
	if empty && path != "" {
		visit(path, v.Kind())
	}
}

// shapeKey gives the name of a key. One that is itself data, such as an id in an
// object that is keyed by ids, is not named: it would make a path of its own for
// every record.
func shapeKey(key string) string {
	digits := 0
	for i := range len(key) {
		if key[i] >= '0' && key[i] <= '9' {
			digits++
		}
	}
	if len(key) > 64 || digits > 5 || digits > 0 && strings.Trim(key, "0123456789abcdefABCDEF-") == "" || strings.ContainsAny(key, "\r\n") {
		return "*"
	}
	return key
}

// below tells whether a path is another one or lies within it.
func below(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent) && path[len(parent)] == '.'
}

// usedPrefixes gives, of each path of the mapping, the names before the first part that is more than
// a name. What that part selects is not known, so that all below these names counts as used.
func (p *Plan) usedPrefixes() (used []string) {
	responses := "" // the path of their items, if all on the way is plain
	if in := p.responseItems; in != nil && in.lookup == nil && strings.Join(namesOf(in.path, false), ".") == in.path {
		responses = in.path
	}
	if p.Responses != nil {
		used = append(used, fetchedMember)
	}
	for _, u := range p.usedPaths {
		path := u.path
		switch {
		case u.in == "replies" || u.in == "records" && path == responses:
			continue
		case u.in == "responses" && responses == "":
			continue
		case u.in == "responses":
			path = responses + ".#." + path
		}
		if start := strings.Join(namesOf(path, true), "."); start != "" {
			used = append(used, strings.TrimSuffix(start, ".#"))
		}
	}
	return used
}

// RemovedTexts are the texts that something is removed from.
type RemovedTexts struct {
	Texts int   `json:"texts"` // their number
	Cuts  []Cut `json:"cuts"`  // the first ones
}

// Cut is a part of a text before and after the removal.
type Cut struct {
	Record int    `json:"record"`
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Suspect is what looks like an internal id in a text and is not removed.
type Suspect struct {
	Record int    `json:"record"` // the first one
	Field  string `json:"field"`
	Value  string `json:"value"`
	Why    string `json:"why"`
	Key    string `json:"key"` // of the configuration, that would remove it
}

// Bounds of what is shown.
const (
	maxCuts     = 20
	maxSuspects = 20
	cutContext  = 20 // bytes before what was removed
)

// removeIDs is RemoveIDs with an account of it.
func (x *Explainer) removeIDs() {
	r := &x.Report.Removed
	x.eachText(func(record int, t *textField, before string) {
		after, n := x.ids.Clean(before)
		if n == 0 {
			return
		}
		if r.Texts++; len(r.Cuts) == maxCuts {
			return
		}
		from := 0
		for from < min(len(before), len(after)) && before[from] == after[from] {
			from++
		}
		from = max(from-cutContext, 0)
		for from > 0 && !utf8.RuneStart(before[from]) {
			from--
		}
		r.Cuts = append(r.Cuts, Cut{record, t.name, shorten(before[from:]), shorten(after[from:])})
	})
	x.Builder.RemoveIDs()
	x.suspects()
}

var (
	idRun  = regexp.MustCompile(`[A-Za-z0-9]+(?:[_-]+[A-Za-z0-9]+)*`)
	idName = regexp.MustCompile(`(?i)(id|key|ref|no|num|number|code)$`)
)

// suspects looks for UUIDs, and values of unmapped fields that are called as ids are, in the texts as
// callers get them. What it finds is shown and not removed.
func (x *Explainer) suspects() {
	fields, seen := x.unmappedIDs(), map[string]bool{}
	x.eachText(func(record int, t *textField, s string) {
		for _, run := range idRun.FindAllString(s, -1) {
			one := Suspect{Record: record, Field: t.name, Value: shorten(run)}
			switch {
			case fields[run] != "":
				one.Why, one.Key = "the value of "+fields[run]+", which is not mapped", "internal_ids"
			case redact.IsUUID(run):
				one.Why, one.Key = "a UUID", "internal_id_patterns"
			}
			if one.Why != "" && !seen[run] && len(x.Suspects) < maxSuspects {
				seen[run] = true
				x.Suspects = append(x.Suspects, one)
			}
		}
	})
}

// likeAnID reports whether a text is long enough, and has a digit, so that it may be taken
// for an id because a field has it.
func likeAnID(s string) bool { return len(s) >= 6 && strings.ContainsAny(s, "0123456789") }

// unmappedIDs gives the values of fields that no part of the mapping looks at and that
// are called as ids are, with their paths. Short ones, and those without a digit, are
// left out: they would be found in any text.
func (x *Explainer) unmappedIDs() map[string]string {
	fields := map[string]string{}
	for _, u := range x.Unused {
		if !idName.MatchString(u.Path) {
			continue
		}
		for _, raw := range x.records {
			raw.At(u.Path).Scalars("", func(s string) {
				if likeAnID(s) {
					fields[s] = u.Path
				}
			})
		}
	}
	return fields
}
