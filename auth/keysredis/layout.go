package keysredis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/setting"
)

// layout names what the key store keeps in Redis. A Cluster spreads the records over its slots.
//
//	<prefix>:key:<sort>:<digest>  a key, as JSON
//	<prefix>:account:<id>         an account, as JSON
//	<prefix>:{keys}:<sort>        hash, the index: of each key "id:<id>" is the digest, and "<digest>" the id
//	<prefix>:{keys}:accounts      hash with a field of each account's id
//	<prefix>:{keys}:changes       stream of what has changed: key <digest>, or account <id>
//
// <sort> is sha256 or hmac_sha256, <digest> 64 hexadecimal digits in lower case. The members of a key are those of auth.KeyRecord, of an
// account those of auth.Account. What is revoked stays revoked. The index makes ids unique and says of a record that is missing
// that it has been lost.
type layout struct{ prefix, sort string }

func (l layout) key(d auth.Digest) string { return l.keyOf(d.Hex()) }
func (l layout) keyOf(hex string) string  { return l.prefix + ":key:" + l.sort + ":" + hex }
func (l layout) account(id string) string { return l.prefix + ":account:" + id }
func (l layout) index() string            { return l.prefix + ":{keys}:" + l.sort }
func (l layout) accounts() string         { return l.prefix + ":{keys}:accounts" }
func (l layout) changes() string          { return l.prefix + ":{keys}:changes" }

// fieldID begins the fields of the index that are ids.
const fieldID = "id:"

// What an entry of the stream is about.
const (
	changedKey     = "key"
	changedAccount = "account"
)

var errLost = errors.New("the key store in Redis is empty or has lost records, perhaps by its maxmemory-policy: restore them first, and see docs/redis.md")

// readKey reads the record of a key. A missing record is trusted only if the index is there and
// does not know the key either: a Redis that has lost data must not lock callers out. Errors: auth.ErrUnknownKey,
// errLost, auth.ErrMalformedResponse, those of Redis.
func (l layout) readKey(ctx context.Context, client redis.Cmdable, d auth.Digest) (text string, k auth.KeyRecord, err error) {
	k.Digest = d
	text, err = client.Get(ctx, l.key(d)).Result()
	if errors.Is(err, redis.Nil) {
		return "", k, missing(ctx, client, l.index(), d.Hex(), auth.ErrUnknownKey)
	}
	if err == nil {
		err = parse(text, &k)
	}
	return text, k, err
}

// readAccount reads an account. One that does not exist has paid for nothing.
func (l layout) readAccount(ctx context.Context, client redis.Cmdable, id string) (text string, a auth.Account, err error) {
	text, err = client.Get(ctx, l.account(id)).Result()
	if errors.Is(err, redis.Nil) {
		return "", auth.Account{ID: id, APIAccess: auth.AccessNone}, missing(ctx, client, l.accounts(), id, nil)
	}
	if err == nil {
		err = parse(text, &a)
	}
	if err == nil && a.ID != id {
		err = fmt.Errorf("%w: a record is another account's", auth.ErrMalformedResponse)
	}
	return text, a, err
}

// missing tells whether a record that is missing has been lost, by the index of such records; none is the error if it has not.
func missing(ctx context.Context, client redis.Cmdable, index, field string, none error) error {
	var exists *redis.BoolCmd
	var fields *redis.IntCmd
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		exists, fields = p.HExists(ctx, index, field), p.HLen(ctx, index)
		return nil
	})
	switch {
	case err != nil:
		return err
	case exists.Val() || fields.Val() == 0:
		return errLost
	}
	return none
}

// digestOf finds the digest of the key with that id. Errors: auth.ErrNoSuchKey, those of Redis.
func (l layout) digestOf(ctx context.Context, client redis.Cmdable, id string) (auth.Digest, error) {
	hex, err := client.HGet(ctx, l.index(), fieldID+id).Result()
	if errors.Is(err, redis.Nil) {
		return auth.Digest{}, auth.NoSuchKey(id)
	}
	if err != nil {
		return auth.Digest{}, err
	}
	return parseDigest(hex)
}

// parseDigest is auth.ParseDigest; its error is auth.ErrMalformedResponse.
func parseDigest(hex string) (auth.Digest, error) {
	d, err := auth.ParseDigest(hex)
	if err != nil {
		err = fmt.Errorf("%w: a digest in the index is not valid", auth.ErrMalformedResponse)
	}
	return d, err
}

// maxRecord bounds a record that is read, in bytes.
const maxRecord = 8192

// parse reads one record and nothing else. The error is auth.ErrMalformedResponse and repeats nothing of
// the text, in which a key might stand.
func parse(text string, record interface{ Problems() setting.Problems }) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields() // "revoke": true must not make a valid key
	if len(text) > maxRecord || d.Decode(record) != nil || strings.TrimSpace(text[d.InputOffset():]) != "" || len(record.Problems()) > 0 {
		return fmt.Errorf("%w: a record is not valid", auth.ErrMalformedResponse)
	}
	return nil
}

// encode writes a record, which is valid.
func encode(record any) string {
	text, err := json.Marshal(record)
	if err != nil {
		panic(err) // Validate refuses what JSON cannot say
	}
	return string(text)
}
