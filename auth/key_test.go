package auth_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"inquiry-gateway/auth"
	"inquiry-gateway/internal/setting"
)

const testPepper = "0123456789abcdef-pepper"

func digestOf(key string) auth.Digest { return auth.Hasher{}.Hash(key) }

func credential(key string) auth.Credential {
	return auth.Credential{Digest: digestOf(key), Key: auth.Secret(key)}
}

func generated(t testing.TB) string {
	t.Helper()
	key, err := auth.Generate(auth.KindBuyer)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// storeFunc is a store that recalls nothing.
type storeFunc func(auth.Credential) (*auth.Grant, error)

func (f storeFunc) Find(_ context.Context, c auth.Credential) (*auth.Grant, error) { return f(c) }
func (storeFunc) Cached(auth.Digest) (*auth.Grant, bool)                           { return nil, false }

// mistyped is a key in own format with a wrong last character.
func mistyped(t testing.TB) string {
	key := generated(t)
	if strings.HasSuffix(key, "0") {
		return key[:len(key)-1] + "1"
	}
	return key[:len(key)-1] + "0"
}

// presented is the key that a store is asked about for an Authorization header.
func presented(header string) (key string, err error) {
	a := auth.NewAuthenticator(storeFunc(func(c auth.Credential) (*auth.Grant, error) {
		key = string(c.Key)
		return &auth.Grant{Digest: c.Digest}, nil
	}), auth.Hasher{}, auth.Options{})
	_, err = a.AuthenticateFrom(context.Background(), []string{header}, caller("192.0.2.1"))
	return key, err
}

var (
	schemeThere = regexp.MustCompile(`(?i)^bearer[ \t]`)
	keyThere    = regexp.MustCompile(`(?i)^bearer +([!-~]+)$`)
	ownKey      = regexp.MustCompile(`^iq[bs]_(.{30})(.{6})$`)
	base62      = regexp.MustCompile(`^[0-9A-Za-z]*$`)
)

// oracle reads a header in another way than the package does.
func oracle(value string) (key string, err error) {
	value = strings.Trim(value, " \t")
	if !schemeThere.MatchString(value) {
		return "", auth.ErrMissingKey
	}
	found := keyThere.FindStringSubmatch(value)
	if found == nil || len(found[1]) > 8192 {
		return "", auth.ErrInvalidKey
	}
	if own := ownKey.FindStringSubmatch(found[1]); own != nil {
		sum := big.NewInt(int64(crc32.ChecksumIEEE([]byte(found[1][:34])))).Text(62)
		swapped := strings.Map(func(r rune) rune { // math/big has lower case before upper case
			if unicode.IsLower(r) {
				return unicode.ToUpper(r)
			}
			return unicode.ToLower(r)
		}, strings.Repeat("0", 6-len(sum))+sum)
		if !base62.MatchString(own[1]) || own[2] != swapped {
			return "", auth.ErrInvalidKey
		}
	}
	return found[1], nil
}

// What comes after the scheme is a key or not, byte for byte.
func FuzzAuthorizationHeader(f *testing.F) {
	longest := strings.Repeat("k", auth.MaxKeyLength)
	for _, s := range []string{
		"Bearer abc", "bearer abc", "bEaReR abc", "Bearer    abc", "\t Bearer abc \t", "Bearer Bearer", "Bearer " + longest,
		"Bearer aA0-._~+/==", "Bearer !\"#$%&'()*,:;<>?@[\\]^`{|}~",
		"", "Bearer", "Bearer   ", "Basic dXNlcjpwYXNz", "Bearers abc", "iqb_abc", "\x00",
		"Bearer a, Bearer b", "Bearer a b", "Bearer\tabc", "Bearer \tabc", "Bearer a\x00b", "Bearer a\x7f",
		"Bearer ü", "Bearer " + longest + "k",
		"Bearer " + generated(f), "Bearer iqs_", "Bearer iqb_" + strings.Repeat("z", 36), "Bearer iqb_" + strings.Repeat("/", 30) + "000000",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := presented(value)
		if want, wanted := oracle(value); key != want || !errors.Is(err, wanted) {
			t.Fatalf("%q: key %q, %v; want %q, %v", value, key, err, want, wanted)
		}
	})
}

