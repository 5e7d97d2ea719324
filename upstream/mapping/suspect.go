package mapping

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"inquiry-gateway/upstream/jsonwalk"
)

// RemovedTexts counts the texts that something is removed from, by the reason. One
// text may have several.
type RemovedTexts struct {
	Texts   int   `json:"texts"`
	ID      int   `json:"id"`
	Pattern int   `json:"pattern"`
	UUID    int   `json:"uuid"`
	Cuts    []Cut `json:"cuts"` // the first ones
}

// Cut is a part of a text before and after the removal.
type Cut struct {
	Record int    `json:"record"`
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// Uncovered is what looks like an internal id in a text and is not removed.
type Uncovered struct {
	Record int    `json:"record"` // the first one
	Field  string `json:"field"`
	Value  string `json:"value"`
	Why    string `json:"why"`
	Key    string `json:"key"` // of the configuration, that would remove it
}

// Bounds of what is shown.
const (
	maxCuts      = 20
	maxUncovered = 20
	cutContext   = 20 // bytes before what was removed
)

// removeIDs is RemoveIDs with an account of it.
func (x *Explainer) removeIDs() {
	r := &x.Explanation.Removed
	x.eachText(func(record int, d *field, before string) {
		after, n := x.ids.Clean(before)
		if n == 0 {
			return
		}
		r.Texts++
		uuid, pattern, word := x.ids.Means(before)
		for count, found := range map[*int]bool{&r.ID: word, &r.Pattern: pattern, &r.UUID: uuid} {
			if found {
				*count++
			}
		}
		if len(r.Cuts) == maxCuts {
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
		r.Cuts = append(r.Cuts, Cut{record, d.name, shorten(before[from:]), shorten(after[from:])})
	})
	x.Builder.RemoveIDs()
	x.uncovered()
}

var (
	idRun    = regexp.MustCompile(`[A-Za-z0-9]+(?:[_-]+[A-Za-z0-9]+)*`)
	longRun  = regexp.MustCompile(`[A-Za-z0-9]{12,}`)
	uuidLike = regexp.MustCompile(`(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$`)
	idName   = regexp.MustCompile(`(?i)(id|key|ref|no|num|number|code)$`)
)

// uncovered looks for what could be an internal id in the texts as callers get them. It
// can only suspect: what it finds is shown and not removed.
func (x *Explainer) uncovered() {
	shapes, fields, seen := map[string]bool{}, x.unmappedIDs(), map[string]bool{}
	x.ids.EachWord(func(id string) { shapes[shapeOf(id)] = true })
	x.eachText(func(record int, d *field, s string) {
		for _, run := range idRun.FindAllString(s, -1) {
			why, key := suspect(run, shapes, fields)
			if why == "" || seen[run] || len(x.Uncovered) == maxUncovered {
				continue
			}
			seen[run] = true
			x.Uncovered = append(x.Uncovered, Uncovered{record, d.name, shorten(run), why, key})
		}
	})
}

// likeAnID tells whether a text is long enough, and has a digit, so that it may be taken
// for an id because ids have its shape, or because a field has it.
func likeAnID(s string) bool { return len(s) >= 6 && strings.ContainsAny(s, "0123456789") }

// suspect says why a run of characters looks like an id, and which key removes it. The
// surest reason comes first. Both are empty for what looks like a word or a number.
func suspect(run string, shapes map[string]bool, fields map[string]string) (why, key string) {
	switch {
	case fields[run] != "":
		return "the value of " + fields[run] + ", which is not mapped", "internal_ids"
	case uuidLike.MatchString(run):
		return "a UUID", "internal_id_patterns"
	case likeAnID(run) && shapes[shapeOf(run)]:
		return "written as the internal ids are", "internal_id_patterns"
	case slices.ContainsFunc(longRun.FindAllString(run, -1), func(s string) bool { return likeAnID(s) && strings.Trim(s, "0123456789") != "" }):
		return "many letters and digits", "internal_id_patterns"
	}
	return "", ""
}

// unmappedIDs gives the values of fields that no part of the mapping looks at and that
// are called as ids are, with their paths. Short ones, and those without a digit, are
// left out: they would be found in any text.
func (x *Explainer) unmappedIDs() map[string]string {
	fields := map[string]string{}
	for _, u := range x.Unused {
		if !idName.MatchString(u.Path) {
			continue
		}
		for _, raw := range x.raw {
			jsonwalk.Lookup(raw, u.Path).Scalars("", func(s string) {
				if likeAnID(s) {
					fields[s] = u.Path
				}
			})
		}
	}
	return fields
}

// shapeOf writes all digits and all letters of one case alike.
func shapeOf(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '0' && r <= '9':
			return '0'
		case r >= 'A' && r <= 'Z':
			return 'A'
		case r >= 'a' && r <= 'z':
			return 'a'
		}
		return r
	}, s)
}
