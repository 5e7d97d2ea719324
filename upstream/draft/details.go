package draft

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Details is what is proposed for second calls, which give more of each record.
type Details struct {
	Items  string // path of the detail within its reply
	ID     string // path of the id within a record
	Path   string // of the request; empty: to complete
	Proven bool   // the list has nothing but ids, or samples of details are there
	doubts
}

// detailName is the member of a record that has its detail.
const detailName = "details"

// bareIDs finds a list of nothing but ids, and makes records of them as the gateway
// does; nil if there is none.
func bareIDs(sample any) (longest *found) {
	most := 0
	visit(nil, sample, func(keys []string, v any) bool {
		list, _ := v.([]any)
		records, seen := []any{}, map[string]bool{}
		for _, id := range list {
			if c := cellOf(id); (c.kind == number || c.kind == text) && !seen[c.text] && !isProse(c) {
				seen[c.text] = true
				records = append(records, map[string]any{"id": id})
			}
		}
		if len(records) == len(list) && len(list) > most {
			most, longest = len(list), &found{path: cmp.Or(pathOf(keys), "@this"), keys: keys, records: records}
		}
		return true
	})
	return longest
}

// merge puts the samples that are details into their records. Those that are none are
// named in about.
func (d *Details) merge(records []any, key *column, samples []any, numbers []int) (merged int, about doubts) {
	byID := map[string]map[string]any{}
	for i, record := range records {
		if object, ok := record.(map[string]any); ok && i < len(key.cells) {
			byID[key.cells[i].text] = object
		}
	}
	for i, sample := range samples {
		path, object, record := detailIn(sample, lastKey(key), byID)
		switch {
		case record == nil:
			about.doubt("sample %d is no such list, and no detail of a record: it was left out", numbers[i])
			continue
		case merged > 0 && path != d.Items:
			about.doubt("the detail in sample %d is at %s", numbers[i], path)
			continue
		}
		d.Items = path
		record[detailName] = object
		merged++
	}
	return merged, about
}

// detailIn finds the first object, from the outside, with a member that is the id of
// a record. Ids of one or two characters count only under the name that they have in
// the list.
func detailIn(sample any, name string, byID map[string]map[string]any) (path string, object, record map[string]any) {
	visit(nil, sample, func(keys []string, v any) bool {
		inner, ok := v.(map[string]any)
		if !ok || len(keys) > 3 {
			return false
		}
		for _, key := range slices.Sorted(maps.Keys(inner)) {
			c := cellOf(inner[key])
			if r := byID[c.text]; record == nil && c.filled() && r != nil && (key == name || len(c.text) >= minID) {
				path, object, record = cmp.Or(pathOf(keys), "@this"), inner, r
			}
		}
		return record == nil
	})
	return path, object, record
}

// idColumn is the id that a record's detail is asked for with: one that each record has
// and no other, and that the other samples have. Of several it is the first by its
// path.
func idColumn(t *table, samples []any) (best *column) {
	hits := -1
	for _, col := range t.columns {
		if !col.always() || col.distinct() < 1 || col.time != nil || col.share(isProse) > 0 || col.length() > 64 || col.lookup != nil {
			continue
		}
		byID := map[string]map[string]any{}
		for _, c := range col.cells {
			byID[c.text] = map[string]any{}
		}
		n := 0
		for _, sample := range samples {
			if _, _, r := detailIn(sample, lastKey(col), byID); r != nil {
				n++
			}
		}
		if n > hits {
			best, hits = col, n
		}
	}
	return best
}

// detailColumns drops what the detail repeats from the list, and notes how many
// records have one, so that the others do not count as records without a value.
func (t *table) detailColumns(merged int) {
	t.columns = slices.DeleteFunc(t.columns, func(c *column) bool {
		if c.keys[0] != detailName {
			return false
		}
		c.could = merged
		path := pathOf(c.keys[1:])
		return slices.ContainsFunc(t.columns, func(other *column) bool { return other.path == path && repeats(c, other) })
	})
}

