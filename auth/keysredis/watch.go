package keysredis

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/redissub"
)

// Why stored answers are dropped.
const (
	causeMessage = "message" // one key or account changed
	causeGap     = "gap"     // a message was lost or not understood
	causeVersion = "version" // the version read shows a change that no message told
)

// version is the last change that has been taken in.
type version struct {
	n  int64
	ok bool // false: not known yet
}

// watch follows the changes of the store until the context ends.
func (s *Store) watch(ctx context.Context) {
	messages, stop := redissub.Messages(ctx, s.client, time.Second, s.keys.changes())
	defer func() { _ = stop() }()
	ticker := time.NewTicker(s.cfg.Poll)
	defer ticker.Stop()
	s.poll(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.poll(ctx)
		case m := <-messages:
			switch m := m.(type) {
			case *redis.Subscription:
				// Messages may have been lost before. The version says whether they
				// were: a new connection alone is no reason to forget keys, least of
				// all while the server that has them may be away.
				s.poll(ctx)
			case *redis.Message:
				s.apply(m.Payload)
			}
		}
	}
}

// poll reads the version. While that fails nothing is dropped: known keys are
// good within their time.
func (s *Store) poll(ctx context.Context) {
	defer s.panics.Catch(nil)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	n, err := s.client.Get(ctx, s.keys.version()).Int64()
	if errors.Is(err, redis.Nil) {
		n, err = 0, nil // read tells an empty store from an unknown key
	}
	if err != nil {
		return
	}
	switch {
	case s.known.ok && n == s.known.n:
		return
	case s.known.ok && n < s.known.n:
		s.log.Warn("the key store in Redis went back in time", slog.Int64("from", s.known.n), slog.Int64("to", n))
	}
	s.known = version{n, true}
	s.drop(causeVersion, s.ForgetAll)
}

// apply drops what a message names: "<version> key <digest>" or "<version> account
// <id>". Anything else, or a version that does not follow the last one, means
// that something was missed.
func (s *Store) apply(message string) {
	defer s.panics.Catch(func(any) { s.ForgetAll() }) // what it was about is not known
	n, what, id := parseChange(message)
	switch {
	case n > 0 && s.known.ok && n <= s.known.n:
		return // a poll was faster
	case n > 0 && s.known.ok && n == s.known.n+1:
		s.known.n = n
	default:
		if n > 0 {
			s.known = version{n, true}
		}
		s.drop(causeGap, s.ForgetAll)
		return
	}
	digest, err := auth.ParseDigest(id)
	switch {
	case what == changedAccount && id != "":
		s.drop(causeMessage, func() { s.ForgetAccount(id) })
	case what == changedKey && err == nil:
		s.drop(causeMessage, func() { s.Forget(digest) })
	default:
		s.drop(causeGap, s.ForgetAll)
	}
}

// What a message may say has changed.
const (
	changedKey     = "key"
	changedAccount = "account"
)

// parseChange takes a message apart. A version of 0 means that it has none.
func parseChange(message string) (n int64, what, id string) {
	number, rest, _ := strings.Cut(message, " ")
	what, id, _ = strings.Cut(rest, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0, "", ""
	}
	return n, what, id
}

// drop makes stored answers be looked up again, and tells metrics so.
func (s *Store) drop(cause string, forget func()) {
	forget()
	s.taken.Set(float64(s.known.n))
	s.dropped.WithLabelValues(cause).Inc()
}
