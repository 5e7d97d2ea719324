package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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

func TestReadHasher(t *testing.T) {
	want, err := NewHasher([]byte(testPepper))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		content string
		fails   string
	}{
		"without a line end": {content: testPepper},
		"with a line end":    {content: testPepper + "\n"},
		"with a CRLF":        {content: testPepper + "\r\n"},
		"empty":              {content: "\n", fails: "empty"},
		"too short":          {content: "secret\n", fails: "at least 16"},
		"too large":          {content: strings.Repeat("p", maxPepperFile+1), fails: "at most"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pepper")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			h, err := ReadHasher(path)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || strings.Contains(err.Error(), "secret") {
					t.Fatalf("error %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil || h.Hash("k") != want.Hash("k") {
				t.Fatalf("another digest, %v", err)
			}
		})
	}
	if h, err := ReadHasher(""); err != nil || h.Peppered() {
		t.Error("no file must mean no pepper")
	}
	if _, err := ReadHasher(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file must be an error")
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
