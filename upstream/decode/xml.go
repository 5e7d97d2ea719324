package decode

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"inquiry-gateway/upstream/jsontree"
)

// Text is the name of an element's text in the tree, where the element has
// attributes or other elements, too. No element can be called so.
const Text = "$"

// Attribute stands before the name of an attribute. No element's name starts so.
const Attribute = "-"

// Bounds of a document. Its bytes are bounded by the reply's.
const (
	maxDepth      = 90 // below what jsontree takes: a list adds a level, and the mapping some
	maxElements   = 1 << 21
	maxAttributes = 256
)

// instance is the namespace of xsi:nil and xsi:type.
const instance = "http://www.w3.org/2001/XMLSchema-instance"

// metadata are the namespaces of OData's m:null, before version 4 and since.
var metadata = []string{"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata", "http://docs.oasis-open.org/odata/ns/metadata"}

// treeWriter writes JSON while it reads XML.
type treeWriter struct {
	dec      *xml.Decoder
	out      []byte // the values of the members of all open elements, without names
	members  []member
	text     []byte // of all open elements, without that of elements in them
	whole    []byte // all text so far
	open     []element
	scratch  []byte
	elements int
	fault    bool // the document is a SOAP fault
}

// element is an open element. Its members and its text begin where those of the
// element around it were when it began.
type element struct {
	name, space         string
	outline             *Outline
	members, text, from int
	whole               int
	null                bool
}

// member is an attribute or an element within another one.
type member struct {
	name, space string
	from, to    int // its value in out
	list        bool
	attribute   bool
	first       int // index of the first member with its name, see group
}

// fromXML reads a document in UTF-8.
func (f *Format) fromXML(body string, grown func(size int64) error) (string, error) {
	w := &treeWriter{dec: xml.NewDecoder(strings.NewReader(body)), out: make([]byte, 0, len(body))}
	w.dec.CharsetReader = func(_ string, from io.Reader) (io.Reader, error) { return from, nil } // it is UTF-8 by now
	w.open = append(w.open, element{outline: f.Outline})                                         // the document
	for {
		token, err := w.dec.Token()
		switch {
		case err == nil:
			err = w.token(token)
		case !errors.Is(err, io.EOF):
			err = w.refuse("the reply is not well-formed XML")
		case len(w.members) != 1:
			err = refusal("xml", "the reply is not an XML document: it has no element")
		default:
			if err = w.end(); err == nil && w.fault {
				err = faultIn(string(w.out))
			}
			return string(w.out), err
		}
		if err == nil {
			err = grown(int64(len(w.out)))
		}
		if err != nil {
			return "", err
		}
	}
}

// faultCode matches the codes that a log may have: no number, which could be an id.
var faultCode = regexp.MustCompile(`^[A-Za-z][A-Za-z._:-]{0,63}$`)

// faultIn is the error of a document with a SOAP fault, of version 1.1 or 1.2.
func faultIn(tree string) error {
	root, _ := jsontree.Parse(tree) // else nothing is found in it
	read := func(paths ...string) string {
		for _, path := range paths {
			if v := root.At("Envelope.Body.Fault." + path); v.Present() && v.Scalar() {
				return strings.TrimSpace(v.String())
			}
		}
		return ""
	}
	code, text := read("faultcode.$", "faultcode", "Code.Subcode.Value.$", "Code.Subcode.Value", "Code.Value.$", "Code.Value"), read("faultstring.$", "faultstring", "Reason.Text.$", "Reason.Text", "Reason.Text.0.$")
	found := strings.Trim(code+": "+text[:min(len(text), shownText)], ": ")
	e := &Error{Reason: "fault", text: "the reply is a SOAP fault", Found: strings.ToValidUTF8(found, "")}
	if faultCode.MatchString(code) {
		e.text += " with the code " + code
	}
	return e
}

// shownText is how much of a fault's text is shown.
const shownText = 200

