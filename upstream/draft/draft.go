// Package draft proposes a mapping from saved replies. It goes by what the values are
// and how they repeat, and marks everything that they leave open.
//
// It works in four steps. Samples become trees, and the list that looks most like
// inquiries is chosen ([Proposal.find]). Its records become a table: a column for each
// path that has single values, and further tables for the lists within the records
// ([tableOf]). What other lists of the reply, or samples of details, say of a record
// becomes more columns. Then each public field takes the column that scores best
// ([drafter.best]), and what is left over is looked at for internal ids and for what must
// not be shown.
//
// A score adds up evidence: the words of a column's name count from -1 to 1, and what its
// values are counts about as much. The weights were set by hand so that the shapes under
// testdata come out right. There is no meaning in their digits: change one, and run
// TestShapes. What was chosen by little, or nearly was something else, gets a doubt, which
// the file shows as a comment: a wrong line without a mark is the one mistake that counts.
package draft

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Options are what the samples do not say.
type Options struct {
	Kind    string // buyer or seller
	Account string // whose lists the samples are
	// Enums are further values of fields by their names, such as those that an
	// OpenAPI document lists; may be nil.
	Enums   map[string][]string
	BaseURL string // of the legacy system; empty: left to complete
	// Details and Responses are paths, with {id}, of requests for one record and for its
	// answers that an OpenAPI document lists; may be empty.
	Details, Responses string
}

// Proposal is the mapping of one list. Doubts stand at what they are about. Its fields
// are exported for tests; the commands use no more than [Proposal.YAML].
type Proposal struct {
	Kind, Account string
	BaseURL       string
	Records       int
	XML           bool // the samples are XML
	Items         Choice
	Owner         Choice
	ids
	Paging  Paging
	Details *Details // nil: none
	Where   []Where

	Title, Content, Status, InquiryType, CompanyName, CreatedAt Choice
	Responses                                                   Responses
	doubts                                                      // about the samples as a whole
}

// fewRecords are too few to tell an enumeration from a text.
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
	p := &Proposal{Kind: o.Kind, Account: o.Account, BaseURL: o.BaseURL, XML: xml}
	list, details, err := p.find(trees, o.Account)
	if err != nil {
		return nil, err
	}
	p.Records = len(list.records)
	if p.Records < fewRecords {
		p.doubt("only %d records: which values repeat can hardly be seen; more samples make a better draft", p.Records)
	}
	p.Paging = paging(trees, p.Items.Path, p.Records)
	p.choose(&list.table, o, list.keyed)
	p.details(&list.table, o, details, list.merged)
	p.addDetails(&list.table, details.ID)
	if o.Responses != "" && p.Responses.Items == "" {
		p.Responses.Fetch = fmt.Sprintf("{path: %s, id: %s}", quote(o.Responses), quote(cmp.Or(idOf(&list.table), toComplete)))
	}
	return p, nil
}

// find chooses the list of records, and joins to it what stands elsewhere. The first
// sample that has a list of objects, or of ids, says what is one. Samples without it
// are taken for details of records.
func (p *Proposal) find(trees []any, account string) (list *found, d Details, err error) {
	all := ranked(trees, account)
	if bare := bareIDs(trees[0]); bare != nil && !slices.ContainsFunc(all, func(f *found) bool { return f.first == 0 }) {
		list, d.Proven = bare, true
		list.table = tableOf(list.records)
	} else if len(all) == 0 {
		return nil, d, errors.New("no sample has a list of objects or of ids; save a reply with some inquiries in it")
	} else if list = all[0]; len(all) > 1 && all[1].score > all[0].score-0.7 {
		p.Items.doubt("or is it %s?", all[1].path)
	}
	p.Items.Path = list.path
	var rest []any
	var numbers []int
	for i, tree := range trees {
		if i != list.first && !list.in(tree) {
			rest, numbers = append(rest, tree), append(numbers, i+1)
		}
	}
	if key := idColumn(&list.table, rest); key != nil && (d.Proven || len(rest) > 0) {
		d.ID = key.path
		var about doubts
		list.merged, about = d.merge(list.records, key, rest, numbers)
		p.Doubts, d.Proven = append(p.Doubts, about.Doubts...), d.Proven || list.merged > 0
	}
	if list.merged > 0 {
		list.table = tableOf(list.records)
		list.table.detailColumns(list.merged)
	}
	list.table.join(sideTables(lists(trees), list))
	return list, d, nil
}

// choose goes from what is told for certain to what is left: the owner is equal to the
// account, a time has a notation, an enumeration repeats. A column that a field has
// taken is no other field's, so the order of the calls matters.
func (p *Proposal) choose(t *table, o Options, keyed bool) {
	d := &drafter{newVocabulary(), o.Account, map[*column]bool{}}
	names := d.vocabulary.buyer
	if o.Kind == "seller" {
		names = d.vocabulary.seller
	}
	p.Owner = d.owner(t, names)
	p.CreatedAt = d.created(t)
	// Which records are answered tells the status from other codes.
	list, responses := d.answers(t)
	p.Status = d.status(t, list, o.Enums)
	p.InquiryType = d.category(t, o.Kind == "buyer", o.Enums)
	p.Title = d.title(t)
	if o.Kind == "buyer" {
		p.Content = d.content(t)
		if list != nil {
			d.response(&responses, &list.rows)
		}
		p.Responses = responses
	} else {
		p.CompanyName = d.company(t)
	}
	p.Where = d.where(t)
	p.addAll(d, t, "")
	if keyed {
		p.IDs = append(p.IDs, "@key")
	}
	for _, inner := range t.lists {
		if inner != list || o.Kind == "seller" {
			p.addAll(d, &inner.rows, inner.path+".#.")
		}
	}
}
