package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	v1 "inquiry-gateway/gateway/v1"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/upstream"
)

const (
	// defaultOverlap is how long both keys are good, for callers to change over.
	defaultOverlap = 24 * time.Hour
	// keyCommandTimeout bounds a change of keys, the wait for another writer of the
	// file included.
	keyCommandTimeout = 30 * time.Second
)

// keysCommand works on the key store itself. A running gateway takes a change over
// by itself, so that no command has to reach it.
func keysCommand() *cli.Command {
	id := &cli.StringFlag{Name: "id", Usage: "the new key's `ID` in logs and commands (default: a new one)"}
	expires := &cli.StringFlag{Name: "expires", DefaultText: "never", Usage: "its end: a `TIME` such as 2027-01-31 or 720h"}
	out := &cli.StringFlag{Name: "out", Usage: "write the key into the new `FILE`, readable by you alone"}
	return &cli.Command{
		Name:  "keys",
		Usage: "make, list, rotate and revoke API keys, and change their accounts",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "the keys of the gateway with the configuration `FILE`"},
			&cli.StringFlag{Name: "file", Usage: "the keys `FILE`, where there is no configuration yet"},
			&cli.StringFlag{Name: "pepper-file", Usage: "with --file: the pepper `FILE`, if keys are hashed with HMAC"},
			jsonFlag(),
		},
		Commands: []*cli.Command{{
			Name:  "new",
			Usage: "make a key, store its hash and show the key this once",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "kind", Usage: "buyer or seller", Required: true},
				&cli.StringFlag{Name: "account", Usage: "the `ID` of the account it belongs to", Required: true},
				&cli.StringSliceFlag{Name: "scopes", Usage: "what it may do", Value: []string{auth.ScopeInquiriesRead}},
				&cli.StringFlag{Name: "api-access", Usage: "make the account, paid or none"},
				id, expires, out,
			},
			Action: withKeyFile(keysNew),
		}, {
			Name:      "hash",
			Usage:     "read a key from standard input and print its hash",
			ArgsUsage: "< FILE",
			Action:    keysHash,
		}, {
			Name:   "list",
			Usage:  "list keys and their states, never the keys themselves",
			Action: withKeyStore(keysList),
		}, {
			Name:      "rotate",
			Usage:     "replace a key, which ends after an overlap",
			ArgsUsage: "KEY-ID",
			Flags: []cli.Flag{
				&cli.DurationFlag{Name: "overlap", Usage: "how long the old key stays good; 0s: not any more", Value: defaultOverlap},
				id, expires, out,
			},
			Action: withKeyFile(keysRotate),
		}, {
			Name:      "revoke",
			Usage:     "revoke a key; it stays known, so that its use is recognised",
			ArgsUsage: "KEY-ID",
			Action:    withKeyStore(keysRevoke),
		}, {
			Name:      "account",
			Usage:     "list the accounts, or add or change one",
			ArgsUsage: "[ACCOUNT-ID]",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "api-access", Usage: "paid or none; adds an account that does not exist"},
				&cli.StringFlag{Name: "plan", Usage: "the `NAME` of the plan under rate_limit.plans; \"\" takes it away"},
			},
			Action: withKeyStore(keysAccount),
		}},
	}
}

// keyStore is where the keys of a gateway are kept: a keys file or Redis. It takes a change
// whole or not at all, beside other commands that change keys.
type keyStore struct {
	*auth.Editor
	cfg    config.Config
	hasher auth.Hasher  // as the gateway's: with another pepper no key would be known
	when   string       // running gateways see a change, for a person
	close  func() error // of the connections; must be called once
}

