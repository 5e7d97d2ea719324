package mapping

import (
	"errors"
	"maps"
	"strings"
	"unicode/utf8"

	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/leakguard"
)

// The frames of a reply: each level of lists has its own values.
const (
	frameReply = iota
	frameRecord
	frameResponse
	frameCount
)

// Reply turns the replies that make up one list into inquiries. It belongs to one
// fetch and is not safe for concurrent use.
type Reply struct {
	List    []Inquiry // never nil; in the order of the legacy
	Counts            // of what was met
	Removed map[string]int
	// KeepSamples is how many records, or responses of a second request, are kept
	// in Samples as they came, refused ones too. 0: none.
	KeepSamples int
	Samples     []string

	plan      *Plan
	want      Request
	walker    *jsonwalk.Walker
	texts     jsonwalk.Texts
	ids       leakguard.Set
	size      int             // of the current reply in bytes
	body      string          // the last reply
	items     jsonwalk.Value  // of the last reply
	responses []Response      // of all records; each record has a part of it
	first     int             // the current record's first response
	came      int             // responses of the current record, those that are not shown included
	whole     map[saying]bool // what has been read beside responses and says that they are all
	broken    violation       // of the current record's responses
	refused   violation       // why the last refused record was
	keys      []string        // of each response's inquiry, in a batch
	listed    []listed        // records that wait for their details, or details
	merging   bool            // their details are there
	noDetail  bool            // but that of the current record
	secondIDs []string        // of each inquiry of the list, if its responses come by a second request
	defaulted [maxTexts]int   // records, or responses, without a value of each text
	err       *Error
}

// Counts are what a reply had in it besides good records.
type Counts struct {
	Seen    int            // records, those that were skipped or filtered included
	Skipped map[string]int // records that were refused, by field
	Foreign int            // records of another account
	Hidden  int            // records that where does not show
}

// EachDefaulted visits the texts that had nothing, or null, at their paths, with how
// often: the default was taken, or null.
func (r *Reply) EachDefaulted(visit func(field string, n int)) {
	texts := r.plan.texts()
	if p := r.plan.responses; p != nil {
		texts = append(texts, p.content, p.role)
	}
	for _, t := range texts {
		if n := r.defaulted[t.nth]; n > 0 {
			visit(t.name, n)
		}
	}
}

// violation is one reason why a record cannot be accepted. Its zero value is
// none.
type violation struct{ field, why string }

// NewReply prepares the mapping of one list.
func (p *Plan) NewReply(want Request) *Reply {
	r := &Reply{plan: p, want: want, List: []Inquiry{}}
	r.ids.Patterns = p.idPatterns
	r.walker = jsonwalk.NewWalker(r, &r.ids, &r.texts, p.sizes[:])
	return r
}

// Take maps one reply, adds its records to the list, and returns how many it had.
// The strings of the inquiries share memory with body. An error is an [*Error];
// then the list is not to be used.
func (r *Reply) Take(body string) (records int, err error) {
	before, kept, samples := r.Counts, len(r.List), len(r.Samples)
	before.Skipped = maps.Clone(before.Skipped)
	body = strings.TrimPrefix(body, "\ufeff") // .NET writes a mark that RFC 8259 lets us ignore
	failed := r.read(body)
	if failed == nil {
		return r.Seen - before.Seen, nil
	}
	if !utf8.ValidString(body) {
		// Whatever else is wrong with it: nothing of it has been seen.
		r.Counts, r.List, r.Samples = before, r.List[:kept], r.Samples[:samples]
		failed = refusal("json", "the reply is not UTF-8")
	}
	return 0, failed
}

// read walks one reply and says whether it is a list. Conditions and tables come first,
// since records are mapped while the text is walked.
func (r *Reply) read(body string) *Error {
	r.size, r.body, r.items = len(body), body, jsonwalk.Value{}
	r.walker.Clear(frameReply)
	if err := r.expected(body); err != nil {
		return err
	}
	if err := r.indexTables(body); err != nil {
		return err
	}
	at := &r.plan.reply
	if err := r.walk(body, at.root, frameReply); err != nil {
		return err
	}
	if r.plan.single != "" {
		return r.takeDetail(body)
	}
	var items jsonwalk.Value
	if at.path == "" {
		items = r.walker.Frame(frameReply).Value(at.slot)
	} else if items = jsonwalk.Lookup(body, at.path); items.Kind == at.kind {
		if err := r.walk(items.Raw, at.items, frameRecord); err != nil {
			return err
		}
	}
	r.items = items
	// An empty list is one thing, a reply that is no list another.
	switch {
	case items.Kind == at.kind || items.Kind == jsonwalk.Missing && at.optional || emptyObject(items, at.kind):
		return nil
	case items.Kind == jsonwalk.Missing:
		return refusal("items", "the reply has nothing at the path of items")
	}
	return refusal("items", "the value at the path of items is no %s", at.kind)
}

// emptyObject tells whether a value is the empty array that PHP writes for an object
// without members.
func emptyObject(v jsonwalk.Value, wanted jsonwalk.Kind) bool {
	return wanted == jsonwalk.Object && v.Kind == jsonwalk.Array && strings.Trim(v.Raw, "[] \t\r\n") == ""
}

// walk reads a text whose elements begin with the given frame. It may be called while
// another text is walked.
func (r *Reply) walk(s string, root *jsonwalk.Node, first int) *Error {
	switch err := r.walker.Walk(s, root, first); {
	case err == nil:
		return nil
	case errors.Is(err, jsonwalk.ErrStopped):
		return r.err
	default:
		return refusal("json", "%w", err)
	}
}

// Begin implements jsonwalk.Sink. What the walk meets until End is of this record or
// response.
func (r *Reply) Begin(frame int) {
	if frame == frameRecord {
		r.first, r.came, r.broken = len(r.responses), 0, violation{}
	} else {
		r.came++
	}
}

// End implements jsonwalk.Sink.
func (r *Reply) End(frame int, element *jsonwalk.Frame) bool {
	if frame == frameRecord {
		return r.record(element)
	}
	return r.response(element)
}
