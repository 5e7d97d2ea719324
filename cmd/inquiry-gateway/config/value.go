package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"inquiry-gateway/upstream/draft"
)

// kind is what a value of the file is.
type kind int

const (
	null    kind = iota // a key without a value, null or ~
	scalar              // a text, a number, true or false
	list                // its items
	section             // a mapping of keys
)

// value is one value of the file. Aliases are followed, merge keys carried out and
// variables put in, so that the tree has these four kinds only. It is not changed after it
// was built; an anchor's value stands at each of its aliases.
type value struct {
	kind    kind
	at      position // where it begins; of a null where its key does
	text    string   // of a scalar, with variables put in
	written string   // of a scalar, as the file has it
	quoted  bool     // a scalar in quotes or a block: a text for certain
	items   []*value // nil in the place of one that was reported
	keys    []entry  // in the order of the file
	size    int      // how many values are in it, aliases counted each time
}

// entry is one key of a section.
type entry struct {
	key   string // as it is written: 010 is no 8
	at    position
	value *value
}

// builder makes the tree of values. It reports what it cannot take and leaves it out, so
// that the rest is still looked at.
type builder struct {
	*report
	env     func(name string) (string, bool) // nil: variables stay as they are written
	anchors map[string]*value
	bomb    bool // too many values were reported
}

// build gives nil for a value that was reported.
func (b *builder) build(n ast.Node, path string) *value {
	switch n := n.(type) {
	case *ast.MappingNode:
		return b.section(n, path)
	case *ast.SequenceNode:
		return b.list(n, path)
	case *ast.AnchorNode:
		v := b.build(n.Value, path)
		b.anchors[n.Name.GetToken().Value] = v
		return v
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		v, ok := b.anchors[name]
		if !ok {
			b.add(placeOf(n.GetToken()), path, "there is no anchor &%s before this line", name)
		}
		return v
	case *ast.NullNode:
		return &value{kind: null, at: placeOf(n.GetToken())}
	case *ast.StringNode:
		return b.scalar(n.Token, n.Value, path)
	case *ast.LiteralNode:
		return b.scalar(n.Start, n.Value.Value, path)
	case *ast.TagNode:
		b.add(placeOf(n.GetToken()), path, "the tag %s is not supported; remove it", n.GetToken().Value)
		return nil
	case ast.ScalarNode:
		return b.scalar(n.GetToken(), n.GetToken().Value, path)
	}
	b.add(placeOf(n.GetToken()), path, "this YAML notation is not supported; write it as a plain value")
	return nil
}

// scalar puts variables into a text.
func (b *builder) scalar(at *token.Token, written, path string) *value {
	v := &value{kind: scalar, at: placeOf(at), text: written, written: written}
	switch at.Type {
	case token.SingleQuoteType, token.DoubleQuoteType, token.LiteralType, token.FoldedType:
		v.quoted = true
	}
	if b.env != nil && strings.Contains(written, "${") {
		var err error
		if v.text, err = b.expand(written); err != nil {
			b.add(v.at, path, "%v", err)
			return nil
		}
		b.hide(v.text, written)
	}
	b.refuseTODO(v.at, v.text, path)
	return v
}

// refuseTODO refuses what draft has left to a person.
func (b *builder) refuseTODO(at position, text, path string) {
	if strings.Contains(text, draft.ToComplete) {
		b.add(at, path, "%s stands where draft found nothing; write what belongs there", draft.ToComplete)
	}
}

// list leaves a nil in the place of an element that was reported, so that the others
// keep their index.
func (b *builder) list(n *ast.SequenceNode, path string) *value {
	v := &value{kind: list, at: placeOf(n.Start)}
	for i, from := range n.Values {
		key := item(path, i)
		element := b.build(from, key)
		if !b.grow(v, element, placeOf(from.GetToken()), key) {
			return nil
		}
		v.items = append(v.items, element)
	}
	return v
}

// section keeps the order of the keys. Of a key that stands twice the first counts, and
// the second is reported. Merged keys (<<) come last, and give way to the section's own.
func (b *builder) section(n *ast.MappingNode, path string) *value {
	v := &value{kind: section, at: placeOf(n.Start)}
	if len(n.Values) > 0 && n.Start.Value != "{" {
		v.at = placeOf(n.Values[0].Key.GetToken())
	}
	var merged []entry
	for _, pair := range n.Values {
		if pair.Key.IsMergeKey() {
			merged = append(merged, b.merge(pair.Value, path)...)
			continue
		}
		name, plain := pair.Key.(ast.ScalarNode)
		if !plain {
			b.add(placeOf(pair.Key.GetToken()), path, "this kind of key is not supported; write a plain name")
			continue
		}
		e := entry{key: name.GetToken().Value, at: placeOf(name.GetToken())}
		full := join(path, e.key)
		b.refuseTODO(e.at, e.key, full)
		e.value = b.build(pair.Value, full)
		if before := v.entry(e.key); before != nil {
			b.add(e.at, full, "stands here a second time; the first is in line %d", before.at.line)
			continue
		}
		if !b.grow(v, e.value, e.at, full) {
			return nil
		}
		if e.value != nil && e.value.kind == null {
			e.value = &value{kind: null, at: e.at} // there is nothing else to point at
		}
		if e.value != nil {
			v.keys = append(v.keys, e)
		}
	}
	for _, e := range merged {
		if v.entry(e.key) != nil {
			continue
		}
		if !b.grow(v, e.value, e.at, join(path, e.key)) {
			return nil
		}
		v.keys = append(v.keys, e)
	}
	return v
}

