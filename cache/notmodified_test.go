package cache

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redistest"
)

// versions is a legacy that knows the version of its one list.
type versions struct {
	*legacy
	version string
	given   []Known
}

func (v *versions) fill(ctx context.Context, k Key, known Known) (Content, error) {
	v.given = append(v.given, known)
	c, err := v.legacy.fill(ctx, k, known)
	if c.Fingerprint = "f1"; err == nil && known.Validator == v.version {
		return Content{NotModified: true, AnsweredAt: c.AnsweredAt, Fingerprint: c.Fingerprint}, nil
	}
	c.Body, c.Validator = append(bytes.Repeat([]byte("body "), 500), v.version...), v.version
	return c, err
}

func (v *versions) last() Known { return v.given[len(v.given)-1] }

var onlyMapping = map[string]Mapping{KindBuyer: {Fingerprint: "f1"}}

// A list that the legacy says is the same is as fresh as a new one, and has the codings
// that were made of it.
func TestAListThatHasNotChangedIsRenewed(t *testing.T) {
	v := &versions{legacy: &legacy{clock: newClock()}, version: "v1"}
	l := setup{now: v.clock.Now, fill: v.fill, mappings: onlyMapping}.start(t)
	first := mustGet(t, l, aKey)
	zipped := l.Coded(first.Entry, Gzip)
	read := v.clock.Now()
	for range 2 {
		v.clock.Add(25 * time.Second) // too old to be served
		r := mustGet(t, l, aKey)
		if r.Outcome != Miss || !r.Stored || !r.Expired || first.Expired || r.Age != 0 || r.TTL != 10*time.Second || body(r) != body(first) || r.Entry == first.Entry || r.Entry.ETag[0] != first.Entry.ETag[0] {
			t.Fatalf("renewed as %+v", r)
		}
		if v.last() != (Known{"v1", read}) {
			t.Errorf("the legacy was told of %+v, read at %v", v.last(), read)
		}
		if l.Coded(r.Entry, Gzip) != zipped {
			t.Error("what was compressed is compressed again")
		}
	}
	v.version = "v2"
	v.clock.Add(25 * time.Second)
	if r := mustGet(t, l, aKey); body(r) == body(first) || r.Age != 0 {
		t.Errorf("another list: %+v", r)
	}
	v.clock.Add(25 * time.Second)
	if mustGet(t, l, aKey); v.last().Validator != "v2" {
		t.Errorf("the legacy was told of %+v", v.last())
	}
}

// What was purged, or may have been, is read again.
func TestListsThatMustNotBeRenewed(t *testing.T) {
	for name, spoil := range map[string]func(*Lists){
		"purged":      func(l *Lists) { _, _ = l.Purge(context.Background(), Scope{Account: aKey.Account}) },
		"unconfirmed": func(l *Lists) { l.epochs.suspectAll() },
	} {
		v := &versions{legacy: &legacy{clock: newClock()}, version: "v1"}
		l := setup{now: v.clock.Now, fill: v.fill, mappings: onlyMapping}.start(t)
		mustGet(t, l, aKey)
		v.clock.Add(25 * time.Second)
		spoil(l)
		if r := mustGet(t, l, aKey); v.last() != (Known{}) || r.Expired != (name == "unconfirmed") {
			t.Errorf("%s: the legacy was told of %+v; %+v", name, v.last(), r)
		}
	}
}

// Redis carries what the legacy said, and when the list was read: another node asks on.
func TestAnotherNodeRenews(t *testing.T) {
	v := &versions{legacy: &legacy{clock: newClock()}, version: "v1"}
	s := setup{now: v.clock.Now, fill: v.fill, mappings: onlyMapping, redis: openRedis(t, relaxTimeouts(redisAt(redistest.Start(t).Addr)))}
	one, other := s.start(t), s.start(t)
	read := v.clock.Now()
	for i, l := range []*Lists{one, one, other} {
		if r := mustGet(t, l, aKey); r.Outcome != Miss || !strings.HasSuffix(body(r), "v1") {
			t.Fatalf("look-up %d: %+v", i, r)
		}
		settled(l)
		v.clock.Add(25 * time.Second)
	}
	if v.last() != (Known{"v1", read}) {
		t.Errorf("the other node told the legacy of %+v, read at %v", v.last(), read)
	}
}

// A fill that speaks of a list that it was not given is a bug, and no list.
func TestNothingIsRenewedUnasked(t *testing.T) {
	l := setup{fill: func(context.Context, Key, Known) (Content, error) { return Content{NotModified: true}, nil }}.start(t)
	if r, err := l.Get(context.Background(), aKey); err == nil {
		t.Errorf("got %+v", r)
	}
}
