package yamlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

const (
	maxDepth = 100       // of mappings and lists within each other
	maxKeys  = 5_000     // of one mapping
	maxMarks = 1_000_000 // commas, colons, dashes and line ends, of which each value has one; a value takes about 200 bytes
)

const noReferences = "anchors, aliases and merge keys (<<) are not read here; write the value itself"

// ToComplete is what draft writes where a person has to fill something in.
const ToComplete = "COMPLETE_ME"

// load parses the one document in data, or reports why it cannot.
func (doc *File) load(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at, what := unreadable(data); what != "" {
		doc.reportAndSuppress(at, "", "%s", what)
		return
	}
	root, err := doc.document(data)
	if err != nil {
		doc.syntaxError(err, strings.Split(string(data), "\n"))
	} else if root != nil {
		doc.prepare(root, "")
		doc.Root = root
	}
}

// document returns the body of the YAML document in data, or null if there is none. A second document is
// reported, and the result is nil.
func (doc *File) document(data []byte) (root *yaml.Node, err error) {
	defer func() {
		// The parser is not ours: input that makes it panic is a broken file.
		if recover() != nil {
			root, err = nil, errors.New("is not readable as YAML")
		}
	}()
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	for err == nil {
		var next yaml.Node
		if err = loader.Load(&next); err != nil || IsNull(next.Content[0]) {
			continue
		}
		if root != nil {
			doc.reportAndSuppress(placeOf(next.Content[0]), "", "a second YAML document begins here; keep one in the file")
			return nil, nil
		}
		root = next.Content[0]
	}
	if err == io.EOF {
		err = nil
	}
	if root == nil {
		root = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}
	}
	return root, err
}

// unreadable returns where data is not text that YAML allows, or that it holds too many values.
func unreadable(data []byte) (at position, what string) {
	marks := 0
	for _, mark := range []string{",", ":", "-", "?", "[", "{", "\n"} {
		marks += bytes.Count(data, []byte(mark))
	}
	i := bytes.IndexFunc(data, func(c rune) bool {
		return c == utf8.RuneError || unicode.IsControl(c) && !strings.ContainsRune("\t\n\r\u0085", c)
	})
	switch c, size := utf8.DecodeRune(data[max(i, 0):]); {
	case marks > maxMarks:
		return position{1, 1}, "holds too many values; is this the right file?"
	case i < 0:
		return position{}, ""
	case c == utf8.RuneError && size == 1:
		what = "is not UTF-8 text; save it as UTF-8"
	default:
		what = fmt.Sprintf("holds the control character %U; is this the right file?", c)
	}
	line := data[bytes.LastIndexByte(data[:i], '\n')+1 : i]
	return position{1 + bytes.Count(data[:i], []byte("\n")), 1 + utf8.RuneCount(line)}, what
}

// refuse reports a value and clears it, so that the rest can be read.
func (doc *File) refuse(n *yaml.Node, path, format string, args ...any) {
	doc.reportAndSuppress(placeOf(n), path, format, args...)
	*n = yaml.Node{Line: n.Line, Column: n.Column}
}

// prepare refuses the parts of YAML that are not supported, and replaces variables.
func (doc *File) prepare(n *yaml.Node, path string) {
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		doc.refuse(n, path, noReferences)
	case n.Style&yaml.TaggedStyle != 0 || n.Tag == "!":
		doc.refuse(n, path, "the tag %s is not supported; remove it", n.Tag)
	case n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			doc.prepare(item, Item(path, i))
		}
	case n.Kind == yaml.MappingNode:
		doc.prepareMapping(n, path)
	case strings.Contains(n.Value, ToComplete):
		doc.refuse(n, path, "%s stands where draft found nothing; write what belongs there", ToComplete)
	case doc.env != nil && strings.Contains(n.Value, "${"):
		doc.expand(n, path)
	case n.Tag == "!!timestamp" || n.Tag != "!!str" && strings.ContainsAny(n.Value, "0123456789.") && !json.Valid([]byte(n.Value)):
		n.Tag = "!!str" // such as 010
	}
}

