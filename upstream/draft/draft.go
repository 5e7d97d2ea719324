// Package draft writes the skeleton of a mapping from saved replies. It proposes what the values tell:
//
//  1. The largest list of objects has the records.
//  2. The column that is equal to the account is the owner.
//  3. The column with the earliest times is created_at.
//  4. UUIDs, and what is named as ids are, are internal ids.
//  5. A list of objects within the records that has a text and a time has the responses.
//  6. Truth values and words that look private are conditions.
//  7. A link, a cursor, a total or a truth value in headers or beside the list tells of pages.
//
// What is not certain has a comment DOUBT. Titles, texts, states and names of firms are for a person to
// choose: each has a comment TODO with the fields that it may be, and samples of their values.
package draft

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options are what the samples do not say.
type Options struct {
	Kind    string // buyer or seller
	Account string // whose lists the samples are
}

// Proposal is the mapping of one list.
type Proposal struct {
	Kind, Account string
	Records       int
	XML           bool // the samples are XML
	Items, Owner  Choice
	Paging        Paging
	Responses     Responses
	fields
}

// Responses are where the answers within the records are.
type Responses struct {
	Items Choice
	fields
}

// fields is what is proposed of the records, or of their responses.
type fields struct {
	IDs     []string
	Created Choice
	Hidden  []Choice // conditions
	doubts  []string // about ids and conditions
	table   *table
}

// Choice is where something is proposed to come from. Its zero value is that nothing was found.
type Choice struct {
	Path, Format, Zone string
	In                 []string // of a condition
	Doubts             []string
}

func (c *Choice) doubt(format string, args ...any) {
	c.Doubts = append(c.Doubts, fmt.Sprintf(format, args...))
}

// fewRecords are too few to tell what repeats.
const fewRecords = 5

// Propose looks at the samples, which are replies to the same request, in JSON or XML. An
// error says which of them cannot be used, from 1.
func Propose(samples [][]byte, o Options) (*Proposal, error) {
	if o.Account == "" || o.Kind != "buyer" && o.Kind != "seller" {
		return nil, errors.New("the kind, buyer or seller, and the account are needed")
	}
	trees, header, xml, err := parseAll(samples)
	if err != nil {
		return nil, err
	}
	list, other := findList(trees, o.Account)
	if list == nil {
		return nil, errors.New("no sample has a list of objects; save a reply with some inquiries in it")
	}
	t := list.table
	p := &Proposal{Kind: o.Kind, Account: o.Account, XML: xml, Records: t.rows, Items: Choice{Path: list.path}}
	if other != nil {
		p.Items.doubt("or is it %s?", other.path)
	}
	if t.rows < fewRecords {
		p.Items.doubt("only %d records: what repeats can hardly be seen; more samples make a better draft", t.rows)
	}
	p.Owner = t.owner(o.Account)
	if o.Kind == "buyer" {
		p.findResponses(t)
	}
	p.fields = t.fields(o.Account)
	if list.keyed {
		p.IDs = append(p.IDs, "@key")
	}
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		if path == p.Responses.Items.Path {
			continue
		}
		for _, id := range t.lists[path].fields(o.Account).IDs {
			p.IDs = append(p.IDs, path+".#."+id)
		}
	}
	if len(p.IDs) == 0 {
		p.doubts = append(p.doubts, "no id was found that must not leave")
	}
	p.Paging = paging(trees, header, list, t.rows/len(trees))
	return p, nil
}

// owner is the column that is equal to the account in the most records, the one nearest to the record;
// else one in a list.
func (t *table) owner(account string) (best Choice) {
	type place struct {
		path              string
		n, values, weight int
	}
	var all []place
	try := func(path string, c *column) {
		n := 0
		for _, s := range c.texts {
			if s == account {
				n++
			}
		}
		if 2*n >= t.rows {
			all = append(all, place{path, n, len(c.texts), 1000*n/t.rows - strings.Count(path, ".")})
		}
	}
	for _, c := range t.columns {
		try(c.path, c)
	}
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		for _, c := range t.lists[path].columns {
			try(path+jsonEach+c.path, c)
		}
	}
	if len(all) == 0 {
		best.doubt("no value of the records is the account: the request alone binds the list to it")
		return best
	}
	slices.SortStableFunc(all, func(a, b place) int { return b.weight - a.weight })
	one := all[0]
	best.Path = one.path
	switch {
	case one.n < one.values && !strings.Contains(one.path, jsonEach):
		best.doubt("%d records have another value there", one.values-one.n)
	case one.n < t.rows:
		best.doubt("%d of %d records have none", t.rows-one.n, t.rows)
	case strings.Contains(one.path, ".0."):
		best.doubt("it is the first of a list")
	}
	for _, other := range all[1:] {
		best.doubt("or %s, which is the account, too?", other.path)
	}
	return best
}

// jsonEach stands between the path of a list and one in its elements.
const jsonEach = ".#."

