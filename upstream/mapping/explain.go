package mapping

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

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
	// Refusal is what a caller's list would have ended with at the first record that cannot be in it; nil: none ends it.
	Refusal *Error `json:"-"`
	Unfit   int    `json:"-"` // records that break a rule, or are of another account or of none
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
	// Doubt says why the list is doubtful, if it is: the path is one that hides
	// its mistake, and nothing was there, nor at another path of the same key.
	Doubt string `json:"doubt,omitempty"`
	hides string
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

// Explainer maps the replies of a list and notes everything about each record. It goes on
// where the mapping stops, because a person wants to see every mistake at once. What a
// caller would get, where the list is not refused, is its List after Finish. It is not safe
// for concurrent use.
type Explainer struct {
	*Builder // which tells of each record
	Explanation

	show     int      // records field by field
	numbers  []int    // of the records that the inquiries of List are
	answered int      // of the inquiries that responses are asked for, those whose came
	left     []int    // those that leave it, because their responses are wrong
	raw      []string // all records
	longest  int      // list of responses
}

// Explainer prepares to explain the list of a request, showing so many records
// field by field.
func (p *Plan) Explainer(want Request, show int) *Explainer {
	x := &Explainer{
		Builder: p.NewBuilder(Request{Account: want.Account}), show: show,
		Explanation: Explanation{
			Records: []ExplainedRecord{}, Violations: []Violation{}, InternalIDs: []QuotedIDs{}, Unused: []UnusedPath{}, Paths: []PathFound{},
			Removed: RemovedTexts{Cuts: []Cut{}}, Uncovered: []Uncovered{}, Doubts: []Doubt{},
			Owner: OwnerCheck{Path: p.ownerKey, Missing: []int{}, Foreign: []int{}},
		},
	}
	for _, u := range p.uses {
		if !u.only {
			x.Paths = append(x.Paths, PathFound{Key: u.key, Path: u.path, In: u.in, hides: u.hides})
		}
	}
	x.notes = x
	return x
}

// Take explains one reply, and returns how many records it has. An error is an
// [*Error]: the reply is no list, and explained as far as it could be read.
func (x *Explainer) Take(body string) (records int, err error) {
	x.Bytes += len(body)
	if records, err = x.Builder.Take(body); err == nil {
		x.Replies++
		x.look("replies", strings.TrimPrefix(body, "\ufeff"))
	}
	return records, err
}

// DetailBatches are the ids of the first records, at most so many, that details are
// asked for. AddDetails explains these; without details, none could be asked for.
func (x *Explainer) DetailBatches(most int) [][]string {
	n := min(len(x.waiting), most)
	x.waiting, x.keys = x.waiting[:n], x.keys[:n]
	return x.Builder.DetailBatches()
}

// Batches are [Builder.Batches] of the first inquiries, at most so many.
func (x *Explainer) Batches(most int) [][]string {
	x.secondIDs = x.secondIDs[:min(len(x.secondIDs), most)]
	return x.Builder.Batches()
}

// AddResponses takes the replies to the second requests for the batches. err says why
// they cannot be had; it is returned, and shown at the first record that lacks them.
func (x *Explainer) AddResponses(subs []*Builder, err error) error {
	if err == nil {
		for _, sub := range subs {
			x.longest = max(x.longest, sub.Seen)
			for _, raw := range sub.Samples {
				x.look("responses", raw)
			}
		}
		err = x.Builder.AddResponses(subs)
	}
	if err != nil && x.answered < len(x.secondIDs) {
		x.noteResponse(violation{"responses", err.Error()})
	}
	if err == nil {
		x.numbers = slices.DeleteFunc(x.numbers, func(n int) bool { return slices.Contains(x.left, n) })
	}
	return err
}

// noteResponse adds that the responses of the next inquiry came, or what is wrong with them,
// to its record if that is shown. Finish says what they are.
func (x *Explainer) noteResponse(bad violation) {
	number, id, field := x.numbers[x.answered], x.secondIDs[x.answered], cmp.Or(bad.field, "responses")
	if bad.why != "" {
		x.violate(number, field, bad.why)
		x.left = append(x.left, number)
	}
	x.answered++
	for i := range x.Records {
		if r := &x.Records[i]; r.Number == number {
			r.Fields = append(r.Fields, ExplainedField{Field: field, Path: x.plan.Second.idPath + " = " + shownID(id), Problem: bad.why})
		}
	}
}

// violate notes a reason to refuse a record.
func (x *Explainer) violate(record int, field, why string) {
	x.Violations = append(x.Violations, Violation{record, field, why})
}

