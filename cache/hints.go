package cache

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"inquiry-gateway/cache/redistier"
)

// MaxHintIDs bounds the ids of one hint.
const MaxHintIDs = 1000

// ErrHint is the error of a hint that cannot be meant.
var ErrHint = errors.New("not a hint")

// Hint says whose lists have changed at the legacy system. Together there are at most
// MaxHintIDs ids.
type Hint struct {
	Accounts []string // as they are
	// AccountHashes are as in the keys of Redis: base64url without padding of the first 16
	// bytes of the SHA-256 of the id's length in bytes, as an uvarint, and the id.
	AccountHashes []string
	Kinds         []string
	// Hard: the lists are not served any more, as after a purge. Else they may be served
	// for hints.stale_for while they are refreshed, and while the legacy system fails.
	Hard bool
}

// accountHash is what redistier.Hash makes.
var accountHash = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// targets are the accounts and kinds of the hint, without repetitions.
func (h Hint) targets() (map[target]bool, error) {
	n := len(h.Accounts) + len(h.AccountHashes) + len(h.Kinds)
	if n == 0 || n > MaxHintIDs {
		return nil, fmt.Errorf("%w: it names %d accounts and kinds; name 1 to %d", ErrHint, n, MaxHintIDs)
	}
	all := map[target]bool{}
	for i, kind := range h.Kinds {
		if _, ok := indexOf(kind); !ok {
			return nil, fmt.Errorf("%w: kinds[%d] must be buyer or seller", ErrHint, i)
		}
		all[target{kind: kind}] = true
	}
	for i, id := range h.Accounts {
		if id == "" || len(id) > maxKeyPart {
			return nil, fmt.Errorf("%w: accounts[%d] wants 1 to %d bytes", ErrHint, i, maxKeyPart)
		}
		all[target{account: redistier.Hash(id)}] = true
	}
	for i, hash := range h.AccountHashes {
		if !accountHash.MatchString(hash) {
			return nil, fmt.Errorf("%w: account_hashes[%d] is none: 22 characters of base64url", ErrHint, i)
		}
		all[target{account: hash}] = true
	}
	return all, nil
}

// Changed marks the lists of a hint as changed over the fleet, with the bounds of Purge:
// a fill that began before does not count as fresh after it. It returns how many
// accounts and kinds are marked. It takes at most 3 s; on an error the rest is not
// marked, and calling again is harmless.
func (l *Lists) Changed(ctx context.Context, h Hint) (marked int, err error) {
	all, err := h.targets()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, purgeWithin)
	defer cancel()
	return l.outdateAll(ctx, all, h.Hard)
}

// outdateAll marks all targets, and tells how many it could before an error.
func (l *Lists) outdateAll(ctx context.Context, all map[target]bool, hard bool) (marked int, err error) {
	how := hintSoft
	if hard {
		how = hintHard
	}
	for t := range all {
		if _, err := l.outdate(ctx, t, !hard); err != nil {
			return marked, fmt.Errorf("%d of %d are marked: %w", marked, len(all), err)
		}
		l.metrics.hints.WithLabelValues(how).Inc()
		marked++
	}
	return marked, nil
}
