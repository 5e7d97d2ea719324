package redistier

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// mustRing is a ring of keys made of the given bytes.
func mustRing(t testing.TB, keys ...byte) *Ring {
	t.Helper()
	text := "# sealing keys, newest first\n\n"
	for _, b := range keys {
		text += base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, sealKeySize)) + "\n"
	}
	r, err := ParseRing(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func drawList(t *rapid.T) List {
	draw := func(name string) string { return rapid.SampledFrom([]string{"", "a", "b", "ab"}).Draw(t, name) }
	return List{draw("kind"), draw("account"), draw("status"), draw("type"), draw("fingerprint")}
}

func TestASealOpensOnlyForItsOwnKeyAndUnchanged(t *testing.T) {
	r := mustRing(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "entry")
		l := drawList(t)
		sealed := r.Seal(raw, l)
		got, err := r.Open(sealed, l)
		if err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%x, %v", got, err)
		}
		other := drawList(t)
		if _, err := r.Open(sealed, other); err == nil && other != l {
			t.Fatalf("opened for %v", other)
		}
		bad := bytes.Clone(sealed)
		bad[rapid.IntRange(0, len(bad)-1).Draw(t, "byte")] ^= 1
		if _, err := r.Open(bad, l); err == nil {
			t.Fatal("opened after a change")
		}
		if _, err := r.Open(sealed[:rapid.IntRange(0, len(sealed)-1).Draw(t, "length")], l); err == nil {
			t.Fatal("opened after a cut")
		}
	})
}

func TestTheFirstKeySealsAndAllOpen(t *testing.T) {
	raw, l := []byte("entry"), List{Account: "acme"}
	old, rotated, other := mustRing(t, 1), mustRing(t, 2, 1), mustRing(t, 3)
	if got, err := rotated.Open(old.Seal(raw, l), l); err != nil || string(got) != "entry" {
		t.Errorf("after a rotation: %q, %v", got, err)
	}
	for _, tt := range []struct {
		name   string
		r      *Ring
		sealed []byte
		want   error
	}{
		{"sealed by the new first key", old, rotated.Seal(raw, l), ErrUnknownKey},
		{"of another ring", other, old.Seal(raw, l), ErrUnknownKey},
		{"plain with a ring", old, raw, ErrUnsealed},
		{"sealed without a ring", nil, old.Seal(raw, l), ErrSealed},
		{"head only", old, old.Seal(raw, l)[:SealOverhead-1], ErrTruncated},
	} {
		if _, err := tt.r.Open(tt.sealed, l); err != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	r := mustRing(f, 1)
	l := List{Account: "acme"}
	f.Add(r.Seal([]byte("entry"), l))
	f.Add([]byte(sealMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, sealed []byte) {
		before := bytes.Clone(sealed)
		raw, err := r.Open(sealed, l)
		if !bytes.Equal(before, sealed) {
			t.Fatal("open changed what it read")
		}
		if err == nil && len(raw) != len(sealed)-SealOverhead {
			t.Fatalf("%d bytes out of %d", len(raw), len(sealed))
		}
	})
}

// BenchmarkSeal shows what sealing adds to a fill and to a read of Redis.
func BenchmarkSeal(b *testing.B) {
	r := mustRing(b, 1)
	l := List{Account: "acme"}
	for _, size := range []int{1 << 10, 10 << 10, 100 << 10} {
		raw := make([]byte, size)
		sealed := r.Seal(raw, l)
		b.Run(fmt.Sprintf("seal %d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				r.Seal(raw, l)
			}
		})
		b.Run(fmt.Sprintf("open %d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Open(sealed, l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
