package config

import "github.com/goccy/go-yaml/ast"

func (b *builder) alias(n *ast.AliasNode, path string) *node {
	at := placeOf(n.GetToken())
	name := n.Value.GetToken().Value
	value, ok := b.anchors[name]
	if !ok {
		b.add(at, path, "there is no anchor &%s before this line", name)
		return &node{kind: broken, at: at, size: 1}
	}
	return value
}

// merge gives the mappings that a << key names: one, or a list of them.
func (b *builder) merge(value ast.Node, path string) []*node {
	n := b.build(value, path)
	sources := []*node{n}
	switch n.kind {
	case list:
		sources = n.items
	case broken:
		return nil
	}
	for _, s := range sources {
		if s.kind != mapping {
			b.add(n.at, path, "<< wants a mapping such as *name, got %s", s.describe())
			return nil
		}
	}
	return sources
}

// inherit adds the keys of a merged mapping that n does not have itself.
func (b *builder) inherit(n, from *node, path string) {
	for _, e := range from.entries {
		if n.position(e.key) == nil {
			n.entries = append(n.entries, e)
			b.grow(n, e.value, e.at, join(path, e.key))
		}
	}
}

// grow counts a child into its parent and cuts off what aliases blow up.
func (b *builder) grow(n, child *node, at position, path string) {
	if n.size+child.size <= maxValues {
		n.size += child.size
		return
	}
	if !b.bomb {
		b.bomb = true
		b.add(at, path, "is more than %d values with its aliases; write less", maxValues)
	}
	*n = node{kind: broken, at: n.at, size: 1}
}
