package keysredis

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/setting"
)

// layout names what the key store keeps in Redis: sixteen hashes, the shards, which a Cluster has
// in different slots. What is read or changed of one shard is so at once.
//
//	<prefix>:{auth.<n>}       hash, n from 0 to f
//	  version                 counter of the changes of this shard
//	  <sort>:<digest>         a key, as JSON; n is the first digit of the digest
//	  id:<id>                 the digest of the key of that id, which is in this shard
//	  account:<id>            an account, as JSON; n is the first digit of the SHA-256 of the id
//	<prefix>:{auth}:changes   channel: "<n> <version> key <digest>", "<n> <version> account <id>";
//	                          more such pairs may follow
//
// All shards have a version from 0 on; one without has been lost. <sort> is sha256 or
// hmac_sha256. The members of a key are those of auth.KeyRecord, of an account those of
// auth.Account. What is revoked stays revoked. Two commands that make keys of one id in the same
// moment may both succeed: whoever revokes the id revokes both.
type layout struct{ prefix, sort string }

const (
	shards       = 16
	digits       = "0123456789abcdef"
	fieldVersion = "version"
	fieldID      = "id:"
	fieldAccount = "account:"
)

// hash is the name of a shard.
func (l layout) hash(n int) string { return l.prefix + ":{auth." + digits[n:n+1] + "}" }

func (l layout) changes() string { return l.prefix + ":{auth}:changes" }

// older is what the layout of before had: all keys in one slot.
func (l layout) older() string { return l.prefix + ":{auth}:version" }

// key is the cell of a key.
func (l layout) key(d auth.Digest) cell {
	return cell{shard: shardOf(d), field: l.sort + ":" + d.Hex()}
}

// account is the cell of an account.
func (l layout) account(id string) cell {
	return cell{shard: shardOfAccount(id), field: fieldAccount + id}
}

func shardOf(d auth.Digest) int { return int(d[0] >> 4) }

func shardOfAccount(id string) int { return int(sha256.Sum256([]byte(id))[0] >> 4) }

// What a message may say has changed.
const (
	changedKey     = "key"
	changedAccount = "account"
)

// cell is one field of a shard, or of no name the shard alone: as it was read, and as it is to be.
// Empty: it is not there.
type cell struct {
	shard           int
	field, old, new string
}

// cells are the cells of one change.
type cells []*cell

// at gives the cell of that place, and adds it where there is none yet.
func (all *cells) at(c cell) *cell {
	for _, old := range *all {
		if old.shard == c.shard && old.field == c.field {
			return old
		}
	}
	*all = append(*all, &c)
	return &c
}

// read reads cells in one round trip, and the versions of their shards. An empty version is that
// of a shard that is not there.
func (all cells) read(ctx context.Context, client redis.Cmdable, l layout) (versions [shards]string, err error) {
	fields := [shards][]string{}
	for _, c := range all {
		if fields[c.shard] == nil {
			fields[c.shard] = []string{fieldVersion}
		}
		if c.field != "" {
			fields[c.shard] = append(fields[c.shard], c.field)
		}
	}
	replies := [shards]*redis.SliceCmd{}
	_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error { // each command has its own error
		for n, names := range fields {
			if names != nil {
				replies[n] = p.HMGet(ctx, l.hash(n), names...)
			}
		}
		return nil
	})
	next := [shards]int{}
	for n, reply := range replies {
		if reply == nil {
			continue
		}
		if reply.Err() != nil {
			err = errors.Join(err, redisError(reply.Err()))
			continue
		}
		versions[n], _ = reply.Val()[0].(string)
		next[n] = 1
	}
	if err != nil {
		return versions, err
	}
	for _, c := range all {
		if c.field != "" {
			c.old, _ = replies[c.shard].Val()[next[c.shard]].(string)
			next[c.shard]++
		}
	}
	return versions, nil
}

// everyShard are cells that read the versions alone.
func everyShard() (all cells) {
	for n := range shards {
		all = append(all, &cell{shard: n})
	}
	return all
}

// withID are the places where the digest of the key of that id may be.
func withID(id string) (all cells) {
	for n := range shards {
		all = append(all, &cell{shard: n, field: fieldID + id})
	}
	return all
}

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
	d, err := parseDigest(hex)
	if err != nil {
		return auth.KeyRecord{}, err
	}
	return parseKey(d, text)
}

// parseDigest reads the digest that a record or an id stands for.
func parseDigest(hex string) (auth.Digest, error) {
	d, err := auth.ParseDigest(hex)
	if err != nil {
		err = fmt.Errorf("%w: a key's digest is not valid", auth.ErrGarbage)
	}
	return d, err
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

// redisError marks what Redis says about data of a wrong type, whose texts may name keys, and what
// its breaker keeps away from it.
func redisError(err error) error {
	if strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("%w: what should be a hash is none", auth.ErrGarbage)
	}
	if redisclient.ResultOf(err) == "skipped" {
		return fmt.Errorf("%w: %w", auth.ErrNotAsked, err)
	}
	return fmt.Errorf("redis: %w", err)
}
