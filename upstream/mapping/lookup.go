package mapping

import (
	"slices"
	"strconv"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsontree"
)

// table is a part of a reply that fields are looked up in. It is indexed once per reply.
type table struct {
	in  string // as it was written
	at  jsontree.Path
	key compiledPaths
}

// entriesPerRecord bounds a table: so many times max_records.
const entriesPerRecord = 10

// lookup finds an entry of a table by values of an element.
type lookup struct {
	table int // of the replies
	by    compiledPaths
}

// entry compiles how an entry is found for an element. Fields that use the same table share its
// index.
func (s scope) entry(field string, cfg LookupConfig) *lookup {
	for key, missing := range map[string]bool{"in": cfg.In == "", "key": len(cfg.Key) == 0, "by": len(cfg.By) == 0} {
		s.AddIf(missing, field+"."+key, "missing: a look-up needs in, key and by")
	}
	s.AddIf(len(cfg.Key) != len(cfg.By), field+".by", "has %d values for the %d of key", len(cfg.By), len(cfg.Key))
	in, _ := s.compilePath(field+".in", cfg.In, cfg.In != "")
	r := s.replies
	entry := scope{compiler: s.compiler, replies: r, outline: markLists(r.Format.Outline, in), xml: r.Format.XML}
	entry.outline.List = true
	l := &lookup{by: s.locateAll(field+".by", field+".by", cfg.By)}
	one := table{in: cfg.In, at: in}
	for _, path := range cfg.Key {
		if at, ok := entry.compilePath(field+".key", path, path != ""); ok {
			one.key = append(one.key, entry.locate(at))
		}
	}
	l.table = slices.IndexFunc(r.tables, func(t table) bool { return t.in == cfg.In && slices.EqualFunc(t.key, one.key, samePath) })
	if l.table < 0 {
		l.table = len(r.tables)
		r.tables = append(r.tables, one)
	}
	return l
}

func samePath(a, b compiledPath) bool { return a.String() == b.String() }

// locateByLookup compiles paths in the entry of a table, of which the first present one counts.
func (s scope) locateByLookup(field string, paths Paths, at string, cfg LookupConfig) (all compiledPaths) {
	l := s.entry(at, cfg)
	in, err := jsontree.CompilePath(cfg.In)
	if err != nil {
		return nil // entry has reported it
	}
	entry := markLists(s.replies.Format.Outline, in)
	for _, path := range paths {
		if to, ok := s.compilePath(field, path, true); ok {
			markLists(entry, to)
			all = append(all, compiledPath{Path: to, lookup: l, xml: s.replies.Format.XML})
		}
	}
	return all
}

// find returns the entry whose key the element names; false: there is none.
func (l *lookup) find(e *element) (entry jsontree.Value, found bool) {
	key, ok := keyOf(len(l.by), func(i int) jsontree.Value { return l.by[i].find(e) })
	if ok {
		entry, found = e.tables[l.table][key]
	}
	return entry, found
}

// plainText is the text of an element of XML that has attributes besides.
func plainText(v jsontree.Value, xml bool) jsontree.Value {
	if xml && v.Kind() == jsontree.Object {
		return v.Member(decode.Text)
	}
	return v
}

// keyOf joins the parts of a key, so that no two keys look the same. It is false if
// a part is missing.
func keyOf(parts int, part func(int) jsontree.Value) (key string, ok bool) {
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

// index finds all entries of a table. Two different ones with the same key are an error:
// either could be the wrong one. Entries without a key are nobody's and left out; no
// table at all is one without entries.
func (t *table) index(reply jsontree.Value, most int) (index map[string]jsontree.Value, err *Error) {
	index = map[string]jsontree.Value{}
	v := reply.Get(t.at)
	if v.Present() && v.Kind() != jsontree.Array {
		return nil, newError("items", "the value at the path of a look-up's table is no array")
	}
	entries := 0
	v.Each(func(entry jsontree.Value) bool {
		if entries++; entries > most {
			err = newError("too_many", "more than %d entries in a look-up's table", most)
			return false
		}
		key, ok := keyOf(len(t.key), func(i int) jsontree.Value { return t.key[i].find(&element{Value: entry}) })
		if before, twice := index[key]; ok && twice && before.Raw() != entry.Raw() {
			err = newError("items", "two different entries with the same key in a look-up's table")
			return false
		} else if ok {
			index[key] = entry
		}
		return true
	})
	return index, err
}
