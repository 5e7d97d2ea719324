package config

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"inquiry-gateway/upstream/draft"
)

// resolver copies the parser's tree into one of mappings, lists and scalars only:
// aliases are followed, merge keys carried out and variables put in. It reports
// what it cannot take and leaves it out, so that the rest is still looked at.
type resolver struct {
	*report
	env     func(name string) (string, bool) // nil: variables stay as they are written
	anchors map[string]ast.Node
	sizes   map[ast.Node]int // values in a mapping or list, aliases counted each time
	bomb    bool             // too many values were reported
}

// newResolver makes one for one tree; anchors and sizes are of that tree.
func newResolver(r *report, env func(string) (string, bool)) *resolver {
	return &resolver{report: r, env: env, anchors: map[string]ast.Node{}, sizes: map[ast.Node]int{}}
}

// resolve gives nil for a value that was reported.
func (r *resolver) resolve(n ast.Node, path string) ast.Node {
	switch n := n.(type) {
	case *ast.MappingNode:
		return r.mapping(n, path)
	case *ast.SequenceNode:
		return r.list(n, path)
	case *ast.AnchorNode:
		value := r.resolve(n.Value, path)
		r.anchors[n.Name.GetToken().Value] = value
		return value
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		value, ok := r.anchors[name]
		if !ok {
			r.add(placeOf(n.GetToken()), path, "there is no anchor &%s before this line", name)
		}
		return value
	case *ast.StringNode:
		return r.text(*n.Token, n.Value, path)
	case *ast.LiteralNode:
		return r.text(*n.Start, n.Value.Value, path)
	case *ast.TagNode:
		r.add(placeOf(n.GetToken()), path, "the tag %s is not supported; remove it", n.GetToken().Value)
		return nil
	case ast.ScalarNode:
		return n
	}
	r.add(placeOf(n.GetToken()), path, "this YAML notation is not supported; write it as a plain value")
	return nil
}

// text gives a node whose token holds the text as it is written, and whose value
// is the text with variables put in.
func (r *resolver) text(at token.Token, written, path string) ast.Node {
	at.Value = written
	n := ast.String(&at)
	if r.env == nil {
		return n
	}
	var err error
	if n.Value, err = expand(written, r.env); err != nil {
		r.add(placeOf(&at), path, "%v", err)
		return nil
	}
	if n.Value != written {
		r.variables = append(r.variables, n.Value, written)
	}
	r.complete(&at, n.Value, path)
	return n
}

// complete refuses what draft has left to a person.
func (r *resolver) complete(at *token.Token, text, path string) {
	if strings.Contains(text, draft.ToComplete) {
		r.add(placeOf(at), path, "%s stands where draft found nothing; write what belongs there", draft.ToComplete)
	}
}

// list leaves a nil in the place of an element that was reported, so that the others
// keep their index.
func (r *resolver) list(from *ast.SequenceNode, path string) ast.Node {
	n := ast.Sequence(from.Start, from.IsFlowStyle)
	for i, value := range from.Values {
		key := item(path, i)
		child := r.resolve(value, key)
		if !r.grow(n, child, placeOf(value.GetToken()), key) {
			return nil
		}
		n.Values = append(n.Values, child)
	}
	return n
}

// mapping keeps the order of the keys. Of a key that stands twice the first counts, and
// the second is reported. Merged keys (<<) come last, and give way to the mapping's own.
func (r *resolver) mapping(from *ast.MappingNode, path string) ast.Node {
	n := ast.Mapping(from.Start, from.IsFlowStyle)
	var inherited []*ast.MappingValueNode
	for _, pair := range from.Values {
		if pair.Key.IsMergeKey() {
			inherited = append(inherited, r.merge(pair.Value, path)...)
			continue
		}
		name, scalar := pair.Key.(ast.ScalarNode)
		if !scalar {
			r.add(placeOf(pair.Key.GetToken()), path, "this kind of key is not supported; write a plain name")
			continue
		}
		key := ast.String(name.GetToken()) // as it is written: 010 is no 8
		at, full := placeOf(key.Token), join(path, key.Value)
		r.complete(key.Token, key.Value, full)
		child := r.resolve(pair.Value, full)
		if before := pairOf(n, key.Value); before != nil {
			r.add(at, full, "stands here a second time; the first is in line %d", placeOf(before.Key.GetToken()).line)
			continue
		}
		if !r.grow(n, child, at, full) {
			return nil
		}
		if child != nil && child.Type() == ast.NullType {
			child = ast.Null(key.Token) // there is nothing else to point at
		}
		if child != nil {
			n.Values = append(n.Values, ast.MappingValue(pair.Start, key, child))
		}
	}
	for _, pair := range inherited {
		key := keyOf(pair)
		if pairOf(n, key) != nil {
			continue
		}
		if !r.grow(n, pair.Value, placeOf(pair.Key.GetToken()), join(path, key)) {
			return nil
		}
		n.Values = append(n.Values, pair)
	}
	return n
}

