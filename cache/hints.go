package cache

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"

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
	// Records are internal ids as the legacy system has them. RecordHashes are those in
	// hex after HMAC-SHA-256 with the key of hints.record_key_file.
	Records, RecordHashes []string
	Kinds                 []string
	// Hard: the lists are not served any more, as after a purge. Else they may be served
	// for hints.stale_for while they are refreshed, and while the legacy system fails.
	Hard bool
}

// accountHash is what redistier.Hash makes.
var accountHash = regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`)

// targets are the accounts and kinds of the hint, without repetitions, and the marks of
// its records.
func (h Hint) targets(p *policy) (all map[target]bool, marks map[uint32]bool, err error) {
	n := len(h.Accounts) + len(h.AccountHashes) + len(h.Records) + len(h.RecordHashes) + len(h.Kinds)
	if n == 0 || n > MaxHintIDs {
		return nil, nil, fmt.Errorf("%w: it names %d accounts, records and kinds; name 1 to %d", ErrHint, n, MaxHintIDs)
	}
	if len(h.Records)+len(h.RecordHashes) > 0 && !p.hints.RecordKeyFile.Set() {
		return nil, nil, fmt.Errorf("%w: ids of records need cache.hints.record_key_file; name their accounts", ErrHint)
	}
	all, marks = map[target]bool{}, map[uint32]bool{}
	for i, kind := range h.Kinds {
		if _, ok := indexOf(kind); !ok {
			return nil, nil, fmt.Errorf("%w: kinds[%d] must be buyer or seller", ErrHint, i)
		}
		all[target{kind: kind}] = true
	}
	for i, id := range h.Accounts {
		if id == "" || len(id) > maxKeyPart {
			return nil, nil, fmt.Errorf("%w: accounts[%d] wants 1 to %d bytes", ErrHint, i, maxKeyPart)
		}
		all[target{account: redistier.Hash(id)}] = true
	}
	for i, hash := range h.AccountHashes {
		if !accountHash.MatchString(hash) {
			return nil, nil, fmt.Errorf("%w: account_hashes[%d] is none: 22 characters of base64url", ErrHint, i)
		}
		all[target{account: hash}] = true
	}
	for i, id := range h.Records {
		if id == "" || len(id) > maxKeyPart {
			return nil, nil, fmt.Errorf("%w: records[%d] wants 1 to %d bytes", ErrHint, i, maxKeyPart)
		}
		marks[p.mark(id)] = true
	}
	for i, hash := range h.RecordHashes {
		raw, err := hex.DecodeString(hash)
		if err != nil || len(raw) != sha256.Size {
			return nil, nil, fmt.Errorf("%w: record_hashes[%d] is none: 64 hexadecimal digits", ErrHint, i)
		}
		marks[binary.BigEndian.Uint32(raw)] = true
	}
	return all, marks, nil
}

// Mark hashes the internal id of a record, for lists to be found by it. Not wanted: there
// is no hints.record_key_file. 32 bits of a keyed hash tell nothing of the id; that two
// records of a million have the same costs a fetch now and then.
func (l *Lists) Mark(id string) (mark uint32, wanted bool) {
	p := l.policy.Load()
	if !p.hints.RecordKeyFile.Set() {
		return 0, false
	}
	return p.mark(id), true
}

// mark is the first 32 bits of the id's HMAC.
func (p *policy) mark(id string) uint32 {
	h := hmac.New(sha256.New, []byte(p.hints.RecordKeyFile.Secret()))
	h.Write([]byte(id))
	return binary.BigEndian.Uint32(h.Sum(nil))
}

// Changed marks the lists of a hint as changed over the fleet, with the bounds of Purge:
// a fill that began before does not count as fresh after it. It returns how many
// accounts and kinds are marked. It takes at most 3 s; on an error the rest is not
// marked, and calling again is harmless. Records are looked for in the lists that
// nodes hold in memory and have filled themselves; other nodes look when they hear of
// it, so that a hint of records which is lost on the way to one is lost there.
func (l *Lists) Changed(ctx context.Context, h Hint) (marked int, err error) {
	all, marks, err := h.targets(l.policy.Load())
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, purgeWithin)
	defer cancel()
	l.having(marks, all)
	if marked, err = l.outdateAll(ctx, all, h.Hard); err != nil || len(marks) == 0 || l.redis == nil {
		return marked, err
	}
	n := redistier.Notice{Records: encodeMarks(marks, h.Hard)}
	if err := redistier.Retry(ctx, func() error { return l.announce(ctx, n) }); err != nil {
		return marked, fmt.Errorf("tell the other nodes of the records: %w", err)
	}
	return marked, nil
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

// having adds the accounts of the lists in memory that have one of the marks and are
// not known to be outdated. It reads all marks, a million in 0.1 s.
func (l *Lists) having(marks map[uint32]bool, all map[target]bool) {
	if len(marks) == 0 {
		return
	}
	for k, e := range l.tier.All() {
		i, _ := indexOf(k.Kind)
		if _, changed := l.epochs.changed(i, e); changed {
			continue
		}
		for _, m := range e.marks {
			if marks[m] {
				all[target{account: redistier.Hash(k.Account)}] = true
				break
			}
		}
	}
}

// encodeMarks writes "soft:" or "hard:" and the marks in hex.
func encodeMarks(marks map[uint32]bool, hard bool) string {
	var b []byte
	for m := range marks {
		b = binary.BigEndian.AppendUint32(b, m)
	}
	if hard {
		return hintHard + ":" + hex.EncodeToString(b)
	}
	return hintSoft + ":" + hex.EncodeToString(b)
}

// maxHeardRecords bounds the messages about records that wait, 8 KiB each at most.
const maxHeardRecords = 256

// heardRecords keeps what another node was told of records for followRecords. It does
// not hold up the messages.
func (l *Lists) heardRecords(s string) {
	select {
	case l.records <- s:
	default:
		l.metrics.dropped.Inc()
	}
}

// followRecords looks for the records that other nodes were told of until the cache is
// closed. All that wait are looked for at once.
func (l *Lists) followRecords() {
	for {
		select {
		case <-l.life.Done():
			return
		case s := <-l.records:
			l.markRecords(s)
		}
	}
}

// markRecords takes all messages that wait together with s: one walk over the tier serves all.
func (l *Lists) markRecords(s string) {
	defer l.opts.Panics.Catch(nil)
	marks := map[string]map[uint32]bool{hintHard: {}, hintSoft: {}}
	for n := len(l.records); ; n-- {
		how, text, _ := strings.Cut(s, ":")
		if raw, err := hex.DecodeString(text); err == nil && marks[how] != nil {
			for ; len(raw) >= 4; raw = raw[4:] {
				marks[how][binary.BigEndian.Uint32(raw)] = true
			}
		}
		if n == 0 {
			break
		}
		s = <-l.records // nobody else takes them
	}
	ctx, cancel := context.WithTimeout(l.life, purgeWithin)
	defer cancel()
	for _, how := range []string{hintHard, hintSoft} {
		all := map[target]bool{}
		l.having(marks[how], all)
		if _, err := l.outdateAll(ctx, all, how == hintHard); err != nil {
			l.opts.Logger.Warn("lists of changed records could not be marked", "error", err)
		}
	}
}