// noteRecord is told of each record that the mapping judged. Whose it is is noted by its number
// only: the owner of a foreign record is somebody else's name.
func (x *Explainer) noteRecord(f *jsonwalk.Frame, fate fate, bad violation) {
	x.Items++
	p, early := x.plan, x.plan.collect != nil && !x.merging
	if bad.field == "record" || bad.field == "details" {
		if x.violate(x.number, bad.field, bad.why); early || bad.field == "record" {
			return
		}
	}
	x.raw, x.longest = append(x.raw, f.Element), max(x.longest, x.came)
	if r := p.responses; r != nil && p.Second == nil {
		jsonwalk.Lookup(f.Element, r.path).Each(func(response jsonwalk.Value) bool {
			found := true
			if r.entries != nil {
				response, found = r.entries.entry(&jsonwalk.Frame{Element: response.Raw, Tables: f.Tables})
			}
			if found {
				x.look("responses", response.Raw)
			}
			return true
		})
	}
	switch why := x.foreign(f); {
	case p.owner == nil:
	case why == whyNoOwner:
		x.Owner.Missing = append(x.Owner.Missing, x.number)
	case why == whyStranger:
		x.Owner.Foreign = append(x.Owner.Foreign, x.number)
		if strings.EqualFold(p.owner.first(f).String(), x.want.Account) {
			x.Owner.Case++
		}
	default:
		x.Owner.Matches++
	}
	if p.items.where.unmet(f, early) != nil {
		x.Excluded++
		return
	}
	if early { // a stranger's: its detail is not asked for
		return
	}
	fields, told := x.fields(f, bad), false
	if x.Items <= x.show {
		x.Records = append(x.Records, ExplainedRecord{x.number, fields})
	}
	for _, one := range fields {
		if one.Problem != "" {
			told = true
			x.violate(x.number, one.Field, one.Problem)
		}
	}
	if fate == refused && !told && bad.field != "details" {
		x.violate(x.number, bad.field, bad.why)
	}
	if fate == taken {
		x.numbers = append(x.numbers, x.number)
	}
}

// publicTime is the notation of the public record.
const publicTime = "2006-01-02T15:04:05.000Z07:00"

