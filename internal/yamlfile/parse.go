package yamlfile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The parser recurses and takes time quadratic in depth and keys (16,000 open
// brackets: 4 s; 80,000 keys: 13 s).
const (
	maxDepth  = 100    // brackets within brackets
	maxKeys   = 10_000 // colons and commas
	maxColumn = 1000   // of a dash, which bounds lists within lists on one line
)

// parse gives the body of the one document in a text that stands in the file after so many
// lines, or nil and reports why it cannot.
func (r *report) parse(data []byte, before int) (body ast.Node) {
	defer func() {
		// The parser is not ours: input that makes it panic is a broken file.
		if recover() != nil {
			r.add(position{}, "", "is not readable as YAML")
			body = nil
		}
	}()
	tokens := lexer.Tokenize(string(data))
	for _, t := range tokens {
		t.Position.Line += before
	}
	if at, what := excess(tokens); what != "" {
		r.add(at, "", "%s; is this the right file?", what)
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntaxError(err, data, before)
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

// onlyDocument gives the body of the one YAML document that there may be; of none, null.
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
	if body == nil {
		return ast.Null(token.New("null", "null", &token.Position{Line: 1, Column: 1}))
	}
	return body
}

// syntaxError says in plain words what the parser could not read.
func (r *report) syntaxError(err error, data []byte, before int) {
	yamlErr, ok := errors.AsType[yaml.Error](err)
	if !ok || yamlErr.GetToken() == nil {
		r.add(position{}, "", "is not YAML: %v", err)
		return
	}
	at := placeOf(yamlErr.GetToken())
	line := lineOf(data, at.line-before)
	first, _, _ := strings.Cut(line, ",")
	hint := ""
	switch {
	case strings.Contains(line, "${"): // which opens a mapping of its own within { } or [ ]
		hint = fmt.Sprintf("; within { } or [ ] a variable must stand in quotes: %q", "${NAME}")
	case strings.Contains(yamlErr.GetMessage(), "must be specified") && at.column == 1+len(line)-len(strings.TrimLeft(line, " ")) && !strings.Contains(first, ":"):
		hint = "; where this goes on with the text of the line above, write the text in one line, or put quotes around all of it"
	}
	r.add(at, "", "is not YAML here: %s%s", plainWords(yamlErr.GetMessage(), line), hint)
}

// lineOf is one line of the file, from 1; empty where there is none.
func lineOf(data []byte, number int) string {
	lines := strings.SplitN(string(data), "\n", number+1)
	if number > len(lines) || number < 1 {
		return ""
	}
	return lines[number-1]
}

// plainWords says what to do about the mistakes that people make. The parser's
// words are of tokens and contexts; they stay where no others fit.
func plainWords(message, line string) string {
	if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") {
		return "a tab indents this line; YAML allows blanks only"
	}
	if strings.Contains(message, "mapping value is not allowed") && strings.Count(line, ": ") < 2 {
		return "the line after this one is indented too far: it is read as a part of this value; begin it in the column of this key"
	}
	for _, m := range []struct{ part, words string }{
		{"end character of double-quoted", `the " that opens here is not closed; put a " at the end of the value`},
		{"end character of single-quoted", `the ' that opens here is not closed; put a ' at the end of the value`},
		{"map key-value is pre-defined", "something follows the end of the value; put quotes around all of it"},
		{"mapping value is not allowed", "there is a second colon in this line; put quotes around the value"},
		{"value is not allowed in this context", "the line is not indented like those above it; keys of one section begin in one column"},
		{"unexpected key name", "no key can be read here; write key: value, with a blank after the colon"},
		{"non-map value is specified", "no key can be read here; write key: value, with a blank after the colon"},
		{"is a reserved character", message + "; put quotes around the value"},
		{"unknown escape character", message + `; within "" write \\ for a backslash, or use ''`},
		{"must be specified", message + "; a bracket above is not closed, or a comma is missing"},
	} {
		if strings.Contains(message, m.part) {
			return m.words
		}
	}
	return message
}
