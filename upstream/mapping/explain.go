package mapping

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/leakguard"
)

// Explanation is what a list looks like through the mapping, for a person who
// writes or mends a configuration. Unlike everything else here it holds content
// and internal ids: it is for the operator's screen, not for logs or callers.
type Explanation struct {
	Items       int               `json:"items"`              // records in all replies that were read
	Replies     int               `json:"replies"`            // pages that were read, without those of responses
	Bytes       int               `json:"bytes"`              // of these
	Excluded    int               `json:"excluded,omitempty"` // records that where does not show
	Records     []ExplainedRecord `json:"records"`
	Violations  []Violation       `json:"violations"`
	Owner       OwnerCheck        `json:"owner"`
	InternalIDs []QuotedIDs       `json:"internal_ids"`
	Removed     RemovedTexts      `json:"removed"`
	Uncovered   []Uncovered       `json:"uncovered"` // what looks like an internal id in the texts and stays
	Unused      []UnusedPath      `json:"unused"`    // fields of the records that no part of the mapping looks at
	Paths       []PathFound       `json:"paths"`     // all configured paths
	Doubts      []Doubt           `json:"doubts"`    // why a list that would be served may not be what it seems
}

// Doubt is one reason to look again at a list that would be served.
type Doubt struct {
	Path string `json:"path"` // of the mapping, or the key that it is about
	Text string `json:"text"`
	// Whole: it is about all records together, so that a part of a list may be said to have it wrongly.
	Whole bool `json:"whole"`
}

// ExplainedRecord shows one record field by field.
type ExplainedRecord struct {
	Number int              `json:"number"` // from 1
	Fields []ExplainedField `json:"fields"`
}

// ExplainedField is the way of one value.
type ExplainedField struct {
	Field   string `json:"field"`
	Path    string `json:"path"`   // the configured one that counted
	Raw     string `json:"raw"`    // JSON as it came, shortened; empty: nothing there
	Mapped  string `json:"mapped"` // as the public record has it, without internal ids; null for null
	Problem string `json:"problem,omitempty"`
	guarded bool   // the legacy decides on the text, which may hold ids
}

// Violation is one reason to refuse a record.
type Violation struct {
	Record  int    `json:"record"`
	Field   string `json:"field"`
	Problem string `json:"problem"`
}

// OwnerCheck is the outcome of the comparison of owners.
type OwnerCheck struct {
	Path    string `json:"path"` // empty: not checked
	Matches int    `json:"matches"`
	Missing []int  `json:"missing"` // numbers of records without an owner
	Foreign []int  `json:"foreign"` // numbers of records of somebody else
	Case    int    `json:"case"`    // of these: records whose owner differs in capitals only
}

// QuotedIDs is one configured path of internal ids.
type QuotedIDs struct {
	Path   string   `json:"path"`
	Found  int      `json:"found"`
	Short  int      `json:"short"`  // of these: of one or two characters, which many texts have
	Quoted []string `json:"quoted"` // "record 3 content": texts that had one of its ids in them
}

// UnusedPath is a path in the records.
type UnusedPath struct {
	Path  string   `json:"path"`
	Types []string `json:"types"`
}

// Explainer maps the replies of a list and notes everything about each record, as the
// sink between the walker and the mapping: an ordinary [Reply] knows nothing of it. It
// is not safe for concurrent use.
type Explainer struct {
	Explanation

	plan *Plan
	want Request
	show int // records

	whole   *Reply   // the list, by a plan that nothing ends early
	numbers []int    // of the records of its inquiries
	raw     []string // all records
	paths   *coverage
}

