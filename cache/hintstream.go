package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"inquiry-gateway/cache/redistier"
)

// streamEvery is how often a node reads the stream of hints.
const streamEvery = 200 * time.Millisecond

// followStream reads the stream of hints until the cache is closed. An entry is given to
// one node, and to another if that one does not finish it within 5 s.
func (l *Lists) followStream() {
	node, failing := rand.Text(), false
	tick := time.NewTicker(streamEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.life.Done():
			return
		case <-tick.C:
		}
		for l.policy.Load().hints.Stream != "" && l.readStream(node, &failing) {
		}
	}
}

// readStream reads and applies some entries; more: there may be others at once. failing
// tells whether the last read has failed, which is told in the log once.
func (l *Lists) readStream(node string, failing *bool) (more bool) {
	defer l.opts.Panics.Catch(func(any) { more = false })
	stream := l.policy.Load().hints.Stream
	entries, err := l.redis.ReadStream(l.life, stream, node)
	if errors.Is(err, redistier.ErrNoStream) {
		return l.lostStream()
	}
	if err != nil && l.life.Err() == nil {
		if l.metrics.stream.WithLabelValues(streamUnread).Inc(); !*failing {
			l.opts.Logger.Warn("the stream of hints cannot be read; it is tried again", "stream", stream, "error", err)
		}
	}
	if *failing = err != nil; err != nil || len(entries) == 0 {
		return false
	}
	soft, hard, ids := Hint{}, Hint{Hard: true}, make([]string, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.ID)
		if err := l.addEntry(&soft, &hard, e.Fields); err != nil {
			l.metrics.stream.WithLabelValues(streamRefused).Inc()
			l.opts.Logger.Warn("an entry of the stream of hints was refused", "id", e.ID, "error", err)
		} else {
			l.metrics.stream.WithLabelValues(streamApplied).Inc()
		}
	}
	for _, h := range []Hint{hard, soft} {
		if _, err := l.Changed(l.life, h); err != nil && !errors.Is(err, ErrHint) { // of none, there are no ids
			l.metrics.stream.WithLabelValues(streamFailed).Inc()
			l.opts.Logger.Warn("hints of the stream could not be applied and are tried again", "error", err)
			return false
		}
	}
	return l.redis.DoneStream(l.life, stream, ids) == nil
}

// addEntry adds an entry to the hint that it is of. Plain ids are refused: they have no
// place in Redis.
func (l *Lists) addEntry(soft, hard *Hint, fields map[string]any) error {
	var one Hint
	for name, value := range fields {
		text := fmt.Sprint(value)
		switch name {
		case "account_hash":
			one.AccountHashes = []string{text}
		case "record_hash":
			one.RecordHashes = []string{text}
		case "kind":
			one.Kinds = []string{text}
		case "hard":
			one.Hard = text == "1" || text == "true"
		default:
			return fmt.Errorf("the field %q is none of account_hash, record_hash, kind and hard", name)
		}
	}
	if _, _, err := one.targets(l.policy.Load()); err != nil {
		return err
	}
	to := soft
	if one.Hard {
		to = hard
	}
	to.AccountHashes = append(to.AccountHashes, one.AccountHashes...)
	to.RecordHashes = append(to.RecordHashes, one.RecordHashes...)
	to.Kinds = append(to.Kinds, one.Kinds...)
	return nil
}

// lostStream marks everything as changed: Redis has lost the stream, or has it for the
// first time.
func (l *Lists) lostStream() (more bool) {
	l.metrics.stream.WithLabelValues(streamLost).Inc()
	l.opts.Logger.Warn("the stream of hints was not there; hints may be lost, so all lists count as changed", "stream", l.policy.Load().hints.Stream)
	ctx, cancel := context.WithTimeout(l.life, purgeWithin)
	defer cancel()
	_, err := l.Changed(ctx, Hint{Kinds: kindNames[:]})
	if err != nil {
		l.opts.Logger.Error("lists could not be marked as changed; purge both kinds", "error", err)
	}
	return err == nil
}
