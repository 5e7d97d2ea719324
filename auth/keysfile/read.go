package keysfile

import (
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

// document is what a keys file says, and where.
type document struct {
	auth.KeySet
	*yamlfile.File
}

// decode reads a keys file strictly. The error is a setting.Problems; name is only used in it.
func decode(name string, data []byte, h auth.Hasher) (document, error) {
	doc := yamlfile.Parse(name, data, nil)
	listing := check(doc, h)
	return document{listing, doc}, doc.Err()
}

// check decodes a document into records, and reports what is wrong with them.
func check(doc *yamlfile.File, h auth.Hasher) (l auth.KeySet) {
	if yamlfile.IsNull(doc.Root) {
		// An empty file is more often a write that is not finished than the wish to lock everybody out.
		doc.FileErrorf("is empty: write `keys: []` if no key shall be good")
		return l
	}
	var f file
	doc.Decode(&f)
	l = auth.KeySet{Accounts: make([]auth.Account, 0, len(f.Accounts)), Keys: make([]auth.KeyRecord, 0, len(f.Keys))}
	accounts, ids := make(map[string]int, len(f.Accounts)), make(map[string]int, len(f.Keys))
	digests := make(map[auth.Digest]int, len(f.Keys))
	for i, a := range f.Accounts {
		at := yamlfile.Item(fieldAccounts, i)
		doc.Invalid(at, a.Problems().Err())
		unique(doc, accounts, a.ID, place{fieldAccounts, i, "id"})
		l.Accounts = append(l.Accounts, a.Account)
	}
	for i, k := range f.Keys {
		at := yamlfile.Item(fieldKeys, i)
		k.ExpiresAt = k.ExpiresAt.UTC()
		doc.Invalid(at, k.Problems().Err())
		k.Digest = k.digest(doc, at, h)
		unique(doc, ids, k.ID, place{fieldKeys, i, "id"})
		unique(doc, digests, k.Digest, place{fieldKeys, i, h.Field()})
		if _, known := accounts[k.Account]; k.Account != "" && !known {
			doc.Errorf(at+".account", "there is no account %q under %s", auth.Clip(k.Account), fieldAccounts)
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
		doc.Errorf(at+"."+field, "%s", hint)
	case text == "":
		doc.Errorf(at+"."+h.Field(), "is missing: `inquiry-gateway keys hash` makes it from a key")
	case err != nil:
		doc.Errorf(at+"."+h.Field(), "%v", err)
	}
	return d
}

// place is a field of a record.
type place struct {
	section string
	record  int
	field   string
}

func (p place) key() string { return yamlfile.Join(yamlfile.Item(p.section, p.record), p.field) }

// unique notes the record with a value, and reports the field if another one has the value, too.
func unique[K comparable](doc *yamlfile.File, records map[K]int, value K, at place) {
	if before, taken := records[value]; taken {
		doc.Errorf(at.key(), "is the same as in line %d", doc.Line(place{at.section, before, at.field}.key()))
	} else if value != *new(K) {
		records[value] = at.record
	}
}
