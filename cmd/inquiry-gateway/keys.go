package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// maxKeyLine bounds what `keys hash` reads of its input.
const maxKeyLine = 4096

// keysCommand works on the key store itself. A running gateway takes a change over
// by itself, so that no command has to reach it.
func keysCommand() *cli.Command {
	return &cli.Command{
		Name:  "keys",
		Usage: "make, list, rotate and revoke API keys, and change their accounts, in a keys file or in Redis",
		Flags: keyStoreFlags(),
		Commands: []*cli.Command{
			keysNewCommand(), keysHashCommand(),
			listCommand("list keys and their states, never the keys themselves", func(l auth.Listing) any { return l }, writeKeys),
			keysRotateCommand(), keysRevokeCommand(), keysAccountCommand(),
		},
	}
}

// keysNewCommand makes a key, and with --api-access its account too. The store gets the
// hash only: whoever reads the store can use no key.
func keysNewCommand() *cli.Command {
	return &cli.Command{
		Name:  "new",
		Usage: "make a key, store its hash and show the key this once",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller", Required: true},
			&cli.StringFlag{Name: "account", Usage: "the `ID` of the account it belongs to", Required: true},
			&cli.StringFlag{Name: "id", Usage: "the key's `ID` in logs and commands (default: a new one)"},
			&cli.StringSliceFlag{Name: "scopes", Usage: "what it may do", Value: []string{auth.ScopeInquiriesRead}},
			&cli.StringFlag{Name: "expires", Usage: "when it ends: a `TIME` such as 2027-01-31T00:00:00Z, or from now on: 720h (default: never)"},
			&cli.StringFlag{Name: "api-access", Usage: "make the account, paid or none, if there is none of that id"},
			outFlag(),
		},
		Action: keysNew,
	}
}

// keysNew makes the key before it opens the store: a kind that is not known
// changes nothing.
func keysNew(ctx context.Context, c *cli.Command) error {
	expires, err := parseExpiry(c.String("expires"), time.Now())
	if err != nil {
		return err
	}
	key, err := auth.Generate(c.String("kind"))
	if err != nil {
		return usageError{err}
	}
	out, err := openOut(c)
	if err != nil {
		return err
	}
	return out.close(withKeys(ctx, c, func(ctx context.Context, store *keyStore) error {
		record := auth.KeyRecord{
			ID: cmp.Or(c.String("id"), newKeyID()), Digest: store.hasher.Hash(key), Kind: c.String("kind"), Account: c.String("account"),
			Scopes: splitScopes(c.StringSlice("scopes")), ExpiresAt: expires,
		}
		var create *auth.Account
		if access := c.String("api-access"); access != "" {
			create = &auth.Account{ID: record.Account, APIAccess: access}
		}
		err := store.Add(ctx, record, create)
		if errors.Is(err, auth.ErrNoSuchAccount) {
			return fmt.Errorf("%w; add it with keys account, or give --api-access paid to make it now", err)
		}
		if err != nil {
			return unshown(record.ID, err)
		}
		return showKey(c, out, key, record, nil)
	}))
}

// outFlag is for commands that make a key.
func outFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "out", Usage: "write the key into the new `FILE`, which only you can read, instead of showing it"}
}

// keyOut is the file of --out; file is nil without the flag.
type keyOut struct{ file *os.File }

// openOut makes the file before the key: a key that cannot be written must not be stored.
func openOut(c *cli.Command) (keyOut, error) {
	name := c.String("out")
	if name == "" {
		return keyOut{}, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return keyOut{}, usagef("--out: %s exists already; name a new file", name)
	}
	return keyOut{f}, err
}

// close ends the file, and removes it where err says that there is no key.
func (o keyOut) close(err error) error {
	if o.file == nil {
		return err
	}
	if err = errors.Join(err, o.file.Close()); err != nil {
		return errors.Join(err, os.Remove(o.file.Name()))
	}
	return nil
}

