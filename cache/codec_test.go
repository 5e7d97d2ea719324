package cache

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"inquiry-gateway/cache/redistier"
	"inquiry-gateway/internal/setting"
)

func entryOf(k Key, text string) *Entry {
	o := origin{key: k, fingerprint: "f1", answeredAt: time.Unix(1_700_000_000, 123), fetch: fetchVersion{began: 3}}
	return newEntry(o, []byte(text), len(text))
}

func decodeFor(raw []byte, k Key, fingerprint string) (*Entry, error) {
	return decode(raw, idOf(k, fingerprint).Canonical(), k, fingerprint)
}

// stored is an entry as Redis has it, unsealed.
func stored(e *Entry) []byte { return e.encode(idOf(e.Key, e.fingerprint).Canonical()) }

func TestEncodedEntriesComeBackWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 64, 128)
		body := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")
		o := origin{
			key:         Key{text.Draw(t, "kind"), text.Draw(t, "account"), text.Draw(t, "status"), text.Draw(t, "type")},
			fingerprint: text.Draw(t, "fingerprint"),
			answeredAt:  time.Unix(0, rapid.Int64().Draw(t, "nanos")),
			fetch:       fetchVersion{began: rapid.Uint64().Draw(t, "began")},
		}
		first := newEntry(o, body, cap(body))
		raw := stored(first)
		if len(raw) != first.Size() {
			t.Fatalf("%d bytes, the size is said to be %d", len(raw), first.Size())
		}
		e, err := decodeFor(raw, o.key, o.fingerprint)
		if err != nil {
			t.Fatal(err)
		}
		if !e.belongsTo(o.key, o.fingerprint) || !e.AnsweredAt.Equal(o.answeredAt) || e.fetch != o.fetch || e.jitterShare != first.jitterShare {
			t.Fatalf("came back as %+v", e)
		}
		if !bytes.Equal(e.Identity.Body, body) || e.ETag[0] != first.ETag[0] || e.Identity.Length[0] != first.Identity.Length[0] {
			t.Fatal("the body, or what goes with it, changed")
		}
		if _, err := decodeFor(raw, o.key, o.fingerprint+"x"); err != errForeign {
			t.Fatalf("for another mapping: %v", err)
		}
	})
}

func TestEveryFlippedBitAndEveryCutIsRefused(t *testing.T) {
	raw := stored(entryOf(aKey, "the body"))
	for i := range len(raw) * 8 {
		bad := bytes.Clone(raw)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := decodeFor(bad, aKey, "f1"); err == nil {
			t.Fatalf("bit %d flipped, and the entry was accepted", i)
		}
	}
	for n := range raw {
		if _, err := decodeFor(raw[:n], aKey, "f1"); err == nil {
			t.Fatalf("cut to %d bytes, and the entry was accepted", n)
		}
	}
	if _, err := decodeFor(append(bytes.Clone(raw), 0), aKey, "f1"); err == nil {
		t.Fatal("a byte too much, and the entry was accepted")
	}
}

// Garbage is refused with a bounded label, and what is accepted is inside of what was read.
func FuzzDecode(f *testing.F) {
	good := stored(entryOf(aKey, "the body"))
	for _, seed := range [][]byte{good, good[:len(good)-5], []byte(entryMagic), good[headSize:], []byte("garbage"), nil} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		// With the checksum made right the fields behind it are reached, too.
		sum := binary.BigEndian.AppendUint64([]byte(entryMagic), xxh3.Hash(raw))
		for _, raw := range [][]byte{bytes.Clone(raw), append(sum, raw...)} {
			e, err := decodeFor(raw, aKey, "f1")
			if err != nil {
				if err != errCorrupt && err != errForeign {
					t.Fatalf("error %v has no bounded label", err)
				}
				continue
			}
			if len(e.Identity.Body) > len(raw) || !e.belongsTo(aKey, "f1") || len(e.ETag) != 1 {
				t.Fatalf("out of %d bytes %+v", len(raw), e)
			}
		}
	})
}

// keyFile holds a ring of keys made of the given bytes.
func keyFile(keys ...byte) setting.File {
	text := "# sealing keys, newest first\n\n"
	for _, b := range keys {
		text += base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, sealKeySize)) + "\n"
	}
	return setting.NewFile("ring", text)
}

