package redact

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func idsOf(ids ...string) *IDs {
	set := &IDs{}
	for _, id := range ids {
		set.Add(id)
	}
	return set
}

func TestClean(t *testing.T) {
	const id = "6f1c2a34-1111-4222-8333-9444555666aa"
	for _, tc := range []struct {
		ids      string
		in, want string
		n        int
	}{
		{id, id, "[removed]", 1},
		{id, "see " + id + ".", "see [removed].", 1},
		{id, "see " + strings.ToUpper(id), "see [removed]", 1},
		{id, "see " + strings.ReplaceAll(id, "-", "") + "!", "see [removed]!", 1},
		{strings.ReplaceAll(id, "-", ""), "see {" + id + "}", "see {[removed]}", 1},
		{"{" + strings.ToUpper(id) + "}", "see " + id, "see [removed]", 1},
		{id, "abc" + id + "def", "[removed]", 1}, // which of the digits are the id's cannot be told
		{id, "xyz" + id + "-ghi", "xyz[removed]-ghi", 1},
		{id, id + id, "[removed]", 1},
		{id, id + " " + strings.ReplaceAll(id, "-", ""), "[removed] [removed]", 2},
		{id, "티켓" + id + "번", "티켓[removed]번", 1},
		{id, "6f1c2a34-1111-4222-8333-9444555666ab", "[removed]", 1}, // of a record that is not in this reply
		{"INC0010001", "6f1c2a34-1111-4222-8333-9444555666ab", "6f1c2a34-1111-4222-8333-9444555666ab", 0},
		{id, strings.Repeat("-", 200), strings.Repeat("-", 200), 0},
		{"INC0010001", "about INC0010001, again", "about [removed], again", 1},
		{"INC0010001", "xINC0010001x", "x[removed]x", 1},
		{"INC0010001", "INC00100012", "INC00100012", 0},
		{"100234", "INC100234", "INC[removed]", 1},
		{"100234", "call 01002345", "call 01002345", 0},
		{"abcd abcdef", "xabcdefx abcdef", "xabcdefx [removed]", 1},
		{"7", "7 of 2017, no. 7", "[removed] of 2017, no. [removed]", 2},
		{"a-1", "xa-1 a-1 a-12", "xa-1 [removed] a-12", 1},
		{"7", "7번", "7번", 0},
		{strings.Repeat("x", 300), "a " + strings.Repeat("x", 300), "a [removed]", 1},
		{strings.Repeat("x1", 200), strings.Repeat("x1", 200) + "x " + strings.Repeat("x1", 199) + "x2", "[removed]x " + strings.Repeat("x1", 199) + "x2", 1},
		{"7 57 A7 cat", "57", "[removed]", 1},
		{"4711.0", "see 4711, 4711.0 and 4711.5", "see [removed], [removed] and 4711.5", 2},
		{"57", "#57", "#[removed]", 1},
		{"cato", "catogosa, cato. _cato cato7 cato", "catogosa, [removed]. _[removed] [removed]7 [removed]", 4},
		{"cato", "cato가 았cato는 猫cato", "[removed]가 았[removed]는 猫[removed]", 3},
		{"cato", "écato catoя cato\u0301", "écato catoя cato\u0301", 0},
		{"키키", "키키키 키키x 키키", "키키키 키키x [removed]", 1},
		{"키키티켓", "키키티켓키 키키티켓x 키키티켓", "[removed]키 [removed]x [removed]", 3},
		{"1-a a-1234", "1-a-1234", "[removed]", 1}, // what overlaps is one
		{"INC0010001", "INC\u00ad0010001, I\u200bNC001\u20600001!", "[removed], [removed]!", 2},
		{"INC0010001 cato", "x\u200bcato x\u00adINC0010001\ufeff2", "x\u200b[removed] x\u00ad[removed]\ufeff2", 2},
		{id, "see 6f1c2a34-1111-\u200b4222-8333-9444\u00ad555666aa, “yes”", "see [removed], “yes”", 1},
		{"ABCDEFGH", "_ABCDEFGH7 xABCDEFGH", "_[removed]7 xABCDEFGH", 1}, // long: removed in doubt
		{"57", "57,000 1.57 57.000,00 57.5 1,057", "57,000 1.57 57.000,00 57.5 1,057", 0},
		{"57", "see 57. Or 57, or (57), 57", "see [removed]. Or [removed], or ([removed]), [removed]", 4},
		{"057 57", "1 057 57 100 57\u00a0000 57’000", "1 057 57 100 57\u00a0000 57’000", 0},
		{"57", "57 00 57 items", "[removed] 00 [removed] items", 2},
		{"4711 4712", "4711,4712 INC4711 4711.50 1,4712", "[removed],[removed] INC[removed] 4711.50 1,[removed]", 4},
		{"2026", "22.11.2026", "22.11.2026", 0},
		{"12345678", "x1.12345678,50 123456789", "x1.[removed],50 123456789", 1}, // long
		{"A7", "A7번 A77 xA7 A7.", "A7번 A77 xA7 [removed].", 1},
		{"5003000000D8cuIAAR", "5003000000D8cuIAAR, 5003000000D8cuI!", "[removed], [removed]!", 2},
		{"5003000000D8cuIAAB", "5003000000D8cuIAAB, 5003000000D8cuI!", "[removed], 5003000000D8cuI!", 1},
		{"tick-" + id, "tick-" + id, "[removed]", 1}, // as a whole
		{"INC001 INC0012 INC00123x", "INC00123x INC0012 INC001", "[removed] [removed] [removed]", 3},
		{"4711-A A-0815X", "see 4711-A-0815X.", "see [removed].", 1}, // each id is found, where they overlap, too
		{"1-a a-1 1-b", "1-a-1-b", "[removed]", 1},
		{"0004118204", "4118204 0004118204 04118204 10004118204 41182040", "[removed] [removed] [removed] 10004118204 41182040", 3},
		{"4118204", "see 0004118204, 4118204.", "see [removed], [removed].", 2},
		{"0000000007", "7 of 2017, no. 0007, 07 May, 007", "[removed] of 2017, no. [removed], [removed] May, [removed]", 4},
		{"007 5", "007 07 7 05 10:05 5", "[removed] [removed] [removed] [removed] 10:[removed] [removed]", 6},
		{"000 0000", "0; 00; 000; 0000; 00000", "0; 00; [removed]; [removed]; 00000", 2},
		{"0057", "57,000 1.0057 00057 57", "57,000 1.0057 [removed] [removed]", 2},
		{"INC000", "INC0 INC000 INC0000", "INC0 [removed] INC0000", 1}, // no number
	} {
		got, n := idsOf(strings.Fields(tc.ids)...).Clean(tc.in)
		if got != tc.want || n != tc.n {
			t.Errorf("%s in %q: %q, %d", tc.ids, tc.in, got, n)
		}
	}
	if set := idsOf("", "  "); !set.Empty() {
		t.Error("an empty id counts as one")
	}
}

