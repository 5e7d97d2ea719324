// Package draft proposes a mapping from saved replies. It goes by what the values are and
// how they repeat, by nine rules:
//
//  1. The largest list of objects has the records.
//  2. The column that is equal to the account is the owner.
//  3. The column with the earliest times is created_at.
//  4. Few short values that repeat are codes, for status and inquiry_type. What they mean
//     is for a person to say.
//  5. The longest text is the content; a short one that differs, or is called so, the title.
//  6. UUIDs, and codes called as ids are, are internal ids.
//  7. A list of objects within the records that has a text and a time has the responses.
//  8. A link, a cursor, a total or a truth value beside the list tells of pages.
//  9. What is not certain has a comment DOUBT, what no value tells a comment TODO: a wrong
//     line without a mark is the one mistake that counts.
package draft

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Options are what the samples do not say.
type Options struct {
	Kind    string // buyer or seller
	Account string // whose lists the samples are
}

// Choice is where a field is proposed to come from. Its zero value is that nothing was
// found.
type Choice struct {
	Path, Format, Zone string
	HTML               bool     // it holds HTML
	Codes              []string // values of the legacy that are to be translated
	Default            string   // YAML, for records without it; empty: all have it
	Doubts             []string

	column *column
}

func (c *Choice) doubt(format string, args ...any) {
	c.Doubts = append(c.Doubts, fmt.Sprintf(format, args...))
}

// marked tells whether the line is not to be taken as it is.
func (c Choice) marked() bool { return c.Path == "" || len(c.Doubts) > 0 }

// where is a condition on a truth value that looks as if it hid something.
type where struct {
	path   string
	equals bool
}

// Responses are where the answers within the records are.
type Responses struct {
	Items                  Choice
	Content, Role, Created Choice
	IDs                    []string
	where                  []where
}

// Proposal is the mapping of one list.
type Proposal struct {
	Kind, Account string
	Records       int
	XML           bool // the samples are XML
	Items, Owner  Choice
	IDs, short    []string // short: ids that would be found in any text
	Paging        Paging
	where         []where

	Title, Content, Status, InquiryType, CompanyName, CreatedAt Choice
	Responses                                                   Responses
}

// fewRecords are too few to tell a code from a text.
const fewRecords = 5

// Propose looks at the samples, which are replies to the same request, in JSON or XML. An
// error says which of them cannot be used, from 1.
func Propose(samples [][]byte, o Options) (*Proposal, error) {
	if o.Account == "" || o.Kind != "buyer" && o.Kind != "seller" {
		return nil, errors.New("the kind, buyer or seller, and the account are needed")
	}
	trees, xml, err := decodeAll(samples)
	if err != nil {
		return nil, err
	}
	p := &Proposal{Kind: o.Kind, Account: o.Account, XML: xml}
	list := p.find(trees)
	if list == nil {
		return nil, errors.New("no sample has a list of objects; save a reply with some inquiries in it")
	}
	t := tableOf(list.records)
	p.Records = t.rows
	if t.rows < fewRecords {
		p.Items.doubt("only %d records: what repeats can hardly be seen; more samples make a better draft", t.rows)
	}
	taken := map[*column]bool{}
	p.Owner = t.owner(o.Account, taken)
	p.CreatedAt = t.earliest(taken)
	p.Status = t.codes("status state stat stage phase progress stts sts 상태", "", false, taken)
	p.InquiryType = t.codes("category type kind topic class reason group ctgry 유형 구분 분류", "user customer account content media mime record owner role author", o.Kind == "buyer", taken)
	if o.Kind == "buyer" {
		p.Content = t.longest(taken)
		p.responses(t)
	} else {
		p.CompanyName = t.named("company corp corporation organization organisation org business firm shop vendor seller merchant partner supplier 업체 업체명 회사 상호", taken)
	}
	p.Title = t.title(taken, p.Content.column)
	p.where = t.private()
	p.IDs, p.short = t.ids("", o.Account)
	if list.keyed {
		p.IDs = append(p.IDs, "@key")
	}
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		if path != p.Responses.Items.Path {
			more, _ := t.lists[path].ids(path+".#.", o.Account)
			p.IDs = append(p.IDs, more...)
		}
	}
	p.Paging = paging(trees, list, t.rows)
	return p, nil
}

