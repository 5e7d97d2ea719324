package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// maxProblems bounds what is reported of one file: a file with a wrong pepper
// has as many problems as keys.
const maxProblems = 50

// FileError is one thing that is wrong in a keys file.
type FileError struct {
	File string // as it was given
	Line int    // from 1
	Key  string // such as keys[3].sha256; empty for the file as a whole
	Msg  string // what is wrong and what to do; no key and no digest
}

// Error is "file:line: key: what is wrong".
func (e *FileError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s: %s", e.File, e.Line, e.Key, e.Msg)
}

// problems collects what is wrong in a file.
type problems struct {
	file string
	list []error
	more int
}

func (p *problems) addLine(line int, key, msg string) {
	if len(p.list) >= maxProblems {
		p.more++
		return
	}
	p.list = append(p.list, &FileError{File: p.file, Line: line, Key: key, Msg: msg})
}

func (p *problems) add(n ast.Node, key, msg string) { p.addLine(lineOf(n), key, msg) }

func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.list, fmt.Errorf("%s: %d more problems", p.file, p.more))...)
	}
	return errors.Join(p.list...)
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}

// item is a YAML mapping with known fields.
type item struct {
	path   string // of the mapping, such as keys[3]
	node   *ast.MappingNode
	fields map[string]ast.Node
}

// sub is the path of a field.
func (it item) sub(field string) string {
	if it.path == "" {
		return field
	}
	return it.path + "." + field
}

// place is the node to name for a problem with a field: its value, or the
// mapping that lacks it.
func (it item) place(field string) ast.Node {
	if n, ok := it.fields[field]; ok {
		return n
	}
	return it.node
}

// item reads a mapping and reports fields that are not known. It always
// returns an item; its node is nil when n is not a mapping.
func (p *problems) item(n ast.Node, path string, known ...string) item {
	it := item{path: path, fields: make(map[string]ast.Node, len(known))}
	var pairs []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		it.node, pairs = m, m.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{m}
		it.node = ast.Mapping(m.GetToken(), false, m)
	default:
		p.add(n, path, "must be a mapping of "+strings.Join(known, ", "))
		return it
	}
	for _, pair := range pairs {
		name := pair.Key.GetToken().Value
		if pair.Key.Type() != ast.StringType || !slices.Contains(known, name) {
			p.add(pair.Key, it.sub(clip(name)), "is not known here: there are "+strings.Join(known, ", "))
			continue
		}
		if _, twice := it.fields[name]; twice {
			p.add(pair.Key, it.sub(name), "stands here twice")
		}
		it.fields[name] = pair.Value
	}
	return it
}

// items reads a list; an absent or null one is empty.
func (p *problems) items(n ast.Node, path string) []ast.Node {
	if n == nil || isNull(n) {
		return nil
	}
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		p.add(n, path, "must be a list")
		return nil
	}
	return list.Values
}

// text reads a scalar into dst, which keeps its value when the field is
// absent, and checks what dst then holds.
func (p *problems) text(it item, field string, dst *string, check func(string) string) {
	if n, ok := it.fields[field]; ok {
		s, msg := scalar(n)
		if msg != "" {
			p.add(n, it.sub(field), msg)
			return
		}
		*dst = s
	}
	if it.node == nil && it.fields[field] == nil {
		return // not a mapping at all: reported once
	}
	if msg := check(*dst); msg != "" {
		p.add(it.place(field), it.sub(field), msg)
	}
}

func (p *problems) bool(it item, field string) bool {
	n, ok := it.fields[field]
	if !ok {
		return false
	}
	b, ok := n.(*ast.BoolNode)
	if !ok {
		p.add(n, it.sub(field), "must be true or false")
		return false
	}
	return b.Value
}

// unique reports a value that an earlier item had; lines remembers where.
func (p *problems) unique(it item, field, value string, lines map[string]int) {
	if value == "" {
		return
	}
	if line, taken := lines[value]; taken {
		p.add(it.place(field), it.sub(field), fmt.Sprintf("is the same as in line %d", line))
		return
	}
	lines[value] = lineOf(it.place(field))
}

// scalar reads a string; numbers count as the text they are written as, since
// ids may be numbers. The second result says what is wrong.
func scalar(n ast.Node) (string, string) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, ""
	case *ast.IntegerNode, *ast.FloatNode:
		return v.GetToken().Value, ""
	case *ast.NullNode:
		return "", "has no value"
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		return "", "anchors, aliases and tags are not read here: write the value itself"
	}
	return "", "must be a text: put it in quotes"
}

func isNull(n ast.Node) bool {
	_, ok := n.(*ast.NullNode)
	return ok
}