// What nobody sees hides no id, wherever it stands in it.
func TestUnseenCharacters(t *testing.T) {
	const id = "INC0010001"
	for _, r := range "\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200f\u202a\u202e\u2060\u2066\u2069\u206f\u3164\ufe00\ufe0f\ufeff\uffa0\U0001d173\U000e0001\U000e0020\U000e0100\U000e01ef" {
		for at := 1; at < len(id); at++ {
			text := "안녕 “é” " + id[:at] + string(r) + id[at:] + "."
			if got, n := idsOf(id).Clean(text); got != "안녕 “é” [removed]." || n != 1 {
				t.Errorf("%U at %d: %q", r, at, got)
			}
		}
	}
	for _, seen := range " \t\n\u00a0\u2009\u2028\u3000éя가😀\u0301" {
		text := id[:4] + string(seen) + id[4:]
		if got, n := idsOf(id).Clean(text); got != text || n != 0 {
			t.Errorf("%U: %q", seen, got)
		}
	}
}

func TestMerge(t *testing.T) {
	set := idsOf("INC0010001")
	set.Merge(idsOf("cato", "6f1c2a34-1111-4222-8333-9444555666aa"))
	if got, n := set.Clean("INC0010001 cato 7f1c2a34111142228333944455566600"); n != 3 {
		t.Errorf("%q, %d", got, n)
	}
}

