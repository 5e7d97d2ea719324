package cache

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"inquiry-gateway/internal/testkit/redistest"
)

// keyFile writes a ring of keys made of the given bytes.
func keyFile(t testing.TB, keys ...byte) string {
	t.Helper()
	text := "# sealing keys, newest first\n\n"
	for _, b := range keys {
		text += base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, sealKeySize)) + "\n"
	}
	path := filepath.Join(t.TempDir(), "ring")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustRing(t testing.TB, keys ...byte) *ring {
	t.Helper()
	r, err := loadRing(keyFile(t, keys...))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestASealOpensOnlyForItsOwnKeyAndUnchanged(t *testing.T) {
	r := mustRing(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "entry")
		ad := associated(drawKey(t), "f")
		sealed := r.seal(raw, ad)
		got, err := r.open(sealed, ad)
		if err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%x, %v", got, err)
		}
		other := drawKey(t)
		if _, err := r.open(sealed, associated(other, "f")); err == nil && !bytes.Equal(associated(other, "f"), ad) {
			t.Fatalf("opened for %v", other)
		}
		bad := bytes.Clone(sealed)
		bad[rapid.IntRange(0, len(bad)-1).Draw(t, "byte")] ^= 1
		if _, err := r.open(bad, ad); err == nil {
			t.Fatal("opened after a change")
		}
		if _, err := r.open(sealed[:rapid.IntRange(0, len(sealed)-1).Draw(t, "length")], ad); err == nil {
			t.Fatal("opened after a cut")
		}
	})
}

func TestTheFirstKeySealsAndAllOpen(t *testing.T) {
	raw, ad := []byte("entry"), []byte("key")
	old, rotated, other := mustRing(t, 1), mustRing(t, 2, 1), mustRing(t, 3)
	if got, err := rotated.open(old.seal(raw, ad), ad); err != nil || string(got) != "entry" {
		t.Errorf("after a rotation: %q, %v", got, err)
	}
	for _, tt := range []struct {
		name   string
		r      *ring
		sealed []byte
		want   error
	}{
		{"sealed by the new first key", old, rotated.seal(raw, ad), errUnknownKey},
		{"of another ring", other, old.seal(raw, ad), errUnknownKey},
		{"plain with a ring", old, raw, errUnsealed},
		{"sealed without a ring", nil, old.seal(raw, ad), errSealed},
		{"head only", old, old.seal(raw, ad)[:sealOverhead-1], errTruncated},
	} {
		if _, err := tt.r.open(tt.sealed, ad); err != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestKeyFilesAreCheckedAndNeverShown(t *testing.T) {
	good := hex.EncodeToString(bytes.Repeat([]byte{7}, sealKeySize))
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "# nothing\n", "holds no key"},
		{"short", good + "\nc2VjcmV0\n", "line 2"},
		{"noise", "!!secret!!", "line 1"},
		{"twice", good + "\n" + good, "line 2"},
	} {
		path := filepath.Join(t.TempDir(), "ring")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := testConfig()
		c.SealingKeysFile = path
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

func TestSealedListsAreSharedAndTheirContentIsNotInRedis(t *testing.T) {
	srv := redistest.Start(t)
	rdb := openRedis(t, patient(redisAt(srv.Addr)))
	g := &legacy{clock: newClock()}
	node := func(keys ...byte) *Lists {
		cfg := testConfig()
		if len(keys) > 0 {
			cfg.SealingKeysFile = keyFile(t, keys...)
		}
		return setup{cfg: cfg, fill: g.fill, now: g.clock.Now, redis: rdb}.start(t)
	}
	first := node(1)
	mustGet(t, first, aKey)
	settled(first)
	value := rdb.Get(t.Context(), first.redis.names(aKey, "").entry).Val()
	if !strings.HasPrefix(value, sealMagic) || strings.Contains(value, "acme") {
		t.Errorf("in Redis there is %q", value)
	}
	if r := mustGet(t, node(2, 1), aKey); r.Tier != TierRedis {
		t.Errorf("a rotated ring did not open: %s", r.Outcome)
	}

	// Moved to another account's key it is refused, counted and filled again.
	if err := rdb.Copy(t.Context(), first.redis.names(aKey, "").entry, first.redis.names(otherKey, "").entry, 0, true).Err(); err != nil {
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
	cfg.SealingKeysFile = keyFile(t, 1)
	if err := late.SetConfig(cfg); err != nil {
		t.Fatal(err)
	}
	if r := mustGet(t, late, aKey); r.Tier != TierRedis {
		t.Errorf("after the reload: %s", r.Outcome)
	}
}

func FuzzOpen(f *testing.F) {
	r := mustRing(f, 1)
	ad := associated(aKey, "")
	f.Add(r.seal([]byte("entry"), ad))
	f.Add([]byte(sealMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		before := bytes.Clone(sealed)
		raw, err := r.open(sealed, ad)
		if !bytes.Equal(before, sealed) {
			t.Fatal("open changed what it read")
		}
		if err == nil && len(raw) != len(sealed)-sealOverhead {
			t.Fatalf("%d bytes out of %d", len(raw), len(sealed))
		}
	})
}

// BenchmarkSeal shows what sealing adds to a fill and to a read of Redis.
func BenchmarkSeal(b *testing.B) {
	r := mustRing(b, 1)
	ad := associated(aKey, "f")
	for _, size := range []int{1 << 10, 10 << 10, 100 << 10} {
		raw := make([]byte, size)
		sealed := r.seal(raw, ad)
		b.Run(fmt.Sprintf("seal %d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				r.seal(raw, ad)
			}
		})
		b.Run(fmt.Sprintf("open %d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.open(sealed, ad); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
