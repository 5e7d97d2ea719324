package mapping

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"inquiry-gateway/upstream/jsontree"
)

// Report is what a list looks like through the mapping, for a person who
// writes or mends a configuration. Unlike everything else here it holds content
// and internal ids: it is for the operator's screen, not for logs or callers.
type Report struct {
	Items      int               `json:"items"`              // records in all replies that were read
	Replies    int               `json:"replies"`            // pages that were read, without those of responses
	Bytes      int               `json:"bytes"`              // of these
	Excluded   int               `json:"excluded,omitempty"` // records that where does not show
	Records    []ExplainedRecord `json:"records"`
	Violations []RawViolation    `json:"violations"`
	Owner      OwnerCheck        `json:"owner"`
	Removed    RemovedTexts      `json:"removed"`
	Suspects   []Suspect         `json:"suspects"` // what looks like an internal id in the texts and stays
	Unused     []UnusedPath      `json:"unused"`   // fields of the records that no part of the mapping looks at
	Paths      []PathFound       `json:"paths"`    // all configured paths
	Doubts     []Doubt           `json:"doubts"`   // why a list that would be served may not be what it seems
	Beside     []string          `json:"beside"`   // what stands around the list, and no key reads: it may tell of further pages
	// FirstError is what a caller's list would have ended with at the first record that cannot be in it; nil: none ends it.
	FirstError *Error `json:"-"`
	Unfit      int    `json:"-"` // records that break a rule, or are of another account or of none
}

// Doubt is one reason to look again at a list that would be served.
type Doubt struct {
	Path string `json:"path"` // of the mapping, or the key that it is about
	Text string `json:"text"`
}

// RawViolation is a violation with the value that breaks the rule.
type RawViolation struct {
	Violation
	Raw string `json:"raw"` // JSON as it came, shortened; empty: nothing there
}

// ExplainedRecord shows one record field by field.
type ExplainedRecord struct {
	Number int              `json:"number"` // from 1
	Fields []ExplainedField `json:"fields"`
}

// ExplainedField is the way of one value.
type ExplainedField struct {
	Field         string `json:"field"`
	Path          string `json:"path"`   // the configured one that counted
	Raw           string `json:"raw"`    // JSON as it came, shortened; empty: nothing there
	Mapped        string `json:"mapped"` // as the public record has it, without internal ids; null for null
	Problem       string `json:"problem,omitempty"`
	mayContainIDs bool   // the legacy decides on the text, which may hold ids
}

// OwnerCheck is the outcome of the reference of owners.
type OwnerCheck struct {
	Path    string   `json:"path"` // empty: not checked
	Matches int      `json:"matches"`
	Missing []int    `json:"missing"` // numbers of records without an owner
	Foreign []int    `json:"foreign"` // numbers of records of somebody else
	Others  []string `json:"others"`  // the first of these owners: whose records they are
	Case    int      `json:"case"`    // records of these whose owner differs in capitals only
}

// UnusedPath is a path in the records.
type UnusedPath struct {
	Path  string   `json:"path"`
	Types []string `json:"types"`
}

// PathFound is a configured path and how often something was there.
type PathFound struct {
	Key   string `json:"key"` // of the configuration, below the endpoint
	Path  string `json:"path"`
	In    string `json:"in"`    // what it was looked for in: records, responses or replies
	Of    int    `json:"of"`    // how many of these could have it
	Found int    `json:"found"` // how many had it, null included
	Null  int    `json:"null"`
	// Doubt says why the list is doubtful, if it is: the path is one that harm
	// its mistake, and nothing was there, nor at another path of the same key.
	Doubt string `json:"doubt,omitempty"`
	harm  string
}

// String is such as "internal_ids[0]: uuid found in 0 of 165 records".
func (p PathFound) String() string { return p.Key + ": " + p.Path + " found in " + p.Share() }

// Share is such as "160 of 165 records, null in 12".
func (p PathFound) Share() string {
	if p.Of == 0 {
		return "nothing to look in"
	}
	s := strconv.Itoa(p.Found) + " of " + strconv.Itoa(p.Of) + " " + p.In
	if p.Null > 0 {
		s += ", null in " + strconv.Itoa(p.Null)
	}
	return s
}

// Explainer observes the mapping of a list, which goes on where it would end, because a person
// wants to see every mistake at once. What a caller would get, where the list does not end with an error, is
// its List after Finish. It is not safe for concurrent use.
type Explainer struct {
	*Builder
	Report

	// Failed is why what was to be attached next cannot be had; nil: it can.
	Failed error

	showRecords   int              // records field by field
	recordNumbers []int            // of the records that the inquiries of List are
	records       []jsontree.Value // all records
	withFetched   int              // records whose responses came by a second request
	mostResponses int              // list of responses
}

