package leakguard

import (
	"regexp"
	"slices"
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

var plainRun = regexp.MustCompile(`[0-9a-fA-F-]+`)

func (set plainSet) find(s string) (spans []span) {
	for _, at := range plainRun.FindAllStringIndex(s, -1) {
		run := strings.Trim(s[at[0]:at[1]], "-")
		if set.uuids && len(strings.ReplaceAll(run, "-", "")) >= 32 {
			from := at[0] + strings.Index(s[at[0]:], run)
			spans = append(spans, span{from, from + len(run)})
		}
	}
	for least, most := range map[int]int{headBytes: longest, 1: headBytes - 1} { // short ones may overlap the others
		for i := 0; i < len(s); i++ {
			for n := min(most, len(s)-i); n >= least; n-- {
				if set.words[s[i:i+n]] && counts(s, i, i+n) {
					spans = append(spans, span{i, i + n})
					i += n - 1
					break
				}
			}
		}
	}
	return spans
}

// plainCut takes every byte of the spans out. Spans that share a byte are one.
func plainCut(s string, spans []span) (cut string, found int) {
	for i := range len(s) {
		covered := slices.ContainsFunc(spans, func(sp span) bool { return sp.from <= i && i < sp.to })
		goesOn := slices.ContainsFunc(spans, func(sp span) bool { return sp.from < i && i < sp.to })
		switch {
		case !covered:
			cut += s[i : i+1]
		case !goesOn:
			cut += Removed
			found++
		}
	}
	return cut, found
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
		want, wantN := plainSetOf(ids).clean(text)
		got, n := set.Clean(text)
		again, _ := set.Clean(text) // what one text leaves behind means nothing to the next
		if got != want || n != wantN || again != want {
			t.Fatalf("%q without %q: %q, %d, then %q, want %q, %d", text, ids, got, n, again, want, wantN)
		}
	})
}
