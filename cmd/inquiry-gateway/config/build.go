package config

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// builder makes the tree of nodes out of the parser's.
type builder struct {
	*report
	env     func(name string) (string, bool)
	anchors map[string]*node
	bomb    bool // too many values were reported
}

// build converts one value. It reports and gives an empty value for what it
// cannot take, so that the rest of the file is still looked at.
func (b *builder) build(n ast.Node, path string) *node {
	at := placeOf(n.GetToken())
	switch n := n.(type) {
	case *ast.MappingNode:
		return b.mapping(n, path)
	case *ast.SequenceNode:
		return b.list(n, path)
	case *ast.AnchorNode:
		value := b.build(n.Value, path)
		b.anchors[n.Name.GetToken().Value] = value
		return value
	case *ast.AliasNode:
		return b.alias(n, path)
	case *ast.NullNode:
		return &node{kind: null, at: at, size: 1}
	case *ast.StringNode:
		quoted := n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
		return b.scalar(&node{at: at, text: n.Value, quoted: quoted}, path)
	case *ast.LiteralNode:
		return b.scalar(&node{at: at, text: n.Value.Value, quoted: true}, path)
	case *ast.TagNode:
		b.add(at, path, "the tag %s is not supported; remove it", n.GetToken().Value)
		return &node{kind: broken, at: at, size: 1}
	case ast.ScalarNode:
		return b.scalar(&node{at: at, text: n.GetToken().Value}, path)
	}
	b.add(at, path, "this YAML notation is not supported; write it as a plain value")
	return &node{kind: broken, at: at, size: 1}
}

func (b *builder) scalar(n *node, path string) *node {
	n.kind, n.size = scalar, 1
	text, err := expand(n.text, b.env)
	if err != nil {
		b.add(n.at, path, "%v", err)
		return &node{kind: broken, at: n.at, size: 1}
	}
	if text != n.text {
		n.source, n.text = n.text, text
	}
	return n
}

func (b *builder) list(from *ast.SequenceNode, path string) *node {
	n := &node{kind: list, at: placeOf(from.Start), size: 1}
	for i, value := range from.Values {
		itemPath := item(path, i)
		child := b.build(value, itemPath)
		n.items = append(n.items, child)
		b.grow(n, child, placeOf(value.GetToken()), itemPath)
	}
	return n
}

func (b *builder) mapping(from *ast.MappingNode, path string) *node {
	n := &node{kind: mapping, at: placeOf(from.GetToken()), size: 1}
	var merged []*node
	for _, pair := range from.Values {
		at := placeOf(pair.Key.GetToken())
		if pair.Key.IsMergeKey() {
			merged = append(merged, b.merge(pair.Value, path)...)
			continue
		}
		key, ok := keyText(pair.Key)
		if !ok {
			b.add(at, path, "this kind of key is not supported; write a plain name")
			continue
		}
		child := b.build(pair.Value, join(path, key))
		if before := n.position(key); before != nil {
			b.add(at, join(path, key), "stands here a second time; the first is in line %d", before.line)
			continue
		}
		n.entries = append(n.entries, entry{key: key, at: at, value: child})
		b.grow(n, child, at, join(path, key))
	}
	for _, from := range merged {
		b.inherit(n, from, path)
	}
	if len(n.entries) > 0 && from.Start.Value != "{" {
		n.at = n.entries[0].at
	}
	return n
}

// keyText gives a key as it is written; variables are not put into keys.
func keyText(key ast.MapKeyNode) (string, bool) {
	switch key := key.(type) {
	case *ast.StringNode:
		return key.Value, true
	case ast.ScalarNode:
		return key.GetToken().Value, true
	}
	return "", false
}

func (n *node) position(key string) *position {
	for i := range n.entries {
		if n.entries[i].key == key {
			return &n.entries[i].at
		}
	}
	return nil
}
