package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"inquiry-gateway/auth"
	"inquiry-gateway/deploy/load/measure"
	"inquiry-gateway/internal/testkit"
)

// listPath is the endpoint under load.
const listPath = "/api/v1/buyer/inquiries"

// hitRecords is how many records a list of about 10 KB has.
const hitRecords = 26

// filter is one of an account's lists: the gateway's query, and what is added to
// the legacy's for the same list.
type filter struct{ query, legacy string }

// filters are the four lists of each account.
func filters() []filter {
	return []filter{{"", ""}, {"status=pending", "&state=N"}, {"status=answered", "&state=A"}, {"status=closed", "&state=C"}}
}

// target is the path and query of a request.
func target(query string) string { return strings.TrimSuffix(listPath+"?"+query, "?") }

// legacyTarget is the legacy's path and query of a list of so many records.
func legacyTarget(records int, f filter) string {
	return fmt.Sprintf("/first/%d/v2/tickets?customer=%s%s", records, account(0), f.legacy)
}

// requests asks for all filters. header gives further headers for a query; nil:
// none.
func requests(header func(query string) map[string]string) []measure.Request {
	var all []measure.Request
	for _, f := range filters() {
		r := measure.Request{Path: target(f.query)}
		if header != nil {
			r.Header = header(f.query)
		}
		all = append(all, r)
	}
	return all
}

// account names the i-th account. All names have the same length.
func account(i int) string { return fmt.Sprintf("account-%06d", i) }

// path is that of a file in the temporary folder.
func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

// writeJSON writes a file that bare reads.
func (b *bench) writeJSON(name string, m map[string]string) {
	check(os.WriteFile(b.path(name), must(json.Marshal(m)), 0o600))
}

// makeFixture writes what all servers share: callers and a certificate.
func (b *bench) makeFixture() {
	b.keys = makeKeys(b.options.keys)
	accounts := make(map[string]string, len(b.keys))
	for i, key := range b.keys {
		accounts[key] = account(i)
	}
	b.writeJSON("accounts.json", accounts)
	check(must(testkit.NewAuthority("bench")).WriteFiles(b.dir, "bench"))
	check(os.WriteFile(b.path("keys.yaml"), []byte(keysFile(b.keys)), 0o600))
}

// keysFile gives each key an account of its own.
func keysFile(keys []string) string {
	var b strings.Builder
	b.WriteString("accounts:\n")
	for i := range keys {
		fmt.Fprintf(&b, "  - {id: %s, api_access: paid}\n", account(i))
	}
	b.WriteString("keys:\n")
	for i, key := range keys {
		fmt.Fprintf(&b, "  - {id: key-%06d, sha256: %s, kind: buyer, account: %s, scopes: [\"%s\"]}\n",
			i, auth.Hasher{}.Hash(key).Hex(), account(i), auth.ScopeInquiriesRead)
	}
	return b.String()
}
