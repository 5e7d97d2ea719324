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

func testEntry(body string) *Entry {
	o := testOrigin()
	o.sum = bodySum(0, []byte(body))
	return newEntry(o, []byte(body), len(body))
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
		body := octets.Draw(t, "body")
		o.sum = bodySum(0, body)
		first := newEntry(o, body, cap(body))
		raw := first.encode()
		if len(raw) != first.Size() {
			t.Fatalf("%d bytes, the size is said to be %d", len(raw), first.Size())
		}
		e, err := decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !e.belongsTo(o.key, o.fingerprint) || !e.AnsweredAt.Equal(o.answeredAt) || e.tag != o.tag {
			t.Fatalf("came back as %+v", e)
		}
		if !bytes.Equal(e.Identity.Body, body) || e.ETag[0] != first.ETag[0] || e.Identity.Length[0] != first.Identity.Length[0] || e.spread != first.spread {
			t.Fatal("the body, or what goes with it, changed")
		}
	})
}

func TestEveryFlippedBitAndEveryCutIsRefused(t *testing.T) {
	raw := testEntry("the body").encode()
	for i := range len(raw) * 8 {
		bad := bytes.Clone(raw)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := decode(bad); err == nil {
			t.Fatalf("bit %d flipped, and the entry was accepted", i)
		}
	}
	for n := range raw {
		if _, err := decode(raw[:n]); err == nil {
			t.Fatalf("cut to %d bytes, and the entry was accepted", n)
		}
	}
	if _, err := decode(append(bytes.Clone(raw), 0)); err == nil {
		t.Fatal("a byte too much, and the entry was accepted")
	}
}

func TestHeaderValuesAreReady(t *testing.T) {
	long := strings.Repeat("inquiry ", 1000)
	e, other := testEntry(long), testEntry(long)
	if e.Identity.Length[0] != "8000" {
		t.Errorf("length %v", e.Identity.Length)
	}
	if tag := e.ETag[0]; len(tag) != etagSize || !strings.HasPrefix(tag, `W/"`) || tag != other.ETag[0] {
		t.Errorf("ETag %s, of the same body %s", tag, other.ETag[0])
	}
}

func FuzzDecode(f *testing.F) {
	good := testEntry("the body").encode()
	f.Add(good)
	f.Add(good[:len(good)-5])
	f.Add([]byte(entryMagic))
	f.Add(good[headSize:])
	f.Add([]byte("garbage"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkDecoded(t, bytes.Clone(raw))
		// With the checksum made right the fields behind it are reached, too.
		sum := binary.BigEndian.AppendUint32([]byte(entryMagic), crc32.Checksum(raw, castagnoli))
		checkDecoded(t, append(sum, raw...))
	})
}

// checkDecoded wants garbage refused with a bounded label, and what is accepted
// to be inside of what was read.
func checkDecoded(t *testing.T, raw []byte) {
	e, err := decode(raw)
	if err != nil {
		if err != errFormat && err != errTruncated && err != errChecksum {
			t.Fatalf("error %v has no bounded label", err)
		}
		return
	}
	if n := len(e.Identity.Body); n > len(raw) {
		t.Fatalf("a body of %d bytes out of %d", n, len(raw))
	}
	if !e.belongsTo(e.Key, e.fingerprint) || len(e.ETag) != 1 {
		t.Fatalf("accepted as %+v", e)
	}
}
