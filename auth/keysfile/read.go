package keysfile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/setting"
)

// The field names of a keys file that have two uses here.
const (
	fieldAccounts = "accounts"
	fieldKeys     = "keys"
)

// maxProblems bounds what is reported of one file: a file with a wrong pepper has as many
// problems as keys.
const maxProblems = 50

// maxParsed bounds what is parsed at once, in bytes: a parsed text takes a hundred times its
// size in memory. Records that stand in lines of their own are parsed a few at a time, so only
// a list of another form can be too long.
const maxParsed = 128 << 10

// recordsAtOnce is how many records are parsed at once.
const recordsAtOnce = 100

// collectEvery is after how many such parts of a large file the collector runs. By itself it
// would run late where GOGC is high, as it is deployed, and 4 MiB leave 450 MiB of garbage.
const collectEvery = 50

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

// document is what a keys file says, and where.
type document struct {
	auth.Listing
	sections map[string]*section
}

// section is a list whose records begin with a dash in a line of their own.
type section struct {
	header  int // the line of its name, from 0; -1: there is none of this form
	indent  int // of the dashes
	records []lineRange
}

// lineRange is the lines of a record, from 0, less blanks and comments behind it.
type lineRange struct{ first, end int }

// decode reads a keys file strictly. The error joins a *FileError for every problem; name is
// only used in them. The YAML package's own decoder would stop at the first mistake, and write
// numbers anew that are ids.
func decode(name string, data []byte, h auth.Hasher) (*document, error) {
	r := newReader(name, h)
	lines := bytes.SplitAfter(bytes.TrimPrefix(data, []byte(byteOrderMark)), []byte("\n"))
	rest, sections := split(lines)
	var root mapping
	if len(bytes.TrimLeft(rest, "\r\n")) > maxParsed {
		r.add(1, "", "is too long for this form: write each record in a line of its own, as in `  - {id: k1, ...}`")
	} else if body := r.body(rest); body != nil {
		root = r.mapping(body, "", fieldAccounts, fieldKeys)
	}
	// Accounts come first, since every key names one.
	for _, name := range []string{fieldAccounts, fieldKeys} {
		read := r.readAccount
		if name == fieldKeys {
			read = r.readKey
		}
		for i, n := range root.list(name) {
			read(n, fmt.Sprintf("%s[%d]", name, i))
		}
		if s := sections[name]; s.header >= 0 {
			r.records(lines, s, name, read)
		}
	}
	r.report(root)
	if r.more > 0 {
		r.problems = append(r.problems, fmt.Errorf("%s: %d more problems", name, r.more))
	}
	return &document{r.listing, sections}, errors.Join(r.problems...)
}

const byteOrderMark = "\ufeff"

var sectionName = regexp.MustCompile(`^(accounts|keys): *(#.*)?$`)

// split finds the records that stand in lines of their own, and gives the text without them,
// line for line. A line within a record is indented more than its dash, whatever it is a part
// of, so no YAML has to be understood for it.
func split(lines [][]byte) (rest []byte, sections map[string]*section) {
	sections = map[string]*section{fieldAccounts: {header: -1}, fieldKeys: {header: -1}}
	var in *section // that the line may belong to
	for i, line := range lines {
		text := strings.TrimRight(string(line), " \t\r\n")
		body := strings.TrimLeft(text, " ")
		indent, dash := len(text)-len(body), body == "-" || strings.HasPrefix(body, "- ")
		switch {
		case body == "" || body[0] == '#':
		case in != nil && dash && (len(in.records) == 0 || indent == in.indent):
			in.indent = indent
			in.records = append(in.records, lineRange{i, i + 1})
		case in != nil && len(in.records) > 0 && indent > in.indent:
			in.records[len(in.records)-1].end = i + 1
		default:
			in = nil
			if m := sectionName.FindStringSubmatch(text); m != nil && sections[m[1]].header < 0 {
				in = sections[m[1]]
				in.header = i
			}
		}
		if in != nil && len(in.records) > 0 {
			line = []byte("\n")
		}
		rest = append(rest, line...)
	}
	return rest, sections
}

// reader reads YAML nodes and collects what is wrong with them.
type reader struct {
	file   string
	hasher auth.Hasher
	before int // lines of the file before the text that is parsed

	listing       auth.Listing
	accounts, ids map[string]int // lines by id
	digests       map[auth.Digest]int

	problems []error
	more     int // beyond maxProblems
}

func newReader(file string, h auth.Hasher) *reader {
	return &reader{file: file, hasher: h, accounts: map[string]int{}, ids: map[string]int{}, digests: map[auth.Digest]int{}}
}

