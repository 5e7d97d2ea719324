package cache

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/testkit/redistest"
)

// keyFile is a ring of keys made of the given bytes.
func keyFile(keys ...byte) secretfile.File {
	text := "# sealing keys, newest first\n\n"
	for _, b := range keys {
		text += base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) + "\n"
	}
	return secretfile.New("ring", text)
}

func TestSealedListsAreSharedAndTheirContentIsNotInRedis(t *testing.T) {
	srv := redistest.Start(t)
	rdb := openRedis(t, relaxTimeouts(redisAt(srv.Addr)))
	g := &legacy{clock: newClock()}
	node := func(keys ...byte) *Lists {
		cfg := testConfig()
		if len(keys) > 0 {
			cfg.SealingKeysFile = keyFile(keys...)
		}
		return setup{cfg: cfg, fill: g.fill, now: g.clock.Now, redis: rdb}.start(t)
	}
	first := node(1)
	mustGet(t, first, aKey)
	settled(first)
	value := rdb.Get(t.Context(), entryKey(first, aKey)).Val()
	if !strings.HasPrefix(value, "IQS") || strings.Contains(value, "acme") {
		t.Errorf("in Redis there is %q", value)
	}
	if r := mustGet(t, node(2, 1), aKey); r.Tier != TierRedis {
		t.Errorf("a rotated ring did not open: %s", r.Outcome)
	}

	// Moved to another account's key it is refused, counted and filled again.
	if err := rdb.Copy(t.Context(), entryKey(first, aKey), entryKey(first, otherKey), 0, true).Err(); err != nil {
		t.Fatal(err)
	}
	l := node(1)
	if r := mustGet(t, l, otherKey); r.Outcome != Miss || r.Entry.Account != otherKey.Account {
		t.Errorf("%s of %s", r.Outcome, r.Entry.Account)
	}
	if n := counter(t, l.metrics.refused.WithLabelValues(TierRedis, "seal_broken")); n != 1 {
		t.Errorf("%v refused", n)
	}
	settled(l)

	// Keys are read again with the policy.
	late := node()
	cfg := testConfig()
	cfg.SealingKeysFile = keyFile(1)
	if err := late.SetConfig(cfg); err != nil {
		t.Fatal(err)
	}
	if r := mustGet(t, late, aKey); r.Tier != TierRedis {
		t.Errorf("after the reload: %s", r.Outcome)
	}
}

func TestKeyFilesAreCheckedAndNeverShown(t *testing.T) {
	good := hex.EncodeToString(bytes.Repeat([]byte{7}, 32))
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "# nothing\n", "holds no key"},
		{"short", good + "\nc2VjcmV0\n", "line 2"},
		{"noise", "!!secret!!", "line 1"},
		{"twice", good + "\n" + good, "line 2"},
	} {
		c := testConfig()
		c.SealingKeysFile = secretfile.New("ring", tt.text)
		err := c.Validate()
		if got := fields(t, err); !slices.Equal(got, []string{"sealing_keys_file"}) {
			t.Errorf("%s: problems in %v", tt.name, got)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, tt.want) || strings.Contains(msg, "c2VjcmV0") || strings.Contains(msg, "secret!!") || strings.Contains(msg, good) {
			t.Errorf("%s: %s", tt.name, msg)
		}
	}
}
