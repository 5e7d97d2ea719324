package keysredis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/setting"
)

// names names what the key store keeps in Redis. They share a hash tag, so that one
// script can change several of them in a Cluster too.
//
//	<prefix>:{auth}:<sort>      hash: digest -> key, as JSON
//	<prefix>:{auth}:accounts    hash: account id -> account, as JSON
//	<prefix>:{auth}:ids         hash: key id -> digest
//	<prefix>:{auth}:version     counter of changes
//	<prefix>:{auth}:changes     channel: "<version> key <digest>", "<version> account <id>"; more such pairs may follow
//
// Without a version, keys or accounts the store is not set up, or has lost them.
//
// <sort> is sha256 or hmac_sha256. The members of a key are those of auth.KeyRecord, of an
// account those of auth.Account. What is revoked stays revoked.
type names struct {
	prefix string
	sort   string
}

func (n names) keys() string     { return n.prefix + ":{auth}:" + n.sort }
func (n names) accounts() string { return n.prefix + ":{auth}:accounts" }
func (n names) ids() string      { return n.prefix + ":{auth}:ids" }
func (n names) version() string  { return n.prefix + ":{auth}:version" }
func (n names) changes() string  { return n.prefix + ":{auth}:changes" }

// What a message may say has changed.
const (
	changedKey     = "key"
	changedAccount = "account"
)

// maxRecord bounds a record that is read, in bytes.
const maxRecord = 8192

// parseKey reads a key's record; empty: auth.ErrUnknownKey, anything unexpected: auth.ErrGarbage.
func parseKey(d auth.Digest, text string) (auth.KeyRecord, error) {
	if text == "" {
		return auth.KeyRecord{}, auth.ErrUnknownKey
	}
	k := auth.KeyRecord{Digest: d}
	if err := parse(text, &k); err != nil {
		return auth.KeyRecord{}, fmt.Errorf("%w: the record of a key is not valid", err)
	}
	return k, nil
}

// parseStored is parseKey for the digest that a record stands under.
func parseStored(hex, text string) (auth.KeyRecord, error) {
	d, err := auth.ParseDigest(hex)
	if err != nil {
		return auth.KeyRecord{}, fmt.Errorf("%w: a key's digest is not valid", auth.ErrGarbage)
	}
	return parseKey(d, text)
}

// parseAccount reads an account's record. An account that is not there has paid for nothing.
func parseAccount(id, text string) (auth.Account, error) {
	if text == "" {
		return auth.Account{ID: id, APIAccess: auth.AccessNone}, nil
	}
	var a auth.Account
	if err := parse(text, &a); err != nil || a.ID != id {
		return auth.Account{}, fmt.Errorf("%w: the record of an account is not valid", auth.ErrGarbage)
	}
	return a, nil
}

// parse reads one record and nothing else. The error is auth.ErrGarbage and repeats nothing of
// the text, in which a key might stand.
func parse(text string, record interface{ Problems() setting.Problems }) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields() // "revoke": true must not make a good key
	if len(text) > maxRecord || d.Decode(record) != nil || len(bytes.TrimSpace([]byte(text)[d.InputOffset():])) > 0 || len(record.Problems()) > 0 {
		return auth.ErrGarbage
	}
	return nil
}

// encode writes a record, which is a struct of texts and times.
func encode(record any) string {
	text, err := json.Marshal(record)
	if err != nil {
		panic(err) // Validate refuses what JSON cannot say
	}
	return string(text)
}

// cell is one field of a hash: as it was read, and as it is to be. Empty: it is not there.
type cell struct{ hash, field, old, new string }

// cells are the cells of one change.
type cells []*cell

// at gives the cell of a field, and adds it where there is none yet.
func (all *cells) at(hash, field string) *cell {
	for _, c := range *all {
		if c.hash == hash && c.field == field {
			return c
		}
	}
	*all = append(*all, &cell{hash: hash, field: field})
	return (*all)[len(*all)-1]
}

// load reads cells in one round trip.
func load(ctx context.Context, client redis.Cmdable, cells ...*cell) error {
	if len(cells) == 0 {
		return nil
	}
	reads := make([]*redis.StringCmd, len(cells))
	_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for i, c := range cells {
			reads[i] = p.HGet(ctx, c.hash, c.field)
		}
		return nil
	})
	for i, c := range cells {
		if err := reads[i].Err(); err != nil && !errors.Is(err, redis.Nil) {
			return redisError(err)
		}
		c.old = reads[i].Val()
	}
	return nil
}

// redisError marks what Redis says about data of a wrong type, whose texts may name keys.
func redisError(err error) error {
	if strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("%w: what should be a hash is none", auth.ErrGarbage)
	}
	return fmt.Errorf("redis: %w", err)
}