// Explainer prepares to explain the list of a request, showing so many records
// field by field. It goes on where the mapping stops, because a person wants to see
// every mistake at once.
func (p *Plan) Explainer(want Request, show int) *Explainer {
	lenient := *p
	lenient.owner, lenient.skipInvalid = nil, true
	x := &Explainer{
		plan: p, want: want, show: show, whole: lenient.NewReply(Request{Account: want.Account}), paths: p.coverage(),
		Explanation: Explanation{
			Records: []ExplainedRecord{}, Violations: []Violation{}, InternalIDs: []QuotedIDs{}, Unused: []UnusedPath{}, Paths: []PathFound{},
			Removed: RemovedTexts{Cuts: []Cut{}}, Uncovered: []Uncovered{}, Doubts: []Doubt{},
			Owner: OwnerCheck{Path: strings.Join(p.OwnerPaths, ", "), Missing: []int{}, Foreign: []int{}},
		},
	}
	x.whole.walker = jsonwalk.NewWalker(x, &x.whole.ids, &x.whole.texts, p.sizes[:])
	return x
}

// Take explains one reply, and returns how many records it has. An error is an
// [*Error]: the reply is no list, and nothing of it is explained.
func (x *Explainer) Take(body string) (records int, err error) {
	body = strings.TrimPrefix(body, "\ufeff")
	x.Bytes += len(body)
	err = x.undone(func() error { records, err = x.whole.Take(body); return err })
	if err == nil {
		x.Replies++
		look(x.paths.replies, body)
	}
	return records, err
}

// undone forgets what was noted while a part of the mapping ran that failed.
func (x *Explainer) undone(run func() error) error {
	before := *x
	err := run()
	if err != nil {
		*x = before
		x.whole.List = x.whole.List[:len(x.numbers)]
	}
	return err
}

// DetailBatches are the ids of the first records, at most so many, that details are
// asked for.
func (x *Explainer) DetailBatches(most int) [][]string {
	x.whole.listed = x.whole.listed[:min(len(x.whole.listed), most)]
	return x.whole.DetailBatches()
}

// AddDetails explains the records that [Explainer.DetailBatches] named, with the
// details in subs; nil: none could be asked for.
func (x *Explainer) AddDetails(subs []*Reply) error {
	return x.undone(func() error { return x.whole.AddDetails(subs) })
}

// CheckEnd is [Reply.CheckEnd].
func (x *Explainer) CheckEnd(paging PagingConfig, end End) error {
	return x.whole.CheckEnd(paging, end)
}

// Served are the inquiries that can be mapped and are the account's, without the ids in
// their texts: what a caller would get where the list is not refused. It is called
// after Finish. It is never nil.
func (x *Explainer) Served() []Inquiry {
	served := []Inquiry{}
	for i, inq := range x.whole.List {
		if n := x.numbers[i]; !slices.Contains(x.Owner.Foreign, n) && !slices.Contains(x.Owner.Missing, n) {
			served = append(served, inq)
		}
	}
	return served
}

// Finish explains what all replies together tell: which paths led somewhere, which
// texts quote ids, what no path looks at. It is called once, after the last reply; only
// then are the ids of all records known.
func (x *Explainer) Finish() {
	shapes := map[string]uint8{}
	for _, raw := range x.raw {
		jsonwalk.WalkShape(raw, func(path []byte, k jsonwalk.Kind) { shapes[string(path)] |= 1 << k })
		look(x.paths.records, raw)
	}
	x.quotes()
	x.unused(shapes)
	x.Paths = x.paths.found()
	x.doubts()
	x.removeIDs()
	for i := range x.Records {
		x.clean(&x.Records[i])
	}
}