// refuse says where the document cannot be accepted.
func (w *treeWriter) refuse(why string) error {
	return refusal("xml", "%s at byte %d", why, w.dec.InputOffset())
}

// token takes one token. Comments and instructions mean nothing; a document type is
// refused, since it could define entities.
func (w *treeWriter) token(token xml.Token) error {
	switch token := token.(type) {
	case xml.StartElement:
		return w.start(token)
	case xml.EndElement:
		return w.end()
	case xml.CharData:
		if len(w.open) > 1 {
			w.text, w.whole = append(w.text, token...), append(w.whole, token...)
		} else if !blank(token) {
			return w.refuse("text outside of the root element")
		}
	case xml.Directive:
		return w.refuse("a document type definition, which is not read")
	case xml.Comment, xml.ProcInst:
	}
	return nil
}

// start opens an element, whose attributes become members: not declarations of
// namespaces, what says that it is null, nor others of xsi.
func (w *treeWriter) start(t xml.StartElement) error {
	w.elements++
	e := element{name: t.Name.Local, space: t.Name.Space, members: len(w.members), text: len(w.text), whole: len(w.whole), from: len(w.out)}
	e.outline = w.open[len(w.open)-1].outline.at(e.name)
	switch {
	case len(w.open) == 1 && len(w.members) > 0:
		return w.refuse("a second root element")
	case len(w.open) > maxDepth:
		return w.refuse("elements nested too deeply")
	case w.elements > maxElements:
		return w.refuse("too many elements")
	case len(t.Attr) > maxAttributes:
		return w.refuse("too many attributes")
	}
	w.fault = w.fault || e.name == "Fault" && len(w.open) == 3 && w.open[1].name == "Envelope" && w.open[2].name == "Body"
	for i, a := range t.Attr {
		name := Attribute + a.Name.Local
		switch {
		case slices.ContainsFunc(t.Attr[:i], func(b xml.Attr) bool { return a.Name == b.Name }):
			return w.refuse("the same attribute twice")
		case a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns":
			continue
		case a.Name.Space == instance, a.Name.Space == "xsi", a.Name.Local == "null" && slices.Contains(metadata, a.Name.Space):
			e.null = e.null || (a.Name.Local == "nil" || a.Name.Local == "null") && (a.Value == "true" || a.Value == "1")
			continue
		case slices.ContainsFunc(w.members[e.members:], func(m member) bool { return m.name == name }):
			return w.refuse("two attributes with the same name in different namespaces")
		}
		m := member{name: name, attribute: true, from: len(w.out)}
		w.out = appendText(w.out, a.Value)
		m.to = len(w.out)
		w.members = append(w.members, m)
	}
	w.open = append(w.open, e)
	return nil
}

// end closes an element and makes it a member of the one around it.
func (w *treeWriter) end() error {
	e := w.open[len(w.open)-1]
	text, members := w.text[e.text:], w.members[e.members:]
	switch {
	case e.null:
		w.out = append(w.out[:e.from], "null"...)
	case len(members) == 0 && !(e.outline.holdsLists() && blank(text)):
		w.out = appendText(w.out, text)
	default:
		if !group(members) {
			return w.refuse("two elements with the same name in different namespaces within one")
		}
		w.scratch = w.object(w.scratch[:0], e, members, text)
		w.out = append(w.out[:e.from], w.scratch...)
	}
	w.text, w.members, w.open = w.text[:e.text], w.members[:e.members], w.open[:len(w.open)-1]
	if len(w.open) > 0 {
		w.members = append(w.members, member{
			name: e.name, space: e.space, from: e.from, to: len(w.out), list: e.outline != nil && e.outline.List,
		})
	}
	return nil
}

// group puts members of one name together, in the order of the first ones. It is false
// if two of one name are of different namespaces.
func group(members []member) bool {
	firsts := make(map[string]int, len(members))
	for i := range members {
		m := &members[i]
		first, again := firsts[m.name]
		if !again {
			first, firsts[m.name] = i, i
		}
		if m.first = first; m.space != members[first].space {
			return false
		}
	}
	slices.SortStableFunc(members, func(a, b member) int { return cmp.Compare(a.first, b.first) })
	return true
}