// found is a list of records that a sample has.
type found struct {
	path    string
	records []any
	keyed   bool // the members of an object, not of an array
	weight  int
}

// find chooses the largest list: the one with the most values, and among alike ones that
// with the account in it.
func (p *Proposal) find(trees []any) *found {
	all := map[string]*found{}
	var visit func(keys []string, v any)
	visit = func(keys []string, v any) {
		f := &found{path: cmp.Or(pathOf(keys), "@this")}
		switch v := v.(type) {
		case []any:
			for _, element := range v {
				if _, ok := element.(map[string]any); ok {
					f.records = append(f.records, element)
				}
			}
		case map[string]any:
			if f.records = alike(v); f.records != nil {
				f.keyed, f.path = true, strings.TrimPrefix(pathOf(keys)+".@values", ".")
				break
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				visit(append(slices.Clone(keys), key), v[key])
			}
		}
		if before := all[f.path]; before != nil {
			before.records = append(before.records, f.records...)
		} else if len(f.records) > 0 {
			all[f.path] = f
		}
	}
	for _, tree := range trees {
		visit(nil, tree)
	}
	var ranked []*found
	for _, path := range slices.Sorted(maps.Keys(all)) {
		f := all[path]
		for _, c := range tableOf(f.records).columns {
			f.weight += len(c.texts)
			if slices.Contains(c.texts, p.Account) || c.length() >= 15 && c.prose() > 0.5 || timesOf(c) != nil {
				f.weight += 3 * len(c.texts)
			}
		}
		ranked = append(ranked, f)
	}
	if len(ranked) == 0 {
		return nil
	}
	slices.SortStableFunc(ranked, func(a, b *found) int { return cmp.Or(b.weight-a.weight, len(a.path)-len(b.path)) })
	if len(ranked) > 1 && 3*ranked[1].weight > 2*ranked[0].weight {
		p.Items.doubt("or is it %s?", ranked[1].path)
	}
	p.Items.Path = ranked[0].path
	return ranked[0]
}

// alike gives the members of an object whose keys are ids: all are objects with nearly
// the same keys.
func alike(object map[string]any) (members []any) {
	seen := map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		member, ok := object[key].(map[string]any)
		if !ok || len(member) < 3 {
			return nil
		}
		for key := range member {
			seen[key]++
		}
		members = append(members, member)
	}
	same := 0
	for _, n := range seen {
		if n == len(object) {
			same++
		}
	}
	if len(members) < 2 || 3*same < 2*len(seen) {
		return nil
	}
	return members
}

// owner is the column that is equal to the account, the one nearest to the record.
func (t *table) owner(account string, taken map[*column]bool) (best Choice) {
	var others []string
	for _, c := range t.columns {
		mine := 0
		for _, s := range c.texts {
			if s == account {
				mine++
			}
		}
		switch {
		case mine == 0 || 2*mine < len(c.texts) || 2*mine < t.rows:
			continue
		case best.Path != "" && (len(c.texts) <= len(best.column.texts) && strings.Count(c.path, ".") >= strings.Count(best.Path, ".")):
			others = append(others, c.path)
			continue
		case best.Path != "":
			others = append(others, best.Path)
		}
		best = Choice{Path: c.path, column: c}
		if mine < len(c.texts) {
			best.doubt("%d records have another value there", len(c.texts)-mine)
		}
		if len(c.texts) < t.rows {
			best.doubt("%d records have none", t.rows-len(c.texts))
		}
	}
	if best.Path == "" {
		best.doubt("no value of the records is the account: the request alone binds the list to it")
	} else {
		taken[best.column] = true
	}
	if len(others) > 0 {
		best.doubt("or %s?", strings.Join(others, ", "))
	}
	return best
}

