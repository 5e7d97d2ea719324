package config

import (
	"fmt"
	"strconv"
	"strings"
)

type kind int

const (
	null   kind = iota
	broken      // reported already; not looked at any more
	scalar
	list
	mapping
)

// node is one value of the file: the parser's tree without its notation, with
// anchors followed and variables put in. A node may hang in several places
// (aliases), so nothing changes one once it is built.
type node struct {
	kind    kind
	at      position
	text    string  // scalar: the text after variables were put in
	quoted  bool    // scalar: text for certain, never a number or true
	source  string  // scalar with variables: how it is written in the file
	items   []*node // list
	entries []entry // mapping, in the order of the file
	size    int     // values in it, aliases counted each time
}

type entry struct {
	key   string
	at    position
	value *node
}

// get gives the value of a key, or nil.
func (n *node) get(key string) *node {
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// where is the place to name for a value: the value itself for a scalar, its
// key where the value is a whole section or nothing.
func (e entry) where() position {
	if e.value.kind == scalar {
		return e.value.at
	}
	return e.at
}

// locate finds the place of a path such as a.b[2].c. Where it is not in the
// file the place is that of its nearest parent, and found is false. Keys may
// hold dots themselves, therefore the longest one that fits is taken.
func (n *node) locate(path string) (at position, found bool) {
	at = position{1, 1}
	for n != nil {
		if path == "" {
			return at, true
		}
		var next *node
		if next, at, path = n.step(path, at); next == nil {
			return at, false
		}
		n = next
	}
	return at, false
}

func (n *node) step(path string, at position) (*node, position, string) {
	path = strings.TrimPrefix(path, ".")
	if index, rest, ok := cutIndex(path); ok && index < len(n.items) {
		return n.items[index], n.items[index].at, rest
	}
	best := -1
	for i, e := range n.entries {
		fits := path == e.key || under(path, e.key)
		if fits && (best < 0 || len(e.key) > len(n.entries[best].key)) {
			best = i
		}
	}
	if best < 0 {
		return nil, at, path
	}
	e := n.entries[best]
	return e.value, e.where(), path[len(e.key):]
}

// cutIndex takes the leading [i] off a path.
func cutIndex(path string) (index int, rest string, ok bool) {
	inner, ok := strings.CutPrefix(path, "[")
	if !ok {
		return 0, path, false
	}
	number, rest, ok := strings.Cut(inner, "]")
	index, err := strconv.Atoi(number)
	return index, rest, ok && err == nil && index >= 0
}

// join puts a key under a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// number tells whether the scalar is a number as it is written.
func (n *node) number() bool {
	if n.quoted || n.text == "" {
		return false
	}
	_, err := strconv.ParseFloat(n.text, 64)
	return err == nil
}

// describe names the value in an error: what it is, shortened, and never the
// content of a variable, which may be a secret.
func (n *node) describe() string {
	switch {
	case n.kind == list:
		return "a list"
	case n.kind == mapping:
		return "a mapping"
	case n.kind == null || n.kind == broken:
		return "nothing"
	case n.source != "":
		return fmt.Sprintf("the value of %s", shorten(n.source))
	case n.quoted:
		return fmt.Sprintf("the quoted text %q", shorten(n.text))
	case n.number():
		return "the number " + shorten(n.text)
	case n.text == "true" || n.text == "false":
		return n.text
	}
	return fmt.Sprintf("the text %q", shorten(n.text))
}

func shorten(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}