// Explainer prepares to explain the list of a request, showing so many records
// field by field. It does not filter.
func (p *Plan) Explainer(want Query, show int) *Explainer {
	x := &Explainer{
		Builder: p.NewBuilder(Query{Account: want.Account}), showRecords: show,
		Report: Report{
			Records: []ExplainedRecord{}, Violations: []RawViolation{}, Unused: []UnusedPath{}, Paths: []PathFound{},
			Beside: []string{}, Removed: RemovedTexts{Cuts: []Cut{}}, Suspects: []Suspect{}, Doubts: []Doubt{},
			Owner: OwnerCheck{Path: p.ownerKey, Missing: []int{}, Foreign: []int{}, Others: []string{}},
		},
	}
	for _, u := range p.usedPaths {
		if !u.mayBeAbsent {
			x.Paths = append(x.Paths, PathFound{Key: u.key, Path: u.path, In: u.in, harm: u.harm})
		}
	}
	x.explainer = x
	return x
}

// Take explains one reply. An error is an [*Error]: the reply is no list, and explained as far
// as it could be read.
func (x *Explainer) Take(body string) (page Page, err error) {
	x.Bytes += len(body)
	if page, err = x.Builder.Take(body); err == nil {
		x.Replies++
		x.countPaths("replies", page.Reply)
		x.noteBeside(page.Reply)
	}
	return page, err
}

// maxBesideShown bounds what is shown of what stands around a list.
const maxBesideShown = 30

// noteBeside notes the values around the list of the first reply that no key reads, and doubts those
// that are named as systems name the next page, also where there is none this time. A list that is read in pages is not
// doubted: CheckEnd refuses it if its last reply names one more.
func (x *Explainer) noteBeside(reply jsontree.Value) {
	if x.Replies > 1 {
		return
	}
	if errs := reply.Member("errors"); errs.Kind() == jsontree.Array && errs.Len() > 0 && !slices.ContainsFunc(x.expect, func(c condition) bool { return below(c.path, "errors") }) {
		x.Doubts = append(x.Doubts, Doubt{"errors", "the reply has errors beside its data, as GraphQL tells of a part that failed: let expect refuse it, {path: errors, is: null}"})
	}
	x.eachBeside(reply, func(path, name string, v jsontree.Value) {
		if name == "" || x.Paging.reads(path) || slices.ContainsFunc(x.expect, func(c condition) bool { return below(c.path, path) }) {
			return
		}
		nested := v.Kind() == jsontree.Object || v.Kind() == jsontree.Array
		switch {
		case isNextMark(name) && x.Paging.Style == PageNone:
			x.Doubts = append(x.Doubts, Doubt{path, path + " is how systems name the next page, and no key reads it: does the list come in pages? Name it in paging, or in paging.ignore_marks"})
		case nested || strings.ContainsAny(strings.TrimSpace(v.String()), " \n"):
			return
		}
		if len(x.Beside) < maxBesideShown {
			x.Beside = append(x.Beside, path+" = "+shorten(v.Raw()))
		}
	})
}

// pagingHeader is in the names of headers that tell of pages.
var pagingHeader = regexp.MustCompile(`(?i)page|pagina|next|total|count|link|range|cursor|more`)

// CheckEnd checks the end as a Builder does, and notes the headers that no key reads.
func (x *Explainer) CheckEnd(end End) error {
	for name, values := range end.Header {
		if pagingHeader.MatchString(name) && !strings.EqualFold(name, x.Paging.TotalHeader) && (name != "Link" || x.Paging.Style != PageLink) && !x.Paging.IgnoresMark(name) {
			x.Beside = append(x.Beside, "the header "+name+" = "+shorten(values[0]))
		}
	}
	slices.Sort(x.Beside)
	return x.Builder.CheckEnd(end)
}

// maxOthers is how many other owners are shown: they identify other accounts.
const maxOthers = 3

