package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
	"inquiry-gateway/cmd/inquiry-gateway/config"
)

// maxKeyLine bounds what `keys hash` reads of its input.
const maxKeyLine = 4096

func keysCommand() *cli.Command {
	return &cli.Command{
		Name:  "keys",
		Usage: "make, list and revoke the API keys of a keys file",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "take keys_file and pepper_file from the configuration `FILE`"},
			&cli.StringFlag{Name: "file", Usage: "the keys `FILE`, where there is no configuration yet"},
			&cli.StringFlag{Name: "pepper-file", Usage: "with --file: the pepper `FILE`, if keys are hashed with HMAC"},
			&cli.BoolFlag{Name: "json", Usage: "answer in JSON"},
		},
		Commands: []*cli.Command{keysNewCommand(), keysHashCommand(), keysListCommand(), keysRevokeCommand()},
	}
}

// keysFile finds the keys file and the way keys are hashed: from a
// configuration, or named by hand.
func keysFile(c *cli.Command) (*auth.KeysFile, auth.Hasher, error) {
	file, pepper := c.String("file"), c.String("pepper-file")
	switch conf := c.String("config"); {
	case conf != "" && (file != "" || pepper != ""):
		return nil, auth.Hasher{}, usagef("-c and --file name two keys files; give one of them")
	case conf != "":
		loaded, err := config.Load(conf, config.Options{MayMiss: []string{"auth.keys_file"}})
		if err != nil {
			return nil, auth.Hasher{}, err
		}
		file, pepper = loaded.Config.Auth.KeysFile, loaded.Config.Auth.PepperFile
	case file == "":
		return nil, auth.Hasher{}, usagef("which keys file? give -c CONFIGURATION or --file KEYS.YAML")
	}
	hasher, err := auth.ReadHasher(pepper)
	return auth.NewKeysFile(file, hasher), hasher, err
}

func keysNewCommand() *cli.Command {
	return &cli.Command{
		Name:  "new",
		Usage: "make a key, append its hash to the keys file and show the key this once",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller", Required: true},
			&cli.StringFlag{Name: "account", Usage: "the `ID` of the account it belongs to", Required: true},
			&cli.StringFlag{Name: "id", Usage: "the key's `ID` in logs and commands (default: a new one)"},
			&cli.StringSliceFlag{Name: "scopes", Usage: "what it may do", Value: []string{auth.ScopeInquiriesRead}},
			&cli.StringFlag{Name: "expires", Usage: "when it ends: a `TIME` such as 2027-01-31T00:00:00Z, or from now on: 720h (default: never)"},
			&cli.StringFlag{Name: "api-access", Usage: "make the account, paid or none, if the file has none of that id"},
		},
		Action: keysNew,
	}
}

func keysNew(ctx context.Context, c *cli.Command) error {
	file, hasher, err := keysFile(c)
	if err != nil {
		return err
	}
	expires, err := parseExpiry(c.String("expires"), time.Now())
	if err != nil {
		return err
	}
	key, err := auth.Generate(c.String("kind"))
	if err != nil {
		return usageError{err}
	}
	record := auth.KeyRecord{
		ID: c.String("id"), Digest: hasher.Hash(key), Kind: c.String("kind"), Account: c.String("account"),
		Scopes: splitScopes(c.StringSlice("scopes")), ExpiresAt: expires,
	}
	if record.ID == "" {
		record.ID = newKeyID()
	}
	var create *auth.Account
	if access := c.String("api-access"); access != "" {
		create = &auth.Account{ID: record.Account, APIAccess: access}
	}
	err = file.Add(ctx, record, create)
	if errors.Is(err, auth.ErrNoSuchAccount) {
		return fmt.Errorf("%w; add it to the file, or give --api-access paid to make it now", err)
	}
	if err != nil {
		return err
	}
	return showKey(c, key, record)
}

// showKey prints the key; it is kept nowhere, so this is the only time.
func showKey(c *cli.Command, key string, record auth.KeyRecord) error {
	out := c.Root().Writer
	if c.Bool("json") {
		return json.NewEncoder(out).Encode(struct {
			Key string `json:"key"`
			auth.KeyRecord
		}{key, record})
	}
	_, err := fmt.Fprintf(out, "%s\n\nkey %s of %s %s. It is shown this once: only its hash is kept.\n", key, record.ID, record.Kind, record.Account)
	return err
}

func newKeyID() string {
	var raw [5]byte
	rand.Read(raw[:]) //nolint:errcheck // crypto/rand.Read never fails; it ends the process instead
	return "k-" + hex.EncodeToString(raw[:])
}

func splitScopes(values []string) []string {
	var scopes []string
	for _, value := range values {
		scopes = append(scopes, strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	return scopes
}

// parseExpiry reads a moment or a time from now; empty is never.
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

func keysHashCommand() *cli.Command {
	return &cli.Command{
		Name:  "hash",
		Usage: "read a key from standard input and print its hash as the keys file wants it",
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return usagef("keys hash reads the key from standard input, so that it does not stay in the shell's history")
			}
			hasher := auth.Hasher{}
			if c.String("config") != "" || c.String("file") != "" || c.String("pepper-file") != "" {
				var err error
				if hasher, err = hasherOf(c); err != nil {
					return err
				}
			}
			key, err := readKey(os.Stdin)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.Root().Writer, "%s: %s\n", hasher.Field(), hasher.Hash(key).Hex())
			return err
		},
	}
}

func hasherOf(c *cli.Command) (auth.Hasher, error) {
	if c.String("config") == "" {
		return auth.ReadHasher(c.String("pepper-file"))
	}
	_, hasher, err := keysFile(c)
	return hasher, err
}

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

func keysListCommand() *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list keys and their states, never the keys themselves",
		Action: func(ctx context.Context, c *cli.Command) error {
			file, _, err := keysFile(c)
			if err != nil {
				return err
			}
			listing, err := file.List(ctx)
			if err != nil {
				return err
			}
			out := c.Root().Writer
			if c.Bool("json") {
				return json.NewEncoder(out).Encode(listing)
			}
			return writeKeys(out, listing, time.Now())
		},
	}
}

func writeKeys(out io.Writer, listing auth.Listing, now time.Time) error {
	access := map[string]string{}
	for _, a := range listing.Accounts {
		access[a.ID] = a.APIAccess
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tSTATE\tKIND\tACCOUNT\tAPI ACCESS\tSCOPES\tEXPIRES")
	for _, k := range listing.Keys {
		expires := "never"
		if !k.ExpiresAt.IsZero() {
			expires = k.ExpiresAt.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.State(now), k.Kind, k.Account, access[k.Account], strings.Join(k.Scopes, " "), expires)
	}
	return w.Flush()
}

func keysRevokeCommand() *cli.Command {
	return &cli.Command{
		Name:      "revoke",
		Usage:     "mark a key as revoked; it stays in the file, so that its use is recognised",
		ArgsUsage: "KEY-ID",
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.NArg() != 1 {
				return usagef("which key? keys revoke KEY-ID; keys list shows the ids")
			}
			file, _, err := keysFile(c)
			if err != nil {
				return err
			}
			if err := file.Revoke(ctx, c.Args().First()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.Root().Writer, "key %s is revoked; running gateways see it within seconds\n", c.Args().First())
			return err
		},
	}
}
