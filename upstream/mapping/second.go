package mapping

import (
	"strings"

	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsontree"
)

// SecondRequest is the compiled request for the details of records, or for their responses. It is read-only and safe for
// concurrent use.
type SecondRequest struct {
	Replies
	Name        string // of its stage
	Concurrency int    // requests at a time
	Missing     string // what a 403, 404 or 410 for one record means: empty: the record has none of what was asked for; skip: it is left out; otherwise the list fails

	id         identity      // of a record
	version    compiledPaths // of the version of a record; nil: records have none
	idOptional bool          // no request is made for a record without an id
	batch      int           // records per request; 0: one
	key        compiledPaths // in a batch: where an element has the id of its record
}

// identity is the values that identify a record, with their placeholders in second requests.
type identity []idValue

type idValue struct {
	placeholder string
	at          compiledPath
}

// idSeparator stands between several values in the one text that identifies a record.
const idSeparator = "\x00"

// bareID is the name of the member that a bare id becomes.
const bareID = "id"

// scalarID reads a value as an id: "" if absent, null or empty. single is false for what cannot be one.
func scalarID(v jsontree.Value) (id string, single bool) {
	if id = v.Plain(); id != "" && !v.Scalar() {
		return "", false
	}
	return id, true
}

// of returns the text that identifies a record; empty: a value is missing. single is false if a value cannot be an id.
func (all identity) of(e *element) (id string, single bool) {
	if len(all) == 1 && all[0].at.String() == bareID && e.Kind() != jsontree.Object {
		return scalarID(e.Value) // as the record that it becomes has it
	}
	for i, one := range all {
		text, single := scalarID(one.at.find(e))
		switch {
		case text == "":
			return "", single
		case len(all) > 1 && strings.Contains(text, idSeparator):
			return "", false
		case i > 0:
			id += idSeparator
		}
		id += text
	}
	return id, true
}

// paths returns the paths of the values, for display.
func (all identity) paths() string {
	paths := make([]string, len(all))
	for i, one := range all {
		paths[i] = one.at.String()
	}
	return strings.Join(paths, ", ")
}

// displayID returns an id as it is displayed.
func displayID(id string) string { return strings.ReplaceAll(id, idSeparator, ", ") }

// Batch is the records that one request is made for.
type Batch struct {
	IDs []string // of records
	// Version of the only record: while it is the same, so are the replies for it. Empty: it has none.
	Version string
}

// Request returns the request for a batch, and the attachment that takes its replies.
func (s *SecondRequest) Request(want Query, batch Batch) (PagedRequest, *Attachment) {
	values := address.Values{address.Account: {want.Account}, address.Secret: {want.Secret}}
	if s.batch > 0 {
		values[address.IDs] = batch.IDs
	} else {
		for i, value := range strings.SplitN(batch.IDs[0], idSeparator, len(s.id)) {
			values[s.id[i].placeholder] = []string{value}
		}
	}
	a := &Attachment{key: s.key}
	a.begin(&s.Replies, a.add)
	return PagedRequest{&s.request, values, true}, a
}

// Attachment collects what comes for the records of one batch.
type Attachment struct {
	reader
	key   compiledPaths
	parts []attachedPart
	// Missing is set if the legacy system has nothing for the record, see [SecondRequest].Missing.
	Missing bool
}

// attachedPart is a row, detail or response that belongs to a record.
type attachedPart struct {
	key    string // the id of the record, where it came in a batch
	value  jsontree.Value
	tables indexes // that its fields are looked up in
}

// Take reads one reply. The error is an [*Error]; the attachment must not be used after it.
func (a *Attachment) Take(body string) (Page, error) { return a.readPage(body) }

// CheckEnd refuses what is incomplete. The error is an [*Error].
func (a *Attachment) CheckEnd(end End) error { return a.checkEnd(end) }

// add keeps an element until it is attached to its record.
func (a *Attachment) add(e *element) *Error {
	double, err := a.countElement(e)
	if err == nil && !double {
		a.parts = append(a.parts, attachedPart{a.key.first(e).Plain(), e.Value, e.tables})
	}
	return err
}
