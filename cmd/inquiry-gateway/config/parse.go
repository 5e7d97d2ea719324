package config

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The parser recurses and takes time quadratic in depth and keys (16,000 open
// brackets: 4 s; 80,000 keys: 13 s), and an alias of an alias can stand for any
// number of values.
const (
	maxDepth  = 100    // brackets within brackets
	maxKeys   = 10_000 // colons and commas
	maxColumn = 1000   // of a dash, which bounds lists within lists on one line
	maxValues = 50_000 // aliases counted each time they are used
)

// parse gives the body of the file's one document, or nil and reports why it
// cannot.
func (r *report) parse(data []byte) (body ast.Node) {
	defer func() {
		// The parser is not ours: input that makes it panic is a broken file.
		if recover() != nil {
			r.add(position{}, "", "is not readable as YAML")
			body = nil
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if at, what := excess(tokens); what != "" {
		r.add(at, "", "%s; is this the right file?", what)
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntaxError(err, data)
		return nil
	}
	return r.onlyDocument(file)
}

// excess tells, before anything recurses, what there is too much of.
func excess(tokens token.Tokens) (position, string) {
	depth, keys := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth--
		case token.MappingValueType, token.CollectEntryType:
			keys++
		case token.SequenceEntryType, token.MappingKeyType:
			if t.Position.Column > maxColumn {
				depth = maxDepth + 1
			}
		}
		if depth > maxDepth {
			return placeOf(t), "is nested too deeply"
		}
		if keys > maxKeys {
			return placeOf(t), fmt.Sprintf("holds more than %d keys", maxKeys)
		}
	}
	return position{}, ""
}

// onlyDocument gives the body of the one YAML document there must be.
func (r *report) onlyDocument(file *ast.File) ast.Node {
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.DirectiveType || doc.Body.Type() == ast.CommentType:
		case body != nil:
			r.add(placeOf(doc.Body.GetToken()), "", "a second YAML document begins here; keep one in the file")
			return nil
		default:
			body = doc.Body
		}
	}
	if body == nil || body.Type() == ast.NullType {
		r.add(position{}, "", "is empty; it needs at least an upstream section")
		return nil
	}
	return body
}
