package mapping

import (
	"cmp"
	"errors"
	"fmt"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsontree"
	"inquiry-gateway/upstream/redact"
)

// items tells where the items of a list are: records, details or responses in a reply, or responses in a record.
type items struct {
	path     string        // as it was written
	at       jsontree.Path // of what holds them
	kind     jsontree.Kind // of that: an array, or an object
	single   bool          // the value there is the only item
	optional bool          // nothing there means an empty list
	lookup   *lookup       // of the table that has the items, which are only named here; nil: they are here
	keyIDs   bool          // the names of the items are internal ids
	ids      compiledPaths // of internal ids
	where    Conditions    // that an item must meet to be shown
}

// keyPath among internal ids stands for the name of the member that an item is.
const keyPath = "@key"

// eachID visits the ids in a value. Attributes of an element of XML, such as its type, are none, unless the path names one.
func (c *compiledPath) eachID(in jsontree.Value, visit func(string)) {
	without := ""
	if c.xml {
		without = decode.Attribute
	}
	in.Visit(c.Path, func(v jsontree.Value) { v.Scalars(without, visit) })
}

// indexes are the tables of a reply, by their keys.
type indexes []map[string]jsontree.Value

// element is a record, a response, a detail, or a whole reply.
type element struct {
	jsontree.Value
	key          string         // its name as a member of an object; empty: it is an element of an array
	tables       indexes        // for its look-ups
	responses    []element      // of a record: those in it, whether they are shown or not
	container    jsontree.Value // what has these
	partTables   []indexes      // of these, where each came with its own
	problem      string         // why they cannot be used
	beforeDetail bool           // the detail of the record is not there yet
}

// reader reads the replies to one request in order: it parses each, checks expect, and delivers its items. The internal ids of an
// item, and of the responses in a record, are collected before the item is delivered, even if it is dropped later. It
// is not safe for concurrent use.
type reader struct {
	Seen       int // elements that were read, whatever became of them
	Duplicates int // of these, elements that came on a page before

	// Allow is asked before look-ups give more bytes than came, as an entry may be named often;
	// false ends the list. Nil: there is no bound.
	Allow func(bytes int64) bool

	*Replies
	deliver func(*element) *Error // takes each item; an error ends the list
	ids     redact.IDs
	err     *Error // why the list ended

	reply       jsontree.Value      // the last
	container   jsontree.Value      // what has its items
	pages       int                 // replies that were read
	bytes       int                 // of these
	lookupBytes int                 // bytes that look-ups gave
	pageItems   map[string]pageItem // items of a list in pages, by their ids

	record, response element
	responses        []element // of the record that is being read
	partTables       []indexes // of these, where each came with its own
	problem          string    // why they cannot be used
	keep             func(*element) *Error
	addID            func(string)
}

// begin must be called before the first reply is read.
func (r *reader) begin(replies *Replies, deliver func(*element) *Error) {
	r.Replies, r.deliver, r.keep, r.addID = replies, deliver, r.keepResponse, r.ids.Add
}

// Page is the outcome of reading one reply.
type Page struct {
	Records    int            // or responses, or details
	Duplicates int            // of these, records that came on a page before
	Reply      jsontree.Value // all of it
	// Items is the array or object that has these, as it came; empty: nothing is there, which
	// items_optional allows.
	Items string
}

// readPage reads one reply. The strings of what is made of it share memory with body. An error is
// an [*Error]; then the list is not to be used.
func (r *reader) readPage(body string) (Page, error) {
	before, doubles := r.Seen, r.Duplicates
	if failed := r.read(body); failed != nil {
		return Page{}, failed
	}
	return Page{r.Seen - before, r.Duplicates - doubles, r.reply, r.container.Raw()}, nil
}

// read reads one reply.
func (r *reader) read(body string) *Error {
	r.container = jsontree.Value{}
	r.pages++
	r.bytes += len(body)
	reply, err := jsontree.Parse(body)
	switch {
	case errors.Is(err, jsontree.ErrNotUTF8):
		return newError("json", "the reply cannot be read: %w; name its charset under reply.charset", err)
	case err != nil:
		return newError("json", "%w", err)
	}
	r.reply = reply
	if failed := r.expect.checkReply(reply); failed != nil {
		return failed
	}
	tables, failed := r.indexTables(reply)
	if failed != nil {
		return failed
	}
	whole, it := element{Value: reply, tables: tables}, &r.items
	if it.single {
		r.container = reply.Get(it.at)
		switch {
		case r.container.Kind() == jsontree.Object:
			return r.addItem(&element{Value: r.container, tables: tables})
		case r.container.Present():
			return newError("items", "the detail is not an object")
		}
		return nil
	}
	container, ok, failed := r.eachItem(it, &whole, &r.record, r.addItem)
	r.container = container
	// An empty list is one thing, a reply that is no list another.
	switch {
	case failed != nil:
		return failed
	case ok || !container.Present() && it.optional:
		return nil
	case !container.Present():
		return newError("items", "the reply has nothing at the path of items")
	}
	return newError("items", "the value at the path of items is no %s", it.kind)
}

