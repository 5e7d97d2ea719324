package draft

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"inquiry-gateway/upstream/redact"
)

// column is what all records have at one path.
type column struct {
	path   string
	words  []string // of its name, in small letters
	texts  []string // the values other than null
	bools  bool     // all are truth values
	timing *timing  // see times
	timed  bool
}

var (
	plainName = regexp.MustCompile(`^[\pL\pN][\pL\pN _.-]*$`)
	wordForm  = regexp.MustCompile(`^\S+$`)
	// addrForm is an address of mail or of the web.
	addrForm = regexp.MustCompile(`^[^@\s]+@[^@\s]+$|^([a-z]+:)?//|^/\S*/\S*$`)
	tagForm  = regexp.MustCompile(`(?i)</?(p|br|div|span|b|i|a|ul|ol|li|strong|em|h[1-6]|table|td|tr|body|html)\b[^>]*>`)
	// proseForm is of a person's words: two with a blank between them, or letters of a script whose words stand together.
	proseForm = regexp.MustCompile(`\pL{2,}[\s\S]*\s+[\s\S]*\pL|[\x{1100}-\x{10ffff}]{4}`)
)

func isUUID(s string) bool { return redact.IsUUID(strings.Trim(s, "{}")) }

func isNumber(s string) bool { return strings.Trim(s, "0123456789.,-") == "" }

// has reports whether a list of words has one.
func has(words, word string) bool {
	return word != "" && strings.Contains(" "+words+" ", " "+word+" ")
}

// hollow are last names that say nothing: the one before them says it.
const hollow = "value values name text code label display raw data fields id key nm cd displayvalue rendered content body"

// wordsOf are the words of a path's last name, and of the one before if the last says nothing by
// itself. createdAt, CREATED_AT and created-at are created and at.
func wordsOf(path string) (words []string) {
	parts := strings.Split(strings.ReplaceAll(path, `\.`, " "), ".")
	for _, key := range slices.Backward(parts) {
		if _, name, ok := strings.Cut(key, "=="); ok {
			key = name
		}
		var b strings.Builder
		before := rune(0)
		for _, r := range key {
			if unicode.IsUpper(r) && unicode.IsLower(before) {
				b.WriteByte(' ')
			}
			if before = r; !unicode.IsLetter(r) {
				r = ' '
			}
			b.WriteRune(unicode.ToLower(r))
		}
		own := strings.Fields(b.String())
		words = append(words, own...)
		if len(own) > 1 || len(own) == 1 && !has(hollow, own[0]) {
			break
		}
	}
	return words
}

// called reports whether a column's name has one of the words.
func (c *column) called(words string) bool {
	return slices.ContainsFunc(c.words, func(word string) bool { return has(words, word) || has(words, strings.TrimSuffix(word, "s")) })
}

// all reports whether every value of a column is of a sort.
func (c *column) all(is func(string) bool) bool {
	return !slices.ContainsFunc(c.texts, func(s string) bool { return !is(s) })
}

// distinct returns the different values, sorted.
func (c *column) distinct() []string { return slices.Compact(slices.Sorted(slices.Values(c.texts))) }

// isProse reports whether half of the values may be words of a person.
func (c *column) isProse() bool {
	n := 0
	for _, s := range c.texts {
		if proseForm.MatchString(s) && !addrForm.MatchString(s) {
			n++
		}
	}
	return 2*n >= len(c.texts)
}

// Words of names and values that mark what callers must not see, and of names that mark what they may.
const (
	hideWords = "private internal hidden draft deleted del confidential secret removed spam"
	showWords = "public visible published shown"
)

// shown returns the values of a column with which callers may see a record; nil: it does not look as if others must not be seen.
func (c *column) shown() (shown []string) {
	switch {
	case c.bools && c.called(hideWords):
		return []string{"false", "0", "N"}
	case c.bools && c.called(showWords):
		return []string{"true", "1", "Y"}
	}
	values := c.distinct()
	for _, s := range values {
		if !has(hideWords, strings.ToLower(s)) {
			shown = append(shown, s)
		}
	}
	if len(values) > maxCodes || len(shown) == len(values) || len(shown) == 0 {
		return nil
	}
	return shown
}

// shortestID is how long an id must be to be removed from texts without a doubt.
const shortestID = 4

