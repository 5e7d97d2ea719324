package leakguard

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plainSet is the guard as it reads in Set's comment, one position and one
// sort of id after the other. Set has to mean the same.
type plainSet struct {
	uuids bool
	words map[string]bool
}

func plainSetOf(ids []string) plainSet {
	set := plainSet{words: map[string]bool{}}
	for _, id := range ids {
		if id = strings.TrimSpace(id); id == "" || id == "{}" {
			continue
		}
		if id[0] == '{' && id[len(id)-1] == '}' {
			id = id[1 : len(id)-1]
		}
		if digits := strings.ReplaceAll(id, "-", ""); len(digits) == 32 && plainRun.FindString(id) == id && strings.Trim(id, "-") == id {
			set.uuids = true
			continue
		}
		set.words[id[:min(len(id), longest)]] = true
		if short := shortForm(id); short != "" {
			set.words[short] = true
		}
	}
	return set
}

// clean finds all ids in the text as it came, and in what is seen of it.
func (set plainSet) clean(s string) (string, int) {
	spans := set.find(s)
	seen, at := "", []int{}
	for i, r := range s {
		for k := range len(string(r)) {
			if !unseen(r) {
				seen, at = seen+s[i+k:i+k+1], append(at, i+k)
			}
		}
	}
	if seen != s {
		for _, sp := range set.find(seen) {
			spans = append(spans, span{at[sp.from], at[sp.to-1] + 1})
		}
	}
	return plainCut(s, spans)
}

func (set plainSet) find(s string) (spans []span) {
	for _, at := range plainRun.FindAllStringIndex(s, -1) {
		run := strings.Trim(s[at[0]:at[1]], "-")
		if set.uuids && len(strings.ReplaceAll(run, "-", "")) >= 32 {
			from := at[0] + strings.Index(s[at[0]:], run)
			spans = append(spans, span{from, from + len(run)})
		}
	}
	spans = append(spans, plainFind(s, set.at(headBytes, longest))...)
	return append(spans, plainFind(s, set.at(1, headBytes-1))...)
}

// at gives the length of the longest id at a place that has so many bytes.
func (set plainSet) at(least, most int) func(string, int) int {
	return func(s string, i int) int {
		for n := most; n >= least; n-- {
			if i+n > len(s) {
				continue
			}
			if set.words[s[i:i+n]] && counts(s, i, i+n) {
				return n
			}
		}
		return 0
	}
}

var plainRun = regexp.MustCompile(`[0-9a-fA-F-]+`)

// plainFind finds what at knows the length of.
func plainFind(s string, at func(s string, i int) int) (spans []span) {
	for i := 0; i < len(s); {
		n := at(s, i)
		if n > 0 {
			spans = append(spans, span{i, i + n})
		}
		i += max(n, 1)
	}
	return spans
}

// plainCut takes every byte of the spans out. Spans that share a byte are one.
func plainCut(s string, spans []span) (string, int) {
	if len(spans) == 0 {
		return s, 0
	}
	cut, joins := make([]bool, len(s)), make([]bool, len(s)+1)
	for _, sp := range spans {
		for i := sp.from; i < sp.to; i++ {
			cut[i] = true
			joins[i] = joins[i] || i > sp.from
		}
	}
	var b strings.Builder
	found := 0
	for i := range len(s) {
		if !cut[i] {
			b.WriteByte(s[i])
		} else if !joins[i] {
			b.WriteString(Removed)
			found++
		}
	}
	return b.String(), found
}

func TestGuardEqualsThePlainOne(t *testing.T) {
	id := rapid.OneOf(
		rapid.StringMatching(`[0-9a-fA-F]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		rapid.SampledFrom([]string{
			"6f1c2a34-1111-4222-8333-9444555666aa", "6F1C2A34-1111-4222-8333-9444555666AA", "6f1c2a34111142228333944455566600", "11111111111111111111111111111111",
			"{6f1c2a34-1111-4222-8333-9444555666aa}", "{}", "{a}", " 12 ", "INC0010001", "INC00100012", "INC0010", "removed", "[rem", "ed]", "e", "12", "123", "1234", "12345",
			"abcd", "abcdef", "abcdefgh", "1,000", "5003000000D8cuIAAR", "5003000000D8cuI", "키", "키키", "티켓-17", strings.Repeat("x", 255) + "yz", "--", "a-1",
		}),
		rapid.StringMatching(`[0-9a-f-]{0,40}`), rapid.StringMatching(`[A-Z]{0,3}[0-9]{0,6}`), rapid.StringN(0, 5, 8),
	)
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(id, 0, 6).Draw(t, "ids")
		part := rapid.OneOf(id, rapid.StringMatching(`[0-9a-f-]{0,70}`), rapid.SampledFrom([]string{" ", "", "-", ",", ".", "_", "번", "see ", "x", "9", "[removed]", "---", "\u00ad", "\u200b"}), rapid.String())
		if len(ids) > 0 {
			part = rapid.OneOf(rapid.SampledFrom(ids), part)
		}
		text := strings.Join(rapid.SliceOfN(part, 0, 8).Draw(t, "parts"), "")
		set := idsOf(ids...)
		for range 2 { // what one text leaves behind means nothing to the next
			got, n := set.Clean(text)
			want, wantN := plainSetOf(ids).clean(text)
			if got != want || n != wantN {
				t.Fatalf("%q without %q: %q, %d, want %q, %d", text, ids, got, n, want, wantN)
			}
		}
	})
}

// Texts that share memory do not change each other.
func TestCleanTextsStayAsTheyWere(t *testing.T) {
	set := idsOf("INC0010001")
	var got, want []string
	for i := range 500 {
		s := strings.Repeat("x", i*7%3000)
		clean, n := set.Clean(s + "INC0010001")
		if n != 1 {
			t.Fatal(n)
		}
		got, want = append(got, clean), append(want, s+Removed)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("text %d is %q", i, got[i])
		}
	}
}

func TestNotHex(t *testing.T) {
	for c := range 256 {
		for place := range 8 {
			b := []byte("09afAF1b")
			b[place] = byte(c)
			w := uint64(0)
			for _, c := range b {
				w = w<<8 | uint64(c)
			}
			if (notHex(w) == 0) != (hexDash[c] && c != '-') {
				t.Fatalf("%q: %x", b, notHex(w))
			}
		}
	}
}