func mustRing(t testing.TB, keys ...byte) *ring {
	t.Helper()
	r, err := parseRing(keyFile(keys...).Text())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestASealOpensOnlyForItsOwnKeyAndUnchanged(t *testing.T) {
	r := mustRing(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		raw, id := rapid.SliceOf(rapid.Byte()).Draw(t, "entry"), redistier.ListID{Kind: "a", Account: "b", Status: "c", InquiryType: "d", Fingerprint: "e"}
		sealed := r.seal(raw, id.Canonical())
		if got, err := r.open(sealed, id.Canonical()); err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%x, %v", got, err)
		}
		other := id
		parts := [...]*string{&other.Kind, &other.Account, &other.Status, &other.InquiryType, &other.Fingerprint}
		*parts[rapid.IntRange(0, 4).Draw(t, "part")] = rapid.SampledFrom([]string{"", "x", "bc"}).Draw(t, "text")
		if _, err := r.open(sealed, other.Canonical()); err == nil {
			t.Fatalf("opened for %v", other)
		}
		bad := bytes.Clone(sealed)
		bad[rapid.IntRange(0, len(bad)-1).Draw(t, "byte")] ^= 1
		if _, err := r.open(bad, id.Canonical()); err == nil {
			t.Fatal("opened after a change")
		}
		if _, err := r.open(sealed[:rapid.IntRange(0, len(sealed)-1).Draw(t, "length")], id.Canonical()); err == nil {
			t.Fatal("opened after a cut")
		}
	})
}

func TestTheFirstKeySealsAndAllOpen(t *testing.T) {
	raw, l := []byte("entry"), redistier.ListID{Account: "acme"}.Canonical()
	old, rotated := mustRing(t, 1), mustRing(t, 2, 1)
	for _, tt := range []struct {
		name   string
		r      *ring
		sealed []byte
		want   error
	}{
		{"after a rotation", rotated, old.seal(raw, l), nil},
		{"sealed by the new first key", old, rotated.seal(raw, l), errSealed},
		{"plain with a ring", old, raw, errSealed},
		{"sealed without a ring", nil, old.seal(raw, l), errSealed},
		{"head only", old, old.seal(raw, l)[:sealOverhead-1], errCorrupt},
	} {
		if _, err := tt.r.open(tt.sealed, l); err != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	r, l := mustRing(f, 1), redistier.ListID{Account: "acme"}.Canonical()
	f.Add(r.seal([]byte("entry"), l))
	f.Add([]byte(sealMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		before := bytes.Clone(sealed)
		raw, err := r.open(sealed, l)
		if !bytes.Equal(before, sealed) {
			t.Fatal("open changed what it read")
		}
		if err == nil && len(raw) != len(sealed)-sealOverhead {
			t.Fatalf("%d bytes out of %d", len(raw), len(sealed))
		}
	})
}

func TestSealedListsAreSharedAndTheirContentIsNotInRedis(t *testing.T) {
	f := newFleet(t, 0)
	node := func(keys ...byte) *Cache {
		return f.add(t, f.srv.Addr, 4*time.Second, func(s *setup) { s.SealingKeysFile = keyFile(keys...) })
	}
	mustGet(t, node(1), aKey)
	settled(f.nodes...)
	name := f.namesOf(aKey).Entry
	if value := f.rdb.Get(t.Context(), name).Val(); !strings.HasPrefix(value, "IQS") || strings.Contains(value, "acme") {
		t.Errorf("in Redis there is %q", value)
	}
	if r := mustGet(t, node(2, 1), aKey); r.Tier != TierRedis {
		t.Errorf("a rotated ring did not open: %s", r.Outcome)
	}
	// Moved to another account's key it is refused, counted and filled again.
	if err := f.rdb.Copy(t.Context(), name, f.namesOf(otherKey).Entry, 0, true).Err(); err != nil {
		t.Fatal(err)
	}
	l := f.nodes[1]
	if r := mustGet(t, l, otherKey); r.Outcome != Miss || r.Entry.Account != otherKey.Account || refused(t, l)["corruptredis"] != 1 {
		t.Errorf("%s of %s", r.Outcome, r.Entry.Account)
	}
	settled(l)
}

func TestKeyFilesAreCheckedAndNeverShown(t *testing.T) {
	good := hex.EncodeToString(bytes.Repeat([]byte{7}, sealKeySize))
	for text, want := range map[string]string{
		"# nothing\n":           "holds no key",
		good + "\nc2VjcmV0\n":   "line 2",
		"!!secret!!":            "line 1",
		good + "\n\n" + good:    "line 3",
		strings.ToUpper(good):   "",
		good + "\n" + good[:62]: "line 2",
	} {
		c := testConfig()
		c.SealingKeysFile = setting.NewFile("ring", text)
		err := c.Validate()
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if got := fields(t, err); !slices.Equal(got, []string{"sealing_keys_file"}) {
			t.Errorf("%q: problems in %v", text, got)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, want) || strings.Contains(msg, "c2VjcmV0") || strings.Contains(msg, "secret") || strings.Contains(msg, good[:62]) {
			t.Errorf("%q: %s", text, msg)
		}
	}
}
