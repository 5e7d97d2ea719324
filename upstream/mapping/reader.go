package mapping

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsonwalk"
	"inquiry-gateway/upstream/leakguard"
)

// items is where the items of a list are: the records, details or responses in a reply, or the
// responses in a record.
type items struct {
	path      string         // as it was written
	frame     int            // of each
	container locator        // of what holds them
	kind      jsonwalk.Kind  // of that: an array, or an object
	single    bool           // what is there is the only item
	optional  bool           // nothing there means an empty list
	way       []string       // the names that lead to them, as far as they are plain
	ownTree   *jsonwalk.Node // of what holds them, or of each entry, if the walker does not meet them on its way
	lookup    *lookup        // of a table, which the items only name; nil: they are the items themselves
	keyIDs    bool           // the names of the items are internal ids
	ids       []locator      // of internal ids that the walker does not meet
	where     Conditions     // that an item must meet to be shown
}

// keyPath stands among internal ids for the name under which an item is found.
const keyPath = "@key"

// itemsIn splits @values off the end of a path. gjson makes an empty array of
// it where nothing is, and then a reply that is an error would be an empty list.
func itemsIn(path string) (base string, keyed bool) {
	base, keyed = strings.CutSuffix(path, "@values")
	switch {
	case !keyed:
		return path, false
	case base == "":
		return "@this", true
	}
	return base[:len(base)-1], true
}

// wayTo are the names that a path begins with, up to the first part that is more than a name. With
// hashes, # counts as a name.
func wayTo(path string, hashes bool) (names []string) {
	for _, part := range jsonwalk.Segments(path) {
		name, simple := jsonwalk.SimplePath(part, hashes)
		if !simple {
			break
		}
		names = append(names, name...)
	}
	return names
}

// nonIDPrefix begins the names of members whose values are no ids: the attributes of an element of
// XML, such as its type. A path may name one of them all the same.
func (l locator) nonIDPrefix() string {
	if l.xml {
		return decode.Attribute
	}
	return ""
}

// eachID visits the ids in a value.
func (l locator) eachID(in jsonwalk.Value, visit func(string)) {
	in.At(l.path).Scalars(l.nonIDPrefix(), visit)
}

// element is a record, a response or a detail as it was read.
type element struct {
	*jsonwalk.Frame
	responses    []jsonwalk.Frame // of a record: those in it, whether they are shown or not
	container    jsonwalk.Value   // what has these
	problem      string           // why they cannot be used
	beforeDetail bool             // the detail of the record is not there yet
}

// reader reads the replies to one request, one after the other. It checks each text and what is
// expected of it, and walks it once. The internal ids in an element, and in the responses of a
// record, are collected before the element is delivered, whatever becomes of it then. It is not
// safe for concurrent use.
type reader struct {
	Seen int // elements that were read, whatever became of them

	// Allow is asked before look-ups give more bytes than came, as an entry may be named often;
	// false ends the list. Nil: there is no bound.
	Allow func(bytes int64) bool

	*Replies
	deliver func(element) *Error // what becomes of each; an error ends the list
	walker  *jsonwalk.Walker
	texts   jsonwalk.Texts
	ids     leakguard.Set
	err     *Error // why the walk was stopped

	reply       jsonwalk.Value // the last
	container   jsonwalk.Value // what has its items
	pages       int            // replies that were read
	bytes       int            // of these
	lookupBytes int            // bytes that look-ups gave
	pageItems   []pageItem     // items of a list in pages

	responses      []jsonwalk.Frame              // of the record that is being read
	slots          jsonwalk.Slots                // of these
	responseTables [][]map[string]jsonwalk.Value // of these, where each came with its own
	problem        string                        // why they cannot be used
}

// begin prepares the reading of replies.
func (r *reader) begin(replies *Replies, take func(element) *Error) {
	r.Replies, r.deliver = replies, take
	r.walker = jsonwalk.NewWalker(r, &r.ids, &r.texts, replies.slots[:])
}

// Page is what a reply had.
type Page struct {
	Records int            // or responses, or details
	Reply   jsonwalk.Value // all of it
	// Items is the array or object that has these, as it came; empty: nothing is there, which
	// items_optional allows.
	Items string
}

// readPage reads one reply. The strings of what is made of it share memory with body. An error is
// an [*Error]; then the list is not to be used.
func (r *reader) readPage(body string) (Page, error) {
	before := r.Seen
	body = strings.TrimPrefix(body, "\ufeff") // .NET writes a mark that RFC 8259 lets us ignore
	switch failed := r.read(body); {
	case failed == nil:
		return Page{r.Seen - before, r.reply, r.container.Raw()}, nil
	case utf8.ValidString(body):
		return Page{}, failed
	}
	r.Seen = before // whatever else is wrong with it: nothing of it has been seen
	return Page{}, newError("json", "the reply cannot be read: %w", jsonwalk.ErrNotUTF8)
}

