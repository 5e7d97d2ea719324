package mapping

import (
	"strconv"
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
)

// PathFound is a configured path and how often something was there.
type PathFound struct {
	Key   string `json:"key"` // of the configuration, below the endpoint
	Path  string `json:"path"`
	In    string `json:"in"`    // what it was looked for in: records, responses or replies
	Of    int    `json:"of"`    // how many of these could have it
	Found int    `json:"found"` // how many had it, null included
	Null  int    `json:"null"`
	// Doubt says why the list is doubtful, if it is: the path is one that hides
	// its mistake, and nothing was there, nor at another path of the same key.
	Doubt string `json:"doubt,omitempty"`
}

// watch counts one path.
type watch struct {
	PathFound
	hides string // what a path without a value does silently; empty: that shows elsewhere
}

// coverage counts the paths of a plan.
type coverage struct{ records, responses, replies []*watch }

// What a path hides that matches nothing.
const (
	hidesIDs       = "internal ids would not be removed from texts"
	hidesResponses = "every inquiry would look unanswered"
	hidesDefault   = "every record has the default"
	hidesRecords   = "no record would be shown"
	hidesNull      = "every record has null"
	hidesEnd       = "" // no next page and a wrong path look the same; the marks of more tell them apart
)

// coverage prepares to count all paths of the plan. Those of look-ups are left out:
// they are looked for in a table, and a record without an entry there is nothing odd.
func (p *Plan) coverage() *coverage {
	c := &coverage{}
	add := func(list *[]*watch, in, key, hides string, paths ...string) {
		for _, path := range paths {
			if path != keyPath && path != "" {
				*list = append(*list, &watch{PathFound{Key: key, Path: path, In: in}, hides})
			}
		}
	}
	field := func(list *[]*watch, in, key, hides string, p *fieldPlan) {
		if !p.looked { // else its path is that of a table, not of a record
			add(list, in, key, hides, p.paths...)
		}
	}
	text := func(list *[]*watch, in, key string, t *textPlan) {
		hides := ""
		switch {
		case t.def.Set && !t.def.Null:
			hides = hidesDefault
		case t.nullable:
			hides = hidesNull
		}
		field(list, in, key, hides, &t.fieldPlan)
	}
	if p.owner == nil || p.owner[0].lookup == nil {
		add(&c.records, "records", "owner", "", p.OwnerPaths...)
	}
	for i, path := range p.idPaths {
		add(&c.records, "records", index("internal_ids", i), hidesIDs, path)
	}
	conditions := func(list *[]*watch, in string, all []condition, hides string) {
		for _, one := range all {
			_, key, _ := strings.Cut(one.key, ".")
			if one.absent {
				add(list, in, key, "", one.path) // that nothing is there is what it wants
			} else {
				add(list, in, key, hides, one.path)
			}
		}
	}
	conditions(&c.records, "records", p.where, hidesRecords)
	for _, t := range p.texts() {
		text(&c.records, "records", "fields."+t.name, t)
	}
	field(&c.records, "records", "fields.created_at", "", &p.created.fieldPlan)
	for _, key := range []string{"cursor", "next", "total", "total_pages", "more"} {
		add(&c.replies, "replies", "paging."+key, hidesEnd, p.Paging.paths()[key])
	}
	r := p.responses
	if r == nil {
		return c
	}
	if p.Second == nil {
		add(&c.records, "records", "fields.responses.items", hidesResponses, r.itemsPath)
	} else {
		add(&c.records, "records", "fields.responses.fetch.id", "", p.Second.idPath)
	}
	for i, path := range r.idPaths {
		add(&c.responses, "responses", index("fields.responses.internal_ids", i), hidesIDs, path)
	}
	conditions(&c.responses, "responses", r.where, hidesResponses)
	text(&c.responses, "responses", "fields.responses.fields.content", r.content)
	text(&c.responses, "responses", "fields.responses.fields.responder_type", r.role)
	field(&c.responses, "responses", "fields.responses.fields.created_at", "", &r.created.fieldPlan)
	return c
}

// look counts what is in one record, response or reply. Of a path with a # in it only
// elements count that there are: an empty array could not have had it.
func look(list []*watch, raw string) {
	for _, w := range list {
		if w.Path == "@this" {
			continue
		}
		if before, _, several := strings.Cut(w.Path, jsonwalk.Each); several && !strings.Contains(w.Path, "(") {
			if n := jsonwalk.Lookup(raw, before+jsonwalk.Each).Raw; n == "" || n == "0" || n == "null" {
				continue // there was nothing to look in
			}
			w.Of++
			some := 0
			jsonwalk.Lookup(raw, w.Path).Scalars(func(string) { some = 1 })
			w.Found += some
			continue
		}
		w.Of++
		switch kindAt(raw, w.Path) {
		case jsonwalk.Missing:
		case jsonwalk.Null:
			w.Found++
			w.Null++
		default:
			w.Found++
		}
	}
}

// kindAt is the kind of what is at a path: null, too, if an object on the way is.
func kindAt(raw, path string) jsonwalk.Kind {
	kind := jsonwalk.Lookup(raw, path).Kind
	keys, simple := jsonwalk.SimplePath(path, false)
	for n := len(keys) - 1; simple && kind == jsonwalk.Missing && n > 0 && !strings.Contains(path, `\`); n-- {
		if jsonwalk.Lookup(raw, strings.Join(keys[:n], ".")).Kind == jsonwalk.Null {
			kind = jsonwalk.Null
		}
	}
	return kind
}

// found gives the counts. Of several paths of one key that hide a mistake it is
// enough if one was found.
func (c *coverage) found() []PathFound {
	all := []PathFound{}
	for _, list := range [][]*watch{c.records, c.responses, c.replies} {
		some := map[string]bool{}
		for _, w := range list {
			some[w.Key] = some[w.Key] || w.Found > 0
		}
		for _, w := range list {
			if w.hides != "" && w.Of > 0 && !some[w.Key] {
				w.Doubt = w.hides
			}
			all = append(all, w.PathFound)
		}
	}
	return all
}

// String is such as "internal_ids[0]: uuid found in 0 of 165 records".
func (p PathFound) String() string {
	return p.Key + ": " + p.Path + " found in " + p.Share()
}

// Share is such as "160 of 165 records, null in 12".
func (p PathFound) Share() string {
	if p.Of == 0 {
		return "nothing to look in"
	}
	s := strconv.Itoa(p.Found) + " of " + strconv.Itoa(p.Of) + " " + p.In
	if p.Null > 0 {
		s += ", null in " + strconv.Itoa(p.Null)
	}
	return s
}
