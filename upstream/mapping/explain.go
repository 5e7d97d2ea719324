package mapping

import (
	"slices"
	"strconv"
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/leakguard"
)

// Explanation is what one reply looks like through the mapping, for a person who
// writes or mends a configuration. Unlike everything else here it holds content
// and internal ids: it is for the operator's screen, not for logs or callers.
type Explanation struct {
	Items       int               `json:"items"`              // records in the reply
	Excluded    int               `json:"excluded,omitempty"` // records that where does not show
	Records     []ExplainedRecord `json:"records"`
	Violations  []Violation       `json:"violations"`
	Owner       OwnerCheck        `json:"owner"`
	InternalIDs []QuotedIDs       `json:"internal_ids"`
	Unused      []UnusedPath      `json:"unused"` // fields of the records that no part of the mapping looks at
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
	Mapped  string `json:"mapped"` // as the public record has it; null for null
	Problem string `json:"problem,omitempty"`
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
}

// QuotedIDs is one configured path of internal ids.
type QuotedIDs struct {
	Path   string   `json:"path"`
	Found  int      `json:"found"`
	Quoted []string `json:"quoted"` // "record 3 content": texts that had one of its ids in them
}

// UnusedPath is a path in the records.
type UnusedPath struct {
	Path  string   `json:"path"`
	Types []string `json:"types"`
}

// Explainer reads a reply record by record. It is not safe for concurrent use.
type Explainer struct {
	Explanation

	plan    *Plan
	lenient *Plan // the same, but nothing ends it early
	want    Request
	show    int // records

	last        *Reply    // the reply as the mapping has it
	list        []Inquiry // that could be mapped
	numbers     []int     // of their records
	firstID     string    // of the first of them, for its second request
	firstNumber int
}

// Explainer prepares to explain one reply to a request, showing so many records
// field by field. It goes on where the mapping stops, because a person wants to see
// every mistake at once.
func (p *Plan) Explainer(want Request, show int) *Explainer {
	lenient := *p
	lenient.owner, lenient.skipInvalid = nil, true
	return &Explainer{
		plan: p, lenient: &lenient, want: Request{Account: want.Account}, show: show,
		Explanation: Explanation{
			Records: []ExplainedRecord{}, Violations: []Violation{}, InternalIDs: []QuotedIDs{}, Unused: []UnusedPath{},
			Owner: OwnerCheck{Path: strings.Join(p.OwnerPaths, ", "), Missing: []int{}, Foreign: []int{}},
		},
	}
}

// Read explains a whole reply. An error is an [*Error]: the reply is no list.
func (x *Explainer) Read(body string) error {
	body = strings.TrimPrefix(body, "\ufeff")
	x.last = x.lenient.NewReply(x.want)
	if _, err := x.last.Take(body); err != nil {
		return err
	}
	if x.plan.Details == nil {
		x.explain(jsonwalk.Lookup(body, x.plan.itemsPath))
	}
	return nil
}

// DetailBatches are the ids of the first records that details are asked for.
func (x *Explainer) DetailBatches() [][]string {
	if x.last == nil || x.plan.Details == nil {
		return nil
	}
	x.last.listed = x.last.listed[:min(len(x.last.listed), explainedDetails)]
	return x.last.DetailBatches()
}

// explainedDetails is how many records are explained if each needs its detail.
const explainedDetails = 10

// AddDetails explains the records that [Explainer.DetailBatches] named, with the
// details in subs; nil: none could be asked for.
func (x *Explainer) AddDetails(subs []*Reply) error {
	details, err := x.last.dealDetails(subs)
	if err != nil {
		return err
	}
	records := make([]string, len(details))
	for i, one := range x.last.listed {
		text, err := x.plan.merge(one.raw, details[i])
		if err != nil {
			return err
		}
		records[i] = strings.TrimSuffix(text[1:], "]")
	}
	x.explain(jsonwalk.FromJSON("[" + strings.Join(records, ",") + "]"))
	return nil
}

// explain explains all records.
func (x *Explainer) explain(items jsonwalk.Value) {
	shapes := map[string]uint8{}
	items.Each(func(item jsonwalk.Value) bool {
		x.Items++
		x.record(item.Raw)
		jsonwalk.WalkShape(item.Raw, func(path []byte, k jsonwalk.Kind) { shapes[string(path)] |= 1 << k })
		return true
	})
	x.quotes(items)
	x.unused(shapes)
}

