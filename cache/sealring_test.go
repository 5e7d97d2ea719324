package cache

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"inquiry-gateway/cache/redistier"
)

// mustRing is a ring of keys made of the given bytes.
func mustRing(t testing.TB, keys ...byte) *ring {
	t.Helper()
	text := "# sealing keys, newest first\n\n"
	for _, b := range keys {
		text += base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, sealKeySize)) + "\n"
	}
	r, err := parseRing(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func drawList(t *rapid.T) redistier.List {
	draw := func(name string) string { return rapid.SampledFrom([]string{"", "a", "b", "ab"}).Draw(t, name) }
	return redistier.List{Kind: draw("kind"), Account: draw("account"), Status: draw("status"), InquiryType: draw("type"), Fingerprint: draw("fingerprint")}
}

func TestASealOpensOnlyForItsOwnKeyAndUnchanged(t *testing.T) {
	r := mustRing(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "entry")
		l := drawList(t)
		sealed := r.seal(raw, l)
		got, err := r.open(sealed, l)
		if err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%x, %v", got, err)
		}
		other := drawList(t)
		if _, err := r.open(sealed, other); err == nil && other != l {
			t.Fatalf("opened for %v", other)
		}
		bad := bytes.Clone(sealed)
		bad[rapid.IntRange(0, len(bad)-1).Draw(t, "byte")] ^= 1
		if _, err := r.open(bad, l); err == nil {
			t.Fatal("opened after a change")
		}
		if _, err := r.open(sealed[:rapid.IntRange(0, len(sealed)-1).Draw(t, "length")], l); err == nil {
			t.Fatal("opened after a cut")
		}
	})
}

func TestTheFirstKeySealsAndAllOpen(t *testing.T) {
	raw, l := []byte("entry"), redistier.List{Account: "acme"}
	old, rotated, other := mustRing(t, 1), mustRing(t, 2, 1), mustRing(t, 3)
	if got, err := rotated.open(old.seal(raw, l), l); err != nil || string(got) != "entry" {
		t.Errorf("after a rotation: %q, %v", got, err)
	}
	for _, tt := range []struct {
		name   string
		r      *ring
		sealed []byte
		want   error
	}{
		{"sealed by the new first key", old, rotated.seal(raw, l), errUnknownKey},
		{"of another ring", other, old.seal(raw, l), errUnknownKey},
		{"plain with a ring", old, raw, errUnsealed},
		{"sealed without a ring", nil, old.seal(raw, l), errSealed},
		{"head only", old, old.seal(raw, l)[:sealOverhead-1], errTruncated},
	} {
		if _, err := tt.r.open(tt.sealed, l); err != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	r := mustRing(f, 1)
	l := redistier.List{Account: "acme"}
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

// BenchmarkSeal shows what sealing adds to a fill and to a read of Redis.
func BenchmarkSeal(b *testing.B) {
	r := mustRing(b, 1)
	l := redistier.List{Account: "acme"}
	for _, size := range []int{1 << 10, 10 << 10, 100 << 10} {
		raw := make([]byte, size)
		sealed := r.seal(raw, l)
		b.Run(fmt.Sprintf("seal %d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				r.seal(raw, l)
			}
		})
		b.Run(fmt.Sprintf("open %d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.open(sealed, l); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