// read walks one reply. Records are mapped while it is walked, so that conditions on the reply and
// its tables come first.
func (r *reader) read(body string) *Error {
	r.container = jsonwalk.Value{}
	r.pages++
	r.bytes += len(body)
	if len(r.expect)+len(r.tables) > 0 {
		reply, err := r.walker.Parse(body)
		if failed := cmp.Or(r.walkError(err), r.expect.checkReply(reply), r.indexTables(reply)); failed != nil {
			return failed
		}
	}
	r.walker.Clear(frameReply)
	reply, err := r.walker.Walk(body, r.tree, frameReply)
	if failed := r.walkError(err); failed != nil {
		return failed
	}
	r.reply = reply
	f, it := r.walker.Frame(frameReply), &r.items
	f.Element = reply
	if it.single {
		r.container = reply.At(it.path)
		switch {
		case r.container.Kind == jsonwalk.Object:
			r.End(frameRecord, &jsonwalk.Frame{Element: r.container})
		case r.container.Present():
			return newError("items", "the detail is not an object")
		}
		return r.err
	}
	container, ok, failed := r.walkItems(it, f)
	r.container = container
	// An empty list is one thing, a reply that is no list another.
	switch {
	case failed != nil:
		return failed
	case ok || container.Kind == jsonwalk.Missing && it.optional:
		return nil
	case container.Kind == jsonwalk.Missing:
		return newError("items", "the reply has nothing at the path of items")
	}
	return newError("items", "the value at the path of items is no %s", it.kind)
}

// indexTables indexes the tables of a reply for all its elements.
func (r *reader) indexTables(reply jsonwalk.Value) *Error {
	if len(r.tables) == 0 || reply.Kind == jsonwalk.Missing {
		return nil
	}
	tables := make([]map[string]jsonwalk.Value, len(r.tables))
	for i := range r.tables {
		var err *Error
		if tables[i], err = r.tables[i].index(reply, entriesPerRecord*r.MaxRecords); err != nil {
			return err
		}
	}
	r.setTables(tables)
	return nil
}

// setTables gives the elements to come the tables for their look-ups.
func (r *reader) setTables(tables []map[string]jsonwalk.Value) {
	for i := range frameCount {
		r.walker.Frame(i).Tables = tables
	}
}

// walkError is the error for what a walk ended with.
func (r *reader) walkError(err error) *Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jsonwalk.ErrStopped):
		return r.err
	}
	return newError("json", "%w", err)
}

// walkItems gives the array or object that has the items, and walks them if the walker does not
// meet them on its way. ok is false where something else is there, or nothing.
func (r *reader) walkItems(it *items, f *jsonwalk.Frame) (container jsonwalk.Value, ok bool, err *Error) {
	container = it.container.find(f)
	// PHP writes an object without members as an empty array.
	empty := it.kind == jsonwalk.Object && container.Kind == jsonwalk.Array && strings.Trim(container.Raw(), "[] \t\r\n") == ""
	ok = container.Kind == it.kind || empty
	switch {
	case !ok || it.ownTree == nil:
	case it.lookup == nil:
		_, failed := r.walker.Walk(container.Raw(), it.ownTree, it.frame)
		err = r.walkError(failed)
	default:
		if it.keyIDs {
			container.Members(func(name string, _ jsonwalk.Value) { r.ids.Add(name) })
		}
		container.Each(func(named jsonwalk.Value) bool {
			entry, found := it.lookup.find(&jsonwalk.Frame{Element: named, Tables: f.Tables})
			switch {
			case !found:
				err = newError("record", whyNoEntry)
			case r.allowLookup(len(entry.Raw())):
				_, failed := r.walker.WalkItem(entry.Raw(), it.ownTree)
				err = cmp.Or(err, r.walkError(failed))
			}
			return r.err == nil
		})
	}
	return container, ok, err
}

// allowLookup counts the bytes that a look-up gives. Where they are too many it ends the list, and
// is false.
func (r *reader) allowLookup(bytes int) bool {
	before := max(r.lookupBytes, r.bytes)
	r.lookupBytes += bytes
	if more := r.lookupBytes - before; r.err == nil && more > 0 && r.Allow != nil && !r.Allow(int64(more)) {
		r.err = newError("too_large", "what look-ups give, as often as it is named, is larger than max_response_bytes")
	}
	return r.err == nil
}

// End implements jsonwalk.Sink.
func (r *reader) End(frame int, f *jsonwalk.Frame) bool {
	if frame != r.items.frame {
		r.keepResponse(f)
		return true
	}
	for _, id := range r.items.ids {
		id.eachID(f.Element, r.ids.Add)
	}
	e := element{Frame: f}
	if r.responseItems != nil {
		container, ok, err := r.walkItems(r.responseItems, f)
		switch {
		case container.Present() && !ok:
			r.problem = whyList
		case err != nil:
			r.problem = err.Error()
		}
		e.container, e.responses, e.problem = container, r.responses, r.problem
	}
	if err := r.deliver(e); r.err == nil {
		r.err = err
	}
	clear(r.responses)
	r.responses, r.slots, r.problem = r.responses[:0], r.slots[:0], ""
	return r.err == nil
}

// keepResponse keeps a response until the end of its record, when that is judged: what says whose
// the record is, and whether it is shown, may stand behind its responses.
func (r *reader) keepResponse(f *jsonwalk.Frame) {
	for _, id := range r.responseItems.ids {
		id.eachID(f.Element, r.ids.Add)
	}
	if most := entriesPerRecord * r.MaxRecords; len(r.responses) == most {
		r.problem = fmt.Sprintf("more than %d", most)
		return
	}
	kept := f.Keep(&r.slots)
	if n := len(r.responses); n < len(r.responseTables) {
		kept.Tables = r.responseTables[n]
	}
	r.responses = append(r.responses, kept)
}

// countElement counts an element. Too many end the list.
func (r *reader) countElement(e element) *Error {
	r.Seen++
	r.notePageItem(e.Frame)
	if r.Seen > r.MaxRecords {
		return newError("too_many", "more than %d %ss", r.MaxRecords, r.itemName)
	}
	return nil
}
