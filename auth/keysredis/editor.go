package keysredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
)

// editor changes and lists the keys and accounts under a prefix. The context sets the deadline.
type editor struct {
	client redis.Cmdable
	layout layout
}

// NewEditor edits the records under prefix. A change is effective on every node as Store says.
func NewEditor(client redis.Cmdable, prefix string, h auth.Hasher) *auth.Editor {
	return auth.NewEditor(&editor{client, layout{prefix, h.Field()}})
}

const (
	maxTries      = 8   // of one change, beside other editors
	pageSize      = 500 // records that are read at once
	maxUnreadable = 50  // records that are named
)

var errConflict = errors.New("other programs change the same keys all the time: try again")

// replaceScript writes a record if it is as it was read. Being repeated is no conflict.
//
//	KEYS: the record
//	ARGV: old, new
var replaceScript = redis.NewScript(`
local v = redis.call('GET', KEYS[1]) or ''
if v == ARGV[2] then return 1 end
if v ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`)

// reserveScript enters a new key in the index if its id and its digest are free. The id of a key whose record is missing
// is free, too. Being repeated is no conflict.
//
//	KEYS: the index
//	ARGV: field of the id, digest, id, the digest whose record is missing, or ''
var reserveScript = redis.NewScript(`
local digest, id = redis.call('HGET', KEYS[1], ARGV[1]) or '', redis.call('HGET', KEYS[1], ARGV[2]) or ''
if digest == ARGV[2] and id == ARGV[3] then return 1 end
if digest ~= ARGV[4] or id ~= '' then return 0 end
if digest ~= '' then redis.call('HDEL', KEYS[1], digest) end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], ARGV[2], ARGV[3])
return 1`)

// state is what a change begins with.
type state struct {
	texts   map[string]string // of the records, by their names in Redis
	missing map[string]string // by the id of a key whose record is missing: its digest
	listing auth.KeySet
}

// Change implements auth.KeyAdmin. Records are written one by one: accounts first, then new keys, then changed keys, so that
// a partial failure never locks anyone out. The error is auth.ErrOutcomeUnknown then. A change that is repeated announces again
// what is already as it should be.
func (e *editor) Change(ctx context.Context, about auth.Selector, change func(*auth.KeySet) error) error {
	w := writer{editor: e}
	for range maxTries {
		before, err := e.read(ctx, about)
		if err != nil {
			return w.outcome(err)
		}
		l := before.listing
		after := auth.KeySet{Accounts: slices.Clone(l.Accounts), Keys: slices.Clone(l.Keys)}
		if err := change(&after); err != nil {
			return w.outcome(err)
		}
		if w.write(ctx, about, before, after); !errors.Is(w.err, errConflict) {
			return w.err
		}
		w.err = nil
	}
	return w.outcome(errConflict)
}

// read reads what is named.
func (e *editor) read(ctx context.Context, about auth.Selector) (state, error) {
	s := state{texts: map[string]string{}, missing: map[string]string{}}
	digests := slices.Clone(about.Digests)
	ids := map[auth.Digest]string{}
	for _, id := range about.KeyIDs {
		d, err := e.layout.digestOf(ctx, e.client, id)
		if errors.Is(err, auth.ErrNoSuchKey) {
			continue
		}
		if err != nil {
			return s, err
		}
		if ids[d] = id; !slices.Contains(digests, d) {
			digests = append(digests, d)
		}
	}
	for _, d := range digests {
		text, k, err := e.layout.readKey(ctx, e.client, d)
		switch {
		case errors.Is(err, errLost):
			if id := ids[d]; id != "" {
				s.missing[id] = d.Hex()
			}
		case errors.Is(err, auth.ErrUnknownKey):
		case err != nil:
			return s, err
		default:
			s.texts[e.layout.key(d)] = text
			s.listing.Keys = append(s.listing.Keys, k)
		}
	}
	for _, id := range about.Accounts {
		text, a, err := e.layout.readAccount(ctx, e.client, id)
		switch {
		case errors.Is(err, errLost): // it is made anew
		case err != nil:
			return s, err
		case text != "":
			s.texts[e.layout.account(id)] = text
			s.listing.Accounts = append(s.listing.Accounts, a)
		}
	}
	return s, nil
}

