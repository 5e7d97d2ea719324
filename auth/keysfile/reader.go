package keysfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/invalid"
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

// reader reads YAML nodes and collects what is wrong with them. The YAML
// package's own decoder would stop at the first mistake, and write numbers anew
// that are ids.
type reader struct {
	file     string
	problems []error
	more     int // problems beyond maxProblems
}

// addLine reports a problem at a line. key is empty for the file as a whole. msg
// may quote values only through auth.Clip: one may be a pasted key.
func (r *reader) addLine(line int, key, msg string) {
	if len(r.problems) >= maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, &FileError{File: r.file, Line: line, Key: key, Msg: msg})
}

// add is addLine for the line of a node.
func (r *reader) add(n ast.Node, key, msg string) { r.addLine(lineOf(n), key, msg) }

// addField reports a field: at its value, or at the mapping that lacks it.
func (r *reader) addField(m mapping, field, msg string) { r.addLine(m.line(field), m.key(field), msg) }

// err joins what has been reported; nil: nothing.
func (r *reader) err() error {
	if r.more > 0 {
		r.problems = append(r.problems, fmt.Errorf("%s: %d more problems", r.file, r.more))
	}
	return errors.Join(r.problems...)
}

// check reports problems with the fields of a mapping, but for values that could
// not even be read.
func (r *reader) check(m mapping, problems invalid.Problems) {
	for _, err := range problems {
		if p, ok := errors.AsType[*invalid.Error](err); ok && m.node != nil && !m.wrong[p.Field()] {
			r.addField(m, p.Field(), p.Error())
		}
	}
}

// mapping is a YAML mapping with known fields.
type mapping struct {
	path   string           // such as keys[3]
	node   *ast.MappingNode // nil: it is none, which has been reported
	fields map[string]ast.Node
	wrong  map[string]bool // fields whose values could not be read, which has been reported
}

// has tells whether a field is there, with whatever value.
func (m mapping) has(field string) bool { return m.fields[field] != nil }

// key is the path of a field.
func (m mapping) key(field string) string { return strings.TrimPrefix(m.path+"."+field, ".") }

// line is where a field stands, or the mapping that lacks it.
func (m mapping) line(field string) int {
	if n, ok := m.fields[field]; ok {
		return lineOf(n)
	}
	return lineOf(m.node)
}

// lineOf is the line of a node, from 1.
func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}

// mapping reads a mapping and reports fields that are not known. The result is usable even
// where there is no mapping, so that one mistake does not hide those that follow.
func (r *reader) mapping(n ast.Node, path string, known ...string) mapping {
	m := mapping{path: path, fields: make(map[string]ast.Node, len(known)), wrong: make(map[string]bool)}
	switch n := n.(type) {
	case *ast.MappingNode:
		m.node = n
	case *ast.MappingValueNode:
		m.node = ast.Mapping(n.GetToken(), false, n)
	default:
		r.add(n, path, "must be a mapping of "+strings.Join(known, ", "))
		return m
	}
	for _, pair := range m.node.Values {
		name := pair.Key.GetToken().Value
		if pair.Key.Type() != ast.StringType || !slices.Contains(known, name) {
			r.add(pair.Key, m.key(auth.Clip(name)), "is not known here: there are "+strings.Join(known, ", "))
			continue
		}
		if m.has(name) {
			r.add(pair.Key, m.key(name), "stands here twice")
		}
		m.fields[name] = pair.Value
	}
	return m
}

// list reads a list; an absent or null one is empty. What is in it is the caller's to
// judge.
func (r *reader) list(m mapping, field string) []ast.Node {
	switch n := m.fields[field].(type) {
	case nil, *ast.NullNode:
	case *ast.SequenceNode:
		return n.Values
	default:
		r.fail(m, field, "must be a list")
	}
	return nil
}

// text reads a scalar; absent is empty. Numbers count as the text they are
// written as, since ids may be numbers.
func (r *reader) text(m mapping, field string) string {
	switch n := m.fields[field].(type) {
	case nil:
	case *ast.StringNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value
	case *ast.NullNode:
		r.fail(m, field, "has no value")
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		r.fail(m, field, "anchors, aliases and tags are not read here: write the value itself")
	default:
		r.fail(m, field, "must be a text: put it in quotes")
	}
	return ""
}

// flag reads a boolean; absent is false. The texts "yes" and "true" are none.
func (r *reader) flag(m mapping, field string) bool {
	switch n := m.fields[field].(type) {
	case nil:
	case *ast.BoolNode:
		return n.Value
	default:
		r.fail(m, field, "must be true or false")
	}
	return false
}

// fail reports a value that cannot be read.
func (r *reader) fail(m mapping, field, msg string) {
	m.wrong[field] = true
	r.addField(m, field, msg)
}

// unique reports a value that an earlier mapping had; lines holds where.
func (r *reader) unique(m mapping, field, value string, lines map[string]int) {
	if value == "" {
		return
	}
	if line, taken := lines[value]; taken {
		r.addField(m, field, fmt.Sprintf("is the same as in line %d", line))
		return
	}
	lines[value] = m.line(field)
}