// merge gives the pairs of the mappings that a << key names: one, or a list of
// them, of which the first counts.
func (r *resolver) merge(value ast.Node, path string) (pairs []*ast.MappingValueNode) {
	n := r.resolve(value, path)
	sources := []ast.Node{n}
	if list, ok := n.(*ast.SequenceNode); ok {
		sources = list.Values
	}
	for _, source := range sources {
		if source == nil {
			continue
		}
		mapping, ok := source.(*ast.MappingNode)
		if !ok {
			r.add(place(n), path, "<< wants a mapping such as *name, got %s", describe(source))
			return nil
		}
		pairs = append(pairs, mapping.Values...)
	}
	return pairs
}

// grow counts a child into its parent. It reports, once, what aliases blow up.
func (r *resolver) grow(n, child ast.Node, at position, path string) bool {
	r.sizes[n] += 1 + r.sizes[child]
	if r.sizes[n] <= maxValues {
		return true
	}
	if !r.bomb {
		r.add(at, path, "is more than %d values with its aliases; write less", maxValues)
	}
	r.bomb = true
	return false
}

// keyOf is the key of a pair in a resolved tree, where all keys are texts.
func keyOf(pair *ast.MappingValueNode) string { return pair.Key.(*ast.StringNode).Value }

// pairOf gives the pair with that key, or nil. n may be any node.
func pairOf(n ast.Node, key string) *ast.MappingValueNode {
	if mapping, ok := n.(*ast.MappingNode); ok {
		for _, pair := range mapping.Values {
			if keyOf(pair) == key {
				return pair
			}
		}
	}
	return nil
}

// child is the value at that key, or nil.
func child(n ast.Node, key string) ast.Node {
	if pair := pairOf(n, key); pair != nil {
		return pair.Value
	}
	return nil
}

// placeOf is where a token stands; zero where it was not read from a file.
func placeOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{}
	}
	return position{t.Position.Line, t.Position.Column}
}

// place is where a value begins.
func place(n ast.Node) position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && n.Start.Value != "{" {
			return placeOf(n.Values[0].Key.GetToken())
		}
	case *ast.SequenceNode:
		return placeOf(n.Start)
	}
	return placeOf(n.GetToken())
}

// locate finds the place of a path such as a.b[2].c: the value's own, or its
// key's where the value is a mapping or a list. Where the path is not in the file
// the place is that of its nearest parent, and found is false. Keys may hold dots
// themselves, therefore the longest one that fits is taken.
func locate(n ast.Node, path string) (at position, found bool) {
	at = position{1, 1}
	for path != "" {
		path = strings.TrimPrefix(path, ".")
		if list, ok := n.(*ast.SequenceNode); ok {
			index, rest, ok := cutIndex(path)
			if !ok || index >= len(list.Values) || list.Values[index] == nil {
				return at, false
			}
			n, path = list.Values[index], rest
			at = place(n)
			continue
		}
		pair := longestKey(n, path)
		if pair == nil {
			return at, false
		}
		n, path = pair.Value, path[len(keyOf(pair)):]
		at = placeOf(pair.Key.GetToken())
		if _, scalar := n.(ast.ScalarNode); scalar {
			at = place(n)
		}
	}
	return at, n != nil
}

// longestKey gives the pair whose key path begins with, or nil.
func longestKey(n ast.Node, path string) (best *ast.MappingValueNode) {
	mapping, ok := n.(*ast.MappingNode)
	if !ok {
		return nil
	}
	for _, pair := range mapping.Values {
		key := keyOf(pair)
		if (path == key || under(path, key)) && (best == nil || len(key) > len(keyOf(best))) {
			best = pair
		}
	}
	return best
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