// keySource is the configuration of -c, or what --file and --pepper-file say instead. A key can be
// revoked whatever is wrong in other sections. Flags that name two stores are wrong use: nobody would
// notice a key in the store that no gateway reads.
func keySource(c *cli.Command) (cfg config.Config, err error) {
	file, pepper, conf := c.String("file"), c.String("pepper-file"), c.String("config")
	switch {
	case conf != "" && (file != "" || pepper != ""):
		err = usagef("-c has a keys file and a pepper, or none; leave out --file and --pepper-file, or give one of them instead")
	case conf != "":
		cfg, err = config.Load(conf, config.Options{KeysMayMiss: true, Sections: []string{"auth", "redis", "rate_limit"}})
	default:
		cfg.Auth.KeysFile = file
		cfg.Auth.PepperFile, err = config.ReadFile("pepper-file", pepper)
	}
	return cfg, err
}

// openKeys opens the store that the gateway of this configuration reads. Keys that an
// authorization server makes cannot be changed here.
func openKeys(cfg config.Config) (*keyStore, error) {
	hasher, err := auth.HasherOf(cfg.Auth.PepperFile)
	switch {
	case err != nil:
		return nil, err
	case cfg.Auth.Introspection != nil:
		return nil, usagef("the keys of this gateway are made by %s (auth.introspection); change them there", cfg.Auth.Introspection.URL)
	case cfg.Auth.Redis == nil && cfg.Auth.KeysFile == "":
		return nil, usagef("which keys file? give -c CONFIGURATION or --file KEYS.YAML")
	case cfg.Auth.Redis == nil:
		return &keyStore{keysfile.NewEditor(cfg.Auth.KeysFile, hasher), cfg, hasher, "within a second", func() error { return nil }}, nil
	}
	client, err := redisclient.Open(cfg.Redis, redisclient.Options{SendOnce: true})
	if err != nil {
		return nil, err
	}
	when := fmt.Sprintf("within a second, within %s on a node that cannot reach Redis", cfg.Auth.TTL())
	return &keyStore{keysredis.NewEditor(client, cfg.Redis.KeyPrefix(), hasher), cfg, hasher, when, client.Close}, nil
}

// withKeyStore makes an action of do, with the store that the flags name, within keyCommandTimeout.
func withKeyStore(do func(context.Context, *cli.Command, *keyStore) error) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		cfg, err := keySource(c)
		if err != nil {
			return err
		}
		store, err := openKeys(cfg)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, keyCommandTimeout)
		defer cancel()
		err = do(ctx, c, store)
		return cmp.Or(err, store.close()) // an error of do comes before one of closing the store
	}
}

// withKeyFile is withKeyStore for actions that make a key. The file of --out is made before the key, as a
// key that cannot be written must not be stored, and removed where there is no key. It is made
// after the configuration was read, which may name that file. out is nil without the flag.
func withKeyFile(do func(ctx context.Context, c *cli.Command, store *keyStore, out *os.File) error) cli.ActionFunc {
	return withKeyStore(func(ctx context.Context, c *cli.Command, store *keyStore) error {
		name := c.String("out")
		if name == "" {
			return do(ctx, c, store, nil)
		}
		out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			return usagef("--out: %s exists already; name a new file", name)
		}
		if err != nil {
			return err
		}
		if err = errors.Join(do(ctx, c, store, out), out.Close()); err != nil {
			return errors.Join(err, os.Remove(name))
		}
		return nil
	})
}

// newRecord is the record of a new key, whose id and end the flags say. The store gets the digest
// only: whoever reads the store can use no key.
func newRecord(c *cli.Command, kind string) (record auth.KeyRecord, err error) {
	record.ID, record.Kind = cmp.Or(c.String("id"), newKeyID()), kind
	record.ExpiresAt, err = parseExpiry(c.String("expires"), time.Now())
	return record, err
}