// A generated key is asked about; with one other character it is refused without asking.
func TestGeneratedKeysAreChecked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{auth.KindBuyer, auth.KindSeller}).Draw(t, "kind")
		key, err := auth.Generate(kind)
		if err != nil || len(key) != 40 || !strings.HasPrefix(key, map[string]string{auth.KindBuyer: "iqb_", auth.KindSeller: "iqs_"}[kind]) {
			t.Fatalf("%q, %v", key, err)
		}
		if asked, err := presented("Bearer " + key); asked != key || err != nil {
			t.Fatalf("%q is refused: %v", key, err)
		}
		at := rapid.IntRange(4, len(key)-1).Draw(t, "at")
		other := rapid.ByteRange('!', '~').Filter(func(c byte) bool { return c != key[at] }).Draw(t, "other")
		asked, err := presented("Bearer " + key[:at] + string(other) + key[at+1:])
		if denial, ok := errors.AsType[*auth.Denial](err); asked != "" || !ok || denial.Reason != auth.ReasonChecksum {
			t.Fatalf("%q with %q at %d: %v", key, other, at, err)
		}
	})
	// Keys that are out there carry the checksum, so it must stay what it is for ever.
	if _, err := presented("Bearer iqb_" + strings.Repeat("0", 30) + "3Csdeq"); err != nil {
		t.Errorf("a key of long ago: %v", err)
	}
	if key, err := auth.Generate("admin"); err == nil || key != "" {
		t.Errorf("a key of no kind: %q", key)
	}
}

// Every character is drawn equally often: a chi-squared statistic with 61 degrees of freedom
// stays below 150 but once in 10^9 runs.
func TestGeneratedKeysAreUniform(t *testing.T) {
	const keys, each = 4133, 4133 * 30 / 62.0
	seen := map[rune]float64{}
	for range keys {
		for _, c := range generated(t)[4:34] {
			seen[c]++
		}
	}
	chi := 0.0
	for _, n := range seen {
		chi += (n - each) * (n - each) / each
	}
	if len(seen) != 62 || chi > 150 {
		t.Errorf("%d characters, chi-squared %.1f", len(seen), chi)
	}
}

// Digests are those of the standard library, also for many callers at once.
func TestHasher(t *testing.T) {
	var wg sync.WaitGroup
	for name, h := range hashers(t) {
		for _, n := range []int{0, 1, 40, 64, 65, auth.MaxKeyLength, auth.MaxKeyLength + 1} {
			key := strings.Repeat("k", n)
			want := auth.Digest(sha256.Sum256([]byte(key)))
			if name == "hmac" {
				mac := hmac.New(sha256.New, []byte(testPepper))
				mac.Write([]byte(key))
				want = auth.Digest(mac.Sum(nil))
			}
			wg.Go(func() {
				for range 200 {
					if h.Hash(key) != want {
						t.Errorf("%s of %d bytes is wrong", name, n)
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

func TestHasherOfAFile(t *testing.T) {
	want := hashers(t)["hmac"].Hash("k")
	for text, says := range map[string]string{
		testPepper: "", testPepper + "\n": "", testPepper + "\r\n": "", "\n": "pepper: the pepper file is empty", "secret\n": "at least 16",
	} {
		h, err := auth.HasherOf(setting.NewFile("pepper", text))
		if says == "" && (err != nil || h.Hash("k") != want || h.Field() != "hmac_sha256") {
			t.Errorf("%q: another digest, %v", text, err)
		}
		if says != "" && (err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
	if h, err := auth.HasherOf(setting.File{}); err != nil || h.Field() != "sha256" {
		t.Error("no file must mean no pepper")
	}
}

// Neither a key nor a digest shows up where a value is printed by mistake.
func TestNothingPrintsSecrets(t *testing.T) {
	c := credential("iqb_topsecret")
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "credential", c, "key", c.Key, "digest", c.Digest)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Key, c.Key) + log.String() + string(asJSON)
	for _, secret := range []string{"topsecret", c.Digest.Hex()[:8], fmt.Sprintf("%d,%d", c.Digest[0], c.Digest[1])} {
		if strings.Contains(out, secret) {
			t.Errorf("%s leaks: %s", secret, out)
		}
	}
}
