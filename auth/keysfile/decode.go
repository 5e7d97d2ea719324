package keysfile

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/invalid"
)

// The field names of a keys file.
const (
	fieldAccounts  = "accounts"
	fieldKeys      = "keys"
	fieldID        = "id"
	fieldAPIAccess = "api_access"
	fieldPlan      = "plan"
	fieldKind      = "kind"
	fieldAccount   = "account"
	fieldScopes    = "scopes"
	fieldExpiresAt = "expires_at"
	fieldRevoked   = "revoked"
)

// document is a decoded keys file, with the mappings that its parts stand in, so
// that problems have lines and an Editor can change the text.
type document struct {
	auth.Listing
	root     mapping
	accounts []mapping // of Listing.Accounts, in the same order
	keys     []mapping
}

// decode decodes a keys file strictly. The error joins a *FileError for every
// problem; name is only used in them.
func decode(name string, data []byte, h auth.Hasher) (*document, error) {
	r := &reader{file: name}
	doc := &document{}
	if body := r.body(data); body != nil {
		doc.root = r.mapping(body, "", fieldAccounts, fieldKeys)
		doc.readAccounts(r)
		doc.readKeys(r, h)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return doc, nil
}

// body parses the text and finds its one document; nil: there is none, which has
// been reported. Further documents are refused: keys in them would be ignored.
func (r *reader) body(data []byte) ast.Node {
	file, err := parse(data)
	if err != nil {
		// The package's error has an excerpt of the file, which must not be shown.
		line, text := 1, "the file is not YAML"
		if located, ok := errors.AsType[yaml.Error](err); ok && located.GetToken() != nil {
			line, text = located.GetToken().Position.Line, located.GetMessage()
		}
		r.addLine(line, "", text)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			r.add(doc.Body, "", "a keys file is one YAML document")
			return nil
		default:
			body = doc.Body
		}
	}
	if body == nil {
		// An empty file is more often a write that is not finished than the wish to lock everybody out.
		r.addLine(1, "", "the file is empty: write `keys: []` if no key shall be good")
	}
	return body
}

// parse parses without the panics and the byte order mark that the YAML package
// does not deal with.
func parse(data []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			file, err = nil, errors.New("the file is not YAML")
		}
	}()
	return parser.ParseBytes(bytes.TrimPrefix(data, []byte(byteOrderMark)), 0)
}

// readAccounts reads the section of that name. An account that says nothing about
// access has paid for nothing.
func (doc *document) readAccounts(r *reader) {
	lines := make(map[string]int)
	for i, n := range r.list(doc.root, fieldAccounts) {
		m := r.mapping(n, fmt.Sprintf("%s[%d]", fieldAccounts, i), fieldID, fieldAPIAccess, fieldPlan)
		a := auth.Account{ID: r.text(m, fieldID), APIAccess: auth.AccessNone, Plan: r.text(m, fieldPlan)}
		if m.has(fieldAPIAccess) {
			a.APIAccess = r.text(m, fieldAPIAccess)
		}
		r.check(m, a.Problems())
		r.unique(m, fieldID, a.ID, lines)
		doc.Accounts, doc.accounts = append(doc.Accounts, a), append(doc.accounts, m)
	}
}

// readKeys reads the section of that name. It runs after readAccounts, since every
// key names an account of the same file.
func (doc *document) readKeys(r *reader, h auth.Hasher) {
	accounts := make(map[string]bool, len(doc.Accounts))
	for _, a := range doc.Accounts {
		accounts[a.ID] = true
	}
	ids, digests := make(map[string]int), make(map[string]int)
	for i, n := range r.list(doc.root, fieldKeys) {
		m := r.mapping(n, fmt.Sprintf("%s[%d]", fieldKeys, i),
			fieldID, auth.FieldSHA256, auth.FieldHMAC, fieldKind, fieldAccount, fieldScopes, fieldExpiresAt, fieldRevoked)
		k := auth.KeyRecord{
			ID: r.text(m, fieldID), Kind: r.text(m, fieldKind), Account: r.text(m, fieldAccount), Scopes: r.scopes(m),
			ExpiresAt: r.time(m, fieldExpiresAt), Revoked: r.flag(m, fieldRevoked),
		}
		r.check(m, k.Problems())
		k.Digest = r.digest(m, h)
		r.unique(m, fieldID, k.ID, ids)
		if k.Digest != (auth.Digest{}) {
			r.unique(m, h.Field(), k.Digest.Hex(), digests)
		}
		if k.Account != "" && !accounts[k.Account] {
			r.addField(m, fieldAccount, fmt.Sprintf("there is no account %q under %s", auth.Clip(k.Account), fieldAccounts))
		}
		doc.Keys, doc.keys = append(doc.Keys, k), append(doc.keys, m)
	}
}

// digest reads the digest of the sort that the hasher makes. One of the other
// sort could never match a key, so it is refused rather than ignored.
func (r *reader) digest(m mapping, h auth.Hasher) auth.Digest {
	other := auth.FieldHMAC
	hint := "is a digest made with a pepper and the gateway has none: set pepper_file, or use " + auth.FieldSHA256
	if h.Peppered() {
		other = auth.FieldSHA256
		hint = "is a digest made without a pepper and the gateway has one: use " + auth.FieldHMAC + " of the key, or unset pepper_file"
	}
	var p invalid.Problems
	digest, err := auth.ParseDigest(r.text(m, h.Field()))
	switch {
	case m.has(other):
		p.Add(other, "%s", hint)
	case !m.has(h.Field()):
		p.Add(h.Field(), "is missing: `inquiry-gateway keys hash` makes it from a key")
	case err != nil:
		p.Add(h.Field(), "%v", err)
	}
	r.check(m, p)
	return digest
}

// scopes reads the list, whose items become fields of the mapping.
func (r *reader) scopes(m mapping) []string {
	scopes := []string{}
	for i, n := range r.list(m, fieldScopes) {
		name := fmt.Sprintf("%s[%d]", fieldScopes, i)
		m.fields[name] = n
		scopes = append(scopes, r.text(m, name))
	}
	return scopes
}

// time reads an RFC 3339 time; absent or null is never, the zero time.
func (r *reader) time(m mapping, field string) time.Time {
	if n, ok := m.fields[field]; !ok || n.Type() == ast.NullType {
		return time.Time{}
	}
	text := r.text(m, field)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil && !m.wrong[field] {
		r.addField(m, field, fmt.Sprintf("is %q: write a time as 2027-01-01T00:00:00Z (RFC 3339)", auth.Clip(text)))
	}
	return t.UTC()
}
