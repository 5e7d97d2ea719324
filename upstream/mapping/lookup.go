package mapping

import (
	"slices"
	"strconv"
	"strings"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsonwalk"
)

// tablePlan is a table that fields are looked up in. It is indexed once per reply.
type tablePlan struct {
	in  string
	key []string
	xml bool
}

// lookup is a source in a table.
type lookup struct {
	table int // of the plan
	by    []source
	take  []string
	xml   bool
}

// alsoUsed notes paths of the element that no field names.
func (c *compiler) alsoUsed(paths Paths) {
	switch c.frame {
	case frameRecord:
		c.plan.byPaths = append(c.plan.byPaths, paths...)
	case frameResponse:
		c.plan.byInner = append(c.plan.byInner, paths...)
	}
}

// entriesPerRecord bounds a table: so many times max_records.
const entriesPerRecord = 10

// lookup compiles a look-up. Fields that use the same table share its index, which is
// made once per reply.
func (c *compiler) lookup(field string, cfg LookupConfig) []source {
	c.AddIf(len(cfg.Take) == 0, field+".take", "missing: the path, within the entry, of the field")
	c.lookupKeys(field, cfg.ElementLookup)
	entry := c.plan.Format.place().inside(cfg.In)
	for _, path := range cfg.Take {
		c.path(field+".take", path)
		entry.note(path)
	}
	l := &lookup{by: c.paths(field+".by", field+".by", cfg.By), take: cfg.Take, xml: c.plan.Format.XML}
	c.alsoUsed(cfg.By)
	l.table = c.table(cfg.In, cfg.Key)
	return []source{{lookup: l}}
}

// lookupKeys checks what all look-ups have.
func (c *compiler) lookupKeys(field string, cfg ElementLookup) {
	for key, missing := range map[string]bool{"in": cfg.In == "", "key": len(cfg.Key) == 0, "by": len(cfg.By) == 0} {
		c.AddIf(missing, field+"."+key, "missing: a look-up needs in, key and by")
	}
	c.AddIf(len(cfg.Key) != len(cfg.By), field+".by", "has %d values for the %d of key", len(cfg.By), len(cfg.Key))
	entry := c.plan.Format.place().inside(cfg.In)
	for key, paths := range map[string]Paths{"in": {cfg.In}, "key": cfg.Key} {
		for _, path := range paths {
			if path != "" && c.path(field+"."+key, path) && key == "key" {
				entry.note(path)
			}
		}
	}
}

// table gives the index of a table of the plan, which all look-ups in it share.
func (c *compiler) table(in string, key []string) int {
	i := slices.IndexFunc(c.plan.tables, func(t tablePlan) bool { return t.in == in && slices.Equal(t.key, key) })
	if i < 0 {
		i = len(c.plan.tables)
		c.plan.tables = append(c.plan.tables, tablePlan{in, key, c.plan.Format.XML})
	}
	return i
}

// of gives the entries of the elements of an array as an array; false: one has none.
func (e *entries) of(f *jsonwalk.Frame, elements jsonwalk.Value) (array string, all bool) {
	var list []string
	all = true
	elements.Each(func(element jsonwalk.Value) bool {
		key, ok := keyOf(len(e.by), func(i int) jsonwalk.Value { return plainText(jsonwalk.Lookup(element.Raw, e.by[i]), e.xml) })
		entry, found := f.Tables[e.table][key]
		if all = ok && found; all {
			list = append(list, entry.Raw)
		}
		return all
	})
	return "[" + strings.Join(list, ",") + "]", all
}

// entries are the look-up of whole elements.
type entries struct {
	table int // of the plan
	by    []string
	xml   bool
}

// find gets the value by the entry whose key the frame's element names. It is missing
// if there is no such entry.
func (l *lookup) find(f *jsonwalk.Frame) (v jsonwalk.Value) {
	key, ok := keyOf(len(l.by), func(i int) jsonwalk.Value { return l.by[i].find(f) })
	if !ok {
		return v
	}
	entry, ok := f.Tables[l.table][key]
	for i := 0; ok && i < len(l.take) && !v.Present(); i++ {
		v = plainText(jsonwalk.Lookup(entry.Raw, l.take[i]), l.xml)
	}
	return v
}

// plainText is the text of an element of XML that has attributes besides.
func plainText(v jsonwalk.Value, xml bool) jsonwalk.Value {
	if xml && v.Kind == jsonwalk.Object {
		return jsonwalk.Lookup(v.Raw, decode.Text)
	}
	return v
}

// keyOf joins the parts of a key, so that no two keys look the same. It is false if
// a part is missing.
func keyOf(parts int, part func(int) jsonwalk.Value) (key string, ok bool) {
	for i := range parts {
		v := part(i)
		if !v.Present() || !v.Scalar() {
			return "", false
		}
		text := v.String()
		if parts == 1 {
			return text, true
		}
		key += strconv.Itoa(len(text)) + ":" + text
	}
	return key, true
}

// index finds all entries of a table. Two different ones with the same key are refused:
// either could be the wrong one. Entries without a key are nobody's and left out; no
// table at all is one without entries.
func (t *tablePlan) index(body string, most int) (index map[string]jsonwalk.Value, err *Error) {
	index = map[string]jsonwalk.Value{}
	v := jsonwalk.Lookup(body, t.in)
	if v.Present() && v.Kind != jsonwalk.Array {
		return nil, refusal("items", "the value at the path of a look-up's table is no array")
	}
	entries := 0
	v.Each(func(entry jsonwalk.Value) bool {
		if entries++; entries > most {
			err = refusal("too_many", "more than %d entries in a look-up's table", most)
			return false
		}
		key, ok := keyOf(len(t.key), func(i int) jsonwalk.Value { return plainText(jsonwalk.Lookup(entry.Raw, t.key[i]), t.xml) })
		if before, twice := index[key]; ok && twice && before.Raw != entry.Raw {
			err = refusal("items", "two different entries with the same key in a look-up's table")
			return false
		} else if ok {
			index[key] = entry
		}
		return true
	})
	return index, err
}

// indexTables indexes all tables of a reply. The reply is not yet known to be valid
// JSON; where it is not it is refused when it is walked.
func (r *Reply) indexTables(body string) *Error {
	if len(r.plan.tables) == 0 {
		return nil
	}
	tables := make([]map[string]jsonwalk.Value, len(r.plan.tables))
	for i := range r.plan.tables {
		var err *Error
		if tables[i], err = r.plan.tables[i].index(body, entriesPerRecord*r.plan.MaxRecords); err != nil {
			return err
		}
	}
	r.setTables(tables)
	return nil
}

// setTables makes the tables known to all elements.
func (r *Reply) setTables(tables []map[string]jsonwalk.Value) {
	for i := range frameCount {
		r.walker.Frame(i).Tables = tables
	}
}
