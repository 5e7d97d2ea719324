package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"inquiry-gateway/internal/secretfile"
)

const testPepper = "0123456789abcdef-pepper"

func TestHasher(t *testing.T) {
	peppered, err := NewHasher([]byte(testPepper))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", "k", strings.Repeat("k", MaxKeyLength), strings.Repeat("k", MaxKeyLength+1)} {
		if got := (Hasher{}).Hash(key); got != sha256.Sum256([]byte(key)) {
			t.Errorf("SHA-256 of %d bytes is wrong", len(key))
		}
		mac := hmac.New(sha256.New, []byte(testPepper))
		mac.Write([]byte(key))
		if got := peppered.Hash(key); !hmac.Equal(got[:], mac.Sum(nil)) {
			t.Errorf("HMAC of %d bytes is wrong", len(key))
		}
	}
	if (Hasher{}).Field() != "sha256" || peppered.Field() != "hmac_sha256" {
		t.Error("wrong field names")
	}
}

func TestHasherConcurrently(t *testing.T) {
	h, err := NewHasher([]byte(testPepper))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		key := fmt.Sprint("key", i)
		want := h.Hash(key)
		wg.Go(func() {
			for range 500 {
				if h.Hash(key) != want {
					t.Error("another key's digest")
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestHasherOfAFile(t *testing.T) {
	want, err := NewHasher([]byte(testPepper))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{testPepper, testPepper + "\n", testPepper + "\r\n"} {
		if h, err := HasherOf(secretfile.New("pepper", text)); err != nil || h.Hash("k") != want.Hash("k") {
			t.Errorf("%q: another digest, %v", text, err)
		}
	}
	for text, says := range map[string]string{"\n": "pepper: the pepper file is empty", "secret\n": "at least 16"} {
		if _, err := HasherOf(secretfile.New("pepper", text)); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if h, err := HasherOf(secretfile.File{}); err != nil || h.Peppered() {
		t.Error("no file must mean no pepper")
	}
}

func TestParseDigest(t *testing.T) {
	d := Hasher{}.Hash("k")
	for _, s := range []string{d.Hex(), strings.ToUpper(d.Hex())} {
		if got, err := ParseDigest(s); err != nil || got != d {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", d.Hex()[1:], d.Hex() + "0", "g" + d.Hex()[1:]} {
		if _, err := ParseDigest(s); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

// Neither a key nor a digest may show up where a value is printed by mistake.
func TestNothingPrintsSecrets(t *testing.T) {
	const key = "iqb_topsecret"
	d := Hasher{}.Hash(key)
	c := Credential{Digest: d, Key: key}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "credential", c, "key", c.Key, "digest", d)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Key, c.Key) + log.String() + string(asJSON)
	if strings.Contains(out, "topsecret") || strings.Contains(out, d.Hex()[:8]) || strings.Contains(out, fmt.Sprintf("%d,%d", d[0], d[1])) {
		t.Fatalf("leaks: %s", out)
	}
}
