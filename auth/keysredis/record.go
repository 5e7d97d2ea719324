package keysredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
)

// names names what the key store keeps in Redis. Every name is used by a
// command of its own, so nothing has to share a slot of a cluster.
//
//	<prefix>:auth:<sort>:<digest>  hash: id, kind, account, scopes, expires_at, revoked
//	<prefix>:auth:account:<id>     hash: api_access, plan
//	<prefix>:auth:ids              hash: key id -> digest
//	<prefix>:auth:accounts         set of account ids
//	<prefix>:auth:version          counter of changes; absent: the store is not set up
//	<prefix>:auth:changes          pub/sub channel: "<version> key <digest>", "<version> account <id>"
//
// <sort> is sha256 or hmac_sha256. Scopes are separated by blanks, expires_at
// is RFC 3339 or empty, revoked is 1 or absent and is never taken back.
type names struct {
	prefix string
	sort   string
}

func (n names) key(digest string) string { return n.prefix + ":auth:" + n.sort + ":" + digest }
func (n names) account(id string) string { return n.prefix + ":auth:account:" + id }
func (n names) ids() string              { return n.prefix + ":auth:ids" }
func (n names) accounts() string         { return n.prefix + ":auth:accounts" }
func (n names) version() string          { return n.prefix + ":auth:version" }
func (n names) changes() string          { return n.prefix + ":auth:changes" }

// The fields of records.
const (
	fieldID        = "id"
	fieldKind      = "kind"
	fieldAccount   = "account"
	fieldScopes    = "scopes"
	fieldExpiresAt = "expires_at"
	fieldRevoked   = "revoked"
	fieldAPIAccess = "api_access"
	fieldPlan      = "plan"
)

// The fields that are read of a key and of an account, in this order.
var (
	keyFields     = [...]string{fieldID, fieldKind, fieldAccount, fieldScopes, fieldExpiresAt, fieldRevoked}
	accountFields = [...]string{fieldAPIAccess, fieldPlan}
)

// revokedMark is the value of a revoked key's field. Anything else that stands
// there, but for 0 and false, counts as revoked too.
const revokedMark = "1"

// maxField bounds a field that is read, in bytes.
const maxField = 1024

// digestOf finds a key's digest by its id. Errors: auth.ErrNoSuchKey, auth.ErrGarbage.
func digestOf(ctx context.Context, client redis.Cmdable, n names, id string) (auth.Digest, error) {
	hex, err := client.HGet(ctx, n.ids(), id).Result()
	if errors.Is(err, redis.Nil) {
		return auth.Digest{}, auth.NoSuchKey(id)
	}
	if err != nil {
		return auth.Digest{}, err
	}
	return parseDigest(hex)
}

// parseDigest reads a value of the index of ids.
func parseDigest(hex string) (auth.Digest, error) {
	digest, err := auth.ParseDigest(hex)
	if err != nil {
		return auth.Digest{}, fmt.Errorf("%w: the index of ids holds no digest", auth.ErrGarbage)
	}
	return digest, nil
}

// readKey reads a key. Errors: auth.ErrUnknownKey, auth.ErrGarbage.
func readKey(ctx context.Context, client redis.Cmdable, n names, d auth.Digest) (auth.KeyRecord, error) {
	values, err := client.HMGet(ctx, n.key(d.Hex()), keyFields[:]...).Result()
	if err != nil {
		return auth.KeyRecord{}, redisError(err)
	}
	return parseKey(d, values)
}

// readAccount reads an account. An account that is not there has paid for nothing.
// Errors: auth.ErrGarbage.
func readAccount(ctx context.Context, client redis.Cmdable, n names, id string) (auth.Account, error) {
	values, err := client.HMGet(ctx, n.account(id), accountFields[:]...).Result()
	if err != nil {
		return auth.Account{}, redisError(err)
	}
	return parseAccount(id, values)
}

// redisError marks what Redis says about data of a wrong type, and drops the
// rest of its texts, which may name keys.
func redisError(err error) error {
	if strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("%w: a record is no hash", auth.ErrGarbage)
	}
	return fmt.Errorf("redis: %w", err)
}

// keyValues is a key as it is written.
func keyValues(k auth.KeyRecord) []any {
	expires := ""
	if !k.ExpiresAt.IsZero() {
		expires = k.ExpiresAt.UTC().Format(time.RFC3339)
	}
	values := []any{
		fieldID, k.ID, fieldKind, k.Kind, fieldAccount, k.Account,
		fieldScopes, strings.Join(k.Scopes, " "), fieldExpiresAt, expires,
	}
	if k.Revoked {
		values = append(values, fieldRevoked, revokedMark)
	}
	return values
}

// parseKey reads the answer to an HMGET of keyFields. No field at all is
// auth.ErrUnknownKey, anything unexpected is auth.ErrGarbage.
func parseKey(d auth.Digest, values []any) (auth.KeyRecord, error) {
	f, err := texts(values, len(keyFields))
	if err != nil {
		return auth.KeyRecord{}, err
	}
	if f == nil {
		return auth.KeyRecord{}, auth.ErrUnknownKey
	}
	k := auth.KeyRecord{ID: f[0], Digest: d, Kind: f[1], Account: f[2]}
	if len(k.Problems()) > 0 {
		return auth.KeyRecord{}, fmt.Errorf("%w: id, kind or account of a key are not valid", auth.ErrGarbage)
	}
	k.Scopes = strings.Fields(f[3]) // scopes that mean nothing here are another service's
	k.Revoked = f[5] != "" && f[5] != "0" && f[5] != "false"
	if f[4] != "" {
		if k.ExpiresAt, err = time.Parse(time.RFC3339, f[4]); err != nil {
			return auth.KeyRecord{}, fmt.Errorf("%w: expires_at is no RFC 3339 time", auth.ErrGarbage)
		}
	}
	return k, nil
}

// parseAccount reads the answer to an HMGET of accountFields.
func parseAccount(id string, values []any) (auth.Account, error) {
	a := auth.Account{ID: id, APIAccess: auth.AccessNone}
	f, err := texts(values, len(accountFields))
	if err != nil || f == nil {
		return a, err
	}
	if f[0] != "" {
		a.APIAccess = f[0]
	}
	a.Plan = f[1]
	if len(auth.Account{ID: "any", APIAccess: a.APIAccess, Plan: a.Plan}.Problems()) > 0 {
		return auth.Account{}, fmt.Errorf("%w: api_access or plan of an account are not valid", auth.ErrGarbage)
	}
	return a, nil
}

// texts turns the answer to an HMGET into strings; nil when there is no such
// hash.
func texts(values []any, n int) ([]string, error) {
	if len(values) != n {
		return nil, fmt.Errorf("%w: %d fields instead of %d", auth.ErrGarbage, len(values), n)
	}
	fields, present := make([]string, n), false
	for i, v := range values {
		if v == nil {
			continue
		}
		s, ok := v.(string)
		if !ok || len(s) > maxField {
			return nil, fmt.Errorf("%w: a field is no short text", auth.ErrGarbage)
		}
		fields[i], present = s, true
	}
	if !present {
		return nil, nil
	}
	return fields, nil
}
