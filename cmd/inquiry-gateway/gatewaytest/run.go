// Package gatewaytest runs the gateway for tests: in this process, or as the demo.
package gatewaytest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/app"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/upstream/legacy"
)

// Run serves what a configuration says, as serve would, in this process, until stop is called or
// the test ends.
func Run(t testing.TB, file string, o app.Options) (a *app.App, stop func()) {
	t.Helper()
	cfg, err := config.Load(file, config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := app.OpenListeners(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = app.New(cfg, l, o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the gateway ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return a, stop
}

// Mapping is the mapping of the sample legacy system at a base URL. replacements replace texts of
// it, in pairs.
func Mapping(base string, replacements ...string) string {
	return strings.NewReplacer(append([]string{legacy.MappingBaseURL, base}, replacements...)...).Replace(string(legacy.Mapping()))
}

// Caller is whose key a keys file has. Kind and Account of the record are not used.
type Caller struct {
	Kind    string
	Account auth.Account
	Record  auth.KeyRecord
}

// Paid is a caller who may read the lists of an account.
func Paid(kind, id, account string) Caller {
	return Caller{Kind: kind, Account: auth.Account{ID: account, APIAccess: auth.AccessPaid},
		Record: auth.KeyRecord{ID: id, Scopes: []string{auth.ScopeInquiriesRead}}}
}

// Refused are buyers, one for each way in which a key that exists is refused; the id says which.
func Refused() []Caller {
	unpaid, noScope := Paid(legacy.KindBuyer, "unpaid", "unpaid"), Paid(legacy.KindBuyer, "no-scope", legacy.BuyerTypical)
	expired, revoked := Paid(legacy.KindBuyer, "expired", legacy.BuyerTypical), Paid(legacy.KindBuyer, "revoked", legacy.BuyerTypical)
	unpaid.Account.APIAccess = auth.AccessNone
	noScope.Record.Scopes = nil
	expired.Record.ExpiresAt = time.Now().Add(-time.Hour)
	revoked.Record.Revoked = true
	return []Caller{unpaid, noScope, expired, revoked}
}

// KeysFile is a keys file with a key of each caller. keys has them by the record's id, and gets those
// that it has not. What is said of an account is what its first caller says.
func KeysFile(t testing.TB, callers []Caller, keys map[string]string) string {
	t.Helper()
	var accounts, records strings.Builder
	known := map[string]bool{}
	for _, c := range callers {
		id, expires := c.Record.ID, "null"
		if keys[id] == "" {
			key, err := auth.Generate(c.Kind)
			if err != nil {
				t.Fatal(err)
			}
			keys[id] = key
		}
		if !known[c.Account.ID] {
			known[c.Account.ID] = true
			fmt.Fprintf(&accounts, "  - {id: %q, api_access: %s, plan: %q}\n", c.Account.ID, c.Account.APIAccess, c.Account.Plan)
		}
		if !c.Record.ExpiresAt.IsZero() {
			expires = c.Record.ExpiresAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&records, "  - {id: %q, sha256: %s, kind: %s, account: %q, scopes: %q, revoked: %t, expires_at: %s}\n",
			id, auth.Hasher{}.Hash(keys[id]).Hex(), c.Kind, c.Account.ID, c.Record.Scopes, c.Record.Revoked, expires)
	}
	return "accounts:\n" + accounts.String() + "keys:\n" + records.String()
}
