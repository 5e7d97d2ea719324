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
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream"
)

const (
	// defaultOverlap is how long the old key of a rotation stays valid.
	defaultOverlap = 24 * time.Hour
	// keyCommandTimeout bounds each command that reads or changes keys, the wait for another writer of the file
	// included.
	keyCommandTimeout = 30 * time.Second
)

// keysCommand works on the key store itself. Running gateways notice a change without being asked.
func keysCommand() *cli.Command {
	id := &cli.StringFlag{Name: "id", Usage: "the new key's `ID` in logs and commands (default: random)"}
	expires := &cli.StringFlag{Name: "expires", DefaultText: "never", Usage: "expires at `TIME`, such as 2027-01-31 or 720h"}
	out := &cli.StringFlag{Name: "out", Usage: "write the key to a new `FILE` that only you can read"}
	return &cli.Command{
		Name:  "keys",
		Usage: "create, list, rotate and revoke API keys, and change their accounts",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "use the key store of the configuration `FILE`"},
			&cli.StringFlag{Name: "file", Usage: "use the keys `FILE`, if there is no configuration yet"},
			&cli.StringFlag{Name: "pepper-file", Usage: "with --file: the `FILE` with the pepper that keys are hashed with"},
			jsonFlag(),
		},
		Commands: []*cli.Command{{
			Name:  "new",
			Usage: "create a key, store its hash and show the key once",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "kind", Usage: "buyer or seller", Required: true},
				&cli.StringFlag{Name: "account", Usage: "the `ID` of the account it belongs to", Required: true},
				&cli.StringSliceFlag{Name: "scopes", Usage: "the scopes that it has", Value: []string{auth.ScopeInquiriesRead}},
				&cli.StringFlag{Name: "api-access", Usage: "create the account with this API access: paid or none"},
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
			Usage:  "list the ids and states of keys",
			Action: withKeyStore(keysList),
		}, {
			Name:      "rotate",
			Usage:     "create a successor of a key, which expires after an overlap",
			ArgsUsage: "KEY-ID",
			Flags: []cli.Flag{
				&cli.DurationFlag{Name: "overlap", Usage: "how long the old key stays valid; 0s ends it at once", Value: defaultOverlap},
				id, expires, out,
			},
			Action: withKeyFile(keysRotate),
		}, {
			Name:      "revoke",
			Usage:     "revoke a key; its record stays, so that its use is recognised",
			ArgsUsage: "KEY-ID",
			Action:    withKeyStore(keysRevoke),
		}, {
			Name:      "account",
			Usage:     "list accounts, or create or change one",
			ArgsUsage: "[ACCOUNT-ID]",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "api-access", Usage: "paid or none; creates an account that does not exist"},
				&cli.StringFlag{Name: "plan", Usage: "the `NAME` of a plan under rate_limit.plans; \"\" removes the plan"},
			},
			Action: withKeyStore(keysAccount),
		}},
	}
}

// keyStore is where the keys of a gateway are kept: a keys file or Redis. A change is made whole or not at all, even if
// other commands change keys at the same time.
type keyStore struct {
	*auth.Editor
	cfg         config.Config
	hasher      auth.Hasher  // with the gateway's pepper
	takesEffect string       // when running gateways notice a change, for a person
	close       func() error // closes the connections; must be called once
}

// keySource returns the configuration of -c, or one with only what --file and --pepper-file say. Mistakes in other sections
// do not matter, so that a key can be revoked at any time.
func keySource(c *cli.Command) (cfg config.Config, err error) {
	file, pepper, conf := c.String("file"), c.String("pepper-file"), c.String("config")
	switch {
	case conf != "" && (file != "" || pepper != ""):
		err = usagef("-c already says where the keys are and which pepper they have: leave out --file and --pepper-file, or leave out -c")
	case conf != "":
		cfg, err = config.Load(conf, config.Options{KeysMayMiss: true, Sections: []string{"auth", "redis", "rate_limit"}})
	default:
		cfg.Auth.KeysFile = setting.NewFile(file, "")
		cfg.Auth.PepperFile, err = config.ReadFile("pepper-file", pepper)
	}
	return cfg, err
}

// openKeys opens the store that the gateway of this configuration reads. Keys from an authorization server cannot be
// changed here.
func openKeys(cfg config.Config) (*keyStore, error) {
	hasher, err := auth.HasherOf(cfg.Auth.PepperFile)
	switch {
	case err != nil:
		return nil, err
	case cfg.Auth.Introspection != nil:
		return nil, usagef("the keys of this gateway come from %s (auth.introspection); change them there", cfg.Auth.Introspection.URL)
	case cfg.Auth.Redis == nil && !cfg.Auth.KeysFile.Set():
		return nil, usagef("which keys file? give -c CONFIGURATION or --file KEYS.YAML")
	case cfg.Auth.Redis == nil:
		return &keyStore{keysfile.NewEditor(cfg.Auth.KeysFile.Path(), hasher), cfg, hasher, "within a second", func() error { return nil }}, nil
	}
	client, err := redisclient.Open(cfg.Redis, redisclient.Options{SendOnce: true})
	if err != nil {
		return nil, err
	}
	takesEffect := fmt.Sprintf("within a second, within %s on a node that cannot reach Redis", cfg.Auth.TTL())
	return &keyStore{keysredis.NewEditor(client, cfg.Redis.KeyPrefix(), hasher), cfg, hasher, takesEffect, client.Close}, nil
}