// prepareMapping prepares the values of a mapping. Of duplicate keys it keeps the first.
func (doc *File) prepareMapping(n *yaml.Node, path string) {
	if len(n.Content) > 2*maxKeys {
		doc.reportAndSuppress(placeOf(n.Content[2*maxKeys]), path, "holds more than %d keys; is this the right file?", maxKeys)
		*n = yaml.Node{}
		return
	}
	lines := make(map[string]int, len(n.Content)/2)
	kept := n.Content[:0]
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		full := Join(path, key.Value)
		switch first := lines[key.Value]; {
		case key.Tag == "!!merge":
			doc.reportAndSuppress(placeOf(key), path, noReferences)
		case key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			doc.reportAndSuppress(placeOf(key), path, "this kind of key is not supported; write a plain name")
		case strings.Contains(key.Value, ToComplete):
			doc.reportAndSuppress(placeOf(key), full, "%s stands where draft found nothing; write what belongs there", ToComplete)
		case first > 0:
			doc.reportAndSuppress(placeOf(key), full, "stands here a second time; the first is in line %d", first)
		default:
			lines[key.Value], key.Tag = key.Line, "!!str"
			if IsNull(value) {
				value.Line, value.Column = key.Line, key.Column // there is nothing else to point at
			}
			doc.prepare(value, full)
			kept = append(kept, key, value)
		}
	}
	n.Content = kept
}

// syntaxError reports in plain words what the parser could not read, and where.
func (doc *File) syntaxError(err error, lines []string) {
	wrong, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		doc.reportAndSuppress(position{1, 1}, "", "is not YAML: %v", err)
		return
	}
	lineOf := func(number int) string { return lines[min(max(number, 1), len(lines))-1] }
	at := position{max(wrong.Mark.Line, 1), max(wrong.Mark.Column, 1)}
	for at.line > 1 && strings.TrimSpace(lineOf(at.line)) == "" { // the end of the file
		at = position{at.line - 1, 1 + utf8.RuneCountInString(lineOf(at.line-1))}
	}
	line := lineOf(at.line)
	content := strings.TrimLeft(line, " \t")
	indent := line[:len(line)-len(content)]
	message := wrong.ContextMsg + ": " + wrong.Message
	switch {
	case strings.Contains(indent, "\t"):
		message = "a tab indents this line; YAML allows blanks only"
	case strings.Contains(message, "expected key") && at.column > 1+len(indent):
		message = "something follows the end of the value; put quotes around all of it"
	case strings.Contains(message, "mapping values") && strings.Count(line, ": ") > 1:
		message = "there is a second colon in this line; put quotes around the value"
	default:
		known := slices.IndexFunc(plainWords, func(w words) bool { return strings.Contains(message, w.part) })
		if known < 0 {
			break
		}
		if message = plainWords[known].words; plainWords[known].atBegin && wrong.ContextMark.Line > 0 {
			at = position{wrong.ContextMark.Line, wrong.ContextMark.Column}
		}
	}
	if strings.Contains(line, "${") { // which opens a mapping of its own within { } or [ ]
		message += `; within { } or [ ] a variable must stand in quotes: "${NAME}"`
	}
	doc.reportAndSuppress(at, "", "is not YAML here: %s", strings.ReplaceAll(message, "LINE", strconv.Itoa(wrong.Mark.Line)))
}

// words say what to do about what the parser tells in its own terms.
type words struct {
	part, words string
	atBegin     bool // the place is where the value begins
}

var plainWords = []words{
	{"max depth", "nested too deeply; is this the right file?", false},
	{"unknown anchor", noReferences, false},
	{"mapping values", "this line is read as a part of the value above; indent it as the key above, which needs a colon and a blank behind it", false},
	{"expected ':'", "no key can be read here; write key: value, with a blank after the colon", true},
	{"quoted scalar: found unexpected", "the quote that opens here is not closed; put the same one at the end of the value", true},
	{"expected key", "the line is not indented like those above it; keys of one section begin in one column", false},
	{"expected ',' or ']'", "the bracket [ that opens here is not closed, or a comma is missing before the end of line LINE", true},
	{"expected ',' or '}'", "the bracket { that opens here is not closed, or a comma is missing before the end of line LINE", true},
	{"node content", "a value is missing; a bracket is not closed, or a comma is too many", false},
	{"cannot start any token", "this character cannot begin a value; put quotes around the value", false},
	{"unknown escape", `unknown escape; within "" write \\ for a backslash, or use ''`, false},
	{"block sequence", "a list cannot begin here; write it in lines below its key, or in [ ]", false},
	{"incompatible YAML", "a line that begins with % is an instruction to the parser; remove it", false},
	{"directive", "a line that begins with % is an instruction to the parser; remove it, or put quotes around the value", true},
}