// add reports a problem at a line. key is empty for the file as a whole. msg may quote values
// only through auth.Clip: one may be a pasted key.
func (r *reader) add(line int, key, msg string) {
	if len(r.problems) >= maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, &FileError{File: r.file, Line: line, Key: key, Msg: msg})
}

// lineOf is the line of a node in the file, from 1.
func (r *reader) lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return r.before + t.Position.Line
	}
	return r.before + 1
}

// body parses a text and finds its one document; nil: there is none, which has been reported.
// Further documents are refused: keys in them would be ignored.
func (r *reader) body(text []byte) ast.Node {
	file, err := parse(text)
	if err != nil {
		// The package's error has an excerpt of the file, which must not be shown.
		line, msg := 1, "the file is not YAML"
		if located, ok := errors.AsType[yaml.Error](err); ok && located.GetToken() != nil {
			line, msg = located.GetToken().Position.Line, located.GetMessage()
		}
		r.add(r.before+line, "", msg)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			r.add(r.lineOf(doc.Body), "", "a keys file is one YAML document")
			return nil
		default:
			body = doc.Body
		}
	}
	if body == nil {
		// An empty file is more often a write that is not finished than the wish to lock everybody out.
		r.add(r.before+1, "", "the file is empty: write `keys: []` if no key shall be good")
	}
	return body
}

// parse parses without the panics that the YAML package does not deal with.
func parse(text []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, errors.New("the file is not YAML")
		}
	}()
	return parser.ParseBytes(text, 0)
}

// records reads the records of a section, some at a time, so that little is parsed at once.
func (r *reader) records(lines [][]byte, s *section, name string, read func(ast.Node, string)) {
	for i := 0; i < len(s.records); {
		n, first := 1, s.records[i].first
		for i+n < len(s.records) && n < recordsAtOnce {
			n++
		}
		text := bytes.Join(lines[first:s.records[i+n-1].end], nil)
		for n > 1 && len(text) > maxParsed {
			n /= 2
			text = bytes.Join(lines[first:s.records[i+n-1].end], nil)
		}
		r.before = first
		path := func(i int) string { return fmt.Sprintf("%s[%d]", name, i) }
		if len(text) > maxParsed {
			r.add(first+1, path(i), "is too long")
		} else if body := r.body(text); body != nil {
			if list, ok := body.(*ast.SequenceNode); ok && len(list.Values) == n {
				for j, v := range list.Values {
					read(v, path(i+j))
				}
			} else {
				r.add(first+1, path(i), "cannot be read: write each record in a line of its own, as in `  - {id: k1, ...}`")
			}
		}
		if i += n; i/recordsAtOnce%collectEvery == collectEvery-1 {
			runtime.GC()
		}
	}
	r.before = 0
}

// mapping is a YAML mapping with known fields, and what is wrong with their values.
type mapping struct {
	path     string // such as keys[3]
	line     int    // where it begins; 0: it is no mapping, which has been reported
	fields   map[string]ast.Node
	problems setting.Problems
}

// mapping reads a mapping and reports fields that are not known. The result is usable even
// where there is no mapping, so that one mistake does not hide those that follow.
func (r *reader) mapping(n ast.Node, path string, known ...string) mapping {
	m := mapping{path: path, fields: make(map[string]ast.Node, len(known))}
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		r.add(r.lineOf(n), path, "must be a mapping of "+strings.Join(known, ", "))
		return m
	}
	m.line = r.lineOf(n)
	for _, pair := range pairs { // the parser has refused fields that stand there twice
		name := pair.Key.GetToken().Value
		if pair.Key.Type() != ast.StringType || !slices.Contains(known, name) {
			r.add(r.lineOf(pair.Key), m.key(auth.Clip(name)), "is not known here: there are "+strings.Join(known, ", "))
			continue
		}
		m.fields[name] = pair.Value
	}
	return m
}

// key is the path of a field.
func (m mapping) key(field string) string { return strings.TrimPrefix(m.path+"."+field, ".") }

// lineOfField is where a field stands, or the mapping that lacks it.
func (r *reader) lineOfField(m mapping, field string) int {
	if n, ok := m.fields[field]; ok {
		return r.lineOf(n)
	}
	return m.line
}

// report adds the first problem of each field.
func (r *reader) report(m mapping) {
	told := map[string]bool{}
	for _, err := range m.problems {
		if p, ok := errors.AsType[*setting.Error](err); ok && m.line > 0 && !told[p.Field()] {
			told[p.Field()] = true
			r.add(r.lineOfField(m, p.Field()), m.key(p.Field()), p.Error())
		}
	}
}

// list reads a list; an absent or null one is empty.
func (m *mapping) list(field string) []ast.Node {
	switch n := m.fields[field].(type) {
	case nil, *ast.NullNode:
	case *ast.SequenceNode:
		return n.Values
	default:
		m.problems.Add(field, "must be a list")
	}
	return nil
}