// fields shows every public field of a record: the path that counts, the last if nothing
// is at any, and what is behind it.
func (x *Explainer) fields(f *jsonwalk.Frame, bad violation) (list []ExplainedField) {
	for _, d := range append(x.plan.texts(), x.plan.created) {
		one := ExplainedField{Field: d.name, guarded: d.time == nil && d.guarded()}
		for i, path := range d.paths {
			v := jsonwalk.Lookup(f.Element, path)
			if d.looked {
				v = d.sources[i].find(f)
			}
			if one.Path, one.Raw = path, shorten(v.Raw); v.Present() {
				break
			}
		}
		if d.fixed.Set {
			one.Path = "(const)"
		}
		if d.time != nil {
			at, why := d.moment(f)
			if one.Problem = why; why == "" {
				one.Mapped = at.Format(publicTime)
			}
		} else if s, _, why := d.text(f); why != "" {
			one.Problem = why
		} else if one.Mapped = "null"; s.Valid {
			one.Mapped = s.String
		}
		list = append(list, one)
	}
	if p := x.plan.responses; p != nil && x.plan.Second == nil {
		if x.broken.why != "" {
			bad = x.broken
		}
		one := ExplainedField{Field: "responses", Path: p.path, Raw: shorten(jsonwalk.Lookup(f.Element, p.path).Raw)}
		if strings.HasPrefix(bad.field, "responses") {
			one.Field, one.Problem = bad.field, bad.why
		}
		list = append(list, one)
	}
	return list
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

// look counts what is in one record, response or reply. Of a path with a # in it only
// elements count that there are: an empty array could not have had it.
func (x *Explainer) look(in, raw string) {
	for i := range x.Paths {
		p := &x.Paths[i]
		if p.In != in || p.Path == "@this" {
			continue
		}
		kind := kindAt(raw, p.Path)
		if before, _, several := strings.Cut(p.Path, jsonwalk.Each); several && !strings.Contains(p.Path, "(") {
			if n := jsonwalk.Lookup(raw, before+jsonwalk.Each).Raw; n == "" || n == "0" || n == "null" {
				continue // there was nothing to look in
			}
			kind = jsonwalk.Missing
			jsonwalk.Lookup(raw, p.Path).Scalars("", func(string) { kind = jsonwalk.Text })
		} else if p.hides == hidesIDs && kind == jsonwalk.Object {
			kind = jsonwalk.Missing // unless there is an id in it
			source{path: p.Path, xml: x.plan.Format.XML}.each(raw, func(id string) {
				if strings.TrimSpace(id) != "" {
					kind = jsonwalk.Object
				}
			})
		}
		p.Of++
		if kind != jsonwalk.Missing {
			p.Found++
		}
		if kind == jsonwalk.Null {
			p.Null++
		}
	}
}

// kindAt is the kind of what is at a path: null, too, if an object on the way is.
func kindAt(raw, path string) jsonwalk.Kind {
	kind := jsonwalk.Lookup(raw, path).Kind
	keys, simple := jsonwalk.SimplePath(path, false)
	for n := len(keys) - 1; simple && kind == jsonwalk.Missing && n > 0 && !strings.Contains(path, `\`); n-- {
		if jsonwalk.Lookup(raw, strings.Join(keys[:n], ".")).Kind == jsonwalk.Null {
			kind = jsonwalk.Null
		}
	}
	return kind
}

// Finish explains what all replies together tell: which paths led somewhere, which
// texts quote ids, what no path looks at. It is called once, after the last reply; only
// then are the ids of all records known.
func (x *Explainer) Finish() {
	x.Unfit = x.Foreign
	for _, n := range x.Skipped {
		x.Unfit += n
	}
	for _, raw := range x.raw {
		x.look("records", raw)
	}
	for i := range x.Paths {
		p := &x.Paths[i]
		found := slices.ContainsFunc(x.Paths, func(other PathFound) bool { return other.Key == p.Key && other.Found > 0 })
		if p.Of > 0 && !found {
			p.Doubt = p.hides
		}
	}
	x.quotes()
	x.unused()
	x.doubts()
	x.removeIDs()
	for i := range x.Records {
		r := &x.Records[i]
		at := slices.Index(x.numbers, r.Number)
		for k := range r.Fields {
			switch f := &r.Fields[k]; {
			case f.guarded:
				f.Mapped, _ = x.ids.Clean(f.Mapped)
			case f.Field == "responses" && f.Problem == "" && at >= 0:
				f.Mapped = summary(x.List[at].Responses)
			}
		}
	}
}

// roundNumbers are the lengths at which systems cut lists.
var roundNumbers = []int{10, 20, 25, 50, 100, 200, 250, 500, 1000}

// doubts says what a list that would be served hides.
func (x *Explainer) doubts() {
	seen := map[string]bool{}
	add := func(path string, whole bool, format string, args ...any) {
		if d := (Doubt{path, fmt.Sprintf(format, args...), whole}); !seen[d.Text] {
			seen[d.Text] = true
			x.Doubts = append(x.Doubts, d)
		}
	}
	for _, path := range x.Paths {
		if path.Doubt != "" {
			add(path.Path, true, "%s: %s", path, path.Doubt)
		}
	}
	if x.answered > 0 && x.longest == 0 {
		add(x.plan.responses.path, true, "no response came for any of %d records: %s", x.answered, hidesResponses)
	}
	if x.Items > 0 && x.Excluded == x.Items {
		add("where", true, "where shows none of %d records", x.Items)
	}
	for _, id := range x.InternalIDs {
		if id.Short > 0 {
			add(id.Path, false, "%s has ids of one or two characters: each such word is cut out of all texts", id.Path)
		}
	}
	p := x.plan
	const cutThere = ", a round number%s: are lists cut there?"
	if p.Paging.Style == PageNone && slices.Contains(roundNumbers, x.Items) {
		add(p.items.path, false, "the list has exactly %d records"+cutThere, x.Items, ", and no paging is configured")
	}
	if r := p.responses; r != nil && (p.Second == nil || p.Second.Paging.Style == PageNone) && slices.Contains(roundNumbers, x.longest) {
		add(r.path, false, "the longest list of responses has exactly %d"+cutThere, x.longest, "")
	}
	numbers := map[string]int{}
	for i, raw := range x.raw {
		if first := numbers[raw]; first > 0 {
			add(p.items.path, false, "record %d is alike to record %d to the byte: is it one record twice?", i+1, first)
			break
		}
		numbers[raw] = i + 1
	}
	if x.Owner.Case > 0 {
		add("owner", false, "%d records have an owner that differs from the account in capitals only: these are two accounts", x.Owner.Case)
	}
	code := func(field, value string) {
		if value != "" && strings.Trim(value, "0123456789") == "" {
			add(field, false, "%s is the bare code %s: say what it means under values", field, shorten(value))
		}
	}
	for _, inq := range x.List {
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
				add(f.Path, false, "%s is a truth value and is served as the text %s", f.Field, f.Raw)
			}
		}
	}
}

// unused lists the paths of the records that lie neither on the way to nor below a path
// of the mapping: what a person may have forgotten.
func (x *Explainer) unused() {
	used, kinds := x.plan.usedPaths(), map[string]uint8{}
	for _, raw := range x.raw {
		shapes(jsonwalk.FromJSON(raw), "", 0, func(path string, k jsonwalk.Kind) { kinds[path] |= 1 << k })
	}
	for path, set := range kinds {
		if slices.ContainsFunc(used, func(u string) bool { return below(path, u) || below(u, path) }) {
			continue
		}
		u := UnusedPath{Path: path}
		for k := jsonwalk.Null; k <= jsonwalk.Array; k++ {
			if set&(1<<k) != 0 {
				u.Types = append(u.Types, k.String())
			}
		}
		x.Unused = append(x.Unused, u)
	}
	slices.SortFunc(x.Unused, func(a, b UnusedPath) int { return strings.Compare(a.Path, b.Path) })
}

// shapes visits the paths of all values in a record that are no objects or arrays, or empty
// ones. Elements of arrays share one path with a # in it. What is deep counts as one value.
func shapes(v jsonwalk.Value, path string, depth int, visit func(path string, k jsonwalk.Kind)) {
	const deepest = 8
	empty := true
	inner := func(key string, item jsonwalk.Value) {
		empty = false
		shapes(item, strings.TrimPrefix(path+"."+key, "."), depth+1, visit)
	}
	if depth < deepest {
		v.Members(func(key string, item jsonwalk.Value) { inner(shapeKey(key), item) })
		if v.Kind == jsonwalk.Array {
			v.Each(func(item jsonwalk.Value) bool { inner(jsonwalk.Each, item); return true })
		}
	}
	if empty && path != "" {
		visit(path, v.Kind)
	}
}

// shapeKey gives the name of a key. One that is itself data, such as an id in an
// object that is keyed by ids, is not named: it would make a path of its own for
// every record.
func shapeKey(key string) string {
	digits := 0
	for i := range len(key) {
		if key[i] >= '0' && key[i] <= '9' {
			digits++
		}
	}
	if len(key) > 64 || digits > 5 || digits > 0 && strings.Trim(key, "0123456789abcdefABCDEF-") == "" || strings.ContainsAny(key, "\r\n") {
		return "*"
	}
	return key
}

// below tells whether a path is another one or lies within it.
func below(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent) && path[len(parent)] == '.'
}

// usedPaths gives the start of every path of the mapping up to the first part
// that is more than a key.
func (p *Plan) usedPaths() (used []string) {
	responses := "" // the path of their items, if all on the way is plain
	if r := p.responses; r != nil && p.Second == nil && r.entries == nil && plainStart(r.path) == r.path {
		responses = r.path
	}
	for _, u := range p.uses {
		path := u.path
		switch {
		case u.in == "replies" || u.in == "records" && path == responses:
			continue
		case u.in == "responses" && responses == "":
			continue
		case u.in == "responses":
			path = responses + ".#." + path
		}
		if start := strings.TrimSuffix(plainStart(path), "."); start != "" {
			used = append(used, start)
		}
	}
	return used
}

// plainStart cuts a path before its first query, modifier, index or pipe. What lies
// below it cannot be told, so all of it counts as used.
func plainStart(path string) string {
	parts := strings.Split(path, ".")
	for i, part := range parts {
		if part == jsonwalk.Each && i < len(parts)-1 {
			continue
		}
		if strings.ContainsAny(part, `@|#({[*?!\`) || part != "" && strings.Trim(part, "0123456789") == "" {
			return strings.Join(parts[:i], ".")
		}
	}
	return path
}