// fields proposes what records and responses have in common.
func (t *table) fields(account string) fields {
	f := fields{table: t, Created: t.created()}
	noted := map[string][]string{}
	for _, c := range t.columns {
		isID, note := c.isID(account)
		switch {
		case c.bools && c.called(hideWords):
			f.Hidden = append(f.Hidden, Choice{Path: c.path, In: []string{"false", "0", "N"}})
		case c.bools && c.called(showWords):
			f.Hidden = append(f.Hidden, Choice{Path: c.path, In: []string{"true", "1", "Y"}})
		case c.bools:
			noted[noteFlag] = append(noted[noteFlag], c.path)
		case c.hides() != nil:
			f.Hidden = append(f.Hidden, Choice{Path: c.path, In: c.hides()})
		case strings.Contains(c.path, ".0."): // as of each element of the list
		default:
			if isID {
				f.IDs = append(f.IDs, c.path)
			}
			if note != "" {
				noted[note] = append(noted[note], c.path)
			}
		}
	}
	for _, note := range slices.Sorted(maps.Keys(noted)) {
		f.doubts = append(f.doubts, note+": "+strings.Join(noted[note], ", "))
	}
	return f
}

// What is said of columns.
const (
	noteShort   = "left out of internal_ids, because every such short number would be removed from texts"
	noteWord    = "not all values have a digit, so that they may be words that texts have, too"
	noteOwn     = "the account's own id; add it if texts must not quote it"
	noteAddress = "addresses, which may hold ids"
	noteFlag    = "true or false in the records, and read by no field; if one marks what callers must not see, name it in where"
)

// Words of names and values that mark what callers must not see.
const (
	hideWords = "private internal hidden draft deleted del confidential secret removed spam"
	showWords = "public visible published shown"
)

// hides returns the values of a column that callers may see, where one of the others says that they must not.
func (c *column) hides() (shown []string) {
	values := c.distinct()
	for _, s := range values {
		if !strings.Contains(" "+hideWords+" ", " "+strings.ToLower(s)+" ") {
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

var wordForm = regexp.MustCompile(`^\S+$`)

// isID reports whether a column has ids: UUIDs, and what is called as ids are. note is what to say of it;
// empty: nothing.
func (c *column) isID(account string) (is bool, note string) {
	values := c.distinct()
	digits := c.all(func(s string) bool { return strings.ContainsAny(s, "0123456789") })
	switch {
	case c.bools, c.times() != nil, strings.Contains(c.path, "#("), !c.all(wordForm.MatchString):
		return false, ""
	case c.all(addrForm.MatchString):
		if digits && !strings.Contains(values[0], "@") {
			note = noteAddress
		}
		return false, note
	case len(values) == 1 && values[0] == account:
		return false, noteOwn
	case c.all(isUUID):
		return true, ""
	case !slices.ContainsFunc(c.words, isIDWord), !digits && 2*len(values) <= len(c.texts):
		return false, ""
	case c.all(func(s string) bool { return len(s) < shortestID }):
		return false, noteShort
	case digits:
		return true, ""
	}
	return true, noteWord
}

// isIDWord reports whether a word of a name is one of an id's.
func isIDWord(word string) bool {
	return strings.HasSuffix(word, "id") && len(word) <= 4 || strings.Contains(" ids no num number nr seq key ref reference sn sno idx hash pk code cd ", " "+word+" ")
}

// findResponses looks for the list of answers: a text and a time in each of them.
func (p *Proposal) findResponses(t *table) {
	r := &p.Responses
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		inner := t.lists[path]
		text := slices.ContainsFunc(inner.columns, func(c *column) bool { return c.isProse() && c.times() == nil })
		switch {
		case !text || inner.created().Path == "":
		case r.Items.Path != "":
			r.Items.doubt("or %s?", path)
		default:
			*r = Responses{Items: Choice{Path: path}, fields: inner.fields(p.Account)}
			if inner.rows == t.rows {
				r.Items.doubt("there are as many as records: is the first the question itself?")
			}
		}
	}
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

// maxCandidates bounds the fields that are named for one of the public record.
const maxCandidates = 12

// candidates describes the columns that a field may come from, those that are called so first.
func (t *table) candidates(field string) (lines []string) {
	codes := field == "status" || field == "inquiry_type" || field == "responder_type"
	var fit []*column
	for _, c := range t.columns {
		named := c.called(fieldWords[field])
		if codes && c.isCode() || !codes && c.times() == nil && !c.bools && !c.all(isUUID) && !c.all(addrForm.MatchString) && (named || !c.all(isNumber)) {
			fit = append(fit, c)
		}
	}
	slices.SortStableFunc(fit, func(a, b *column) int {
		return cmp.Or(falseFirst(!a.called(fieldWords[field]), !b.called(fieldWords[field])), strings.Count(a.path, ".")-strings.Count(b.path, "."))
	})
	for _, c := range fit[:min(len(fit), maxCandidates)] {
		lines = append(lines, c.path+": "+c.samples(t.rows, codes))
	}
	return lines
}

func isNumber(s string) bool { return strings.Trim(s, "0123456789.,-") == "" }

// samples shows values of a column.
func (c *column) samples(rows int, all bool) string {
	values, most := c.distinct(), 2
	if all {
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
