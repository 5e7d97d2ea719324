package yamlfile

import (
	"errors"
	"regexp"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/testkit/cases"
)

// Each mistake is told at its place, in words that need no knowledge of YAML's grammar or of
// Go, and all mistakes of a file at once.
func TestMistakesAreTold(t *testing.T) {
	cases.Results(t, "testdata/mistakes.txt", func(_ *testing.T, text string) []string {
		_, err := decodeSection(text)
		got := lines(err)
		for i := range got {
			got[i] = strings.TrimSpace(strings.TrimPrefix(got[i], "gateway.yaml:"))
		}
		return got
	})
}

// A file that would take the parser minutes, or blow up in memory, is refused at once.
func TestWhatIsTooMuchIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"any: " + strings.Repeat("[", 5000):           "1:106: is not YAML here: nested too deeply; is this the right file?",
		strings.Repeat("- ", 5000):                    "1:201: is not YAML here: nested too deeply; is this the right file?",
		strings.Repeat("a:\n", 50_000):                "5001:1: holds more than 5000 keys; is this the right file?",
		"map: {" + strings.Repeat("x,", 50_000) + "}": "1:10007: map: holds more than 5000 keys; is this the right file?",
		strings.Repeat("[],", maxMarks/2+1):           "1:1: holds too many values; is this the right file?",
		"name: a\nlist: [b\x01c]":                     "2:9: holds the control character U+0001; is this the right file?",
		"name: a\n\nlist: [\xff]":                     "3:8: is not UTF-8 text; save it as UTF-8",
		"count: " + strings.Repeat("y", 200): `1:8: count: wants a whole number that is not too large, got the text "` +
			strings.Repeat("y", 16) + `..."`,
	} {
		if _, err := decodeSection(text); err == nil || err.Error() != "gateway.yaml:"+want {
			t.Errorf("%.20s: got %v, want %s", text, err, want)
		}
	}
	if _, err := decodeSection(strings.Repeat("name: x\n", 1000)); len(lines(err)) != 101 || !strings.HasSuffix(err.Error(), "899 more problems") {
		t.Errorf("a thousand mistakes are told in %d lines, want 100 and how many more there are", len(lines(err)))
	}
}

func TestAProblemStaysOnOneLine(t *testing.T) {
	_, err := decodeSection("\"a\\nb\": 1\ncount: \"x\\ty\\e[31m\"\n")
	if got := lines(err); len(got) != 2 || strings.ContainsAny(err.Error(), "\t\x1b") {
		t.Errorf("got %q, want two lines", got)
	}
}

func TestErrorsOfSectionsGetTheirPlace(t *testing.T) {
	doc := Parse("f", []byte(`
up:
  base: x
  keys:
    - a
    - sha: 1
  headers: {X.Y: 1, X.Y.Z: 2}
  empty: {}
`), nil)
	bad := func(keys ...string) error {
		var p setting.Problems
		for _, key := range keys {
			p.Add(key, "bad")
		}
		return p.Err()
	}
	doc.Invalid("up", bad("base", "keys[1].sha", "keys[0]", "keys[7].sha", "headers.X.Y", "headers.X.Y.Z", "empty.title", "nowhere.at.all", ""))
	doc.Invalid("up", errors.New("no key"))
	doc.Invalid("absent", bad("a.b"))
	doc.Invalid("", bad("up.base"))
	doc.Invalid("fine", nil)
	want := []string{
		"f:1:1: absent.a.b: bad", "f:2:1: up.nowhere.at.all: bad", "f:2:1: up: bad", "f:2:1: up: no key",
		"f:3:9: up.base: bad", "f:3:9: up.base: bad", "f:4:3: up.keys[7].sha: bad", "f:5:7: up.keys[0]: bad", "f:6:12: up.keys[1].sha: bad",
		"f:7:18: up.headers.X.Y: bad", "f:7:28: up.headers.X.Y.Z: bad", "f:8:3: up.empty.title: bad",
	}
	if got := lines(doc.Err()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Whatever a file holds, it is read in memory that its size bounds, and each mistake has its line.
func FuzzLoad(f *testing.F) {
	f.Add("name: ${PORT}\ninner: {fields: [a, *b]}\n")
	f.Add("many: [&a {filter: 1}, {<<: *a}]\nsize: 16MiB\nttl: -3s\n")
	f.Add("either: |\n  x\n---\n? y\n: !!str z\nsize: -1 B\n")
	f.Add("any: {urn:a:b: c, d: 010, e: .nan, 1: 2027-01-01}\r\nname: \"\\q\"\u2028\n%X\n")
	for _, c := range cases.Read(f, "testdata/mistakes.txt") {
		text, _, _ := strings.Cut(c.Text, "\n= ")
		f.Add(text)
	}
	line := regexp.MustCompile(`^gateway\.yaml:[1-9][0-9]*:[1-9][0-9]*: |^gateway\.yaml: [0-9]+ more problems$`)
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	f.Fuzz(func(t *testing.T, text string) {
		metrics.Read(allocated)
		before := allocated[0].Value.Uint64()
		got, err := decodeSection(text)
		metrics.Read(allocated)
		if used, most := allocated[0].Value.Uint64()-before, uint64(2<<20+4096*len(text)); used > most {
			t.Errorf("%d bytes for %d of %q", used, len(text), text)
		}
		for _, one := range lines(err) {
			if !line.MatchString(one) {
				t.Errorf("%q of %q names no line", one, text)
			}
		}
		if got.Size < 0 || got.TTL < 0 {
			t.Errorf("%q gives %d and %s", text, got.Size, got.TTL)
		}
	})
}
