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

// lookup finds an entry of a table by values of an element.
type lookup struct {
	table int // of the replies
	by    locators
}

// entry compiles how an entry is found for an element. Fields that use the same table share its
// index.
func (s scope) entry(field string, cfg LookupConfig) *lookup {
	for key, missing := range map[string]bool{"in": cfg.In == "", "key": len(cfg.Key) == 0, "by": len(cfg.By) == 0} {
		s.AddIf(missing, field+"."+key, "missing: a look-up needs in, key and by")
	}
	s.AddIf(len(cfg.Key) != len(cfg.By), field+".by", "has %d values for the %d of key", len(cfg.By), len(cfg.Key))
	if cfg.In != "" {
		s.path(field+".in", cfg.In)
	}
	r := s.replies
	entry := markLists(r.Format.Outline, cfg.In)
	entry.List = true
	for _, path := range cfg.Key {
		if path != "" && s.path(field+".key", path) {
			markLists(entry, path)
		}
	}
	l := &lookup{by: s.locateAll(field+".by", field+".by", cfg.By)}
	l.table = slices.IndexFunc(r.tables, func(t table) bool { return t.in == cfg.In && slices.Equal(t.key, cfg.Key) })
	if l.table < 0 {
		l.table = len(r.tables)
		r.tables = append(r.tables, table{cfg.In, cfg.Key, r.Format.XML})
	}
	return l
}

// locateByLookup compiles paths in the entry of a table, of which the first present one counts.
func (s scope) locateByLookup(field string, paths Paths, at string, cfg LookupConfig) (all locators) {
	l, entry := s.entry(at, cfg), markLists(s.replies.Format.Outline, cfg.In)
	for _, path := range paths {
		if s.path(field, path) {
			markLists(entry, path)
			all = append(all, locator{path: path, lookup: l, xml: s.replies.Format.XML})
		}
	}
	return all
}

// find gives the entry whose key the frame's element names; false: there is none.
func (l *lookup) find(f *jsonwalk.Frame) (entry jsonwalk.Value, found bool) {
	key, ok := keyOf(len(l.by), func(i int) jsonwalk.Value { return l.by[i].find(f) })
	if ok {
		entry, found = f.Tables[l.table][key]
	}
	return entry, found
}

// plainText is the text of an element of XML that has attributes besides.
func plainText(v jsonwalk.Value, xml bool) jsonwalk.Value {
	if xml && v.Kind == jsonwalk.Object {
		return v.At(decode.Text)
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

// index finds all entries of a table. Two different ones with the same key are an error:
// either could be the wrong one. Entries without a key are nobody's and left out; no
// table at all is one without entries.
func (t *table) index(reply jsonwalk.Value, most int) (index map[string]jsonwalk.Value, err *Error) {
	index = map[string]jsonwalk.Value{}
	v := reply.At(t.in)
	if v.Present() && v.Kind != jsonwalk.Array {
		return nil, newError("items", "the value at the path of a look-up's table is no array")
	}
	entries := 0
	v.Each(func(entry jsonwalk.Value) bool {
		if entries++; entries > most {
			err = newError("too_many", "more than %d entries in a look-up's table", most)
			return false
		}
		key, ok := keyOf(len(t.key), func(i int) jsonwalk.Value { return plainText(entry.At(t.key[i]), t.xml) })
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