// repeats tells whether a column has nothing but what the other one has in the same
// records.
func repeats(c, other *column) bool {
	for i, x := range c.cells {
		if x.filled() && x != other.cells[i] {
			return false
		}
	}
	return true
}

// addressOf finds a column of addresses that hold the record's id, and writes them
// with {id} in its place. It gives the id's column, too.
func addressOf(t *table) (link, id *column, path string) {
	for _, link = range t.columns {
		if !link.always() || link.distinct() < 1 || link.lookup != nil || link.share(func(x cell) bool { return urlForm.MatchString(x.text) }) < 1 {
			continue
		}
		for _, id = range t.columns {
			if id == link || !id.always() || id.distinct() < 1 || id.lookup != nil {
				continue
			}
			if path = templateOf(link, id); path != "" {
				return link, id, path
			}
		}
	}
	return nil, nil, ""
}

// templateOf is the path that all addresses have with {id} for the id; empty if they
// have none in common.
func templateOf(link, id *column) (path string) {
	for i, c := range link.cells {
		u, err := url.Parse(c.text)
		if err != nil {
			return ""
		}
		segments := strings.Split(u.EscapedPath(), "/")
		at := slices.IndexFunc(segments, func(s string) bool {
			stem, _, _ := strings.Cut(s, ".")
			return s == id.cells[i].text || stem == id.cells[i].text
		})
		if at < 0 {
			return ""
		}
		segments[at] = strings.Replace(segments[at], id.cells[i].text, "{id}", 1)
		if one := strings.Join(segments, "/"); path == "" {
			path = one
		} else if path != one {
			return ""
		}
	}
	if strings.ContainsAny(strings.Replace(path, "{id}", "", 1), "{}") || !strings.HasPrefix(path, "/") {
		return ""
	}
	return path
}

// details proposes second calls, of which merged samples are. Without one they are a
// proposal only, where the list has something that leads to them and lacks something of
// a record.
func (p *Proposal) details(t *table, o Options, d Details, merged int) {
	link, id, path := addressOf(t)
	if link != nil {
		d.Path = path
		if d.Proven {
			d.doubt("the path is that of %s; is it below base_url?", link.path)
		} else {
			d.ID = id.path
		}
	}
	lacks := p.Kind == "buyer" && (p.Content.Path == "" || p.Responses.Items == "") || p.Kind == "seller" && p.CompanyName.Path == ""
	switch {
	case d.Proven && merged > 0:
		d.doubt("details of %d of %d records were among the samples", merged, p.Records)
	case d.Proven:
		d.doubt("the list has nothing but ids; add a --sample of one record's detail, and its fields are found")
	case !lacks:
		return
	case link != nil:
		d.doubt("each record has its address in %s; if what is missing is there, remove the # of the next line, and add a --sample of such a reply", link.path)
	case o.Details != "":
		d.Path, d.ID = o.Details, cmp.Or(idOf(t), toComplete)
		d.doubt("the OpenAPI document has %s; if what is missing is there, remove the # of the next line, and add a --sample of such a reply", d.Path)
	default:
		return
	}
	p.Details = &d
}

// idOf is the path of what most likely tells one record from the others; empty: nothing
// does.
func idOf(t *table) string {
	if col := idColumn(t, nil); col != nil {
		return col.path
	}
	return ""
}

// write writes the section details, as a comment if no sample shows that it is right.
func (d *Details) write(w *writer) {
	w.doubts(d.Doubts)
	var keys []string
	if d.Items != "" && d.Items != "@this" {
		keys = append(keys, "items: "+quote(d.Items))
	}
	if d.Path == "" {
		w.line("# TODO: the path of the request for one detail")
	}
	comment := ""
	if !d.Proven {
		comment = "# "
	}
	w.line("%sdetails: {%s}", comment, strings.Join(append(keys, fmt.Sprintf("fetch: {path: %s, id: %s}", quote(cmp.Or(d.Path, "/"+toComplete+"/{id}")), quote(d.ID))), ", "))
}