// doubts says what a list that would be served hides.
func (x *Explainer) doubts() {
	add := func(path, format string, args ...any) {
		x.Doubts = append(x.Doubts, Doubt{Path: path, Text: fmt.Sprintf(format, args...)})
	}
	for _, path := range x.Paths {
		if path.Doubt != "" {
			x.Doubts = append(x.Doubts, Doubt{path.Path, path.String() + ": " + path.Doubt, true})
		}
	}
	if x.Items > 0 && x.Excluded == x.Items {
		x.Doubts = append(x.Doubts, Doubt{"where", fmt.Sprintf("where shows none of %d records", x.Items), true})
	}
	for _, id := range x.InternalIDs {
		if id.Short > 0 {
			add(id.Path, "%s has ids of one or two characters: each such word is cut out of all texts", id.Path)
		}
	}
	if x.Owner.Case > 0 {
		add("owner", "%d records have an owner that differs from the account in capitals only: these are two accounts", x.Owner.Case)
	}
	seen := map[string]bool{}
	code := func(field, value string) {
		if key := field + " " + value; value != "" && strings.Trim(value, "0123456789") == "" && !seen[key] {
			seen[key] = true
			add(field, "%s is the bare code %s: say what it means under values", field, shorten(value))
		}
	}
	for _, inq := range x.whole.List {
		code("status", inq.Status)
		code("inquiry_type", inq.InquiryType.String)
		for _, r := range inq.Responses {
			code("responses.responder_type", r.ResponderType.String)
		}
	}
	for _, r := range x.Records {
		for _, f := range r.Fields {
			if (f.Raw == "true" || f.Raw == "false") && f.Mapped == f.Raw && !seen[f.Field] {
				seen[f.Field] = true
				add(f.Path, "%s is a truth value and is served as the text %s", f.Field, f.Raw)
			}
		}
	}
}

// clean shows a record as it is without internal ids.
func (x *Explainer) clean(r *ExplainedRecord) {
	at := slices.Index(x.numbers, r.Number)
	for i := range r.Fields {
		switch f := &r.Fields[i]; {
		case f.guarded:
			f.Mapped, _ = x.whole.ids.Clean(f.Mapped)
		case f.Field == "responses" && f.Problem == "" && at >= 0:
			f.Mapped = summary(x.whole.List[at].Responses)
		}
	}
}

// Begin implements [jsonwalk.Sink].
func (x *Explainer) Begin(frame int) {
	x.whole.Begin(frame)
	if frame == frameRecord {
		x.whole.refused = violation{}
	}
}

// End implements [jsonwalk.Sink]: it has each element mapped, and then notes what became
// of it if it is a record.
func (x *Explainer) End(frame int, element *jsonwalk.Frame) bool {
	listed, mapped := len(x.whole.listed), len(x.whole.List)
	if !x.whole.End(frame, element) {
		return false
	}
	if frame == frameRecord && len(x.whole.listed) == listed { // else it waits for its detail
		x.Items++
		x.record(element, len(x.whole.List) > mapped)
	}
	return true
}

// record notes everything about a record that the mapping took, or refused.
func (x *Explainer) record(f *jsonwalk.Frame, taken bool) {
	switch {
	case x.plan.collect != nil && !x.whole.merging:
		x.violate("details", whyNoDetailID)
		return
	case !f.IsObject():
		x.violate("record", whyObject)
		return
	case x.whole.noDetail:
		x.violate("details", whyNoDetail)
	}
	x.raw = append(x.raw, f.Element)
	if p := x.plan.responses; p != nil && x.plan.Second == nil {
		v := jsonwalk.Lookup(f.Element, p.itemsPath)
		if p.entries != nil {
			array, _ := p.entries.of(f, v)
			v = jsonwalk.FromJSON(array)
		}
		v.Each(func(response jsonwalk.Value) bool { look(x.paths.responses, response.Raw); return true })
	}
	x.checkOwner(f)
	if !holds(x.plan.where, f) {
		x.Excluded++
		return
	}
	fields := x.fields(f, taken)
	if x.Items <= x.show {
		x.Records = append(x.Records, ExplainedRecord{x.Items, fields})
	}
	for _, f := range fields {
		if f.Problem != "" {
			x.violate(f.Field, f.Problem)
		}
	}
	if taken {
		x.numbers = append(x.numbers, x.Items)
	}
}