// The bounds of a code.
const (
	mostCodes   = 12
	longestCode = 24 // characters
)

// codes is the column with few short values that repeat and whose name has one of the
// words; if none has, the first one, with a doubt. A constant is no code but for a name.
func (t *table) codes(words, not string, nullable bool, taken map[*column]bool) (best Choice) {
	var named, others []*column
	for _, c := range t.columns {
		values := c.distinct()
		short := c.all(func(s string) bool {
			return len([]rune(s)) <= longestCode && !uuidForm.MatchString(s) && !addrForm.MatchString(s)
		})
		if taken[c] || !short || len(values) == 0 || len(values) > mostCodes || timesOf(c) != nil || c.called(not) || 2*len(c.texts) < t.rows && !nullable {
			continue
		}
		switch repeat := 2*len(values) <= len(c.texts); {
		case c.called(words) && c.kinds != "b" && (len(values) < len(c.texts) || t.rows < fewRecords):
			named = append(named, c)
		case len(values) > 1 && repeat && values[0] != "" && c.kinds == "t" && !c.called("id name lang language locale country currency priority channel source email date time") && c.prose() < 0.5:
			others = append(others, c)
		}
	}
	slices.SortStableFunc(named, func(a, b *column) int {
		own := func(c *column) int { return strings.Count(" "+words+" ", " "+c.words[0]+" ") }
		return cmp.Or(min(len(b.distinct()), 2)-min(len(a.distinct()), 2), own(b)-own(a), strings.Count(a.path, ".")-strings.Count(b.path, "."))
	})
	all := append(named, others...)
	if len(all) == 0 {
		return best
	}
	c := all[0]
	best = Choice{Path: c.path, Codes: c.distinct(), column: c}
	switch {
	case len(named) == 0:
		best.doubt("only its values look like it")
	case len(best.Codes) < 2:
		best.doubt("it has one value in all records")
	}
	if len(all) > 1 && len(named) != 1 {
		best.doubt("or %s?", all[1].path)
	}
	best.missing(t, nullable)
	taken[c] = true
	return best
}

// missing says what records without the value get.
func (c *Choice) missing(t *table, nullable bool) {
	n := t.rows - len(c.column.texts)
	switch {
	case nullable:
		c.Default = "null"
	case n > 0:
		c.Default = ToComplete
		c.doubt("%d records have none", n)
	}
}

// longest is the column with the longest texts.
func (t *table) longest(taken map[*column]bool) (best Choice) {
	var second *column
	for _, c := range t.columns {
		if taken[c] || c.prose() < 0.5 || 2*len(c.texts) < t.rows || timesOf(c) != nil {
			continue
		}
		if best.column == nil || c.length() > best.column.length() {
			second = best.column
			best = Choice{column: c, Path: c.path}
		} else if second == nil || c.length() > second.length() {
			second = c
		}
	}
	if best.column == nil {
		return best
	}
	best.HTML = slices.ContainsFunc(best.column.texts, tagForm.MatchString)
	if second != nil && 3*second.length() > 2*best.column.length() {
		best.doubt("or %s, which is about as long?", second.path)
	}
	best.missing(t, false)
	taken[best.column] = true
	return best
}

// title is a short text that differs from record to record, one that is called so first.
func (t *table) title(taken map[*column]bool, content *column) (best Choice) {
	const names = "title subject summary headline heading topic caption short ttl sj sbjt 제목"
	for _, c := range t.columns {
		known := best.column != nil && best.column.called(names)
		switch {
		case taken[c] || timesOf(c) != nil || 2*len(c.texts) < t.rows || !strings.Contains(c.kinds, "t") || c.all(func(s string) bool { return uuidForm.MatchString(s) || addrForm.MatchString(s) }):
		case c.called(names) && !c.called("type id email status url name") && (!known || c.prose() > best.column.prose()):
			best = Choice{Path: c.path, column: c}
		case !known && c.prose() >= 0.5 && 2*len(c.distinct()) > len(c.texts) && c.length() < 120 && !c.called("name address email phone user") && best.column == nil:
			best = Choice{Path: c.path, column: c}
			best.doubt("only its values look like it")
		}
	}
	if best.column == nil && content != nil {
		best = Choice{Path: content.path, column: content}
		best.doubt("no short text is in the records; this is the content")
	}
	if best.column != nil {
		best.HTML = slices.ContainsFunc(best.column.texts, tagForm.MatchString)
		best.missing(t, false)
		taken[best.column] = true
	}
	return best
}