// ids returns the paths of internal ids: UUIDs, and what is called as ids are. Of words it is not certain that they are ids. Of left it is
// not certain that they are none.
func (t *table) ids(account string) (paths, words, left []string) {
	for _, c := range t.columns {
		values := c.distinct()
		digits := c.all(func(s string) bool { return strings.ContainsAny(s, "0123456789") })
		switch {
		case c.bools, c.shown() != nil, c.times() != nil, strings.Contains(c.path, "#("), !c.all(wordForm.MatchString):
		case strings.Contains(c.path, ".0."): // as of each element of the list
		case c.all(addrForm.MatchString):
			if digits && !strings.Contains(values[0], "@") {
				left = append(left, c.path)
			}
		case len(values) == 1 && values[0] == account:
			left = append(left, c.path)
		case c.all(isUUID):
			paths = append(paths, c.path)
		case !slices.ContainsFunc(c.words, isIDWord), !digits && 2*len(values) <= len(c.texts):
		case c.all(func(s string) bool { return len(s) < shortestID }):
			left = append(left, c.path)
		default:
			if paths = append(paths, c.path); !digits {
				words = append(words, c.path)
			}
		}
	}
	return paths, words, left
}

// isIDWord reports whether a word of a name is one of an id's.
func isIDWord(word string) bool {
	return strings.HasSuffix(word, "id") && len(word) <= 4 || has("ids no num number nr seq key ref reference sn sno idx hash pk code cd", word)
}

// The bounds of a code.
const (
	maxCodes    = 12
	longestCode = 24 // characters
)

// isCode reports whether a column has few short values that repeat, such as states.
func (c *column) isCode() bool {
	values := c.distinct()
	return (len(values) < len(c.texts) || len(c.texts) < fewRecords) && len(values) <= maxCodes && c.times() == nil && !c.all(isUUID) &&
		c.all(func(s string) bool { return utf8.RuneCountInString(s) <= longestCode && !addrForm.MatchString(s) })
}

// Words of names, by field, that put candidates first.
var fieldWords = map[string]string{
	"title":          "title subject summary headline heading topic caption short ttl sj sbjt 제목",
	"content":        "content text body description message question detail memo 내용",
	"status":         "status state stat stage phase progress stts sts 상태",
	"inquiry_type":   "category type kind topic class reason group ctgry 유형 구분 분류",
	"responder_type": "role type by author kind sender side from direction writer responder incoming staff",
	"company_name":   "company corp corporation organization organisation org business firm shop customer client 업체 업체명 회사 상호",
}

// isCodeField reports whether the values of a field are codes, such as states.
func isCodeField(field string) bool { return has("status inquiry_type responder_type", field) }

// maxCandidates bounds the columns that are named for a field of the public record.
const maxCandidates = 12

// candidates returns the columns that a field may come from, those that are called so first.
func (t *table) candidates(field string) (fit []*column) {
	for _, c := range t.columns {
		named := c.called(fieldWords[field])
		if isCodeField(field) && c.isCode() || !isCodeField(field) && c.times() == nil && !c.bools && !c.all(isUUID) && !c.all(addrForm.MatchString) && (named || !c.all(isNumber)) {
			fit = append(fit, c)
		}
	}
	slices.SortStableFunc(fit, func(a, b *column) int {
		return cmp.Or(falseFirst(!a.called(fieldWords[field]), !b.called(fieldWords[field])), strings.Count(a.path, ".")-strings.Count(b.path, "."))
	})
	return fit[:min(len(fit), maxCandidates)]
}

// samples shows values of a column, of a code all.
func (c *column) samples(rows int, code bool) string {
	values, most := c.distinct(), 2
	if code {
		most = maxCodes
	}
	for i, s := range values {
		if short := []rune(s); len(short) > 40 {
			values[i] = string(short[:40]) + "..."
		}
	}
	text := strings.Join(values[:min(len(values), most)], " | ")
	if len(c.texts) < rows {
		text += fmt.Sprintf(" (in %d of %d: it needs a default)", len(c.texts), rows)
	}
	if slices.ContainsFunc(c.texts, tagForm.MatchString) {
		text += " (HTML: add trim_html: true)"
	}
	return text
}
