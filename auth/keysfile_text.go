package auth

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// keysText edits the text of a keys file at places the parser names. It may
// give up with ErrLayout; it need not foresee every lay-out, because what it
// made is decoded and compared afterwards.
type keysText struct {
	bom   []byte
	data  []byte
	lines []int // the offset of each line's first byte
	eol   string
}

func newKeysText(data []byte) *keysText {
	t := &keysText{eol: "\n"}
	body := bytes.TrimPrefix(data, []byte("\ufeff"))
	t.bom, t.data = data[:len(data)-len(body)], body
	t.lines = []int{0}
	for i, c := range body {
		if c == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	if bytes.Contains(body, []byte("\r\n")) {
		t.eol = "\r\n"
	}
	return t
}

func (t *keysText) bytes() []byte { return append(bytes.Clone(t.bom), t.data...) }

// splice replaces data[from:to]. Places found before it are not valid after.
func (t *keysText) splice(from, to int, with string) {
	out := make([]byte, 0, len(t.data)+len(with))
	out = append(append(append(out, t.data[:from]...), with...), t.data[to:]...)
	t.data = out
}

// offset is the place of a token, whose column counts characters from 1.
func (t *keysText) offset(tk *token.Token) (int, error) {
	line := tk.Position.Line - 1
	if line < 0 || line >= len(t.lines) {
		return 0, ErrLayout
	}
	at := t.lines[line]
	for range tk.Position.Column - 1 {
		if at >= len(t.data) || t.data[at] == '\n' {
			return 0, ErrLayout
		}
		_, size := utf8.DecodeRune(t.data[at:])
		at += size
	}
	return at, nil
}

// lineEnd is the offset behind a line's end; 0 is the first line.
func (t *keysText) lineEnd(line int) int {
	if line+1 < len(t.lines) {
		return t.lines[line+1]
	}
	return len(t.data)
}

// insertLine puts a whole line in front of the line that starts at an offset.
func (t *keysText) insertLine(at int, line string) {
	if at > 0 && t.data[at-1] != '\n' {
		line = t.eol + line // the last line of a file without a line end
	} else {
		line += t.eol
	}
	t.splice(at, at, line)
}

// setField sets a field of a mapping to a literal.
func (t *keysText) setField(it item, field, literal string) error {
	if n, ok := it.fields[field]; ok {
		return t.replaceScalar(n, literal)
	}
	if it.node.IsFlowStyle {
		return t.insertFlow(it.node.End, field+": "+literal)
	}
	// The id is there in every item, so its line is where a field can follow.
	for _, pair := range it.node.Values {
		if pair.Key.GetToken().Value == fieldID {
			indent := strings.Repeat(" ", pair.Key.GetToken().Position.Column-1)
			line := pair.Value.GetToken().Position.Line - 1
			t.insertLine(t.lineEnd(line), indent+field+": "+literal)
			return nil
		}
	}
	return ErrLayout
}

// replaceScalar puts a literal in the place of a scalar.
func (t *keysText) replaceScalar(n ast.Node, literal string) error {
	tk := n.GetToken()
	from, err := t.offset(tk)
	if err != nil || from >= len(t.data) {
		return ErrLayout
	}
	rest := t.data[from:]
	if q := rest[0]; q == '"' || q == '\'' {
		end := bytes.IndexByte(rest[1:], q)
		if end < 0 {
			return ErrLayout
		}
		t.splice(from, from+end+2, literal)
		return nil
	}
	if !bytes.HasPrefix(rest, []byte(tk.Value)) {
		return ErrLayout
	}
	t.splice(from, from+len(tk.Value), literal)
	return nil
}

// insertFlow puts an entry in front of the closing bracket of a flow
// collection.
func (t *keysText) insertFlow(closing *token.Token, entry string) error {
	if closing == nil {
		return ErrLayout
	}
	at, err := t.offset(closing)
	if err != nil {
		return err
	}
	before := closing.Prev
	for before != nil && before.Type == token.CommentType {
		before = before.Prev
	}
	if before == nil {
		return ErrLayout
	}
	switch before.Type {
	case token.CollectEntryType, token.SequenceStartType, token.MappingStartType:
	default:
		entry = ", " + entry
	}
	t.splice(at, at, entry)
	return nil
}

// appendItem appends an item, written in one line, to a list of the document.
func (t *keysText) appendItem(root *ast.MappingNode, field, literal string) error {
	for i, pair := range root.Values {
		if pair.Key.GetToken().Value != field {
			continue
		}
		list, ok := pair.Value.(*ast.SequenceNode)
		switch {
		case !ok:
			return ErrLayout
		case len(list.Values) == 0 && !root.IsFlowStyle:
			return t.openList(list, literal)
		case list.IsFlowStyle:
			return t.insertFlow(list.End, literal)
		}
		return t.appendBlock(root, i, list, literal)
	}
	if root.IsFlowStyle {
		return ErrLayout
	}
	t.insertLine(len(t.data), field+":"+t.eol+"  - "+literal)
	return nil
}

// openList turns an empty `[]` into a list with one item per line.
func (t *keysText) openList(list *ast.SequenceNode, literal string) error {
	if list.Start == nil || list.End == nil {
		return ErrLayout
	}
	from, err := t.offset(list.Start)
	if err != nil {
		return err
	}
	to, err := t.offset(list.End)
	if err != nil {
		return err
	}
	for from > 0 && t.data[from-1] == ' ' {
		from--
	}
	t.splice(from, to+1, t.eol+"  - "+literal)
	return nil
}

// appendBlock appends to a list with one dash per item. The item goes behind
// the last line of the list: what precedes the next section, less blank lines
// and the comments that are not indented like the list.
func (t *keysText) appendBlock(root *ast.MappingNode, section int, list *ast.SequenceNode, literal string) error {
	dash := list.Start.Position.Column - 1
	last := len(t.lines) - 1
	if section+1 < len(root.Values) {
		last = root.Values[section+1].Key.GetToken().Position.Line - 2
	}
	for ; last > list.Start.Position.Line-1; last-- {
		text := strings.TrimRight(string(t.data[t.lines[last]:t.lineEnd(last)]), " \t\r\n")
		body := strings.TrimLeft(text, " ")
		ours := len(text)-len(body) >= dash && dash > 0
		if body != "" && (body[0] != '#' || ours) {
			break
		}
	}
	t.insertLine(t.lineEnd(last), strings.Repeat(" ", dash)+"- "+literal)
	return nil
}
