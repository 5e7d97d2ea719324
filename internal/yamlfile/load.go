package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// ToComplete is what draft leaves to a person.
const ToComplete = "COMPLETE_ME"

// load makes the tree of the one document in the data, or reports why it cannot.
func (doc *File) load(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at, what := notText(data); what != "" {
		doc.add(at, "", "%s", what)
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

// document gives the body of the one YAML document that there may be; of none, null. After more than
// one it is nil, and they are reported.
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
			doc.add(placeOf(next.Content[0]), "", "a second YAML document begins here; keep one in the file")
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

// notText tells where data is no text that YAML takes, or is too much.
func notText(data []byte) (at position, what string) {
	at = position{1, 1}
	marks := 0
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			return at, "is not UTF-8 text; save it as UTF-8"
		case unicode.IsControl(c) && c != '\t' && c != '\n' && c != '\r' && c != 0x85 || c == 0xfffe || c == 0xffff:
			return at, fmt.Sprintf("holds the control character %U; is this the right file?", c)
		case c == '\n':
			at = position{at.line + 1, 0}
			marks++
		case c == ',' || c == ':' || c == '-' || c == '?' || c == '[' || c == '{':
			marks++
		}
		if marks > maxMarks {
			return at, "holds too many values; is this the right file?"
		}
		at.column++
		i += size
	}
	return at, ""
}

// refuse reports a value and clears it, so that the rest is still read.
func (doc *File) refuse(n *yaml.Node, path, format string, args ...any) {
	doc.add(placeOf(n), path, format, args...)
	*n = yaml.Node{Line: n.Line, Column: n.Column}
}

// prepare refuses what is not read in a value, and puts variables in.
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
	}
}

// prepareMapping keeps the first of keys that stand twice.
func (doc *File) prepareMapping(n *yaml.Node, path string) {
	if len(n.Content) > 2*maxKeys {
		doc.add(placeOf(n.Content[2*maxKeys]), path, "holds more than %d keys; is this the right file?", maxKeys)
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
			doc.add(placeOf(key), path, noReferences)
		case key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			doc.add(placeOf(key), path, "this kind of key is not supported; write a plain name")
		case strings.Contains(key.Value, ToComplete):
			doc.add(placeOf(key), full, "%s stands where draft found nothing; write what belongs there", ToComplete)
		case first > 0:
			doc.add(placeOf(key), full, "stands here a second time; the first is in line %d", first)
		default:
			lines[key.Value] = key.Line
			if IsNull(value) {
				value.Line, value.Column = key.Line, key.Column // there is nothing else to point at
			}
			doc.prepare(value, full)
			kept = append(kept, key, value)
		}
	}
	n.Content = kept
}

// syntaxError says in plain words what the parser could not read, and where.
func (doc *File) syntaxError(err error, lines []string) {
	wrong, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		doc.add(position{1, 1}, "", "is not YAML: %v", err)
		return
	}
	at := position{wrong.Mark.Line, wrong.Mark.Column}
	begin := position{wrong.ContextMark.Line, wrong.ContextMark.Column}
	if begin.line == 0 {
		begin = at
	}
	for at.line > 1 && strings.TrimSpace(lineOf(lines, at.line)) == "" { // the end of the file
		at = position{at.line - 1, 1 + utf8.RuneCountInString(lineOf(lines, at.line-1))}
	}
	line := lineOf(lines, at.line)
	switch message := wrong.Message; {
	case strings.Contains(message, "max depth"):
		doc.add(at, "", "is nested too deeply; is this the right file?")
		return
	case strings.Contains(message, "anchor"):
		doc.add(at, "", noReferences)
		return
	case strings.Contains(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t"):
		err = errors.New("a tab indents this line; YAML allows blanks only")
	case strings.Contains(message, "mapping values are not allowed"):
		at, err = misplacedColon(at, lines)
	case strings.Contains(message, "expected ':'"):
		at, err = begin, errNoKey
	case strings.Contains(wrong.ContextMsg, "quoted scalar") && strings.Contains(message, "unexpected"):
		at, err = begin, errors.New("the quote that opens here is not closed; put the same one at the end of the value")
	case strings.Contains(message, "expected key") && at.column == 1+len(line)-len(strings.TrimLeft(line, " ")):
		err = errors.New("the line is not indented like those above it; keys of one section begin in one column")
	case strings.Contains(message, "expected key"):
		err = errors.New("something follows the end of the value; put quotes around all of it")
	case strings.Contains(message, "expected ',' or"):
		_, missing, _ := strings.Cut(message, "expected ")
		err = fmt.Errorf("%s must be specified; the bracket that opens in line %d is not closed, or a comma is missing", missing, begin.line)
	case strings.Contains(message, "node content"):
		err = errors.New("a value is missing; a bracket is not closed, or a comma is too many")
	case strings.Contains(message, "cannot start any token"):
		err = errors.New("this character cannot begin a value; put quotes around the value")
	case strings.Contains(message, "unknown escape"):
		err = errors.New(`unknown escape; within "" write \\ for a backslash, or use ''`)
	case strings.Contains(message, "block sequence"):
		err = errors.New("a list cannot begin here; write it in lines below its key, or in [ ]")
	case strings.Contains(message, "incompatible YAML") || strings.Contains(wrong.ContextMsg, "directive"):
		at, err = begin, errors.New("a line that begins with % is an instruction to the parser; remove it, or put quotes around the value")
	default:
		err = errors.New(message)
	}
	hint := ""
	if strings.Contains(line, "${") { // which opens a mapping of its own within { } or [ ]
		hint = `; within { } or [ ] a variable must stand in quotes: "${NAME}"`
	}
	doc.add(at, "", "is not YAML here: %v%s", err, hint)
}

var errNoKey = errors.New("no key can be read here; write key: value, with a blank after the colon")

// misplacedColon tells apart why a line has a colon where none may be: it has two, the line above
// lacks one, or the line is indented as a part of the value above.
func misplacedColon(at position, lines []string) (position, error) {
	if strings.Count(lineOf(lines, at.line), ": ") > 1 {
		return at, errors.New("there is a second colon in this line; put quotes around the value")
	}
	above := at.line - 1
	for above > 1 && strings.TrimSpace(lineOf(lines, above)) == "" {
		above--
	}
	if text := strings.TrimSpace(lineOf(lines, above)); text != "" && !strings.Contains(text+" ", ": ") {
		return position{above, 1 + strings.Index(lineOf(lines, above), text)}, errNoKey
	}
	return at, errors.New("the line is indented too far: it is read as a part of the value above; begin it in the column of the key above")
}

// lineOf is one line of the file, from 1; empty if there is none.
func lineOf(lines []string, number int) string {
	if number < 1 || number > len(lines) {
		return ""
	}
	return strings.TrimSuffix(lines[number-1], "\r")
}