// explainRecord takes each record once it was evaluated.
func (x *Explainer) explainRecord(e *element, outcome outcome, bad Violation) {
	x.Items++
	if bad.Field == "record" || e.beforeDetail && strings.HasPrefix(bad.Problem, reasonNoID) {
		x.Violations = append(x.Violations, RawViolation{Violation: bad})
		return
	}
	x.records, x.mostResponses = append(x.records, e.Value), max(x.mostResponses, len(e.responses))
	for i := range e.responses {
		if i >= x.plan.responses.skip {
			x.countPaths("responses", e.responses[i].Value)
		}
	}
	switch why := x.plan.ownerMismatch(e, x.want.Account); {
	case x.plan.owner == nil:
	case why == reasonNoOwner:
		x.Owner.Missing = append(x.Owner.Missing, bad.Record)
	case why == reasonForeign:
		x.Owner.Foreign = append(x.Owner.Foreign, bad.Record)
		owner := x.plan.owner.first(e)
		if shown := shorten(owner.Raw()); len(x.Owner.Others) < maxOthers && !slices.Contains(x.Owner.Others, shown) {
			x.Owner.Others = append(x.Owner.Others, shown)
		}
		if strings.EqualFold(owner.String(), x.plan.ownerOf(x.want.Account)) {
			x.Owner.Case++
		}
	default:
		x.Owner.Matches++
	}
	if x.plan.items.where.firstUnmet(e, e.beforeDetail) != nil {
		x.Excluded++
		return
	}
	if e.beforeDetail { // owner mismatch: skip the detail request
		return
	}
	if bad.Problem == reasonNoDetail {
		x.Violations = append(x.Violations, RawViolation{Violation: bad})
	}
	fields, shown := x.explainFields(e), bad.Problem == reasonNoDetail
	if x.Items <= x.showRecords {
		x.Records = append(x.Records, ExplainedRecord{bad.Record, fields})
	}
	for _, one := range fields {
		if one.Problem != "" {
			shown = true
			x.Violations = append(x.Violations, RawViolation{Violation{bad.Record, one.Field, one.Problem}, one.Raw})
		}
	}
	if outcome == outcomeInvalid && !shown {
		x.Violations = append(x.Violations, RawViolation{Violation: bad})
	}
	if outcome == outcomeServed {
		x.recordNumbers = append(x.recordNumbers, bad.Record)
	}
}

// publicTime is the notation of the public record.
const publicTime = "2006-01-02T15:04:05.000Z07:00"

// explainFields shows every public field of a record: the path that counts, the last if nothing
// is at any, and what is behind it.
func (x *Explainer) explainFields(e *element) (list []ExplainedField) {
	scratch := x.plan.scratchMapper()
	for _, t := range x.plan.texts() {
		one := t.explained(e)
		if one.mayContainIDs = t.mayContainIDs(); t.constant.Set {
			one.Path = "(const)"
		}
		s, _, why := t.of(e, e)
		if one.Problem = why; s.Valid {
			one.Mapped = s.String
		} else if why == "" {
			one.Mapped = "null"
		}
		list = append(list, one)
	}
	one := x.plan.created.explained(e)
	at, why := x.plan.created.of(e)
	if one.Problem = why; why == "" {
		one.Mapped = at.Format(publicTime)
	}
	if list = append(list, one); x.plan.responseItems == nil {
		return list
	}
	one = ExplainedField{Field: "responses", Path: x.plan.responses.path, Raw: shorten(e.container.Raw())}
	if x.plan.Responses != nil {
		if !e.container.Present() {
			return list // they were not asked for
		}
		x.withFetched++
		id, _ := x.plan.Responses.id.of(e)
		one.Path, one.Raw = x.plan.Responses.id.paths()+" = "+displayID(id), ""
	}
	if bad := scratch.mapResponses(e); bad.Problem != "" { // those of a record with other mistakes, too
		one.Field, one.Problem = bad.Field, bad.Problem
	}
	return append(list, one)
}

// explained shows where a field comes from.
func (o *source) explained(e *element) ExplainedField {
	one := ExplainedField{Field: o.name}
	for i := range o.at {
		v := o.at[i].find(e)
		if o.join.Set { // of all
			one.Raw = strings.TrimPrefix(one.Raw+" "+v.Raw(), " ")
			one.Path = strings.Join(o.paths, ", ")
			continue
		}
		if one.Path, one.Raw = o.paths[min(i, len(o.paths)-1)], v.Raw(); v.Present() && !o.isNull(v) {
			break
		}
	}
	one.Raw = shorten(one.Raw)
	return one
}

// summary shows how many responses there are, and the last of them, since all would
// fill the screen.
func summary(list []Response) string {
	if len(list) == 0 {
		return "0 responses"
	}
	last := list[len(list)-1]
	return fmt.Sprintf("%d responses, the last: %s | %s | %s",
		len(list), shorten(last.Content), last.ResponderType.String, last.CreatedAt.Format(time.RFC3339))
}

