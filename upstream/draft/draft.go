// Package draft proposes a mapping from saved replies. It goes by what the values
// are and how they repeat, and marks everything that they leave open.
package draft

import (
	"errors"
	"fmt"
)

// Options are what the samples do not say.
type Options struct {
	Kind    string // buyer or seller
	Account string // whose lists the samples are
	// Enums are further values of fields by their names, such as those that an
	// OpenAPI document lists; may be nil.
	Enums   map[string][]string
	BaseURL string // of the legacy system; empty: left to complete
}

// Proposal is the mapping of one list. Doubts stand at what they are about.
type Proposal struct {
	Kind, Account string
	BaseURL       string
	Records       int
	XML           bool // the samples are XML
	Items         Choice
	Owner         Choice
	IDs, Short    []string // paths of internal ids; those too short to be looked for in texts
	Paging        Paging

	Title, Content, Status, InquiryType, CompanyName, CreatedAt Choice
	Responses                                                   Responses
	Doubts                                                      []string // about the samples as a whole
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
	all := ranked(trees, o.Account)
	if len(all) == 0 {
		return nil, errors.New("no sample has a list of objects; save a reply with some inquiries in it")
	}
	p := &Proposal{Kind: o.Kind, Account: o.Account, BaseURL: o.BaseURL, Records: len(all[0].records), XML: xml, Items: Choice{Path: all[0].path}}
	if len(all) > 1 && all[1].score > all[0].score-0.7 {
		p.Items.doubt("or is it %s?", all[1].path)
	}
	if p.Records < fewRecords {
		p.Doubts = append(p.Doubts, fmt.Sprintf("only %d records: which values repeat can hardly be seen; more samples make a better draft", p.Records))
	}
	p.Paging = paging(trees, p.Items.Path, p.Records)
	p.choose(&all[0].table, o, all[0].keyed)
	return p, nil
}

// choose goes from what is told for certain to what is left: the owner is equal to
// the account, a time has a notation, an enumeration repeats.
func (p *Proposal) choose(t *table, o Options, keyed bool) {
	d := &drafter{newVocabulary(), o.Account, map[*column]bool{}}
	names := d.vocabulary.buyer
	if o.Kind == "seller" {
		names = d.vocabulary.seller
	}
	p.Owner = d.owner(t, names)
	p.CreatedAt = d.created(t)
	list, responses := d.answers(t)
	p.Status = d.status(t, list, o.Enums)
	p.InquiryType = d.category(t, o.Kind == "buyer", o.Enums)
	if o.Kind == "buyer" {
		p.Title = d.title(t)
		p.Content = d.content(t)
		if list != nil {
			d.response(&responses, &list.rows)
			responses.IDs, responses.Short = d.internalIDs(&list.rows)
		}
		p.Responses = responses
	} else {
		p.Title = d.title(t)
		p.CompanyName = d.company(t)
	}
	p.IDs, p.Short = d.internalIDs(t)
	if keyed {
		p.IDs = append(p.IDs, "@key")
	}
	for _, inner := range t.lists {
		if inner == list && o.Kind == "buyer" {
			continue
		}
		ids, short := d.internalIDs(&inner.rows)
		for _, path := range ids {
			p.IDs = append(p.IDs, inner.path+".#."+path)
		}
		for _, path := range short {
			p.Short = append(p.Short, inner.path+".#."+path)
		}
	}
}