// object writes the members of an element, which are grouped, as a JSON object: those of
// one name as a list if there are several, or if the name is one of a list.
func (w *treeWriter) object(dst []byte, e element, members []member, text []byte) []byte {
	dst = append(dst, '{')
	elements := false
	for i := 0; i < len(members); {
		same := i + 1
		for same < len(members) && members[same].first == members[i].first {
			same++
		}
		elements = elements || !members[i].attribute
		dst = appendName(dst, members[i].name)
		list := members[i].list || same > i+1
		if list {
			dst = append(dst, '[')
		}
		for ; i < same; i++ {
			dst = append(append(dst, w.out[members[i].from:members[i].to]...), ',')
		}
		if list {
			dst[len(dst)-1] = ']'
			dst = append(dst, ',')
		}
	}
	switch {
	case !elements && blank(text) && e.outline.holdsLists() && w.describeEmptyList(members):
		for _, name := range slices.Sorted(maps.Keys(e.outline.below)) {
			if e.outline.below[name].List {
				dst = append(appendName(dst, name), "[],"...)
			}
		}
	case elements && !blank(text): // mixed: all words count, also those in elements
		dst = append(appendText(appendName(dst, Text), w.whole[e.whole:]), ',')
	case !elements:
		dst = append(appendText(appendName(dst, Text), text), ',')
	}
	return append(bytes.TrimSuffix(dst, []byte(",")), '}')
}

// describeEmptyList reports whether the attributes of an element without content are those of an empty list: numbers, truth
// values, and types of arrays and lists, such as Rails' type="array" or SOAP's xsi:type="ns:ArrayOfTicket". Others tell of
// an error, or refer to another element.
func (w *treeWriter) describeEmptyList(attributes []member) bool {
	return !slices.ContainsFunc(attributes, func(m member) bool {
		value := strings.Trim(string(w.out[m.from:m.to]), `"`)
		if kind := strings.ToLower(value); strings.HasSuffix(strings.ToLower(m.name), "type") && (strings.Contains(kind, "array") || strings.Contains(kind, "list")) {
			return false
		}
		return strings.Trim(value, "0123456789.") != "" && value != "true" && value != "false" && !strings.HasSuffix(value, "[0]")
	})
}

// appendName writes what stands before a value. A name of XML needs no escape.
func appendName(dst []byte, name string) []byte {
	return append(append(append(dst, '"'), name...), `":`...)
}

// appendText writes a JSON string. The whole document is UTF-8 by now.
func appendText[T string | []byte](dst []byte, text T) []byte {
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}

// blank tells whether a text is nothing but the white space of XML.
func blank(text []byte) bool { return len(bytes.Trim(text, " \t\r\n")) == 0 }

// Outline is what is known of an element, and of those in it by their names: which of them are
// lists, however many there are. The one of a document has its root element in it.
type Outline struct {
	List  bool
	below map[string]*Outline
}

// Below is the outline of an element with a name in this one.
func (o *Outline) Below(name string) *Outline {
	if o.below[name] == nil {
		if o.below == nil {
			o.below = map[string]*Outline{}
		}
		o.below[name] = &Outline{}
	}
	return o.below[name]
}

// Put makes an outline that of the element with a name.
func (o *Outline) Put(name string, inner *Outline) {
	o.Below(name)
	o.below[name] = inner
}

// at is Below for reading. It works on nil.
func (o *Outline) at(name string) *Outline {
	if o == nil {
		return nil
	}
	return o.below[name]
}

// holdsLists tells whether elements right below are lists.
func (o *Outline) holdsLists() bool {
	if o != nil {
		for _, inner := range o.below {
			if inner.List {
				return true
			}
		}
	}
	return false
}
