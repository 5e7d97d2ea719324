package mapping

import (
	"cmp"
	"slices"
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
)

// list is where items stand: the records of a reply, or the responses of a record or of a
// reply of their own.
type list struct {
	path     string         // as it was written
	at       source         // of what holds the items
	kind     jsonwalk.Kind  // of that: an array, or an object
	alone    *jsonwalk.Node // of the items alone, or of each entry, if the walker does not meet them on its way
	way      []string       // the keys that lead to the items, as far as they are plain
	optional bool           // nothing there means an empty list
	keyIDs   bool           // the keys of the items are internal ids
	entries  *lookup        // of a table, which the items only name; nil: they are the items themselves
	ids      []source       // of internal ids whose paths are not simple
	where    Conditions     // that an item must meet to be shown
}

// keyPath stands among internal ids for the key under which a record is found.
const keyPath = "@key"

// itemsOf splits @values off the end of a path. gjson makes an empty array of
// it where nothing is, and then a reply that is an error would be an empty list.
func itemsOf(path string) (base string, keyed bool) {
	base, keyed = strings.CutSuffix(path, "@values")
	switch {
	case !keyed:
		return path, false
	case base == "":
		return "@this", true
	}
	return base[:len(base)-1], true
}

// list compiles the items at a path within the element of the frame. Each of them is an
// element; its tree is the given one, unless there is one already. Where the path is more
// than keys, or names the items only, what is found there is walked by itself.
func (c *compiler) list(field, path string, ids []string, l list, element *jsonwalk.Node) (list, *jsonwalk.Node) {
	base, keyed := itemsOf(path)
	walked := jsonwalk.List{Frame: element.Frame(), Keyed: keyed, KeyID: slices.Contains(ids, keyPath)}
	c.AddIf(walked.KeyID && !keyed, field+"internal_ids", "%s is for items that are the members of an object; let the path of items end in @values", keyPath)
	if l.path, l.kind, l.keyIDs = path, jsonwalk.Array, walked.KeyID; keyed {
		l.kind = jsonwalk.Object
	}
	keys, simple := jsonwalk.SimplePath(base, false)
	if whole := base == "@this" && c.frame == frameReply; (simple || whole) && l.entries == nil {
		n := c.root.At(keys, c.frame)
		element = n.SetList(walked, element) // ids that lie deeper were met before
		l.way, l.at = keys, source{slot: c.slot(n)}
		return l, element
	}
	l.way, l.at, l.alone = wayTo(base), c.source(base), element
	l.at.xml = false // its elements are wanted
	if l.entries == nil {
		l.alone = jsonwalk.NewNode(c.frame)
		l.alone.SetList(walked, element)
	}
	return l, element
}

// wayTo are the keys that a path begins with, up to the first part that is more than a key.
func wayTo(path string) (keys []string) {
	for _, part := range jsonwalk.Segments(path) {
		key, simple := jsonwalk.SimplePath(part, false)
		if !simple {
			break
		}
		keys = append(keys, key...)
	}
	return keys
}

// items gives what holds the items of a list, after all of them were walked. ok is false
// where it is something else, or nothing.
func (b *Builder) items(l *list, f *jsonwalk.Frame, frame int) (held jsonwalk.Value, ok bool, err *Error) {
	held = l.at.find(f)
	// PHP writes an object without members as an empty array.
	empty := l.kind == jsonwalk.Object && held.Kind == jsonwalk.Array && strings.Trim(held.Raw, "[] \t\r\n") == ""
	ok = held.Kind == l.kind || empty
	switch {
	case !ok || l.alone == nil:
	case l.entries != nil:
		if l.keyIDs {
			held.Members(func(key string, _ jsonwalk.Value) { b.ids.Add(key) })
		}
		held.Each(func(element jsonwalk.Value) bool {
			switch entry, found := l.entries.entry(&jsonwalk.Frame{Element: element.Raw, Tables: f.Tables}); {
			case !found:
				err = refusal("items", whyNoEntry)
			case b.allow(len(entry.Raw)):
				err = cmp.Or(err, b.walked(b.walker.WalkItem(entry.Raw, l.alone)))
			}
			return b.tooMuch == nil
		})
	default:
		err = b.walk(held.Raw, l.alone, frame)
	}
	return held, ok, err
}