// violate notes a reason to refuse the record that is being read.
func (x *Explainer) violate(field, problem string) {
	x.Violations = append(x.Violations, Violation{x.Items, field, problem})
}

// checkOwner notes whose record it is, by its number only: the owner of a foreign
// record is somebody else's name.
func (x *Explainer) checkOwner(f *jsonwalk.Frame) {
	if x.plan.owner == nil {
		return
	}
	v := firstOf(x.plan.owner, f)
	switch {
	case !v.Present() || !v.Scalar():
		x.Owner.Missing = append(x.Owner.Missing, x.Items)
	case v.String() == x.want.Account:
		x.Owner.Matches++
	default:
		x.Owner.Foreign = append(x.Owner.Foreign, x.Items)
		if strings.EqualFold(v.String(), x.want.Account) {
			x.Owner.Case++
		}
	}
}

// quotes finds the texts that have ids of a path in them, one path after the other.
func (x *Explainer) quotes() {
	for _, path := range x.plan.idPaths {
		if path == keyPath {
			continue
		}
		id := QuotedIDs{Path: path, Quoted: []string{}}
		var set leakguard.Set
		for _, raw := range x.raw {
			jsonwalk.Lookup(raw, path).Scalars(func(text string) {
				if id.Found++; len(text) < 3 {
					id.Short++
				}
				set.Add(text)
			})
		}
		for i := range x.whole.List {
			x.plan.eachText(&x.whole.List[i], func(t *textPlan, s *string) {
				if _, n := set.Clean(*s); n > 0 {
					id.Quoted = append(id.Quoted, "record "+strconv.Itoa(x.numbers[i])+" "+t.name)
				}
			})
		}
		slices.Sort(id.Quoted)
		id.Quoted = slices.Compact(id.Quoted)
		x.InternalIDs = append(x.InternalIDs, id)
	}
}

// Batches are [Reply.Batches] of the first inquiries, at most so many.
func (x *Explainer) Batches(most int) [][]string {
	x.whole.secondIDs = x.whole.secondIDs[:min(len(x.whole.secondIDs), most)]
	return x.whole.Batches()
}

// AddResponses takes the replies to the second requests for the batches. err says why
// they cannot be had; it is returned, and shown at the first record that lacks them.
func (x *Explainer) AddResponses(batches [][]string, subs []*Reply, err error) error {
	at := 0
	for i, ids := range batches {
		if err != nil {
			break
		}
		sub, end := subs[i], at+len(ids)
		for _, raw := range sub.Samples {
			look(x.paths.responses, raw)
		}
		x.whole.ids.Merge(&sub.ids)
		switch bad := sub.broken; {
		case x.plan.Second.batch > 0:
			err = deal(x.whole.List[at:end], ids, sub)
		case bad.why != "":
			x.Violations = append(x.Violations, Violation{x.numbers[at], bad.field, bad.why})
			x.showResponses(at, bad.field, bad.why)
		default:
			x.whole.List[at].Responses = sub.responses
		}
		for ; at < end && err == nil; at++ {
			x.showResponses(at, "responses", "")
		}
	}
	if err != nil && len(x.numbers) > at {
		x.Violations = append(x.Violations, Violation{x.numbers[at], "responses", err.Error()})
		x.showResponses(at, "responses", err.Error())
	}
	return err
}

// showResponses adds the responses to an inquiry, or what is wrong with them, to
// its record if that is shown. Finish says what they are.
func (x *Explainer) showResponses(at int, field, problem string) {
	for i := range x.Records {
		r := &x.Records[i]
		shown := slices.ContainsFunc(r.Fields, func(f ExplainedField) bool { return strings.HasPrefix(f.Field, "responses") })
		if r.Number == x.numbers[at] && !shown {
			r.Fields = append(r.Fields, ExplainedField{Field: field, Path: x.plan.Second.idPath + " = " + x.whole.secondIDs[at], Problem: problem})
		}
	}
}