// write writes what has changed.
func (w *writer) write(ctx context.Context, about auth.Selector, before state, after auth.KeySet) {
	w.texts = before.texts
	e, old := w.editor, before.listing
	for i, a := range after.Accounts {
		if i >= len(old.Accounts) || a != old.Accounts[i] || len(about.KeyIDs) == 0 {
			w.do(func() error { return e.client.HSet(ctx, e.layout.accounts(), a.ID, "").Err() })
			w.put(ctx, e.layout.account(a.ID), encode(a), changedAccount, a.ID)
		}
	}
	for _, k := range after.Keys[len(old.Keys):] {
		w.do(func() error { return e.reserve(ctx, k, before.missing[k.ID]) })
		w.put(ctx, e.layout.key(k.Digest), encode(k), changedKey, k.Digest.Hex())
		w.do(func() error { return e.confirm(ctx, k) })
	}
	for _, k := range after.Keys[:len(old.Keys)] {
		w.put(ctx, e.layout.key(k.Digest), encode(k), changedKey, k.Digest.Hex())
	}
}

// reserve enters a new key in the index.
func (e *editor) reserve(ctx context.Context, k auth.KeyRecord, missing string) error {
	index := []string{e.layout.index()}
	free, err := reserveScript.Run(ctx, e.client, index, fieldID+k.ID, k.Digest.Hex(), k.ID, missing).Bool()
	if err == nil && free && missing != "" {
		// If it was finished meanwhile, or nobody knows, the id is given back: a key that is in no index could not be revoked.
		if n, existsErr := e.client.Exists(ctx, e.layout.keyOf(missing)).Result(); n > 0 || existsErr != nil {
			free = false
			err = errors.Join(existsErr, reserveScript.Run(ctx, e.client, index, fieldID+k.ID, missing, k.ID, k.Digest.Hex()).Err())
		}
	}
	if err == nil && !free {
		err = fmt.Errorf("key %s: %w", auth.Clip(k.ID), auth.ErrDuplicate)
	}
	return err
}

// confirm deletes the record of a new key if another command has taken over its id, because this command looked
// unfinished to it.
func (e *editor) confirm(ctx context.Context, k auth.KeyRecord) error {
	d, err := e.layout.digestOf(ctx, e.client, k.ID)
	if err == nil && d != k.Digest {
		err = cmp.Or(e.client.Del(ctx, e.layout.key(k.Digest)).Err(), fmt.Errorf("key %s: %w", auth.Clip(k.ID), auth.ErrDuplicate))
	}
	return err
}

// writer writes one record after the other until one fails.
type writer struct {
	*editor
	texts map[string]string // of the records as they were read
	wrote bool              // something, in this attempt or in one before
	err   error
}

// outcome is auth.ErrOutcomeUnknown if something was written before the error.
func (w *writer) outcome(err error) error {
	if w.wrote {
		return fmt.Errorf("%w: %w", auth.ErrOutcomeUnknown, err)
	}
	return err
}

// do takes one step. An error is auth.ErrOutcomeUnknown unless Redis has refused the first step.
func (w *writer) do(step func() error) {
	if w.err != nil {
		return
	}
	err := step()
	_, refused := errors.AsType[redis.Error](err)
	switch {
	case err == nil:
		w.wrote = true
	case !w.wrote && refused, errors.Is(err, auth.ErrDuplicate), errors.Is(err, errConflict):
		w.err = err
	default:
		w.err = fmt.Errorf("%w: %w", auth.ErrOutcomeUnknown, err)
	}
}

// put replaces a record and tells the nodes.
func (w *writer) put(ctx context.Context, name, text, what, id string) {
	w.do(func() error {
		ok, err := replaceScript.Run(ctx, w.client, []string{name}, w.texts[name], text).Bool()
		if err == nil && !ok {
			err = errConflict
		}
		return err
	})
	w.do(func() error {
		return w.client.XAdd(ctx, &redis.XAddArgs{Stream: w.layout.changes(), MaxLen: maxChanges, Approx: true, Values: []string{what, id}}).Err()
	})
}