// withKeyStore returns an action that calls do with the store that the flags name, within keyCommandTimeout.
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
		return cmp.Or(err, store.close())
	}
}

// withKeyFile is withKeyStore for actions that create a key. The file of --out is created before the key is stored, because a
// key that cannot be written must not be stored, and after the configuration was read, which may name that file. It is
// removed if no key was stored. out is nil without the flag.
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
		err = do(ctx, c, store, out)
		if err != nil && !errors.As(err, new(storedError)) {
			err = errors.Join(err, out.Close(), os.Remove(name))
		}
		return err
	})
}

// storedError is an error that occurred after the new key had been stored.
type storedError struct{ error }

// newRecord returns the record of a new key, with the id and expiry of the flags.
func newRecord(c *cli.Command, kind string) (record auth.KeyRecord, err error) {
	record.ID, record.Kind = cmp.Or(c.String("id"), newKeyID()), kind
	record.ExpiresAt, err = parseExpiry(c.String("expires"), time.Now())
	return record, err
}

// keysNew creates a key, and with --api-access its account.
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
		return fmt.Errorf("%w; create it with keys account, or give --api-access paid", err)
	}
	if err != nil {
		return orphanedKeyError(record.ID, err)
	}
	return showKey(c, out, key, record, nil)
}

// unsupportedReason returns why the legacy system cannot be asked for the lists of an account, and what its callers get.
// It returns "" if it can be asked, or if the configuration does not load.
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

// keysRotate replaces a key, whose owner always has a valid one: the new key is stored before the old one gets its expiry, or
// at the same time in a keys file. The store refuses to rotate a revoked key.
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

// keyID returns the argument of a command about one key.
func keyID(c *cli.Command) (string, error) {
	if c.NArg() != 1 {
		return "", usagef("which key? keys %s KEY-ID; keys list shows the ids", c.Name)
	}
	return c.Args().First(), nil
}

// orphanedKeyError adds what to do about a key that may be in the store although nobody has seen it.
func orphanedKeyError(id string, err error) error {
	if errors.Is(err, auth.ErrOutcomeUnknown) {
		return fmt.Errorf("%w; if keys list shows a key %s, revoke it first, because nobody has seen it, and give another --id", err, id)
	}
	return err
}