// Patterns and ids are found in the text as it came, so none hides another one.
func TestPatterns(t *testing.T) {
	for _, tc := range []struct{ patterns, ids, in, want string }{
		{`TCK-\d{6}`, "", "see TCK-123456.", "see [removed]."},
		{`TCK-\d{6}`, "TCK", "see TCK-123456.", "see [removed]."},
		{`\d{4}`, "6f1c2a34-1111-4222-8333-9444555666aa", "6f1c2a34-1111-4222-8333-9444555666ab 2026", "[removed] [removed]"},
		{`A\d+ \d+B`, "", "A123B A1B", "[removed] [removed]"},
		{`#(\d+)`, "", "see #35436 and 35436", "see [removed] and 35436"}, // all of the match
		{`x* A`, "", "zzA", "zz[removed]"},                                // nothing is no match
	} {
		set := idsOf(strings.Fields(tc.ids)...)
		for _, p := range strings.Fields(tc.patterns) {
			set.Patterns = append(set.Patterns, regexp.MustCompile(p))
		}
		if got, n := set.Clean(tc.in); got != tc.want || n == 0 || set.Empty() {
			t.Errorf("%s in %q: %q, %d, want %q", tc.patterns, tc.in, got, n, tc.want)
		}
	}
}

// Whatever ids a list has and whatever stands around them: no UUID and no id of four and more
// characters with a letter and a digit is left where nothing but letters, marks, blanks or other ids
// stand beside it. Looking for it needs no rules: it is a search for the id as it is written.
func TestNoIDIsLeft(t *testing.T) {
	uuid := rapid.OneOf(
		rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		rapid.StringMatching(`[0-9A-F]{32}`),
	)
	word := rapid.OneOf(
		rapid.StringMatching(`[A-Z]{1,4}-?[0-9]{3,9}[A-Z]?`),
		rapid.StringMatching(`[a-z0-9_/+=.:-]{4,40}`),
		rapid.StringMatching(`(tok[0-9a-zA-Z]{1,5}){50,120}`),
		rapid.SampledFrom([]string{"5003000000D8cuIAAR", "티켓-1700", "a-12", "1-ab", "x" + strings.Repeat("0", 255), "x" + strings.Repeat("0", 256), "x" + strings.Repeat("0", 257)}),
	).Filter(func(id string) bool {
		return utf8.RuneCountInString(id) >= 4 && strings.ContainsAny(id, "0123456789") && strings.IndexFunc(id, unicode.IsLetter) >= 0
	})
	other := rapid.OneOf(rapid.StringMatching(`[0-9]{1,12}`), rapid.StringMatching(`[a-z]{1,12}`), rapid.StringN(0, 5, 8))
	beside := rapid.SampledFrom([]string{" ", "", "a", "번", ".", ", ", "(", "_", "é", "\u00ad", "\n"})
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.OneOf(uuid, word), 1, 6).Draw(t, "ids")
		set := idsOf(append(rapid.SliceOfN(other, 0, 4).Draw(t, "others"), ids...)...)
		text := ""
		for range rapid.IntRange(1, 5).Draw(t, "quotes") {
			id := rapid.SampledFrom(ids).Draw(t, "id")
			if from, _ := utf8.DecodeRuneInString(id); unicode.IsDigit(from) { // no digit before one
				text += " "
			}
			text += beside.Draw(t, "before") + id + beside.Draw(t, "after")
			if to := id[len(id)-1]; isDigit(to) {
				text += "."
			}
		}
		got, _ := set.Clean(text)
		for _, id := range ids {
			if strings.Contains(strings.ToLower(got), strings.ToLower(id)) && !strings.Contains(strings.ToLower(Removed), strings.ToLower(id)) {
				t.Fatalf("%q leaves %q of %q", ids, got, text)
			}
		}
	})
}

