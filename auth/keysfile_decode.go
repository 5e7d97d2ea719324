package auth

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
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

// keysDocument is a decoded keys file with the places its parts stand at, so
// that problems have lines and tools can edit the text.
type keysDocument struct {
	root     *ast.MappingNode
	accounts []accountEntry
	keys     []keyEntry
}

type accountEntry struct {
	Account
	at item
}

type keyEntry struct {
	KeyRecord
	at item
}

func (d *keysDocument) listing() Listing {
	l := Listing{Accounts: make([]Account, len(d.accounts)), Keys: make([]KeyRecord, len(d.keys))}
	for i, a := range d.accounts {
		l.Accounts[i] = a.Account
	}
	for i, k := range d.keys {
		l.Keys[i] = k.KeyRecord
	}
	return l
}

// decodeKeys decodes a keys file strictly. The error joins a *FileError for
// every problem; name is only used in them.
func decodeKeys(name string, data []byte, h Hasher) (*keysDocument, error) {
	d := &keysDecoder{hasher: h, problems: problems{file: name}}
	doc := d.document(data)
	if err := d.err(); err != nil {
		return nil, err
	}
	return doc, nil
}

type keysDecoder struct {
	problems
	hasher Hasher
}

func (d *keysDecoder) document(data []byte) *keysDocument {
	file, err := parseYAML(data)
	if err != nil {
		d.syntax(err)
		return nil
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if body != nil {
			d.add(doc.Body, "", "a keys file is one YAML document")
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		// An empty file is more often a write that is not finished than the wish to lock everybody out.
		d.addLine(1, "", "the file is empty: write `keys: []` if no key shall be good")
		return nil
	}
	root := d.item(body, "", fieldAccounts, fieldKeys)
	doc := &keysDocument{root: root.node}
	d.accounts(root.fields[fieldAccounts], doc)
	d.keys(root.fields[fieldKeys], doc)
	return doc
}

// parseYAML parses without the panics and the byte order mark that the YAML
// package does not deal with.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, errors.New("the file is not YAML")
		}
	}()
	return parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
}

// syntax reports an error of the YAML package with its line, without the
// excerpt of the file it would print.
func (d *keysDecoder) syntax(err error) {
	var located yaml.Error
	if errors.As(err, &located) && located.GetToken() != nil {
		d.addLine(located.GetToken().Position.Line, "", located.GetMessage())
		return
	}
	d.addLine(1, "", "the file is not YAML")
}

func (d *keysDecoder) accounts(list ast.Node, doc *keysDocument) {
	lines := make(map[string]int)
	for i, n := range d.items(list, fieldAccounts) {
		path := fmt.Sprintf("%s[%d]", fieldAccounts, i)
		it := d.item(n, path, fieldID, fieldAPIAccess, fieldPlan)
		a := Account{APIAccess: AccessNone}
		d.text(it, fieldID, &a.ID, checkID)
		d.text(it, fieldAPIAccess, &a.APIAccess, checkAccess)
		d.text(it, fieldPlan, &a.Plan, checkPlan)
		d.unique(it, fieldID, a.ID, lines)
		doc.accounts = append(doc.accounts, accountEntry{Account: a, at: it})
	}
}

func (d *keysDecoder) keys(list ast.Node, doc *keysDocument) {
	accounts := make(map[string]bool, len(doc.accounts))
	for _, a := range doc.accounts {
		accounts[a.ID] = true
	}
	ids, digests := make(map[string]int), make(map[string]int)
	for i, n := range d.items(list, fieldKeys) {
		path := fmt.Sprintf("%s[%d]", fieldKeys, i)
		it := d.item(n, path, fieldID, fieldSHA256, fieldHMAC, fieldKind, fieldAccount, fieldScopes, fieldExpiresAt, fieldRevoked)
		k := d.key(it)
		d.unique(it, fieldID, k.ID, ids)
		if k.Digest != (Digest{}) {
			d.unique(it, d.hasher.Field(), k.Digest.Hex(), digests)
		}
		if k.Account != "" && !accounts[k.Account] {
			d.add(it.place(fieldAccount), it.sub(fieldAccount), fmt.Sprintf("there is no account %q under %s", clip(k.Account), fieldAccounts))
		}
		doc.keys = append(doc.keys, keyEntry{KeyRecord: k, at: it})
	}
}

func (d *keysDecoder) key(it item) KeyRecord {
	var k KeyRecord
	d.text(it, fieldID, &k.ID, checkID)
	d.text(it, fieldKind, &k.Kind, checkKind)
	d.text(it, fieldAccount, &k.Account, checkID)
	k.Digest = d.digest(it)
	k.Scopes = d.scopes(it)
	k.ExpiresAt = d.time(it, fieldExpiresAt)
	k.Revoked = d.bool(it, fieldRevoked)
	return k
}

// digest reads the digest of the sort that the hasher makes. One of the other
// sort could never match a key, so it is refused rather than ignored.
func (d *keysDecoder) digest(it item) Digest {
	want, other := d.hasher.Field(), fieldHMAC
	hint := "is a digest made with a pepper and the gateway has none: set pepper_file, or use " + fieldSHA256
	if d.hasher.Peppered() {
		other = fieldSHA256
		hint = "is a digest made without a pepper and the gateway has one: use " + fieldHMAC + " of the key, or unset pepper_file"
	}
	if n, ok := it.fields[other]; ok {
		d.add(n, it.sub(other), hint)
		return Digest{}
	}
	var text string
	d.text(it, want, &text, func(s string) string {
		if s == "" {
			return "is missing: `inquiry-gateway keys hash` makes it from a key"
		}
		if _, err := ParseDigest(s); err != nil {
			return err.Error()
		}
		return ""
	})
	digest, _ := ParseDigest(text) // a wrong one has been reported
	return digest
}

func (d *keysDecoder) scopes(it item) []string {
	scopes := []string{}
	seen := make(map[string]int)
	for i, n := range d.items(it.fields[fieldScopes], it.sub(fieldScopes)) {
		one := item{path: it.path, fields: map[string]ast.Node{fmt.Sprintf("%s[%d]", fieldScopes, i): n}}
		var scope string
		name := fmt.Sprintf("%s[%d]", fieldScopes, i)
		d.text(one, name, &scope, checkScope)
		d.unique(one, name, scope, seen)
		scopes = append(scopes, scope)
	}
	return scopes
}

func (d *keysDecoder) time(it item, field string) time.Time {
	var text string
	n, ok := it.fields[field]
	if !ok || isNull(n) {
		return time.Time{}
	}
	d.text(it, field, &text, func(s string) string {
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return fmt.Sprintf("is %q: write a time as 2027-01-01T00:00:00Z (RFC 3339)", clip(s))
		}
		return ""
	})
	t, _ := time.Parse(time.RFC3339, text) // a wrong one has been reported
	return t.UTC()
}
