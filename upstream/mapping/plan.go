package mapping

import (
	"regexp"
	"slices"

	"inquiry-gateway/upstream/address"
)

// What a path leads into: a reply, or each record or response in it.
const (
	inReply = iota
	inRecord
	inResponse
)

// Replies is how the replies to one sort of request are read: to those for a list, for the
// responses to its inquiries, or for the details of its records. It is read-only and safe for
// concurrent use.
type Replies struct {
	Format     Format
	Paging     PagingConfig // with its defaults
	MaxRecords int          // items of all replies to one request

	request       address.Template
	itemName      string        // an item is called
	expect        Conditions    // that a reply must meet
	tables        []table       // that fields are looked up in
	items         items         // records, responses or details
	responseItems *items        // the responses in a record; nil: they are not there
	itemID        *compiledPath // what tells the items of a list in pages apart; nil: nothing
	skipsInvalid  bool          // records that break a rule are left out
	last          Conditions    // what a reply says that is the last
}

// Plan is the compiled mapping of one endpoint: what is asked for a list, and how
// the replies are read. It is read-only and safe for concurrent use.
type Plan struct {
	Replies
	Kind      string
	Details   *SecondRequest // nil: the list has all of a record
	Responses *SecondRequest // nil: a record has its responses, or the kind has none

	stages           []stage
	byStatus, byType filter
	filtersHere      bool // the gateway applies all filters: the whole list is read for each
	dropForeign      bool
	owner            compiledPaths
	ownerKey         string // paths of the owner, as they were written
	ownerIs          string // what stands there, with {account} in it
	ownerInList      bool   // the list shows the owner, and details are asked for the account's own records only
	idPatterns       []*regexp.Regexp
	usedPaths        []usedPath

	title, content, status, inquiryType, company *textField // nil: not in this kind's records
	created                                      *timeField
	responses                                    *responseFields // nil for sellers
}

// responseFields is the mapping of a response, wherever it comes from.
type responseFields struct {
	path                   string        // of all, as it was written
	skip                   int           // so many come before them
	optional               bool          // a record without the array of responses has none
	total                  *compiledPath // their number, within the record; nil: it is not told
	last                   Conditions    // that a record meets which has all of them
	content, responderType *textField
	created                *timeField
}

// usedPath is a path of the configuration, for [Explainer].
type usedPath struct {
	key         string // below the endpoint
	path        string
	in          string // records, responses or replies
	harm        string // the silent harm where nothing is at the path; empty: it shows elsewhere
	mayBeAbsent bool   // it counts as used, but it is no mistake where nothing is there
}

// texts are the texts that the kind's records have.
func (p *Plan) texts() []*textField {
	all := []*textField{p.title, p.content, p.status, p.inquiryType, p.company}
	return slices.DeleteFunc(all, func(t *textField) bool { return t == nil })
}

// allTexts are those of the responses, too.
func (p *Plan) allTexts() []*textField {
	if p.responses == nil {
		return p.texts()
	}
	return append(p.texts(), p.responses.content, p.responses.responderType)
}

// DropsForeign tells whether records of other accounts are expected, and left out.
func (p *Plan) DropsForeign() bool { return p.dropForeign }

// FieldNames are the names under which invalid records and removed ids are
// counted.
func (p *Plan) FieldNames() []string {
	names := []string{"record", "owner", p.created.name}
	if p.Details != nil {
		names = append(names, "details")
	}
	if p.responses != nil {
		names = append(names, "responses", p.responses.created.name)
	}
	for _, t := range p.allTexts() {
		names = append(names, t.name)
	}
	return names
}