// named is the text whose name has one of the words.
func (t *table) named(words string, taken map[*column]bool) (best Choice) {
	for _, c := range t.columns {
		if taken[c] || !c.called(words) || c.called("id no number email phone url type") || c.kinds != "t" || timesOf(c) != nil || c.all(uuidForm.MatchString) {
			continue
		}
		if best.column != nil {
			best.doubt("or %s?", c.path)
			continue
		}
		best = Choice{Path: c.path, column: c}
		best.missing(t, false)
	}
	if best.column != nil {
		taken[best.column] = true
	}
	return best
}

// responses looks for the list of answers: a text and a time in each of them.
func (p *Proposal) responses(t *table) {
	r := &p.Responses
	var chosen *table
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		inner, taken := t.lists[path], map[*column]bool{}
		created := inner.earliest(taken)
		content := inner.longest(taken)
		switch {
		case created.Path == "" || content.Path == "" || strings.Contains(path, "#"):
		case chosen != nil:
			r.Items.doubt("or %s?", path)
		default:
			chosen = inner
			*r = Responses{Items: Choice{Path: path}, Content: content, Created: created}
			r.Role = inner.codes("role type by author kind sender side from direction writer responder", "content media format", true, taken)
			r.where = inner.private()
			r.IDs, _ = inner.ids("", p.Account)
		}
	}
	if chosen != nil && r.Role.Path == "" {
		r.Role.doubt("nothing tells who answers")
	}
	if chosen != nil && r.Content.Default == "" && p.Content.column != nil && slices.Equal(chosen.parents, slices.Sorted(slices.Values(p.Content.column.rows))) {
		r.Items.doubt("every record has exactly one: is the first the question itself?")
	}
}

// private are the truth values that look as if they hid something.
func (t *table) private() (list []where) {
	for _, c := range t.columns {
		bools := c.all(func(s string) bool {
			return s == "true" || s == "false" || s == "0" || s == "1" || s == "Y" || s == "N"
		})
		switch {
		case !bools || c.kinds == "n":
		case c.called("private internal hidden draft deleted confidential secret removed spam"):
			list = append(list, where{c.path, false})
		case c.called("public visible published shown"):
			list = append(list, where{c.path, true})
		}
	}
	return list
}

var codeForm = regexp.MustCompile(`^[^\s]*[0-9][^\s]*$`)

// shortestID is how long an id must be to be cut out of texts without a doubt.
const shortestID = 4

// ids are the UUIDs and the codes that are called as ids are. The account's own name is
// none.
func (t *table) ids(prefix, account string) (list, short []string) {
	for _, c := range t.columns {
		isID := len(c.texts) > 0 && c.kinds != "b" && (c.all(uuidForm.MatchString) ||
			c.all(codeForm.MatchString) && timesOf(c) == nil && slices.ContainsFunc(c.words, isIDWord))
		switch {
		case !isID || len(c.distinct()) == 1 && c.texts[0] == account || c.all(addrForm.MatchString):
		case c.length() < shortestID:
			short = append(short, prefix+c.path)
		default:
			list = append(list, prefix+c.path)
		}
	}
	return list, short
}

// isIDWord tells whether a word of a name is one of an id's.
func isIDWord(word string) bool {
	return strings.HasSuffix(word, "id") && len(word) <= 4 || strings.Contains(" ids no num number nr seq key ref reference sn sno idx hash pk code cd ", " "+word+" ")
}