// Wherever an id stands in whatever text it is gone after, and a text without it comes back
// as it was; zeros before a number do not count.
func TestAnIDIsFoundAndNothingElse(t *testing.T) {
	filler := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-f-]{0,80}`), rapid.StringMatching(`[a-zé가-힣_0-9 .,]{0,30}`))
	word := rapid.OneOf(rapid.StringMatching(`[a-z]{1,12}`), rapid.StringMatching(`[A-Z0-9]{1,12}`), rapid.StringMatching(`[0-9]{1,12}`), rapid.StringMatching(`[가-힣]{1,4}`))
	long := rapid.OneOf(
		rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		rapid.StringMatching(`[0-9a-f]{32}`),
		rapid.StringMatching(`[A-Z]{2,4}[0-9]{4,9}[A-Z]`),
	)
	rapid.Check(t, func(t *rapid.T) {
		before, after := filler.Draw(t, "before"), filler.Draw(t, "after")
		id := long.Draw(t, "long")
		if got, n := idsOf(id, "OTHER0001X").Clean(before + id + after); n == 0 || strings.Contains(got, id) {
			t.Fatalf("%q left in %q", id, got)
		}
		id = word.Draw(t, "word")
		if got, n := idsOf(id).Clean(before + " (" + id + ") " + after); n == 0 || strings.Contains(got, "("+id+")") {
			t.Fatalf("%q left in %q", id, got)
		}
		if got, n := idsOf(id).Clean(before); !strings.Contains(strings.Map(visible, before), TrimZeros(id)) && (n != 0 || got != before) {
			t.Fatalf("%q without %q: %q", before, id, got)
		}
	})
}

// visible leaves out what nobody sees.
func visible(r rune) rune {
	if invisible(r) {
		return -1
	}
	return r
}

func FuzzClean(f *testing.F) {
	f.Add("6f1c2a34-1111-4222-8333-9444555666aa", "x 6f1c2a34-1111-4222-8333-9444555666aa")
	f.Add("12", "12 1212 12")
	f.Add("ab{}", "ab{}ab{}")
	f.Fuzz(func(t *testing.T, id, text string) {
		got, n := idsOf(id).Clean(text)
		if n == 0 && got != text || n > 0 && len(got) == 0 {
			t.Errorf("%q in %q: %q, %d", id, text, got, n)
		}
	})
}

// BenchmarkSequence supports the decision to keep ids by first bytes and
// length: ids in sequence, as ticket systems number them, must not make the
// search slower the more there are.
func BenchmarkSequence(b *testing.B) {
	text := strings.Repeat("As said in INC0004711 and INC9999999, the parcel 0104 is late. ", 8)
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ids := make([]string, n)
			for i := range ids {
				ids[i] = fmt.Sprintf("INC%07d", i+4000)
			}
			for b.Loop() {
				set := idsOf(ids...)
				for range n {
					set.Clean(text)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/record")
		})
	}
}

// Neither braces nor blanks inside or around them belong to an id.
func TestBracesAndBlanks(t *testing.T) {
	for id, want := range map[string]string{
		"{ 6f1c2a34-1111-4222-8333-9444555666aa }": "see [removed]!", " {6f1c2a34-1111-4222-8333-9444555666aa}": "see [removed]!",
		"{ }": "see 6f1c2a34-1111-4222-8333-9444555666aa!", "{": "see 6f1c2a34-1111-4222-8333-9444555666aa!",
	} {
		set := idsOf(id)
		if got, _ := set.Clean("see 6f1c2a34-1111-4222-8333-9444555666aa!"); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}
