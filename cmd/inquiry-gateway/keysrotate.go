package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
)

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
	return withKeys(ctx, c, func(ctx context.Context, store *keyStore) error {
		oldID := c.Args().First()
		next, key, err := follow(ctx, store, oldID)
		if err != nil {
			return err
		}
		next.ID, next.ExpiresAt = cmp.Or(c.String("id"), newKeyID()), expires
		if err := store.Rotate(ctx, oldID, next, now.Add(c.Duration("overlap"))); err != nil {
			return err
		}
		old, err := store.Get(ctx, oldID)
		if err != nil {
			return fmt.Errorf("key %s was made, but the old one cannot be read: %w", next.ID, err)
		}
		return showKey(c, key, next, &old)
	})
}

// follow makes a key with the kind, account and scopes of another one. A revoked
// key has no follower: whoever had it must not get another one by routine.
func follow(ctx context.Context, store *keyStore, oldID string) (auth.KeyRecord, string, error) {
	old, err := store.Get(ctx, oldID)
	if err != nil {
		return auth.KeyRecord{}, "", err
	}
	if old.Revoked {
		return auth.KeyRecord{}, "", fmt.Errorf("key %s is revoked; make a new one with keys new", old.ID)
	}
	key, err := auth.Generate(old.Kind)
	return auth.KeyRecord{Digest: store.hasher.Hash(key), Kind: old.Kind, Account: old.Account, Scopes: old.Scopes}, key, err
}
