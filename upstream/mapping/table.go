package mapping

import (
	"slices"
	"strconv"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsonwalk"
)

// table is a part of a reply that fields are looked up in. It is indexed once per reply.
type table struct {
	in  string
	key []string
	xml bool
}

// entriesPerRecord bounds a table: so many times max_records.
const entriesPerRecord = 10

// lookup finds an entry of a table by values of an element, and a field in the entry.
type lookup struct {
	table int // of the plan
	by    sources
	take  []string
	xml   bool
}

// lookup compiles a field that stands in a table.
func (c *compiler) lookup(field string, cfg LookupConfig) sources {
	c.AddIf(len(cfg.Take) == 0, field+".take", "missing: the path, within the entry, of the field")
	entry := c.plan.Format.place().inside(cfg.In)
	for _, path := range cfg.Take {
		c.path(field+".take", path)
		entry.note(path)
	}
	l := c.entryOf(field, cfg.ElementLookup)
	l.take = cfg.Take
	c.use(field+".by", "", true, cfg.By...)
	return sources{{lookup: l}}
}

// elementLookup compiles elements that stand in a table. What names them has no tree: only
// the entries are walked.
func (c *compiler) elementLookup(field string, cfg ElementLookup, element place) *lookup {
	inner := *c
	inner.root, inner.at = nil, element
	return inner.entryOf(field, cfg)
}

// entryOf compiles how an entry is found. Fields that use the same table share its index.
func (c *compiler) entryOf(field string, cfg ElementLookup) *lookup {
	for key, missing := range map[string]bool{"in": cfg.In == "", "key": len(cfg.Key) == 0, "by": len(cfg.By) == 0} {
		c.AddIf(missing, field+"."+key, "missing: a look-up needs in, key and by")
	}
	c.AddIf(len(cfg.Key) != len(cfg.By), field+".by", "has %d values for the %d of key", len(cfg.By), len(cfg.Key))
	if cfg.In != "" {
		c.path(field+".in", cfg.In)
	}
	entry := c.plan.Format.place().inside(cfg.In)
	for _, path := range cfg.Key {
		if path != "" && c.path(field+".key", path) {
			entry.note(path)
		}
	}
	l := &lookup{by: c.sources(field+".by", field+".by", cfg.By), xml: c.plan.Format.XML}
	tables := &c.plan.tables
	l.table = slices.IndexFunc(*tables, func(t table) bool { return t.in == cfg.In && slices.Equal(t.key, cfg.Key) })
	if l.table < 0 {
		l.table = len(*tables)
		*tables = append(*tables, table{cfg.In, cfg.Key, l.xml})
	}
	return l
}

// entry is the one whose key the frame's element names; false: there is none.
func (l *lookup) entry(f *jsonwalk.Frame) (entry jsonwalk.Value, found bool) {
	key, ok := keyOf(len(l.by), func(i int) jsonwalk.Value { return l.by[i].find(f) })
	if ok {
		entry, found = f.Tables[l.table][key]
	}
	return entry, found
}

// find gets the value out of the entry. It is missing if there is no entry.
func (l *lookup) find(f *jsonwalk.Frame) (v jsonwalk.Value) {
	entry, found := l.entry(f)
	for i := 0; found && i < len(l.take) && !v.Present(); i++ {
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
func (t *table) index(body string, most int) (index map[string]jsonwalk.Value, err *Error) {
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

// indexTables indexes all tables of a reply.
func (b *Builder) indexTables(body string) *Error {
	if len(b.plan.tables) == 0 {
		return nil
	}
	tables := make([]map[string]jsonwalk.Value, len(b.plan.tables))
	for i := range b.plan.tables {
		var err *Error
		if tables[i], err = b.plan.tables[i].index(body, entriesPerRecord*b.plan.MaxRecords); err != nil {
			return err
		}
	}
	b.setTables(tables)
	return nil
}

// setTables makes the tables known to all elements.
func (b *Builder) setTables(tables []map[string]jsonwalk.Value) {
	for i := range frameCount {
		b.walker.Frame(i).Tables = tables
	}
}