// showKey prints the new key, or writes it to a file that is not nil and closes it. Without --json, standard output gets
// nothing but the key, so that it can be piped. old is the key that it replaces, or nil. The error is a storedError.
func showKey(c *cli.Command, to *os.File, key string, record auth.KeyRecord, old *auth.KeyRecord) error {
	note, file, where := c.Root().ErrWriter, "", "It is shown only once"
	if to != nil {
		file, where = to.Name(), "It is in "+to.Name()
		_, err := fmt.Fprintln(to, key)
		if err = errors.Join(err, to.Close()); err != nil {
			err = errors.Join(err, os.Remove(file))
			return storedError{fmt.Errorf("key %s is stored, but could not be written to %s; revoke it and create another: %w", record.ID, file, err)}
		}
		key = ""
	}
	warning := ""
	if conf := c.String("config"); conf != "" {
		if cfg, err := config.Load(conf, onlySections("upstream")); err == nil {
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
	switch {
	case err != nil && to != nil:
		return storedError{fmt.Errorf("key %s is stored, and is in %s: %w", record.ID, file, err)}
	case err != nil:
		return storedError{fmt.Errorf("key %s is stored, but could not be shown; revoke it and create another: %w", record.ID, err)}
	case c.Bool("json"):
		return nil
	}
	fmt.Fprintf(note, "key %s of %s %s. %s; the gateway keeps only its hash.\n", record.ID, record.Kind, record.Account, where)
	if !slices.Contains(record.Scopes, auth.ScopeInquiriesRead) {
		fmt.Fprintf(note, "It lacks the scope %s, so requests with it are refused with 403.\n", auth.ScopeInquiriesRead)
	}
	if warning != "" {
		fmt.Fprintf(note, "warning: %s\n", printable(warning))
	}
	if old != nil {
		fmt.Fprintf(note, "It replaces key %s, which is valid until %s.\n", old.ID, old.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// newKeyID returns a random id of 50 bits. It is not secret.
func newKeyID() string { return "k-" + strings.ToLower(rand.Text()[:10]) }

// splitScopes splits scopes at spaces, as OAuth writes them, and at commas. Scopes that the gateway does not know are kept:
// another program may check them.
func splitScopes(values []string) []string {
	return strings.FieldsFunc(strings.Join(values, " "), func(r rune) bool { return r == ',' || r == ' ' })
}

// parseExpiry parses a time, a date (its start in UTC) or a duration from now. Empty means never, the zero time.
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
			return at, usagef("--expires %s is in the past", s)
		default:
			return at, nil
		}
	}
	return time.Time{}, usagef("--expires %q is neither a time such as 2027-01-31T00:00:00Z nor a positive duration such as 720h", s)
}

// keysHash prints the hash of a key that was created elsewhere, so that whoever maintains the store never sees the key.
// Without a pepper the hash is SHA-256. A key that no caller could send is refused.
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
	line, err := bufio.NewReader(io.LimitReader(in, auth.MaxKeyLength+3)).ReadString('\n') // one byte more than a key with \r\n
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	key := strings.TrimRight(line, "\r\n")
	if key == "" {
		return errors.New("standard input holds no key")
	}
	if err := auth.CheckKey(key); err != nil {
		return err
	}
	field, hash := hasher.Field(), hasher.Hash(key).Hex()
	return show(c, map[string]string{field: hash}, func(out io.Writer) { fmt.Fprintf(out, "%s: %s\n", field, hash) })
}

// keysList prints one line per key, with its account's API access: both decide whether a request is answered. It prints
// page by page, because there may be a million keys. Records that cannot be read are an error, but the others are printed.
// A list in JSON that ends early is not valid JSON.
func keysList(ctx context.Context, c *cli.Command, store *keyStore) error {
	out := c.Root().Writer
	if c.Bool("json") {
		accounts, keys := jsonList[auth.Account]{out: out}, jsonList[auth.KeyRecord]{out: out}
		fmt.Fprint(out, `{"accounts":[`)
		err := store.Accounts(ctx, accounts.page)
		if !isComplete(err) {
			return err
		}
		fmt.Fprint(out, `],"keys":[`)
		return endList(out, "]}", errors.Join(err, store.Keys(ctx, func(l auth.KeySet) error { return keys.page(l.Keys) })))
	}
	list := table{out, []string{"ID", "STATE", "KIND", "ACCOUNT", "API ACCESS", "SCOPES", "EXPIRES"}}
	err := store.Keys(ctx, func(l auth.KeySet) error {
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
	return list.end(err)
}

// endList writes the end of a list in JSON, if the list is complete.
func endList(out io.Writer, end string, err error) error {
	if isComplete(err) {
		_, failed := fmt.Fprintln(out, end)
		err = errors.Join(err, failed)
	}
	return err
}

// isComplete reports whether a list lacks nothing but records that cannot be read.
func isComplete(err error) bool { return err == nil || errors.Is(err, auth.ErrMalformedResponse) }

// keysRevoke revokes a key by its id. Revoking it again changes nothing.
func keysRevoke(ctx context.Context, c *cli.Command, store *keyStore) error {
	id, err := keyID(c)
	if err == nil {
		err = store.Revoke(ctx, id)
	}
	if err != nil {
		return err
	}
	return show(c, map[string]any{"id": id, "revoked": true}, func(out io.Writer) {
		fmt.Fprintf(out, "key %s is revoked; running gateways notice it %s\n", id, store.takesEffect)
	})
}

// keysAccount changes one account, or lists all. Only --api-access creates an account, so that a typing error in an id
// does not. A plan that the configuration does not have is refused, because the account would get no plan's limits.
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
		return fmt.Errorf("%w; give --api-access to create it", err)
	}
	if err != nil {
		return err
	}
	return show(c, a, func(out io.Writer) {
		fmt.Fprintf(out, "account %s: api access %s, plan %s; running gateways notice it %s\n", a.ID, a.APIAccess, cmp.Or(a.Plan, "none"), store.takesEffect)
	})
}

// accountsList prints one line per account, those without keys included.
func accountsList(ctx context.Context, c *cli.Command, store *keyStore) error {
	out := c.Root().Writer
	if c.Bool("json") {
		accounts := jsonList[auth.Account]{out: out}
		fmt.Fprint(out, "[")
		return endList(out, "]", store.Accounts(ctx, accounts.page))
	}
	list := table{out, []string{"ID", "API ACCESS", "PLAN"}}
	err := store.Accounts(ctx, func(page []auth.Account) error {
		var rows [][]string
		for _, a := range page {
			rows = append(rows, []string{a.ID, a.APIAccess, cmp.Or(a.Plan, "-")})
		}
		return list.page(rows)
	})
	return list.end(err)
}
