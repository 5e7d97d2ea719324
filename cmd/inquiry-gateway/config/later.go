package config

import "slices"

// later lists the keys of the design that this version does not know yet. They
// are refused as such: an unknown key would look like a slip of the pen, and
// a key taken without effect would be worse. Whoever builds one deletes its
// line here.
var later = []struct{ key, what string }{
	{"canary", "canary callers"},
}

// refuseLater reports those keys and takes them out of the tree.
func (doc *document) refuseLater() {
	for _, l := range later {
		if e, ok := doc.root.remove(l.key); ok {
			doc.add(e.at, l.key, "not supported yet: %s; remove the key", l.what)
		}
	}
}

// remove takes a key out of the tree, given its dotted path.
func (n *node) remove(path string) (entry, bool) {
	for i, e := range n.entries {
		if e.key == path {
			n.entries = slices.Delete(slices.Clone(n.entries), i, i+1)
			return e, true
		}
		if under(path, e.key) {
			return e.value.remove(path[len(e.key)+1:])
		}
	}
	return entry{}, false
}
