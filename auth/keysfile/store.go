// Package keysfile reads, serves and edits a YAML file of API keys.
//
//	accounts:
//	  - {id: acme, api_access: paid, plan: gold}
//	keys:
//	  - {id: k1, kind: buyer, account: acme, scopes: ["inquiries:read"],
//	     expires_at: 2027-01-01T00:00:00Z, revoked: false, sha256: "<64 hexadecimal digits>"}
//
// A file is read whole or not at all: one mistake leaves the old keys
// in force, and every mistake is named with its line. Texts of errors quote ids, kinds and
// times cut short, and no digest, because what stands there may be a pasted key.
//
// Tools write one record per line and edit only such lines; all others are the issuer's. A
// change is proved by decoding the new text before it takes the file's place.
package keysfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/telemetry"
)

// MaxSize is the largest keys file that is read, in bytes: some 20,000 keys. Who has more keys
// keeps them in Redis.
const MaxSize = 4 << 20

// Store is an auth.Store over a keys file. It never reads the file by itself:
// whoever watches it calls Reload. It is safe for concurrent use.
type Store struct {
	path    string
	hasher  auth.Hasher
	now     func() time.Time
	log     *slog.Logger
	reloads *prometheus.CounterVec
	inForce prometheus.Gauge

	reload  sync.Mutex // one reload at a time
	failed  string     // why the last reload failed; empty: it did not
	current atomic.Pointer[snapshot]
}

// snapshot is one state of the file. It never changes.
type snapshot struct {
	auth.KeySet
	grants map[auth.Digest]*auth.Grant
}

// New reads a keys file. The error is a setting.Problems that names everything that is wrong
// in it, or says why the file could not be read.
func New(path string, h auth.Hasher, opts auth.Options) (*Store, error) {
	opts = opts.WithDefaults()
	all := telemetry.Series(opts.Registerer, "auth")
	s := &Store{
		path: path, hasher: h, now: opts.Now, log: opts.Logger,
		reloads: all.Counters("reloads_total", "Reloads of the keys file.", "result"),
		inForce: all.Gauge("last_reload_successful",
			"0 while the keys file is invalid and the old keys are in force."),
	}
	l, err := read(path, h)
	if err != nil {
		return nil, err
	}
	s.current.Store(newSnapshot(l))
	s.reloads.WithLabelValues(resultOK).Inc()
	s.reloads.WithLabelValues(resultFailed)
	s.inForce.Set(1)
	for _, state := range []string{auth.StateActive, auth.StateExpired, auth.StateRevoked} { // asked, since keys expire without anything being read
		all.With(prometheus.Labels{"state": state}).GaugeFunc("keys", "Keys in the keys file.", func() float64 { return float64(s.count(state)) })
	}
	return s, nil
}

// The results of reading the file.
const (
	resultOK     = "ok"
	resultFailed = "failed"
)

// count is how many keys are in a state now.
func (s *Store) count(state string) int {
	n, now := 0, s.now()
	for _, k := range s.current.Load().Keys {
		if k.State(now) == state {
			n++
		}
	}
	return n
}

// Find implements Store. It asks nobody, so it cannot fail otherwise than with
// ErrUnknownKey.
func (s *Store) Find(_ context.Context, c auth.Credential) (*auth.Grant, error) {
	if g, ok := s.Cached(c.Digest); ok {
		return g, nil
	}
	return nil, auth.ErrUnknownKey
}

// Cached implements auth.Store. It has all keys.
func (s *Store) Cached(d auth.Digest) (g *auth.Grant, known bool) {
	g, known = s.current.Load().grants[d]
	return g, known
}

// Reload reads the file again. After an error, which is logged and counted, too, the old keys stay in
// force. again: nothing has changed since the last try, so an error that is the same is
// not logged again.
func (s *Store) Reload(again bool) error {
	s.reload.Lock()
	defer s.reload.Unlock()
	l, err := read(s.path, s.hasher)
	if err != nil {
		s.reloads.WithLabelValues(resultFailed).Inc()
		s.inForce.Set(0)
		if text := err.Error(); !again || text != s.failed {
			s.failed = text
			s.log.Error("keys file not reloaded, the old keys stay in force", slog.String("file", s.path), slog.Any("error", err))
		}
		return fmt.Errorf("the old keys stay in force: %w", err)
	}
	s.current.Store(newSnapshot(l))
	s.reloads.WithLabelValues(resultOK).Inc()
	s.inForce.Set(1)
	s.failed = ""
	s.log.Info("keys file reloaded", slog.String("file", s.path), slog.Int("keys", len(l.Keys)))
	return nil
}

// newSnapshot joins keys and accounts, so that a request needs one read of a map.
func newSnapshot(l auth.KeySet) *snapshot {
	accounts := make(map[string]auth.Account, len(l.Accounts))
	for _, a := range l.Accounts {
		accounts[a.ID] = a
	}
	next := &snapshot{KeySet: l, grants: make(map[auth.Digest]*auth.Grant, len(l.Keys))}
	for _, k := range l.Keys {
		next.grants[k.Digest] = k.Grant(accounts[k.Account])
	}
	return next
}

// read reads what a file holds.
func read(path string, h auth.Hasher) (auth.KeySet, error) {
	data, err := readBounded(path)
	if err != nil {
		return auth.KeySet{}, err
	}
	doc, err := decode(path, data, h)
	if err != nil {
		return auth.KeySet{}, err
	}
	return doc.KeySet, nil
}

// readBounded reads a keys file of at most MaxSize bytes.
func readBounded(path string) ([]byte, error) {
	info, err := setting.StatRegular(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("keys file %s does not exist (`inquiry-gateway keys new` makes one): %w", path, fs.ErrNotExist)
	case err == nil && info.Size() > MaxSize:
		return nil, fmt.Errorf("keys file %s is larger than %d bytes: keep this many keys in Redis", path, MaxSize)
	}
	data, _, err := setting.ReadRegular(path, MaxSize)
	if err != nil {
		return nil, fmt.Errorf("keys file %s %w", path, err)
	}
	return data, nil
}

// DigestOf finds the digest of the key with that id, for Authenticator.CheckByID.
// Errors: auth.ErrNoSuchKey.
func (s *Store) DigestOf(_ context.Context, id string) (auth.Digest, error) {
	k, err := s.current.Load().Key(id)
	if err != nil {
		return auth.Digest{}, err
	}
	return k.Digest, nil
}