// unshown says what to do about a key that may be in the store although nobody was shown it.
func unshown(id string, err error) error {
	if errors.Is(err, auth.ErrUncertain) {
		return fmt.Errorf("%w; when the store answers again, look with keys list: a key %s was shown to nobody, so revoke it and make another one", err, id)
	}
	return err
}

// showKey prints the key; it is kept nowhere, so this is the only time. Standard
// output gets the key alone, so that it can go into a file. old is the key that it
// follows, or nil.
func showKey(c *cli.Command, to keyOut, key string, record auth.KeyRecord, old *auth.KeyRecord) error {
	note, file, where := c.Root().ErrWriter, "", "It is shown this once"
	if to.file != nil {
		file, where = to.file.Name(), "It is in "+to.file.Name()
		if _, err := fmt.Fprintln(to.file, key); err != nil {
			return err
		}
		key = ""
	}
	err := show(c, struct {
		Key  string `json:"key,omitempty"`
		File string `json:"key_file,omitempty"`
		auth.KeyRecord
		Old *auth.KeyRecord `json:"old,omitempty"`
	}{key, file, record, old}, func(out io.Writer) {
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
	var scopes []string
	for _, value := range values {
		scopes = append(scopes, strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	return scopes
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
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("--expires %q is neither a time such as 2027-01-31T00:00:00Z nor a positive duration such as 720h", s)
}

// keysHashCommand is for keys that were made elsewhere: whoever keeps the store gets
// the hash and never sees the key.
func keysHashCommand() *cli.Command {
	return &cli.Command{
		Name:      "hash",
		Usage:     "read a key from standard input and print its hash as the key store wants it",
		ArgsUsage: "< FILE",
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return usagef("keys hash reads the key from standard input, so that it does not stay in the shell's history")
			}
			hasher, err := hasherOf(c)
			if err != nil {
				return err
			}
			key, err := readKey(os.Stdin)
			if err != nil {
				return err
			}
			field, hash := hasher.Field(), hasher.Hash(key).Hex()
			return show(c, map[string]string{field: hash}, func(out io.Writer) { fmt.Fprintf(out, "%s: %s\n", field, hash) })
		},
	}
}

// hasherOf needs no key store: without a configuration and a pepper it is plain
// SHA-256.
func hasherOf(c *cli.Command) (auth.Hasher, error) {
	pepper, conf := c.String("pepper-file"), c.String("config")
	if conf == "" {
		file, err := config.ReadFile(pepper)
		if err != nil {
			return auth.Hasher{}, err
		}
		return auth.HasherOf(file)
	}
	if pepper != "" {
		return auth.Hasher{}, usagef("-c has auth.pepper_file; leave --pepper-file out")
	}
	loaded, err := config.Load(conf, keysOnly())
	if err != nil {
		return auth.Hasher{}, err
	}
	return auth.HasherOf(loaded.Config.Auth.PepperFile)
}

// readKey reads one line. The end of the line is not a part of the key, but blanks are:
// a key from elsewhere is hashed as callers send it.
func readKey(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxKeyLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	key := strings.TrimRight(line, "\r\n")
	if key == "" {
		return "", errors.New("no key came on standard input")
	}
	return key, nil
}

// listCommand shows what the store holds: with --json the part that a program wants,
// else as a person reads it.
func listCommand(usage string, part func(auth.Listing) any, write func(io.Writer, auth.Listing)) *cli.Command {
	return &cli.Command{Name: "list", Usage: usage, Action: func(ctx context.Context, c *cli.Command) error {
		return withKeys(ctx, c, func(ctx context.Context, store *keyStore) error {
			listing, err := store.List(ctx)
			if err != nil {
				return err
			}
			return show(c, part(listing), func(out io.Writer) { write(out, listing) })
		})
	}}
}

// writeKeys prints one line per key, with what its account has paid for: both decide
// whether a request is answered. States are those of this moment.
func writeKeys(out io.Writer, listing auth.Listing) {
	access := map[string]string{}
	for _, a := range listing.Accounts {
		access[a.ID] = a.APIAccess
	}
	rows := [][]string{{"ID", "STATE", "KIND", "ACCOUNT", "API ACCESS", "SCOPES", "EXPIRES"}}
	for _, k := range listing.Keys {
		expires := "never"
		if !k.ExpiresAt.IsZero() {
			expires = k.ExpiresAt.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{k.ID, k.State(time.Now()), k.Kind, k.Account, access[k.Account], strings.Join(k.Scopes, " "), expires})
	}
	writeTable(out, rows)
}

// keysRevokeCommand ends a key at once, by its id: whoever revokes a key must not
// need the key. A second time changes nothing.
func keysRevokeCommand() *cli.Command {
	return &cli.Command{
		Name:      "revoke",
		Usage:     "mark a key as revoked; it stays known, so that its use is recognised",
		ArgsUsage: "KEY-ID",
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() != 1 {
				return usagef("which key? keys revoke KEY-ID; keys list shows the ids")
			}
			return withKeys(ctx, c, func(ctx context.Context, store *keyStore) error {
				id := c.Args().First()
				if err := store.Revoke(ctx, id); err != nil {
					return err
				}
				return show(c, struct {
					ID      string `json:"id"`
					Revoked bool   `json:"revoked"`
				}{id, true}, func(out io.Writer) {
					fmt.Fprintf(out, "key %s is revoked; running gateways see it %s\n", id, store.when)
				})
			})
		},
	}
}

// defaultOverlap is how long both keys are good, for callers to change over.
const defaultOverlap = 24 * time.Hour

// keysRotateCommand replaces a key without a moment in which its owner has none.
func keysRotateCommand() *cli.Command {
	return &cli.Command{
		Name:      "rotate",
		Usage:     "make the key that follows another one, for the same account, and let the old one end after an overlap",
		ArgsUsage: "KEY-ID",
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "overlap", Usage: "how long the old key stays good; 0s: not any more", Value: defaultOverlap},
			&cli.StringFlag{Name: "expires", Usage: "when the new key ends: a `TIME`, or from now on: 720h (default: never)"},
			&cli.StringFlag{Name: "id", Usage: "the new key's `ID` (default: a new one)"},
			outFlag(),
		},
		Action: keysRotate,
	}
}

