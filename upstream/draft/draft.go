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
//  8. A link, a cursor, a total or a truth value in headers or beside the list tells of pages.
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

// Proposal is the mapping of one list.
type Proposal struct {
	Kind, Account string
	Records       int
	XML           bool // the samples are XML
	Items, Owner  Choice
	IDs           []string
	Paging        Paging

	Title, Content, Status, InquiryType, CompanyName, CreatedAt Choice
	Responses                                                   Responses

	short []string // ids that would be found in any text
	forms []string // patterns of ids that texts may quote of other lists
	truths
}

// Responses are where the answers within the records are.
type Responses struct {
	Items                  Choice
	Content, Role, Created Choice
	IDs                    []string
	truths
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

// fewRecords are too few to tell a code from a text.
const fewRecords = 5

// Words of names, in the languages that were met.
const (
	statusWords  = "status state stat stage phase progress stts sts 상태"
	typeWords    = "category type kind topic class reason group ctgry 유형 구분 분류"
	roleWords    = "role type by author kind sender side from direction writer responder incoming staff"
	titleWords   = "title subject summary headline heading topic caption short ttl sj sbjt 제목"
	companyWords = "company corp corporation organization organisation org business firm shop 업체 업체명 회사 상호"
)

// Propose looks at the samples, which are replies to the same request, in JSON or XML. An
// error says which of them cannot be used, from 1.
func Propose(samples [][]byte, o Options) (*Proposal, error) {
	if o.Account == "" || o.Kind != "buyer" && o.Kind != "seller" {
		return nil, errors.New("the kind, buyer or seller, and the account are needed")
	}
	trees, header, xml, err := decodeAll(samples)
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
	p.Owner = t.owner(o.Account)
	p.CreatedAt = t.created()
	p.Status = t.codes(statusWords, "", false)
	p.InquiryType = t.codes(typeWords, "user customer account content media mime record owner role author", o.Kind == "buyer")
	if o.Kind == "buyer" {
		p.Content = t.content()
		p.findResponses(t)
	} else {
		p.CompanyName = t.company()
	}
	if p.Title = t.title(); p.Title.Path == "" && p.Content.Path != "" {
		p.Title = p.Content
		p.Title.Doubts = []string{"no short text is in the records; this is the content"}
	}
	p.truths = t.truths()
	p.IDs, p.short = t.ids("", o.Account)
	if list.keyed {
		p.IDs = append(p.IDs, "@key")
	}
	p.forms = t.forms(p.IDs)
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		if path != p.Responses.Items.Path {
			more, _ := t.lists[path].ids(path+".#.", o.Account)
			p.IDs = append(p.IDs, more...)
		}
	}
	p.Paging = paging(trees, header, list, t.rows/len(trees))
	return p, nil
}

// found is a list of records that the samples have.
type found struct {
	path    string
	records []any
	keyed   bool // the members of an object, not of an array
	weight  int
}

