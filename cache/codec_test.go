package cache

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func testOrigin() origin {
	return origin{key: aKey, fingerprint: "f1", answeredAt: time.Unix(1_700_000_000, 123), tag: tag{3, 4}}
}

func TestEncodedEntriesComeBackWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		str := rapid.StringN(0, 64, 128)
		o := origin{
			key:         Key{str.Draw(t, "kind"), str.Draw(t, "account"), str.Draw(t, "status"), str.Draw(t, "type")},
			fingerprint: str.Draw(t, "fingerprint"),
			answeredAt:  time.Unix(0, rapid.Int64().Draw(t, "nanos")),
			tag:         tag{rapid.Uint64().Draw(t, "kind epoch"), rapid.Uint64().Draw(t, "account epoch")},
		}
		octets := rapid.SliceOfN(rapid.Byte(), 0, 300)
		b := bodies{octets.Draw(t, "identity"), octets.Draw(t, "gzip"), octets.Draw(t, "zstd")}
		e, err := decode(encode(o, b))
		if err != nil {
			t.Fatal(err)
		}
		if !e.belongsTo(o.key, o.fingerprint) || !e.AnsweredAt.Equal(o.answeredAt) || e.tag != o.tag {
			t.Fatalf("came back as %+v", e)
		}
		if !bytes.Equal(e.Identity.Body, b.identity) || !bytes.Equal(e.Gzip.Body, b.gzip) || !bytes.Equal(e.Zstd.Body, b.zstd) {
			t.Fatal("a body changed")
		}
	})
}

func TestEveryFlippedBitAndEveryCutIsRefused(t *testing.T) {
	raw := encode(testOrigin(), bodies{[]byte("identity"), []byte("gz"), []byte("zs")})
	for i := range len(raw) * 8 {
		bad := bytes.Clone(raw)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := decode(bad); err == nil {
			t.Fatalf("bit %d flipped, and the entry was believed", i)
		}
	}
	for n := range raw {
		if _, err := decode(raw[:n]); err == nil {
			t.Fatalf("cut to %d bytes, and the entry was believed", n)
		}
	}
	if _, err := decode(append(bytes.Clone(raw), 0)); err == nil {
		t.Fatal("a byte too much, and the entry was believed")
	}
}

func TestHeaderValuesAreReady(t *testing.T) {
	long := strings.Repeat("inquiry ", 1000)
	c, err := newCompressor()
	if err != nil {
		t.Fatal(err)
	}
	e, err := decode(encode(testOrigin(), c.codings([]byte(long), 1<<10)))
	if err != nil {
		t.Fatal(err)
	}
	if e.Identity.Length[0] != "8000" || e.Gzip.Body == nil || e.Zstd.Body == nil {
		t.Errorf("length %v, gzip %d, zstd %d bytes", e.Identity.Length, len(e.Gzip.Body), len(e.Zstd.Body))
	}
	other, err := decode(encode(testOrigin(), bodies{identity: []byte(long)}))
	if err != nil {
		t.Fatal(err)
	}
	if tag := e.ETag[0]; len(tag) != len(`W/""`)+22 || !strings.HasPrefix(tag, `W/"`) || tag != other.ETag[0] {
		t.Errorf("ETag %s, of the same body %s", tag, other.ETag[0])
	}
}

func TestVariantsExistOnlyWhereTheyAreSmaller(t *testing.T) {
	c, err := newCompressor()
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(spreadOf(aKey, int64(i)) * 256)
	}
	for _, tt := range []struct {
		name string
		body []byte
		min  int
		want bool
	}{
		{"text", []byte(strings.Repeat("ab", 2000)), 1024, true},
		{"under the minimum", []byte(strings.Repeat("ab", 500)), 1024, false},
		{"noise", noise, 1024, false},
		{"empty", nil, 0, false},
	} {
		b := c.codings(tt.body, tt.min)
		if (b.gzip != nil) != tt.want || (b.zstd != nil) != tt.want {
			t.Errorf("%s: gzip %d, zstd %d bytes of %d", tt.name, len(b.gzip), len(b.zstd), len(tt.body))
		}
	}
}

func FuzzDecode(f *testing.F) {
	good := encode(testOrigin(), bodies{[]byte("identity"), []byte("gz"), nil})
	f.Add(good)
	f.Add(good[:len(good)-5])
	f.Add([]byte(entryMagic))
	f.Add(good[len(entryMagic) : len(good)-crcSize])
	f.Add([]byte("garbage"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkDecoded(t, bytes.Clone(raw))
		// With the checksum made right the fields behind it are reached, too.
		sealed := append([]byte(entryMagic), raw...)
		checkDecoded(t, binary.BigEndian.AppendUint32(sealed, crc32.Checksum(sealed, castagnoli)))
	})
}

// checkDecoded wants garbage refused with a bounded label, and what is believed
// to be inside of what was read.
func checkDecoded(t *testing.T, raw []byte) {
	e, err := decode(raw)
	if err != nil {
		if err != errFormat && err != errTruncated && err != errChecksum {
			t.Fatalf("error %v has no bounded label", err)
		}
		return
	}
	if n := len(e.Identity.Body) + len(e.Gzip.Body) + len(e.Zstd.Body); n > len(raw) {
		t.Fatalf("%d bytes of bodies out of %d", n, len(raw))
	}
	if !e.belongsTo(e.key(), e.fingerprint) || len(e.ETag) != 1 {
		t.Fatalf("believed as %+v", e)
	}
}