// keysNew makes a key, and with --api-access its account too.
func keysNew(ctx context.Context, c *cli.Command, store *keyStore, out *os.File) error {
	record, err := newRecord(c, c.String("kind"))
	if err != nil {
		return err
	}
	key, err := auth.Generate(record.Kind)
	if err != nil {
		return usageError{err}
	}
	record.Digest, record.Account, record.Scopes = store.hasher.Hash(key), c.String("account"), splitScopes(c.StringSlice("scopes"))
	var create *auth.Account
	if access := c.String("api-access"); access != "" {
		create = &auth.Account{ID: record.Account, APIAccess: access}
	}
	err = store.Add(ctx, record, create)
	if errors.Is(err, auth.ErrNoSuchAccount) {
		return fmt.Errorf("%w; add it with keys account, or give --api-access paid to make it now", err)
	}
	if err != nil {
		return orphanedKeyError(record.ID, err)
	}
	return showKey(c, out, key, record, nil)
}

// unsupportedReason says that callers with keys of a kind and account would get nothing, as the legacy
// system cannot be asked for it; empty: it can, or the configuration cannot tell.
func unsupportedReason(cfg upstream.Config, kind, account string) string {
	client, err := upstream.New(cfg, upstream.Options{})
	if err != nil {
		return ""
	}
	defer client.Close()
	if why := client.Askable(kind, account); why != nil {
		return why.Error() + "; callers get " + strconv.Itoa(v1.AccountUnsupported.Status) + " " + v1.AccountUnsupported.Code
	}
	return ""
}

// keysRotate replaces a key; its owner always has a valid one. A keys file takes
// the new key and the end of the old one in one change; Redis takes the new key first. The store refuses a revoked
// key at that moment.
func keysRotate(ctx context.Context, c *cli.Command, store *keyStore, out *os.File) error {
	id, err := keyID(c)
	if err != nil {
		return err
	}
	overlap := c.Duration("overlap")
	if overlap < 0 {
		return usagef("--overlap %s: give 0s or more", overlap)
	}
	before, err := store.Get(ctx, id)
	if err != nil {
		return err
	}
	next, err := newRecord(c, before.Kind)
	if err != nil {
		return err
	}
	key, err := auth.Generate(before.Kind)
	if err != nil {
		return err
	}
	next.Digest, next.Account, next.Scopes = store.hasher.Hash(key), before.Account, before.Scopes
	old, err := store.Rotate(ctx, id, next, time.Now().Add(overlap))
	if err != nil {
		return orphanedKeyError(next.ID, err)
	}
	return showKey(c, out, key, next, &old)
}

// keyID is the argument of commands about one key.
func keyID(c *cli.Command) (string, error) {
	if c.NArg() != 1 {
		return "", usagef("which key? keys %s KEY-ID; keys list shows the ids", c.Name)
	}
	return c.Args().First(), nil
}

// orphanedKeyError says what to do about a key that may be in the store although nobody was shown it.
func orphanedKeyError(id string, err error) error {
	if errors.Is(err, auth.ErrOutcomeUnknown) {
		return fmt.Errorf("%w; if keys list shows a key %s, which was shown to nobody, revoke it first, and give another --id", err, id)
	}
	return err
}

