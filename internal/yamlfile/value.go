package yamlfile

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Kind is what a value of the file is.
type Kind int

// The kinds.
const (
	Null    Kind = iota // a key without a value, null or ~
	Scalar              // a text, a number, true or false
	List                // its items
	Section             // a mapping of keys
)

// Value is one value of the file, with variables put in. The tree has these four kinds only. A
// nil *Value is none.
type Value struct {
	Kind    Kind
	Text    string   // of a scalar, with variables put in
	Written string   // of a scalar, as the file has it
	Items   []*Value // of a list; nil in the place of one that was reported
	Keys    []Entry  // of a section, in the order of the file
	at      position // where it begins; of a null where its key does
	quoted  bool     // a scalar in quotes or a block: a text for certain
}

// Entry is one key of a section.
type Entry struct {
	Key   string // as it is written: 010 is no 8
	Value *Value
	at    position
}

// builder makes the tree of values. It reports what it cannot take and leaves it out, so
// that the rest is still looked at.
type builder struct {
	*report
	env func(name string) (string, bool) // nil: variables stay as they are written
}

// build gives nil for a value that was reported.
func (b *builder) build(n ast.Node, path string) *Value {
	switch n := n.(type) {
	case *ast.MappingNode:
		return b.section(n, path)
	case *ast.SequenceNode:
		return b.list(n, path)
	case *ast.AnchorNode, *ast.AliasNode:
		b.add(placeOf(n.GetToken()), path, "%s", noReferences)
		return nil
	case *ast.NullNode:
		return &Value{Kind: Null, at: placeOf(n.GetToken())}
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

const noReferences = "anchors, aliases and merge keys (<<) are not read here; write the value itself"

// scalar puts variables into a text.
func (b *builder) scalar(at *token.Token, written, path string) *Value {
	v := &Value{Kind: Scalar, at: placeOf(at), Text: written, Written: written}
	switch at.Type {
	case token.SingleQuoteType, token.DoubleQuoteType, token.LiteralType, token.FoldedType:
		v.quoted = true
	}
	if b.env != nil && strings.Contains(written, "${") {
		var err error
		if v.Text, err = b.expand(written); err != nil {
			b.add(v.at, path, "%v", err)
			return nil
		}
		b.hide(v.Text, written)
	}
	b.refuseTODO(v.at, v.Text, path)
	return v
}

// ToComplete is what draft leaves to a person.
const ToComplete = "COMPLETE_ME"

// refuseTODO refuses what draft has left to a person.
func (b *builder) refuseTODO(at position, text, path string) {
	if strings.Contains(text, ToComplete) {
		b.add(at, path, "%s stands where draft found nothing; write what belongs there", ToComplete)
	}
}

// list leaves a nil in the place of an element that was reported, so that the others
// keep their index.
func (b *builder) list(n *ast.SequenceNode, path string) *Value {
	v := &Value{Kind: List, at: placeOf(n.Start)}
	for i, from := range n.Values {
		v.Items = append(v.Items, b.build(from, Item(path, i)))
	}
	return v
}

// section keeps the order of the keys. Of a key that stands twice the first counts, and
// the second is reported.
func (b *builder) section(n *ast.MappingNode, path string) *Value {
	v := &Value{Kind: Section, at: placeOf(n.Start)}
	if len(n.Values) > 0 && n.Start.Value != "{" {
		v.at = placeOf(n.Values[0].Key.GetToken())
	}
	for _, pair := range n.Values {
		name, plain := pair.Key.(ast.ScalarNode)
		switch at := placeOf(pair.Key.GetToken()); {
		case pair.Key.IsMergeKey():
			b.add(at, path, "%s", noReferences)
			continue
		case !plain:
			b.add(at, path, "this kind of key is not supported; write a plain name")
			continue
		}
		e := Entry{Key: name.GetToken().Value, at: placeOf(name.GetToken())}
		full := Join(path, e.Key)
		b.refuseTODO(e.at, e.Key, full)
		if before := v.entry(e.Key); before != nil {
			b.add(e.at, full, "stands here a second time; the first is in line %d", before.at.line)
			continue
		}
		e.Value = b.build(pair.Value, full)
		if e.Value != nil && e.Value.Kind == Null {
			e.Value.at = e.at // there is nothing else to point at
		}
		if e.Value != nil {
			v.Keys = append(v.Keys, e)
		}
	}
	return v
}

// entry is the one with that key, or nil. v may be nil.
func (v *Value) entry(key string) *Entry {
	if v != nil {
		for i := range v.Keys {
			if v.Keys[i].Key == key {
				return &v.Keys[i]
			}
		}
	}
	return nil
}

// Child is the value at that key, or nil.
func (v *Value) Child(key string) *Value {
	if e := v.entry(key); e != nil {
		return e.Value
	}
	return nil
}

// locate finds a path such as a.b[2].c and its place: the value's own, or its key's where
// the value is a section or a list. Where the path is not in the file, found is nil and the
// place that of its nearest parent. Keys may hold dots themselves, therefore the longest
// one that fits is taken.
func (v *Value) locate(path string) (at position, found *Value) {
	at = position{1, 1}
	for path != "" && v != nil {
		path = strings.TrimPrefix(path, ".")
		if v.Kind == List {
			index, rest, ok := cutIndex(path)
			if !ok || index >= len(v.Items) || v.Items[index] == nil {
				return at, nil
			}
			v, path = v.Items[index], rest
			at = v.at
			continue
		}
		var best *Entry
		for i, e := range v.Keys {
			if (path == e.Key || Under(path, e.Key)) && (best == nil || len(e.Key) > len(best.Key)) {
				best = &v.Keys[i]
			}
		}
		if best == nil {
			return at, nil
		}
		v, path, at = best.Value, path[len(best.Key):], best.at
		if v.Kind == Scalar {
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

// Join puts a key, or a path of keys, under a path. Either may be empty, and a key may begin with an index.
func Join(path, key string) string {
	if path == "" || key == "" || key[0] == '[' {
		return path + key
	}
	return path + "." + key
}

// Item puts an index under a path.
func Item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// placeOf is where a token stands; zero where it was not read from a file.
func placeOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// String names a value in an error: what it is, shortened, and never the content of a
// variable, which may be a secret.
func (v *Value) String() string {
	switch {
	case v.Kind == List:
		return "a list"
	case v.Kind == Section:
		return "a mapping"
	case v.Kind == Null:
		return "nothing"
	case v.Written != v.Text:
		return "the value of " + shorten(v.Written)
	case v.quoted:
		return fmt.Sprintf("the quoted text %q", shorten(v.Text))
	case v.number():
		return "the number " + shorten(v.Text)
	case v.Text == "true" || v.Text == "false":
		return v.Text
	}
	return fmt.Sprintf("the text %q", shorten(v.Text))
}

// number tells whether a scalar is a number as it is written.
func (v *Value) number() bool {
	_, err := strconv.ParseFloat(v.Text, 64)
	return err == nil && !v.quoted
}

var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// Plain is a value as JSON would have it, such as the body of a request: a variable, what
// stands in quotes and what only looks like a number, such as 010, are texts.
func (v *Value) Plain() any {
	switch v.Kind {
	case List:
		all := make([]any, len(v.Items))
		for i, one := range v.Items {
			if one != nil {
				all[i] = one.Plain()
			}
		}
		return all
	case Section:
		all := make(map[string]any, len(v.Keys))
		for _, e := range v.Keys {
			all[e.Key] = e.Value.Plain()
		}
		return all
	case Null:
		return nil
	}
	if v.quoted || v.Written != v.Text {
		return v.Text
	}
	switch v.Text {
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	if !jsonNumber.MatchString(v.Text) {
		return v.Text
	}
	if n, err := strconv.ParseUint(v.Text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseFloat(v.Text, 64); err == nil && !math.IsInf(n, 0) {
		return n
	}
	return v.Text
}

// shorten bounds what an error quotes of the file, in characters: what stands there may be a
// key or a password that was pasted into the wrong place.
func shorten(s string) string {
	const most = 16
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
