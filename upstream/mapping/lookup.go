package mapping

import (
	"slices"
	"strconv"
	"strings"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsonwalk"
)

// LookupConfig is a field that stands in a table of the same reply, such as the
// included objects of JSON:API or sideloaded users. A value without an entry in the
// table is a missing one.
type LookupConfig struct {
	In   string `yaml:"in"`   // GJSON path of the table, within the reply: an array
	Key  Paths  `yaml:"key"`  // GJSON paths within an entry that together tell it from the others
	By   Paths  `yaml:"by"`   // GJSON paths, within the record or response, of the values to find at key, in the same order
	Take Paths  `yaml:"take"` // GJSON path of the field, within the entry; of several the first present one
}

// String describes the look-up for Explain.
func (l LookupConfig) String() string {
	return l.In + "[" + strings.Join(l.By, ", ") + "]." + strings.Join(l.Take, ", ")
}

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
	for key, missing := range map[string]bool{"in": cfg.In == "", "key": len(cfg.Key) == 0, "by": len(cfg.By) == 0, "take": len(cfg.Take) == 0} {
		c.AddIf(missing, field+"."+key, "missing: a look-up needs in, key, by and take")
	}
	c.AddIf(len(cfg.Key) != len(cfg.By), field+".by", "has %d values for the %d of key", len(cfg.By), len(cfg.Key))
	for key, paths := range map[string]Paths{"in": {cfg.In}, "key": cfg.Key, "take": cfg.Take} {
		for _, path := range paths {
			if path != "" {
				c.path(field+"."+key, path)
			}
		}
	}
	entry := c.plan.Format.place().inside(cfg.In)
	for _, path := range slices.Concat(cfg.Key, cfg.Take) {
		entry.note(path)
	}
	l := &lookup{by: c.paths(field+".by", field+".by", cfg.By), take: cfg.Take, xml: c.plan.Format.XML}
	same := func(t tablePlan) bool { return t.in == cfg.In && slices.Equal(t.key, cfg.Key) }
	c.alsoUsed(cfg.By)
	if l.table = slices.IndexFunc(c.plan.tables, same); l.table < 0 {
		l.table = len(c.plan.tables)
		c.plan.tables = append(c.plan.tables, tablePlan{cfg.In, cfg.Key, l.xml})
	}
	return []source{{lookup: l}}
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