// Served are the inquiries that can be mapped and are the account's, without the ids
// in their texts: what a caller would get where the list is not refused. It is called
// once, at the end.
func (x *Explainer) Served() []Inquiry {
	served := []Inquiry{}
	x.last.RemoveIDs()
	for i, inq := range x.last.List[:min(len(x.last.List), len(x.numbers))] {
		if n := x.numbers[i]; !slices.Contains(x.Owner.Foreign, n) && !slices.Contains(x.Owner.Missing, n) {
			served = append(served, inq)
		}
	}
	return served
}

// CheckEnd is [Reply.CheckEnd] for a list without paging.
func (x *Explainer) CheckEnd(end End) error {
	if x.plan.Paging.Style != PageNone {
		return nil
	}
	end.Records, end.Pages = x.Items, 1
	return x.last.CheckEnd(x.plan.Paging, end)
}

// record maps one record and notes everything about it.
func (x *Explainer) record(raw string) {
	if !strings.HasPrefix(raw, "{") {
		x.violate("record", whyObject)
		return
	}
	r := x.lenient.NewReply(x.want)
	r.setTables(x.last.walker.Frame(frameReply).Tables)
	r.merging, r.noDetail = true, x.plan.Details != nil && jsonwalk.Lookup(raw, x.plan.as).Kind == jsonwalk.Missing
	if r.noDetail {
		x.violate("details", whyNoDetail)
	}
	root := x.lenient.reply.items
	if x.plan.Details != nil {
		root = x.plan.merged
	}
	if err := r.walk("["+raw+"]", root, frameRecord); err != nil {
		x.violate("record", err.Error())
		return
	}
	frame := r.walker.Frame(frameRecord)
	x.checkOwner(frame)
	if !holds(x.plan.where, frame) {
		x.Excluded++
		return
	}
	fields := x.fields(r, frame, raw)
	if x.Items <= x.show {
		x.Records = append(x.Records, ExplainedRecord{x.Items, fields})
	}
	for _, f := range fields {
		if f.Problem != "" {
			x.violate(f.Field, f.Problem)
		}
	}
	if len(r.List) == 0 {
		return
	}
	x.list, x.numbers = append(x.list, r.List[0]), append(x.numbers, x.Items)
	if x.firstID == "" && len(r.secondIDs) > 0 {
		x.firstID, x.firstNumber = r.secondIDs[0], x.Items
	}
}

// violate notes a reason to refuse the record that is being read.
func (x *Explainer) violate(field, problem string) {
	x.Violations = append(x.Violations, Violation{x.Items, field, problem})
}

// checkOwner notes whose record it is, by its number only.
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
	}
}

// quotes finds the texts that had ids of a path in them. Each path is tried on
// copies of the inquiries, since finding an id removes it.
func (x *Explainer) quotes(items jsonwalk.Value) {
	for _, path := range x.plan.idPaths {
		if path == keyPath {
			continue
		}
		id := QuotedIDs{Path: path, Quoted: []string{}}
		var set leakguard.Set
		items.Each(func(item jsonwalk.Value) bool {
			jsonwalk.Lookup(item.Raw, path).Scalars(func(text string) { id.Found++; set.Add(text) })
			return true
		})
		for i, inq := range x.list {
			inq.Responses = slices.Clone(inq.Responses)
			one := &Reply{plan: x.plan, ids: set, List: []Inquiry{inq}}
			one.RemoveIDs()
			for field := range one.Removed {
				id.Quoted = append(id.Quoted, "record "+strconv.Itoa(x.numbers[i])+" "+field)
			}
		}
		slices.Sort(id.Quoted)
		x.InternalIDs = append(x.InternalIDs, id)
	}
}

// SecondID is the id of the first inquiry whose responses come by a second request;
// empty if there is none, or if no record is shown that they could be added to.
func (x *Explainer) SecondID() string {
	if len(x.Records) == 0 {
		return ""
	}
	return x.firstID
}

// AddResponses shows the responses in sub as a field of the first record. err says
// why they cannot be had.
func (x *Explainer) AddResponses(sub *Reply, err error) {
	f := ExplainedField{Field: "responses", Path: x.plan.Second.idPath + " = " + x.firstID}
	switch {
	case err != nil:
		f.Problem = err.Error()
	case sub.broken.why != "":
		f.Field, f.Problem = sub.broken.field, sub.broken.why
	default:
		f.Mapped = summary(sub.responses)
	}
	if f.Problem != "" {
		x.Violations = append(x.Violations, Violation{x.firstNumber, f.Field, f.Problem})
	}
	x.Records[0].Fields = append(x.Records[0].Fields, f)
}
