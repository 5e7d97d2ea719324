package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysfile"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/secretfile"
)

// keyCommandTimeout bounds a change of keys, the wait for another writer of the
// file included.
const keyCommandTimeout = 30 * time.Second

// keyWriter changes keys.
type keyWriter interface {
	Add(ctx context.Context, k auth.KeyRecord, create *auth.Account) error
	Revoke(ctx context.Context, id string) error
	Rotate(ctx context.Context, oldID string, next auth.KeyRecord, oldExpires time.Time) (old auth.KeyRecord, err error)
}

// keyReader shows keys, never what callers send.
type keyReader interface {
	Get(ctx context.Context, id string) (auth.KeyRecord, error)
	List(ctx context.Context) (auth.Listing, error)
}

// accountWriter changes accounts.
type accountWriter interface {
	SetAccount(ctx context.Context, c auth.AccountChange) error
}

// keyStore is where the keys of a gateway are kept: a keys file or Redis. Both take a
// change whole or not at all, beside other commands that change keys.
type keyStore struct {
	keyWriter
	keyReader
	accountWriter
	hasher auth.Hasher  // as the gateway's: with another pepper no key would be known
	when   string       // running gateways see a change, for a person
	plans  []string     // of rate_limit; nil where no configuration is known
	close  func() error // of the connections; must be called once
}

// keyStoreFlags name the store. All commands of keys and accounts have them.
func keyStoreFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Aliases: []string{"c"}, Usage: "the keys of the gateway with the configuration `FILE`: its keys file or its Redis"},
		&cli.StringFlag{Name: "file", Usage: "the keys `FILE`, where there is no configuration yet"},
		&cli.StringFlag{Name: "pepper-file", Usage: "with --file: the pepper `FILE`, if keys are hashed with HMAC"},
		&cli.BoolFlag{Name: "json", Usage: "answer in JSON"},
	}
}

// keysOnly is for commands that make keys: the canary's may be the next.
func keysOnly() config.Options { return config.Options{MayMiss: []string{"auth.keys_file", "canary"}} }

// openKeyStore finds the keys that the flags mean. Flags that name two stores are wrong
// use: a key in the store that no gateway reads would not be noticed.
func openKeyStore(c *cli.Command) (*keyStore, error) {
	file, pepper := c.String("file"), c.String("pepper-file")
	switch conf := c.String("config"); {
	case conf != "" && (file != "" || pepper != ""):
		return nil, usagef("-c and --file name two keys files; give one of them")
	case conf != "":
		loaded, err := config.Load(conf, keysOnly())
		if err != nil {
			return nil, err
		}
		store, err := keyStoreOf(loaded.Config)
		if err == nil {
			store.plans = slices.AppendSeq([]string{}, maps.Keys(loaded.Config.RateLimit.Plans))
		}
		return store, err
	case file == "":
		return nil, usagef("which keys file? give -c CONFIGURATION or --file KEYS.YAML")
	}
	content, err := config.ReadFile(pepper)
	if err != nil {
		return nil, err
	}
	return openKeysFile(file, content)
}

// keyStoreOf opens the store that the gateway of this configuration reads. Keys that an
// authorization server makes cannot be changed here.
func keyStoreOf(cfg config.Config) (*keyStore, error) {
	switch {
	case cfg.Auth.Introspection != nil:
		return nil, usagef("the keys of this gateway are made by %s (auth.introspection); change them there", cfg.Auth.Introspection.URL)
	case cfg.Auth.Redis == nil:
		return openKeysFile(cfg.Auth.KeysFile, cfg.Auth.PepperFile)
	}
	hasher, err := auth.HasherOf(cfg.Auth.PepperFile)
	if err != nil {
		return nil, err
	}
	client, err := redisclient.Open(cfg.Redis, redisclient.Options{})
	if err != nil {
		return nil, err
	}
	keys := keysredis.NewEditor(client, cfg.Redis.Prefix, hasher)
	when := fmt.Sprintf("at once, within %s where a message is lost, within %s on a node that cannot reach Redis", cfg.Auth.Redis.Poll+cfg.Auth.Redis.Timeout, cfg.Auth.CachePolicy().TTL)
	return &keyStore{keys, keys, keys, hasher, when, nil, client.Close}, nil
}

// openKeysFile opens a keys file; no pepper means that keys are hashed without one.
func openKeysFile(file string, pepper secretfile.File) (*keyStore, error) {
	hasher, err := auth.HasherOf(pepper)
	if err != nil {
		return nil, err
	}
	keys := keysfile.NewEditor(file, hasher)
	return &keyStore{keys, keys, keys, hasher, "within a second", nil, func() error { return nil }}, nil
}

// withKeys runs do with the store that the flags mean, within keyCommandTimeout. An
// error of do comes before one of closing the store.
func withKeys(ctx context.Context, c *cli.Command, do func(context.Context, *keyStore) error) error {
	store, err := openKeyStore(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keyCommandTimeout)
	defer cancel()
	err = do(ctx, store)
	if closing := store.close(); err == nil {
		err = closing
	}
	return err
}
