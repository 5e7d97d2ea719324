package keysfile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"inquiry-gateway/auth"
)

const byteOrderMark = "\ufeff"

// text edits the text of a keys file at places that the parser names. The parser's
// own operations write the whole file anew: lists over several lines lose their
// comments, and tables their columns. A text may give up with ErrLayout; it need
// not foresee every lay-out, because what it made is decoded and compared
// afterwards.
type text struct {
	data  []byte // without byte order mark
	mark  []byte // the byte order mark, if there was one
	lines []int  // the offset of each line's first byte
	eol   string
	edits []edit
}

// edit puts a text in the place of data[from:to].
type edit struct {
	from, to int
	with     string
}

// newText keeps the byte order mark and the line ends that the file has.
func newText(data []byte) *text {
	body := bytes.TrimPrefix(data, []byte(byteOrderMark))
	t := &text{data: body, mark: data[:len(data)-len(body)], lines: []int{0}, eol: "\n"}
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

// bytes is the text with all edits. Of two at one place the one that was made
// first comes first.
func (t *text) bytes() []byte {
	slices.SortStableFunc(t.edits, func(a, b edit) int { return a.from - b.from })
	out, done := bytes.Clone(t.mark), 0
	for _, e := range t.edits {
		out = append(append(out, t.data[done:e.from]...), e.with...)
		done = e.to
	}
	return append(out, t.data[done:]...)
}

// write makes the text say what is wanted, which differs from doc by changed
// fields and by more accounts and keys at the end.
func (t *text) write(doc *document, want auth.Listing, h auth.Hasher) error {
	for i, old := range doc.Accounts {
		now, m := want.Accounts[i], doc.accounts[i]
		if now.APIAccess != old.APIAccess {
			t.set(m, fieldAPIAccess, now.APIAccess)
		}
		if now.Plan != old.Plan {
			t.set(m, fieldPlan, quote(now.Plan))
		}
	}
	for i, old := range doc.Keys {
		now, m := want.Keys[i], doc.keys[i]
		if now.Revoked != old.Revoked {
			t.set(m, fieldRevoked, "true")
		}
		if !now.ExpiresAt.Equal(old.ExpiresAt) {
			t.set(m, fieldExpiresAt, now.ExpiresAt.Format(time.RFC3339))
		}
	}
	for _, a := range want.Accounts[len(doc.Accounts):] {
		t.add(doc.root, fieldAccounts, accountLine(a))
	}
	for _, k := range want.Keys[len(doc.Keys):] {
		t.add(doc.root, fieldKeys, keyLine(k, h))
	}
	if slices.ContainsFunc(t.edits, func(e edit) bool { return e.from < 0 }) {
		return ErrLayout
	}
	return nil
}

// impossible is the edit that cannot be made.
const impossible = -1

// replace makes an edit. Its places are those of the text before all edits.
func (t *text) replace(from, to int, with string) { t.edits = append(t.edits, edit{from, to, with}) }

// offset is the place of a token, whose column counts characters from 1, or
// impossible.
func (t *text) offset(tk *token.Token) int {
	if tk == nil || tk.Position.Line < 1 || tk.Position.Line > len(t.lines) {
		return impossible
	}
	at := t.lines[tk.Position.Line-1]
	for range tk.Position.Column - 1 {
		if at >= len(t.data) || t.data[at] == '\n' {
			return impossible
		}
		_, size := utf8.DecodeRune(t.data[at:])
		at += size
	}
	return at
}

// insertLine puts a whole line behind a line; 1 is the first.
func (t *text) insertLine(behind int, line string) {
	at := len(t.data)
	if behind < len(t.lines) {
		at = t.lines[behind]
	}
	if at > 0 && t.data[at-1] != '\n' {
		line = t.eol + line // the last line of a file without a line end
	} else {
		line += t.eol
	}
	t.replace(at, at, line)
}

// set writes a field of an item: in the place of its value, or as a new entry. The literal
// is YAML already.
func (t *text) set(m mapping, field, literal string) {
	switch {
	case m.has(field):
		t.replaceScalar(m.fields[field].GetToken(), literal)
	case m.node.IsFlowStyle:
		t.insertFlow(m.node.End, field+": "+literal)
	default:
		// The id is there in every item, so its line is where a field can follow.
		i := slices.IndexFunc(m.node.Values, func(pair *ast.MappingValueNode) bool { return pair.Key.GetToken().Value == fieldID })
		indent := strings.Repeat(" ", m.node.Values[i].Key.GetToken().Position.Column-1)
		t.insertLine(m.line(fieldID), indent+field+": "+literal)
	}
}

// replaceScalar puts a literal in the place of a value with its quotes. A value without
// quotes that is not written as the parser gives it, such as one of several lines, makes
// the edit impossible.
func (t *text) replaceScalar(tk *token.Token, literal string) {
	from, length := t.offset(tk), len(tk.Value)
	if from == impossible || from == len(t.data) {
		t.replace(impossible, impossible, "")
		return
	}
	rest := t.data[from:]
	if quoted := rest[0] == '"' || rest[0] == '\''; quoted {
		length = bytes.IndexByte(rest[1:], rest[0]) + 2
	} else if !bytes.HasPrefix(rest, []byte(tk.Value)) {
		from = impossible
	}
	t.replace(from, from+length, literal)
}

// insertFlow puts an entry in front of the closing bracket of a flow collection, with a
// comma before it unless one is there or the collection is empty.
func (t *text) insertFlow(closing *token.Token, entry string) {
	at := t.offset(closing)
	if at != impossible {
		before := closing.Prev
		for before != nil && before.Type == token.CommentType {
			before = before.Prev
		}
		if before != nil && before.Type != token.CollectEntryType && before.Type != token.SequenceStartType {
			entry = ", " + entry
		}
	}
	t.replace(at, at, entry)
}

// add appends an item, written in one line, to a list of the document: a line of its own
// where the list has lines, within the brackets where it has those. A list that is missing
// is begun at the end of the file.
func (t *text) add(root mapping, field, literal string) {
	list, isList := root.fields[field].(*ast.SequenceNode)
	switch {
	case isList && len(list.Values) == 0 && !root.node.IsFlowStyle: // `[]` becomes one item per line
		from, to := t.offset(list.Start), t.offset(list.End)
		for from > 0 && t.data[from-1] == ' ' {
			from--
		}
		t.replace(from, to+1, t.eol+"  - "+literal)
	case isList && list.IsFlowStyle:
		t.insertFlow(list.End, literal)
	case isList:
		t.insertLine(t.lastLine(root, list), strings.Repeat(" ", list.Start.Position.Column-1)+"- "+literal)
	case root.has(field) || root.node.IsFlowStyle:
		t.replace(impossible, impossible, "")
	default:
		t.insertLine(len(t.lines), field+":"+t.eol+"  - "+literal)
	}
}

// lastLine is the last line of a list with one dash per item: what precedes the
// next section, less blank lines and the comments that are not indented like the
// list. 1 is the first line.
func (t *text) lastLine(root mapping, list *ast.SequenceNode) int {
	dash, start := list.Start.Position.Column-1, list.Start.Position.Line
	last := len(t.lines)
	for _, pair := range root.node.Values {
		if line := pair.Key.GetToken().Position.Line; line > start {
			last = min(last, line-1)
		}
	}
	for ; last > start; last-- {
		end := len(t.data)
		if last < len(t.lines) {
			end = t.lines[last]
		}
		line := strings.TrimRight(string(t.data[t.lines[last-1]:end]), " \t\r\n")
		body := strings.TrimLeft(line, " ")
		indented := len(line)-len(body) >= dash && dash > 0
		if body != "" && (body[0] != '#' || indented) {
			break
		}
	}
	return last
}

// keyLine writes a key as one line, so that a file can be read as a table.
func keyLine(k auth.KeyRecord, h auth.Hasher) string {
	scopes := make([]string, len(k.Scopes))
	for i, scope := range k.Scopes {
		scopes[i] = fmt.Sprintf("%q", scope)
	}
	more := ""
	if !k.ExpiresAt.IsZero() {
		more += ", expires_at: " + k.ExpiresAt.Format(time.RFC3339)
	}
	if k.Revoked {
		more += ", revoked: true"
	}
	return fmt.Sprintf(`{id: %s, kind: %s, account: %s, scopes: [%s]%s, %s: "%s"}`,
		quote(k.ID), k.Kind, quote(k.Account), strings.Join(scopes, ", "), more, h.Field(), k.Digest.Hex())
}

// accountLine is keyLine for accounts.
func accountLine(a auth.Account) string {
	plan := ""
	if a.Plan != "" {
		plan = ", plan: " + quote(a.Plan)
	}
	return fmt.Sprintf("{id: %s, api_access: %s%s}", quote(a.ID), a.APIAccess, plan)
}

// quote writes visible ASCII as a YAML scalar that is a string whatever it looks
// like.
func quote(s string) string {
	if isPlain(s) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// isPlain tells whether every YAML reader takes a text without quotes for a string,
// also one that knows the yes and no of YAML 1.1.
func isPlain(s string) bool {
	if slices.Contains([]string{"", "y", "n", "yes", "no", "on", "off", "true", "false", "null"}, strings.ToLower(s)) {
		return false
	}
	for i := range len(s) {
		letter := 'A' <= s[i] && s[i] <= 'Z' || 'a' <= s[i] && s[i] <= 'z'
		if !letter && (i == 0 || (s[i] < '0' || s[i] > '9') && s[i] != '-' && s[i] != '_') {
			return false
		}
	}
	return true
}
