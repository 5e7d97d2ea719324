package keysfile

import (
	"bytes"
	"regexp"
	"runtime"
	"strings"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/yamlfile"
)

// The sections of a keys file.
const (
	fieldAccounts = "accounts"
	fieldKeys     = "keys"
)

// file is a keys file as it is decoded.
type file struct {
	Accounts []accountEntry `yaml:"accounts"`
	Keys     []keyEntry     `yaml:"keys"`
}

type accountEntry struct{ auth.Account }

// SetDefaults is for an account that says nothing about access: it has paid for nothing.
func (a *accountEntry) SetDefaults() { a.APIAccess = auth.AccessNone }

type keyEntry struct {
	auth.KeyRecord
	SHA256 string `yaml:"sha256"`
	HMAC   string `yaml:"hmac_sha256"`
}

// SetDefaults makes no scopes an empty list in JSON.
func (k *keyEntry) SetDefaults() { k.Scopes = []string{} }

const (
	// maxParsed bounds what is parsed at once, in bytes: a parsed text takes a hundred times its
	// size in memory. Records that stand in lines of their own are parsed a few at a time, so only
	// a list of another form can be too long.
	maxParsed = 128 << 10
	// recordsAtOnce is how many records are parsed at once.
	recordsAtOnce = 100
	// collectEvery is after how many such parts of a large file the collector runs. By itself it
	// would run late where GOGC is high, as it is deployed, and 4 MiB leave 450 MiB of garbage.
	collectEvery = 50
)

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

const byRecord = "write each record in a line of its own, as in `  - {id: k1, ...}`"

// decode reads a keys file strictly. The error is a setting.Problems; name is only used in it.
func decode(name string, data []byte, h auth.Hasher) (*document, error) {
	lines := bytes.SplitAfter(bytes.TrimPrefix(data, []byte(byteOrderMark)), []byte("\n"))
	rest, sections := split(lines)
	tooLong := len(bytes.TrimLeft(rest, "\r\n")) > maxParsed
	if tooLong {
		rest = nil
	}
	doc := yamlfile.Parse(name, string(rest), nil)
	if tooLong {
		doc.WrongAt(1, "", "is too long for this form: %s", byRecord)
	}
	for _, name := range []string{fieldAccounts, fieldKeys} {
		readRecords(doc, name, lines, sections[name].records)
	}
	listing := check(doc, h)
	return &document{listing, sections}, doc.Err()
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

// readRecords adds the records of a section to the document, some at a time, so that little is
// parsed at once.
func readRecords(doc *yamlfile.File, name string, lines [][]byte, records []lineRange) {
	for i, parts := 0, 0; i < len(records); parts++ {
		n, first := min(recordsAtOnce, len(records)-i), records[i].first
		text := bytes.Join(lines[first:records[i+n-1].end], nil)
		for n > 1 && len(text) > maxParsed {
			n /= 2
			text = bytes.Join(lines[first:records[i+n-1].end], nil)
		}
		if len(text) > maxParsed {
			doc.WrongAt(first+1, yamlfile.Item(name, i), "is too long")
		} else if doc.Extend(name, string(text), first) != n {
			doc.WrongAt(first+1, yamlfile.Item(name, i), "cannot be read: %s", byRecord)
		}
		if i += n; parts%collectEvery == collectEvery-1 {
			runtime.GC()
		}
	}
}

// check decodes a document into records, and reports what is wrong with them.
func check(doc *yamlfile.File, h auth.Hasher) (l auth.Listing) {
	if doc.Root != nil && doc.Root.Kind == yamlfile.Null {
		// An empty file is more often a write that is not finished than the wish to lock everybody out.
		doc.WrongAt(0, "", "is empty: write `keys: []` if no key shall be good")
		return l
	}
	var f file
	doc.Decode(&f)
	accounts, ids, digests := map[string]string{}, map[string]string{}, map[auth.Digest]string{}
	for i, a := range f.Accounts {
		at := yamlfile.Item(fieldAccounts, i)
		doc.Invalid(at, a.Problems().Err())
		unique(doc, accounts, a.ID, at+".id")
		l.Accounts = append(l.Accounts, a.Account)
	}
	for i, k := range f.Keys {
		at := yamlfile.Item(fieldKeys, i)
		k.ExpiresAt = k.ExpiresAt.UTC()
		doc.Invalid(at, k.Problems().Err())
		k.Digest = k.digest(doc, at, h)
		unique(doc, ids, k.ID, at+".id")
		unique(doc, digests, k.Digest, at+"."+h.Field())
		if k.Account != "" && accounts[k.Account] == "" {
			doc.Wrong(at+".account", "there is no account %q under %s", auth.Clip(k.Account), fieldAccounts)
		}
		l.Keys = append(l.Keys, k.KeyRecord)
	}
	return l
}

// digest is the one of the sort that the hasher makes. One of the other sort could never match a
// key, so it is refused rather than ignored.
func (k *keyEntry) digest(doc *yamlfile.File, at string, h auth.Hasher) auth.Digest {
	text, other, field := k.SHA256, k.HMAC, auth.FieldHMAC
	hint := "is a digest made with a pepper and the gateway has none: set pepper_file, or use " + auth.FieldSHA256
	if h.Peppered() {
		text, other, field = k.HMAC, k.SHA256, auth.FieldSHA256
		hint = "is a digest made without a pepper and the gateway has one: use " + auth.FieldHMAC + " of the key, or unset pepper_file"
	}
	d, err := auth.ParseDigest(text)
	switch {
	case other != "":
		doc.Wrong(at+"."+field, "%s", hint)
	case text == "":
		doc.Wrong(at+"."+h.Field(), "is missing: `inquiry-gateway keys hash` makes it from a key")
	case err != nil:
		doc.Wrong(at+"."+h.Field(), "%v", err)
	}
	return d
}

// unique notes where a value stands, and reports one that stands elsewhere, too.
func unique[K comparable](doc *yamlfile.File, places map[K]string, value K, at string) {
	if before, taken := places[value]; taken {
		doc.Wrong(at, "is the same as in line %d", doc.Line(before))
	} else if value != *new(K) {
		places[value] = at
	}
}