// merge gives the keys of the sections that a << key names: one, or a list of them, of
// which the first counts.
func (b *builder) merge(n ast.Node, path string) (keys []entry) {
	v := b.build(n, path)
	sources := []*value{v}
	if v != nil && v.kind == list {
		sources = v.items
	}
	for _, source := range sources {
		if source != nil && source.kind != section {
			b.add(v.at, path, "<< wants a mapping such as *name, got %s", source)
			return nil
		}
		if source != nil {
			keys = append(keys, source.keys...)
		}
	}
	return keys
}

// grow counts a child into its parent. It reports, once, what aliases blow up.
func (b *builder) grow(v, child *value, at position, path string) bool {
	v.size++
	if child != nil {
		v.size += child.size
	}
	if v.size > maxValues && !b.bomb {
		b.bomb = true
		b.add(at, path, "is more than %d values with its aliases; write less", maxValues)
	}
	return v.size <= maxValues
}

// entry is the one with that key, or nil. v may be nil.
func (v *value) entry(key string) *entry {
	if v != nil {
		for i := range v.keys {
			if v.keys[i].key == key {
				return &v.keys[i]
			}
		}
	}
	return nil
}

// child is the value at that key, or nil.
func (v *value) child(key string) *value {
	if e := v.entry(key); e != nil {
		return e.value
	}
	return nil
}

// locate finds a path such as a.b[2].c and its place: the value's own, or its key's where
// the value is a section or a list. Where the path is not in the file, found is nil and the
// place that of its nearest parent. Keys may hold dots themselves, therefore the longest
// one that fits is taken.
func (v *value) locate(path string) (at position, found *value) {
	at = position{1, 1}
	for path != "" && v != nil {
		path = strings.TrimPrefix(path, ".")
		if v.kind == list {
			index, rest, ok := cutIndex(path)
			if !ok || index >= len(v.items) || v.items[index] == nil {
				return at, nil
			}
			v, path = v.items[index], rest
			at = v.at
			continue
		}
		var best *entry
		for i, e := range v.keys {
			if (path == e.key || under(path, e.key)) && (best == nil || len(e.key) > len(best.key)) {
				best = &v.keys[i]
			}
		}
		if best == nil {
			return at, nil
		}
		v, path, at = best.value, path[len(best.key):], best.at
		if v.kind == scalar {
			at = v.at
		}
	}
	return at, v
}

// cutIndex takes the leading [i] off a path.
func cutIndex(path string) (index int, rest string, ok bool) {
	inner, ok := strings.CutPrefix(path, "[")
	number, rest, closed := strings.Cut(inner, "]")
	index, err := strconv.Atoi(number)
	return index, rest, ok && closed && err == nil && index >= 0
}

// join puts a key under a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// item puts an index under a path.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// placeOf is where a token stands; zero where it was not read from a file.
func placeOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// String names a value in an error: what it is, shortened, and never the content of a
// variable, which may be a secret.
func (v *value) String() string {
	switch {
	case v.kind == list:
		return "a list"
	case v.kind == section:
		return "a mapping"
	case v.kind == null:
		return "nothing"
	case v.written != v.text:
		return "the value of " + shorten(v.written)
	case v.quoted:
		return fmt.Sprintf("the quoted text %q", shorten(v.text))
	case v.number():
		return "the number " + shorten(v.text)
	case v.text == "true" || v.text == "false":
		return v.text
	}
	return fmt.Sprintf("the text %q", shorten(v.text))
}

// number tells whether a scalar is a number as it is written.
func (v *value) number() bool {
	_, err := strconv.ParseFloat(v.text, 64)
	return err == nil && !v.quoted
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// plain is a value as JSON would have it, such as the body of a request: a variable, what
// stands in quotes and what only looks like a number, such as 010, are texts.
func (v *value) plain() any {
	switch v.kind {
	case list:
		all := make([]any, len(v.items))
		for i, one := range v.items {
			if one != nil {
				all[i] = one.plain()
			}
		}
		return all
	case section:
		all := make(map[string]any, len(v.keys))
		for _, e := range v.keys {
			all[e.key] = e.value.plain()
		}
		return all
	case null:
		return nil
	}
	if v.quoted || v.written != v.text {
		return v.text
	}
	switch v.text {
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	if !jsonNumber.MatchString(v.text) {
		return v.text
	}
	if n, err := strconv.ParseUint(v.text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseInt(v.text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseFloat(v.text, 64); err == nil && !math.IsInf(n, 0) {
		return n
	}
	return v.text
}

// shorten bounds what an error quotes of the file, in characters.
func shorten(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return s
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand puts environment variables into one scalar: ${NAME} is the value of NAME, $${ a
// literal ${. It works on the parsed value, so that no value of a variable can add keys,
// and what it puts in is not looked at again.
func (b *builder) expand(text string) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			out.WriteString(text)
			return out.String(), nil
		}
		if literal, ok := strings.CutSuffix(before, "$"); ok {
			out.WriteString(literal + "${")
			text = rest
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !variableName.MatchString(name) {
			return "", fmt.Errorf("%q is no variable; write ${NAME}, or $${ for a literal ${", shorten("${"+rest))
		}
		content, set := b.env(name)
		if !set {
			return "", fmt.Errorf("the environment variable %s is not set; set it, or write $${%s} for the literal text", name, name)
		}
		b.hide(content, "${"+name+"}")
		out.WriteString(before + content)
		text = after
	}
}