// find chooses the largest list: the one with the most values, of which those of an
// inquiry count more: the account, texts and times.
func (p *Proposal) find(trees []any) *found {
	all := map[string]*found{}
	var visit func(keys []string, v any)
	visit = func(keys []string, v any) {
		f := &found{path: cmp.Or(pathOf(keys), "@this")}
		switch v := v.(type) {
		case []any:
			f.records = objects(v)
		case map[string]any:
			if f.records = alike(v); f.records != nil {
				f.keyed, f.path = true, strings.TrimPrefix(pathOf(keys)+".@values", ".")
				break
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if hasPath(key) {
					visit(append(slices.Clone(keys), key), v[key])
				}
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
			if slices.Contains(c.texts, p.Account) || c.length() >= 15 && c.prose() > 0.5 || c.times() != nil {
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
	seen, same := map[string]int{}, 0
	for _, key := range slices.Sorted(maps.Keys(object)) {
		member, ok := object[key].(map[string]any)
		if !ok || len(member) < 3 {
			return nil
		}
		for key := range member {
			if seen[key]++; seen[key] == len(object) {
				same++
			}
		}
		members = append(members, member)
	}
	if len(members) < 2 || 3*same < 2*len(seen) {
		return nil
	}
	return members
}

// sure is the least score of a column about which there is no doubt.
const sure = 100

// pick proposes the column with the highest score that no field has yet; 0 is no column
// at all. Another that is nearly as good is named in a doubt.
func (t *table) pick(score func(*column) int) (best Choice) {
	top, next := 0, 0
	var second *column
	for _, c := range t.columns {
		n := score(c)
		if c.aside {
			n = n * 3 / 4
		}
		switch {
		case c.taken || n <= next:
		case n > top:
			next, second = top, best.column
			top, best.column = n, c
		default:
			next, second = n, c
		}
	}
	if best.column == nil {
		return best
	}
	best.Path, best.column.taken = best.column.path, true
	if top < sure {
		best.doubt("only its values look like it")
	}
	if 3*next > 2*top {
		best.doubt("or %s?", second.path)
	}
	if best.column.aside && strings.Contains(best.Path, ".0") {
		best.doubt("it is the first of a list")
	}
	html := 0
	for _, s := range best.column.texts {
		if tagForm.MatchString(s) {
			html++
		}
	}
	if best.HTML = 2*html > len(best.column.texts); html > 0 && !best.HTML {
		best.doubt("%d of %d texts have tags: if it is HTML, add trim_html: true", html, len(best.column.texts))
	}
	return best
}

// missing says what records without the value get.
func (c *Choice) missing(t *table, nullable bool) {
	if nullable {
		c.Default = "null"
	} else if c.column != nil && len(c.column.texts) < t.rows {
		c.Default = ToComplete
		c.doubt("%d records have none", t.rows-len(c.column.texts))
	}
}

// owner is the column that is equal to the account, the one nearest to the record.
func (t *table) owner(account string) Choice {
	mine := func(c *column) (n int) {
		for _, s := range c.texts {
			if s == account {
				n++
			}
		}
		return n
	}
	best := t.pick(func(c *column) int {
		n := mine(c)
		if n == 0 || 2*n < len(c.texts) || 2*n < t.rows {
			return 0
		}
		return 2*sure + 20*len(c.texts)/t.rows - strings.Count(c.path, ".")
	})
	if best.column == nil {
		best.doubt("no value of the records is the account: the request alone binds the list to it")
		return best
	}
	best.HTML = false
	best.Path = strings.ReplaceAll(best.Path, ".0.", ".#.") // of several owners each
	if n := len(best.column.texts); mine(best.column) < n {
		best.doubt("%d records have another value there", n-mine(best.column))
	} else if n < t.rows {
		best.doubt("%d records have none", t.rows-n)
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
func (t *table) codes(words, not string, nullable bool) Choice {
	best := t.pick(func(c *column) int {
		values := c.distinct()
		switch {
		case len(values) == 0 || len(values) > mostCodes || c.times() != nil || c.called(not) || 2*len(c.texts) < t.rows && !nullable,
			!c.all(func(s string) bool {
				return len([]rune(s)) <= longestCode && !uuidForm.MatchString(s) && !addrForm.MatchString(s)
			}):
			return 0
		case c.called(words) && (c.kinds != "b" || words == roleWords) && (len(values) < len(c.texts) || t.rows < fewRecords):
			own := strings.Count(" "+words+" ", " "+c.words[0]+" ")
			return 2*sure + 200*min(len(values), 2) + 50*own - strings.Count(c.path, ".")
		case len(values) > 1 && 2*len(values) <= len(c.texts) && values[0] != "" && c.kinds == "t" && c.prose() < 0.5 &&
			!c.called("id name lang language locale country currency priority channel source email date time"):
			if len(c.texts) == t.rows {
				return sure/2 + 1 // before one that some records lack
			}
			return sure / 2
		}
		return 0
	})
	if best.column == nil {
		return best
	}
	if best.Codes, best.HTML = best.column.distinct(), false; len(best.Codes) < 2 {
		best.doubt("it has one value in all records")
	}
	best.missing(t, nullable)
	return best
}

// content is the column with the longest texts.
func (t *table) content() Choice {
	best := t.pick(func(c *column) int {
		if c.prose() < 0.5 || 2*len(c.texts) < t.rows || c.times() != nil || c.length() < 40 && c.called("title subject headline") {
			return 0
		}
		return sure * c.length()
	})
	best.missing(t, false)
	return best
}

// title is a short text that differs from record to record, one that is called so first.
func (t *table) title() Choice {
	best := t.pick(func(c *column) int {
		switch {
		case c.times() != nil || 2*len(c.texts) < t.rows || !strings.Contains(c.kinds, "t") || c.all(func(s string) bool { return uuidForm.MatchString(s) || addrForm.MatchString(s) }):
		case c.called(titleWords) && !c.called("type id email status url name"):
			return 2*sure + int(4*sure*c.prose())
		case c.prose() >= 0.5 && 2*len(c.distinct()) > len(c.texts) && c.length() < 120 && !c.called("name address email phone user"):
			return sure / 2
		}
		return 0
	})
	best.missing(t, false)
	return best
}

// company is the text that is called after a firm.
func (t *table) company() Choice {
	best := t.pick(func(c *column) int {
		if !c.called(companyWords) || c.called("id no number email phone url type") || c.kinds != "t" || c.times() != nil || c.all(uuidForm.MatchString) {
			return 0
		}
		return sure
	})
	if best.missing(t, false); best.column != nil && len(best.column.distinct()) == 1 {
		best.doubt("it has one value in all records: is it the seller's own name?")
	}
	return best
}

// findResponses looks for the list of answers: a text and a time in each of them.
func (p *Proposal) findResponses(t *table) {
	r := &p.Responses
	for _, path := range slices.Sorted(maps.Keys(t.lists)) {
		inner := t.lists[path]
		created, content := inner.created(), inner.content()
		switch {
		case created.Path == "" || content.Path == "" || strings.Contains(path, "#"):
		case r.Items.Path != "":
			r.Items.doubt("or %s?", path)
		default:
			*r = Responses{Items: Choice{Path: path}, Content: content, Created: created}
			if r.Role = inner.codes(roleWords, "content media format", true); r.Role.Path == "" {
				r.Role.doubt("nothing tells who answers")
			}
			if inner.rows == t.rows {
				r.Items.doubt("there are as many as records: is the first the question itself?")
			}
			r.truths = inner.truths()
			var short []string
			if r.IDs, short = inner.ids("", p.Account); len(short) > 0 {
				r.Items.doubt("left out of internal_ids, because every such short number would be cut out of texts: %s", strings.Join(short, ", "))
			}
		}
	}
}

// truths are the truth values that no field reads.
type truths struct {
	hide, show, other []string // paths; by their names: true hides, true shows, nobody knows
}

func (t *table) truths() (found truths) {
	for _, c := range t.columns {
		switch bools := c.all(func(s string) bool { return strings.Contains(" true false 0 1 Y N ", " "+s+" ") }); {
		case !bools || c.kinds == "n" || c.taken || c.aside:
		case c.called("private internal hidden draft deleted del confidential secret removed spam"):
			found.hide = append(found.hide, c.path)
		case c.called("public visible published shown"):
			found.show = append(found.show, c.path)
		default:
			found.other = append(found.other, c.path)
		}
	}
	return found
}

// shortestID is how long an id must be to be cut out of texts without a doubt.
const shortestID = 4

// ids are the UUIDs and the codes that are called as ids are. The account's own name is
// none.
func (t *table) ids(prefix, account string) (list, short []string) {
	for _, c := range t.columns {
		isID := c.all(uuidForm.MatchString) || c.all(codeForm.MatchString) && c.times() == nil && slices.ContainsFunc(c.words, isIDWord)
		switch {
		case !isID || c.aside || c.kinds == "b" || len(c.distinct()) == 1 && c.texts[0] == account || c.all(addrForm.MatchString):
		case c.length() < shortestID && c.taken: // a code
		case c.length() < shortestID:
			short = append(short, prefix+c.path)
		default:
			list = append(list, prefix+c.path)
		}
	}
	return list, short
}

// forms are patterns of the ids at paths whose values are all digits, as many in each, behind letters or not.
func (t *table) forms(ids []string) (patterns []string) {
	for _, c := range t.columns {
		if !slices.Contains(ids, c.path) || !c.all(numbered.MatchString) {
			continue
		}
		parts := numbered.FindStringSubmatch(c.texts[0])
		form := fmt.Sprintf(`%s[0-9]{%d}\b`, cmp.Or(parts[1], `\b`), len(parts[2]))
		if c.all(regexp.MustCompile(`^` + form + `$`).MatchString) {
			patterns = append(patterns, form)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(patterns)))
}

var numbered = regexp.MustCompile(`^([A-Za-z]*[-_#]?)([0-9]{4,})$`)

// isIDWord tells whether a word of a name is one of an id's.
func isIDWord(word string) bool {
	return strings.HasSuffix(word, "id") && len(word) <= 4 || strings.Contains(" ids no num number nr seq key ref reference sn sno idx hash pk code cd ", " "+word+" ")
}