// maxChanges is how many changes the stream keeps, about. A node that has missed more invalidates everything.
const maxChanges = 10_000

// Keys implements auth.KeyAdmin. Each page is sorted by id.
func (e *editor) Keys(ctx context.Context, page func(auth.KeySet) error) error {
	var unreadable notes
	return e.pages(ctx, e.layout.index(), fieldID, &unreadable, func(ids, digests []string) error {
		texts, err := e.getAll(ctx, digests, e.layout.keyOf)
		if err != nil {
			return err
		}
		var l auth.KeySet
		var accounts []string
		for i, id := range ids {
			k, err := readStored(id, digests[i], texts[i])
			if unreadable.add("key", id, err); err == nil {
				l.Keys, accounts = append(l.Keys, k), append(accounts, k.Account)
			}
		}
		slices.SortFunc(l.Keys, func(a, b auth.KeyRecord) int { return cmp.Compare(a.ID, b.ID) })
		slices.Sort(accounts)
		if l.Accounts, err = e.accounts(ctx, slices.Compact(accounts), &unreadable); err != nil {
			return err
		}
		return page(l)
	})
}

// readStored reads a record by what the index says of it.
func readStored(id, hex, text string) (k auth.KeyRecord, err error) {
	if text == "" {
		return k, fmt.Errorf("%w: its record is missing, as the command that made it was cut off, or Redis has lost it: make it anew with keys new --id", auth.ErrMalformedResponse)
	}
	if k.Digest, err = parseDigest(hex); err == nil {
		err = parse(text, &k)
	}
	if err == nil && k.ID != id {
		err = fmt.Errorf("%w: its record has another id", auth.ErrMalformedResponse)
	}
	return k, err
}

// Accounts implements auth.KeyAdmin. Each page is sorted by id.
func (e *editor) Accounts(ctx context.Context, page func([]auth.Account) error) error {
	var unreadable notes
	return e.pages(ctx, e.layout.accounts(), "", &unreadable, func(ids, _ []string) error {
		slices.Sort(ids)
		some, err := e.accounts(ctx, ids, &unreadable)
		if err != nil {
			return err
		}
		return page(some)
	})
}

// accounts reads accounts. One that does not exist has paid for nothing.
func (e *editor) accounts(ctx context.Context, ids []string, unreadable *notes) (all []auth.Account, err error) {
	texts, err := e.getAll(ctx, ids, e.layout.account)
	for i, text := range texts {
		a := auth.Account{ID: ids[i], APIAccess: auth.AccessNone}
		var err error
		if text != "" {
			err = parse(text, &a)
		}
		if unreadable.add("account", ids[i], err); err == nil {
			all = append(all, a)
		}
	}
	return all, err
}

// getAll reads records in one round trip; empty: there is none.
func (e *editor) getAll(ctx context.Context, ids []string, name func(string) string) ([]string, error) {
	replies, err := e.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, id := range ids {
			p.Get(ctx, name(id))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	texts := make([]string, 0, len(ids))
	for _, r := range replies {
		text, err := r.(*redis.StringCmd).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// pages scans an index incrementally, so that Redis is not blocked, and gives the fields with a prefix, and their values.
// What is changed meanwhile may come twice.
func (e *editor) pages(ctx context.Context, index, prefix string, unreadable *notes, page func(ids, values []string) error) error {
	for cursor := uint64(0); ; {
		found, next, err := e.client.HScan(ctx, index, cursor, prefix+"*", 2*pageSize).Result()
		if err != nil {
			return err
		}
		for some := range slices.Chunk(found, 2*pageSize) {
			var ids, values []string
			for pair := range slices.Chunk(some, 2) {
				ids, values = append(ids, strings.TrimPrefix(pair[0], prefix)), append(values, pair[1])
			}
			if err := page(ids, values); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return errors.Join(*unreadable...)
		}
	}
}

// notes are records that cannot be read, of which maxUnreadable are named.
type notes []error

// add notes the error of a record.
func (n *notes) add(what, id string, err error) {
	if err != nil && len(*n) < maxUnreadable {
		*n = append(*n, fmt.Errorf("%s %s: %w", what, auth.Clip(id), err))
	}
}