// indexTables indexes the tables of a reply for all its elements.
func (r *reader) indexTables(reply jsontree.Value) (indexes, *Error) {
	if len(r.tables) == 0 {
		return nil, nil
	}
	tables := make(indexes, len(r.tables))
	for i := range r.tables {
		var err *Error
		if tables[i], err = r.tables[i].index(reply, entriesPerRecord*r.MaxRecords); err != nil {
			return nil, err
		}
	}
	return tables, nil
}

// eachItem visits the items in an element until visit fails, each stored in one. It returns the container that holds them; ok is
// false if that is missing or of another kind.
func (r *reader) eachItem(it *items, in, one *element, visit func(*element) *Error) (container jsontree.Value, ok bool, err *Error) {
	container = in.Get(it.at)
	// PHP writes an object without members as an empty array.
	empty := it.kind == jsontree.Object && container.Kind() == jsontree.Array && container.Len() == 0
	if ok = container.Kind() == it.kind || empty; !ok {
		return container, false, nil
	}
	*one = element{tables: in.tables}
	for key, value := range container.All() {
		if one.key, one.Value = key, value; it.keyIDs {
			r.ids.Add(one.key)
		}
		if it.lookup != nil {
			entry, found := it.lookup.find(one)
			if !found {
				err = newError("record", reasonNoEntry)
				continue
			}
			if failed := r.allowLookup(len(entry.Raw())); failed != nil {
				return container, true, failed
			}
			one.Value = entry
		}
		if failed := visit(one); failed != nil {
			return container, true, failed
		}
	}
	return container, ok, err
}

// addIDs collects the internal ids in an item.
func (r *reader) addIDs(it *items, e *element) {
	for i := range it.ids {
		it.ids[i].eachID(e.Value, r.addID)
	}
}

// allowLookup counts the bytes that a look-up returns. Too many end the list.
func (r *reader) allowLookup(bytes int) *Error {
	before := max(r.lookupBytes, r.bytes)
	r.lookupBytes += bytes
	if more := r.lookupBytes - before; r.err == nil && more > 0 && r.Allow != nil && !r.Allow(int64(more)) {
		r.err = newError("too_large", "what look-ups give, as often as it is named, is larger than max_response_bytes")
	}
	return r.err
}

// addItem delivers an item with the responses in it.
func (r *reader) addItem(e *element) *Error {
	e.container, e.responses, e.problem, r.problem, r.partTables = jsontree.Value{}, nil, "", "", e.partTables
	r.addIDs(&r.items, e)
	if r.responseItems != nil {
		container, ok, err := r.eachItem(r.responseItems, e, &r.response, r.keep)
		switch {
		case container.Present() && !ok:
			e.problem = reasonList
		case err != nil:
			e.problem = err.Error()
		}
		e.container, e.responses, e.problem = container, r.responses, cmp.Or(r.problem, e.problem)
	}
	if err := r.deliver(e); r.err == nil {
		r.err = err
	}
	clear(r.responses)
	r.responses = r.responses[:0]
	return r.err
}

// keepResponse keeps a response until its record is evaluated, which comes first.
func (r *reader) keepResponse(one *element) *Error {
	r.addIDs(r.responseItems, one)
	n, most := len(r.responses), entriesPerRecord*r.MaxRecords
	if n == most {
		r.problem = fmt.Sprintf("more than %d", most)
		return nil
	}
	if n < len(r.partTables) {
		one.tables = r.partTables[n]
	}
	r.responses = append(r.responses, *one)
	return nil
}

// countElement counts an element. Too many end the list. double: it came on a page before, and is left out.
func (r *reader) countElement(e *element) (double bool, err *Error) {
	r.Seen++
	if r.Seen > r.MaxRecords {
		return false, newError("too_many", "more than %d %ss", r.MaxRecords, r.itemName)
	}
	return r.double(e)
}
