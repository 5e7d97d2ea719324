package auth

import (
	"fmt"
	"strings"
	"time"
)

// redisKeys names what the key store keeps in Redis. Every name is used by a
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
type redisKeys struct {
	prefix string
	sort   string
}

func (k redisKeys) key(digest string) string { return k.prefix + ":auth:" + k.sort + ":" + digest }
func (k redisKeys) account(id string) string { return k.prefix + ":auth:account:" + id }
func (k redisKeys) ids() string              { return k.prefix + ":auth:ids" }
func (k redisKeys) accounts() string         { return k.prefix + ":auth:accounts" }
func (k redisKeys) version() string          { return k.prefix + ":auth:version" }
func (k redisKeys) changes() string          { return k.prefix + ":auth:changes" }

// The fields that are read of a key and of an account, in this order.
var (
	keyFields     = [...]string{fieldID, fieldKind, fieldAccount, fieldScopes, fieldExpiresAt, fieldRevoked}
	accountFields = [...]string{fieldAPIAccess, fieldPlan}
)

// revokedMark is the value of a revoked key's field. Anything else that stands
// there, but for 0 and false, counts as revoked too.
const revokedMark = "1"

// maxRedisField bounds a field that is believed, in bytes.
const maxRedisField = 1024

// keyValues is a key as it is written.
func keyValues(k KeyRecord) []any {
	values := []any{
		fieldID, k.ID, fieldKind, k.Kind, fieldAccount, k.Account,
		fieldScopes, strings.Join(k.Scopes, " "), fieldExpiresAt, "",
	}
	if !k.ExpiresAt.IsZero() {
		values[len(values)-1] = k.ExpiresAt.UTC().Format(time.RFC3339)
	}
	if k.Revoked {
		values = append(values, fieldRevoked, revokedMark)
	}
	return values
}

// parseKey reads the answer to an HMGET of keyFields. No field at all is
// ErrUnknownKey, anything unexpected is errGarbage.
func parseKey(d Digest, values []any) (KeyRecord, error) {
	f, err := redisFields(values, len(keyFields))
	if err != nil {
		return KeyRecord{}, err
	}
	if f == nil {
		return KeyRecord{}, ErrUnknownKey
	}
	k := KeyRecord{ID: f[0], Digest: d, Kind: f[1], Account: f[2], Scopes: strings.Fields(f[3])}
	k.Revoked = f[5] != "" && f[5] != "0" && f[5] != "false"
	if f[4] != "" {
		if k.ExpiresAt, err = time.Parse(time.RFC3339, f[4]); err != nil {
			return KeyRecord{}, fmt.Errorf("%w: expires_at is no RFC 3339 time", errGarbage)
		}
	}
	if checkID(k.ID) != "" || checkKind(k.Kind) != "" || checkID(k.Account) != "" {
		return KeyRecord{}, fmt.Errorf("%w: id, kind or account of a key are not valid", errGarbage)
	}
	return k, nil
}

// parseAccount reads the answer to an HMGET of accountFields. An account that
// is not there has paid for nothing.
func parseAccount(id string, values []any) (Account, error) {
	a := Account{ID: id, APIAccess: AccessNone}
	f, err := redisFields(values, len(accountFields))
	if err != nil || f == nil {
		return a, err
	}
	if f[0] != "" {
		a.APIAccess = f[0]
	}
	a.Plan = f[1]
	if checkAccess(a.APIAccess) != "" || checkPlan(a.Plan) != "" {
		return Account{}, fmt.Errorf("%w: api_access or plan of an account are not valid", errGarbage)
	}
	return a, nil
}

// redisFields turns the answer to an HMGET into strings; nil when there is no
// such hash.
func redisFields(values []any, n int) ([]string, error) {
	if len(values) != n {
		return nil, fmt.Errorf("%w: %d fields instead of %d", errGarbage, len(values), n)
	}
	fields, present := make([]string, n), false
	for i, v := range values {
		if v == nil {
			continue
		}
		s, ok := v.(string)
		if !ok || len(s) > maxRedisField {
			return nil, fmt.Errorf("%w: a field is no short text", errGarbage)
		}
		fields[i], present = s, true
	}
	if !present {
		return nil, nil
	}
	return fields, nil
}