// showKey prints the key, or writes it to a file that is not nil; it is kept nowhere, so
// this is the only time. Standard output gets the key alone, so that it can be piped. old
// is the key that it follows, or nil.
func showKey(c *cli.Command, to *os.File, key string, record auth.KeyRecord, old *auth.KeyRecord) error {
	note, file, where := c.Root().ErrWriter, "", "It is shown this once"
	if to != nil {
		file, where = to.Name(), "It is in "+to.Name()
		if _, err := fmt.Fprintln(to, key); err != nil {
			return err
		}
		key = ""
	}
	warning := ""
	if conf := c.String("config"); conf != "" {
		if cfg, err := config.Load(conf, sections("upstream")); err == nil {
			warning = unsupportedReason(cfg.Upstream, record.Kind, record.Account)
		}
	}
	err := show(c, struct {
		Key  string `json:"key,omitempty"`
		File string `json:"key_file,omitempty"`
		auth.KeyRecord
		Old     *auth.KeyRecord `json:"old,omitempty"`
		Warning string          `json:"warning,omitempty"`
	}{key, file, record, old, warning}, func(out io.Writer) {
		if key != "" {
			fmt.Fprintln(out, key)
		}
	})
	if c.Bool("json") {
		return err
	}
	fmt.Fprintf(note, "key %s of %s %s. %s: only its hash is kept.\n", record.ID, record.Kind, record.Account, where)
	if !slices.Contains(record.Scopes, auth.ScopeInquiriesRead) {
		fmt.Fprintf(note, "It lacks the scope %s, so requests with it are refused with 403.\n", auth.ScopeInquiriesRead)
	}
	if warning != "" {
		fmt.Fprintf(note, "warning: %s\n", printable(warning))
	}
	if old != nil {
		fmt.Fprintf(note, "It follows key %s, which is good until %s.\n", old.ID, old.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return err
}

// newKeyID names a key in logs and commands. It is no secret; 50 random bits keep
// two keys of one store apart.
func newKeyID() string { return "k-" + strings.ToLower(rand.Text()[:10]) }

// splitScopes takes scopes as OAuth writes them, with spaces, and as a list. A scope
// that no gateway knows is stored, too: another program may ask for it.
func splitScopes(values []string) []string {
	return strings.FieldsFunc(strings.Join(values, " "), func(r rune) bool { return r == ',' || r == ' ' })
}

// parseExpiry reads a moment or a time from now; empty is never, which is the zero
// time. A date without a time is its first moment in UTC.
func parseExpiry(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		at, err := time.Parse(layout, s)
		switch {
		case err != nil:
		case at.Before(now):
			return at, usagef("--expires %s is over already: nobody could use the key", s)
		default:
			return at, nil
		}
	}
	return time.Time{}, usagef("--expires %q is neither a time such as 2027-01-31T00:00:00Z nor a positive duration such as 720h", s)
}

// keysHash is for keys that were made elsewhere: whoever keeps the store gets the hash and
// never sees the key. Without a configuration and a pepper the hash is plain SHA-256. A key that no
// caller could present is refused.
func keysHash(ctx context.Context, c *cli.Command) error {
	if c.Args().Present() {
		return usagef("keys hash reads the key from standard input, so that it does not stay in the shell's history")
	}
	cfg, err := keySource(c)
	if err != nil {
		return err
	}
	hasher, err := auth.HasherOf(cfg.Auth.PepperFile)
	if err != nil {
		return err
	}
	in := stdin(ctx)
	defer in.Close()
	line, err := bufio.NewReader(io.LimitReader(in, auth.MaxKeyLength+3)).ReadString('\n') // with an end of line, a longer one shows
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	key := strings.TrimRight(line, "\r\n")
	if key == "" {
		return errors.New("no key came on standard input")
	}
	if err := auth.CheckKey(key); err != nil {
		return err
	}
	field, hash := hasher.Field(), hasher.Hash(key).Hex()
	return show(c, map[string]string{field: hash}, func(out io.Writer) { fmt.Fprintf(out, "%s: %s\n", field, hash) })
}

// keysList prints one line per key, with what its account has paid for: both decide
// whether a request is answered. States are those of this moment. It prints page by page, as there
// may be a million keys. Records that cannot be read are an error, which hides no others.
func keysList(ctx context.Context, c *cli.Command, store *keyStore) error {
	out := c.Root().Writer
	if c.Bool("json") {
		accounts, keys := items{out: out, open: `{"accounts":[`}, items{out: out, open: `],"keys":[`}
		err := store.Accounts(ctx, func(some []auth.Account) error { return write(&accounts, some) })
		if err == nil || errors.Is(err, auth.ErrMalformedResponse) {
			err = errors.Join(err, store.Keys(ctx, func(l auth.KeySet) error { return write(&keys, l.Keys) }))
		}
		return keys.end("]}", err)
	}
	list := table{out: out, head: []string{"ID", "STATE", "KIND", "ACCOUNT", "API ACCESS", "SCOPES", "EXPIRES"}}
	return store.Keys(ctx, func(l auth.KeySet) error {
		access := map[string]string{}
		for _, a := range l.Accounts {
			access[a.ID] = a.APIAccess
		}
		var rows [][]string
		for _, k := range l.Keys {
			expires := "never"
			if !k.ExpiresAt.IsZero() {
				expires = k.ExpiresAt.UTC().Format(time.RFC3339)
			}
			rows = append(rows, []string{k.ID, k.State(time.Now()), k.Kind, k.Account, access[k.Account], strings.Join(k.Scopes, " "), expires})
		}
		return list.page(rows)
	})
}

// keysRevoke ends a key at once, by its id: whoever revokes a key must not need the key. A
// second time changes nothing.
func keysRevoke(ctx context.Context, c *cli.Command, store *keyStore) error {
	id, err := keyID(c)
	if err == nil {
		err = store.Revoke(ctx, id)
	}
	if err != nil {
		return err
	}
	return show(c, map[string]any{"id": id, "revoked": true}, func(out io.Writer) {
		fmt.Fprintf(out, "key %s is revoked; running gateways see it %s\n", id, store.when)
	})
}

// keysAccount changes one account that keys belong to, or lists all. Whether an
// account has paid decides over all of its keys, so that it is one change and not one per
// key. A new account needs --api-access, so that a typing error in an id does not make one.
// An account with a plan that the configuration does not have would get the limits of none.
func keysAccount(ctx context.Context, c *cli.Command, store *keyStore) error {
	plan, plans := c.String("plan"), store.cfg.RateLimit.Plans
	change := auth.AccountChange{ID: c.Args().First(), APIAccess: c.String("api-access")}
	change.Create = change.APIAccess != ""
	if c.IsSet("plan") { // "" takes the account's plan away
		change.Plan = &plan
	}
	given := change.Create || change.Plan != nil
	if !given && !c.Args().Present() {
		return accountsList(ctx, c, store)
	}
	switch _, known := plans[plan]; {
	case c.NArg() != 1:
		return usagef("which account? keys account ACCOUNT-ID --api-access paid|none [--plan NAME]")
	case !given:
		return usagef("nothing to change: give --api-access paid|none or --plan NAME")
	case change.Create && change.APIAccess != auth.AccessPaid && change.APIAccess != auth.AccessNone:
		return usagef("--api-access is %q; give paid or none", change.APIAccess)
	case plan != "" && !known && store.cfg.Path() != "":
		all := strings.Join(slices.Sorted(maps.Keys(plans)), ", ")
		return usagef("there is no plan %q under rate_limit.plans; known: %s", plan, cmp.Or(all, "none"))
	}
	a, err := store.SetAccount(ctx, change)
	if errors.Is(err, auth.ErrNoSuchAccount) {
		return fmt.Errorf("%w; give --api-access to add it", err)
	}
	if err != nil {
		return err
	}
	return show(c, a, func(out io.Writer) {
		fmt.Fprintf(out, "account %s: api access %s, plan %s; running gateways see it %s\n", a.ID, a.APIAccess, cmp.Or(a.Plan, "none"), store.when)
	})
}

// accountsList prints one line per account, page by page. An account without keys is shown, too:
// nobody can use it yet.
func accountsList(ctx context.Context, c *cli.Command, store *keyStore) error {
	out := c.Root().Writer
	if c.Bool("json") {
		accounts := items{out: out, open: "["}
		return accounts.end("]", store.Accounts(ctx, func(some []auth.Account) error { return write(&accounts, some) }))
	}
	list := table{out: out, head: []string{"ID", "API ACCESS", "PLAN"}}
	return store.Accounts(ctx, func(some []auth.Account) error {
		var rows [][]string
		for _, a := range some {
			rows = append(rows, []string{a.ID, a.APIAccess, cmp.Or(a.Plan, "-")})
		}
		return list.page(rows)
	})
}