// keysRotate stores the new key and the end of the old one in one change, so that
// a failure between the two cannot leave both good for ever.
func keysRotate(ctx context.Context, c *cli.Command) error {
	now := time.Now()
	if c.NArg() != 1 {
		return usagef("which key? keys rotate KEY-ID; keys list shows the ids")
	}
	if c.Duration("overlap") < 0 {
		return usagef("--overlap %s: give 0s or more", c.Duration("overlap"))
	}
	expires, err := parseExpiry(c.String("expires"), now)
	if err != nil {
		return err
	}
	out, err := openOut(c)
	if err != nil {
		return err
	}
	return out.close(withKeys(ctx, c, func(ctx context.Context, store *keyStore) error {
		oldID := c.Args().First()
		next, key, err := follow(ctx, store, oldID)
		if err != nil {
			return err
		}
		next.ID, next.ExpiresAt = cmp.Or(c.String("id"), newKeyID()), expires
		old, err := store.Rotate(ctx, oldID, next, now.Add(c.Duration("overlap")))
		if err != nil {
			return unshown(next.ID, err)
		}
		return showKey(c, out, key, next, &old)
	}))
}

// follow makes a key with the kind, account and scopes of another one, and gives its
// record, without an id and an end, and the key itself. That a revoked key has no follower is
// for the store to say, at the moment of the change.
func follow(ctx context.Context, store *keyStore, oldID string) (auth.KeyRecord, string, error) {
	old, err := store.Get(ctx, oldID)
	if err != nil {
		return auth.KeyRecord{}, "", err
	}
	key, err := auth.Generate(old.Kind)
	return auth.KeyRecord{Digest: store.hasher.Hash(key), Kind: old.Kind, Account: old.Account, Scopes: old.Scopes}, key, err
}
