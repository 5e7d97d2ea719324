package mapping

import (
	"slices"
	"strconv"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsontree"
)

// table is a part of a reply that fields are looked up in. It is indexed once per reply.
type table struct {
	in    jsontree.Path
	paths Paths // of the key, as they were written
	key   compiledPaths
}

// entriesPerRecord bounds a table: so many times max_records.
const entriesPerRecord = 10

// lookup finds an entry of a table by values of an element.
type lookup struct {
	table int // of the replies
	by    compiledPaths
}

// lookup compiles how an entry is found for an element, and returns what paths in an entry lead
// into. Fields that use the same table share its index.
func (s scope) lookup(field string, cfg LookupConfig) (*lookup, scope) {
	for key, missing := range map[string]bool{"in": cfg.In == "", "key": len(cfg.Key) == 0, "by": len(cfg.By) == 0} {
		s.AddIf(missing, field+"."+key, "missing: a look-up needs in, key and by")
	}
	s.AddIf(len(cfg.Key) != len(cfg.By), field+".by", "has %d values for the %d of key", len(cfg.By), len(cfg.Key))
	r, l := s.replies, &lookup{by: s.locateAll(field+".by", field+".by", cfg.By)}
	in, _ := s.compilePath(field+".in", cfg.In, cfg.In != "")
	entry := scope{compiler: s.compiler, replies: r, in: s.in, outline: markLists(r.Format.Outline, in), xml: r.Format.XML}
	entry.outline.List = true
	l.table = slices.IndexFunc(r.tables, func(t table) bool { return t.in.String() == cfg.In && slices.Equal(t.paths, cfg.Key) })
	if l.table < 0 {
		l.table = len(r.tables)
		r.tables = append(r.tables, table{in, cfg.Key, entry.locateAll(field+".key", field+".key", cfg.Key)})
	}
	return l, entry
}

// find returns the entry whose key the element names; false: there is none.
func (l *lookup) find(e *element) (entry jsontree.Value, found bool) {
	key, ok := keyOf(l.by, e)
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
func keyOf(parts compiledPaths, e *element) (key string, ok bool) {
	for i := range parts {
		v := parts[i].find(e)
		if !v.Scalar() {
			return "", false
		}
		text := v.String()
		if len(parts) == 1 {
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
	v := reply.Get(t.in)
	if v.Present() && v.Kind() != jsontree.Array {
		return nil, newError("items", "the value at the path of a look-up's table is no array")
	}
	if v.Len() > most {
		return nil, newError("too_many", "more than %d entries in a look-up's table", most)
	}
	for _, entry := range v.All() {
		key, ok := keyOf(t.key, &element{Value: entry})
		if !ok {
			continue
		}
		if before, twice := index[key]; twice && before.Raw() != entry.Raw() {
			return nil, newError("items", "two different entries with the same key in a look-up's table")
		}
		index[key] = entry
	}
	return index, nil
}