// QuotedIDs is one configured path of internal ids.
type QuotedIDs struct {
	Path   string   `json:"path"`
	Found  int      `json:"found"`
	Short  int      `json:"short"`  // of these: of one or two characters, which many texts have
	Quoted []string `json:"quoted"` // "record 3 content": texts that had one of its ids in them
}

// quotes finds the texts that have ids of a path in them, one path after the other.
func (x *Explainer) quotes() {
	for _, u := range x.plan.uses {
		if u.in != "records" || u.hides != hidesIDs {
			continue
		}
		id := QuotedIDs{Path: u.path, Quoted: []string{}}
		var set leakguard.Set
		for _, raw := range x.raw {
			source{path: u.path, xml: x.plan.Format.XML}.each(raw, func(text string) {
				if text = strings.TrimSpace(text); text == "" {
					return
				}
				if id.Found++; utf8.RuneCountInString(leakguard.Significant(text)) < 3 {
					id.Short++
				}
				set.Add(text)
			})
		}
		x.eachText(func(record int, d *field, s string) {
			if _, n := set.Clean(s); n > 0 {
				id.Quoted = append(id.Quoted, "record "+strconv.Itoa(record)+" "+d.name)
			}
		})
		slices.Sort(id.Quoted)
		id.Quoted = slices.Compact(id.Quoted)
		x.InternalIDs = append(x.InternalIDs, id)
	}
}

// eachText visits the texts of all records that may hold an internal id.
func (x *Explainer) eachText(visit func(record int, d *field, s string)) {
	for i := range x.List {
		x.plan.eachText(&x.List[i], func(d *field, s *string) { visit(x.numbers[i], d, *s) })
	}
}