// text reads a scalar; absent is empty. Numbers count as the text they are written as, since
// ids may be numbers.
func (m *mapping) text(field string) string {
	switch n := m.fields[field].(type) {
	case nil:
	case *ast.StringNode:
		return n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		return n.GetToken().Value
	case *ast.NullNode:
		m.problems.Add(field, "has no value")
	case *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
		m.problems.Add(field, "anchors, aliases and tags are not read here: write the value itself")
	default:
		m.problems.Add(field, "must be a text: put it in quotes")
	}
	return ""
}

// flag reads a boolean; absent is false. The texts "yes" and "true" are none.
func (m *mapping) flag(field string) bool {
	switch n := m.fields[field].(type) {
	case nil:
	case *ast.BoolNode:
		return n.Value
	default:
		m.problems.Add(field, "must be true or false")
	}
	return false
}

// time reads an RFC 3339 time; absent or null is never, the zero time.
func (m *mapping) time(field string) time.Time {
	if n, ok := m.fields[field]; !ok || n.Type() == ast.NullType {
		return time.Time{}
	}
	text := m.text(field)
	t, err := time.Parse(time.RFC3339, text)
	m.problems.AddIf(err != nil, field, "is %q: write a time as 2027-01-01T00:00:00Z (RFC 3339)", auth.Clip(text))
	return t.UTC()
}

// scopes reads the list, whose items become fields of the mapping.
func (m *mapping) scopes() []string {
	scopes := []string{}
	for i, n := range m.list("scopes") {
		name := fmt.Sprintf("scopes[%d]", i)
		m.fields[name] = n
		scopes = append(scopes, m.text(name))
	}
	return scopes
}

// digest reads the digest of the sort that the hasher makes. One of the other sort could never
// match a key, so it is refused rather than ignored.
func (m *mapping) digest(h auth.Hasher) auth.Digest {
	other := auth.FieldHMAC
	hint := "is a digest made with a pepper and the gateway has none: set pepper_file, or use " + auth.FieldSHA256
	if h.Peppered() {
		other = auth.FieldSHA256
		hint = "is a digest made without a pepper and the gateway has one: use " + auth.FieldHMAC + " of the key, or unset pepper_file"
	}
	d, err := auth.ParseDigest(m.text(h.Field()))
	switch {
	case m.fields[other] != nil:
		m.problems.Add(other, "%s", hint)
	case m.fields[h.Field()] == nil:
		m.problems.Add(h.Field(), "is missing: `inquiry-gateway keys hash` makes it from a key")
	case err != nil:
		m.problems.Add(h.Field(), "%v", err)
	}
	return d
}

// unique notes a value that an earlier mapping had; lines holds where.
func unique[K comparable](r *reader, m *mapping, field string, value K, lines map[K]int) {
	if line, taken := lines[value]; taken {
		m.problems.Add(field, "is the same as in line %d", line)
	} else if value != *new(K) {
		lines[value] = r.lineOfField(*m, field)
	}
}

// readAccount reads a record. An account that says nothing about access has paid for nothing.
func (r *reader) readAccount(n ast.Node, path string) {
	m := r.mapping(n, path, "id", "api_access", "plan")
	a := auth.Account{ID: m.text("id"), APIAccess: auth.AccessNone, Plan: m.text("plan")}
	if m.fields["api_access"] != nil {
		a.APIAccess = m.text("api_access")
	}
	m.problems = append(m.problems, a.Problems()...)
	unique(r, &m, "id", a.ID, r.accounts)
	r.report(m)
	r.listing.Accounts = append(r.listing.Accounts, a)
}

// readKey reads a record, which names an account of the same file.
func (r *reader) readKey(n ast.Node, path string) {
	m := r.mapping(n, path, "id", auth.FieldSHA256, auth.FieldHMAC, "kind", "account", "scopes", "expires_at", "revoked")
	k := auth.KeyRecord{
		ID: m.text("id"), Kind: m.text("kind"), Account: m.text("account"), Scopes: m.scopes(),
		ExpiresAt: m.time("expires_at"), Revoked: m.flag("revoked"),
	}
	m.problems = append(m.problems, k.Problems()...)
	k.Digest = m.digest(r.hasher)
	unique(r, &m, "id", k.ID, r.ids)
	unique(r, &m, r.hasher.Field(), k.Digest, r.digests)
	_, known := r.accounts[k.Account]
	m.problems.AddIf(!known, "account", "there is no account %q under %s", auth.Clip(k.Account), fieldAccounts)
	r.report(m)
	r.listing.Keys = append(r.listing.Keys, k)
}