// explainedBytes is how much of a raw value is shown.
const explainedBytes = 120

// shorten keeps the first bytes of a text, and cuts at a rune's edge.
func shorten(s string) string {
	if len(s) <= explainedBytes {
		return s
	}
	n := explainedBytes
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}

// countPaths counts which paths lead somewhere in a record, response or reply. A path with a # in it
// does not count where its array is empty.
func (x *Explainer) countPaths(in string, v jsontree.Value) {
	for i := range x.Paths {
		p := &x.Paths[i]
		if p.In != in || p.Path == "@this" {
			continue
		}
		kind := kindAt(v, p.Path)
		if before, _, several := strings.Cut(p.Path, jsontree.Each); several && !strings.Contains(p.Path, "(") {
			if v.At(before+jsontree.Each).Len() == 0 {
				continue // there was nothing to look in
			}
			kind = jsontree.Missing
			v.At(p.Path).Scalars("", func(string) { kind = jsontree.Text })
		} else if p.harm == harmIDs && kind == jsontree.Object {
			kind = jsontree.Missing // unless there is an id in it
			x.at(p.Path).eachID(v, func(id string) {
				if strings.TrimSpace(id) != "" {
					kind = jsontree.Object
				}
			})
		}
		p.Of++
		if kind != jsontree.Missing {
			p.Found++
		}
		if kind == jsontree.Null {
			p.Null++
		}
	}
}

// at compiles a path of the configuration, which was found to be right.
func (x *Explainer) at(path string) *compiledPath {
	to, _ := jsontree.CompilePath(path)
	return &compiledPath{Path: to, xml: x.Format.XML}
}

// kindAt is the kind of what is at a path: null, too, if an object on the way is.
func kindAt(v jsontree.Value, path string) jsontree.Kind {
	if kind := v.At(path).Kind(); kind != jsontree.Missing {
		return kind
	}
	for _, name := range namesOf(path, false) {
		if v = v.Member(name); v.Kind() == jsontree.Null {
			return jsontree.Null
		}
	}
	return jsontree.Missing
}

// namesOf returns the names that a path begins with, see [jsontree.Path.Names].
func namesOf(path string, each bool) []string {
	p, _ := jsontree.CompilePath(path)
	return p.Names(each)
}

// Finish explains what all replies together tell: which paths led somewhere, what no path
// looks at, which texts had ids in them. It is called once, after the last reply; only
// then are the ids of all records known.
func (x *Explainer) Finish() {
	x.completeStages()
	x.Unfit = x.Foreign
	for _, n := range x.Skipped {
		x.Unfit += n
	}
	for _, record := range x.records {
		x.countPaths("records", record)
	}
	for i := range x.Paths {
		p := &x.Paths[i]
		found := slices.ContainsFunc(x.Paths, func(other PathFound) bool { return other.Key == p.Key && other.Found > 0 })
		if p.Of > 0 && !found {
			p.Doubt = p.harm
		}
	}
	x.unused()
	x.doubts()
	x.removeIDs()
	for i := range x.Records {
		r := &x.Records[i]
		at := slices.Index(x.recordNumbers, r.Number)
		for k := range r.Fields {
			switch f := &r.Fields[k]; {
			case f.mayContainIDs:
				f.Mapped, _ = x.ids.Clean(f.Mapped)
			case f.Field == "responses" && f.Problem == "" && at >= 0 && at < len(x.List): // of a reply that broke off there is no list
				f.Mapped = summary(x.List[at].Responses)
			}
		}
	}
}

// completeStages takes the records that still wait, without what does not come for them.
func (x *Explainer) completeStages() {
	for x.stageIndex < len(x.plan.stages) {
		s := x.plan.stages[x.stageIndex]
		if x.Failed != nil && len(x.waiting) > 0 {
			x.Violations = append(x.Violations, RawViolation{Violation: Violation{x.waiting[0].number, s.name, x.Failed.Error()}})
			if s.single { // and no record can be shown
				return
			}
			x.Failed = nil
		}
		for i := range x.waiting {
			if s.second != nil && !s.single {
				x.waiting[i].id = "" // no responses are none that were asked for
			}
		}
		_ = x.completeStage()
	}
}

// eachText visits the texts of all records that may hold an internal id.
func (x *Explainer) eachText(visit func(record int, t *textField, s string)) {
	for i := range x.List {
		x.plan.eachText(&x.List[i], func(t *textField, s *string) { visit(x.recordNumbers[i], t, *s) })
	}
}
