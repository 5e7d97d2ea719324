package auth

import (
	"hash/crc32"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGenerate(t *testing.T) {
	for kind, prefix := range map[string]string{KindBuyer: "iqb_", KindSeller: "iqs_"} {
		key, err := Generate(kind)
		if err != nil || !strings.HasPrefix(key, prefix) || len(key) != 40 {
			t.Fatalf("Generate(%s): %d characters, prefix %v, %v", kind, len(key), strings.HasPrefix(key, prefix), err)
		}
		again, _ := Generate(kind)
		if again == key {
			t.Fatal("the same key twice")
		}
	}
	if key, err := Generate("admin"); err == nil || key != "" {
		t.Fatal("a key of a kind that does not exist")
	}
}

// The checksum must stay what it is for ever: keys that are out there carry it.
func TestChecksumIsStable(t *testing.T) {
	body := "iqb_" + strings.Repeat("0", 30)
	crc := crc32.ChecksumIEEE([]byte(body))
	value := uint32(0)
	for _, c := range checksum(body) {
		value = value*62 + uint32(strings.IndexByte(base62, c))
	}
	if value != crc {
		t.Fatalf("checksum decodes to %d, want %d", value, crc)
	}
	if !wellFormed(body + "3Csdeq") {
		sum := checksum(body)
		t.Fatalf("the checksum of a fixed key changed to %s", sum[:])
	}
}

func TestGeneratedKeysVerify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{KindBuyer, KindSeller}).Draw(t, "kind")
		key, err := Generate(kind)
		if err != nil || !wellFormed(key) {
			t.Fatalf("%s: not well formed, %v", key, err)
		}
		at := rapid.IntRange(0, len(key)-1).Draw(t, "at")
		c := rapid.ByteRange('!', '~').Draw(t, "c")
		if c == key[at] {
			return
		}
		flipped := key[:at] + string(c) + key[at+1:]
		if wellFormed(flipped) {
			t.Fatalf("%s still verifies as %s", key, flipped)
		}
		if at >= prefixLength && !ownFormat(flipped) {
			t.Fatalf("%s is no longer taken for an own key, so its checksum would not count", flipped)
		}
	})
}

// Every character must be drawn equally often: a chi-squared statistic with 61
// degrees of freedom stays below 150 but once in 10^9 runs.
func TestAppendRandomIsUniform(t *testing.T) {
	const n = 62 * 2000
	var seen [256]int
	for _, c := range appendRandom(nil, n) {
		seen[c]++
	}
	chi := 0.0
	for i := range len(base62) {
		d := float64(seen[base62[i]] - 2000)
		chi += d * d / 2000
	}
	if chi > 150 {
		t.Fatalf("chi-squared %.1f", chi)
	}
}

// wellFormed tells whether a key is in the gateway's own format, checksum
// included.
func wellFormed(key string) bool { return ownFormat(key) && checksumOK(key) }

func FuzzWellFormed(f *testing.F) {
	key, err := Generate(KindBuyer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(key)
	f.Add("iqs_")
	f.Add("")
	f.Add(strings.Repeat("z", ownKeyLength))
	f.Fuzz(func(t *testing.T, key string) {
		if !wellFormed(key) {
			return
		}
		if len(key) != ownKeyLength || !visible(key) || crc32.ChecksumIEEE([]byte(key[:34])) == 0 && key[34:] != "000000" {
			t.Fatalf("%q passes", key)
		}
	})
}
