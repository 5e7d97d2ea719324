package decode

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Text is the name of an element's text in the tree, where the element has
// attributes or other elements, too. No element can be called so.
const Text = "$"

// Attribute stands before the name of an attribute. No element's name starts so.
const Attribute = "-"

// Bounds of a document. Its bytes are bounded by the reply's.
const (
	maxDepth      = 90 // below what jsonwalk takes: a list adds a level, and the mapping some
	maxElements   = 1 << 21
	maxAttributes = 256
)

// instance is the namespace of xsi:nil and xsi:type.
const instance = "http://www.w3.org/2001/XMLSchema-instance"

// treeWriter writes JSON while it reads XML. An element becomes an object of its
// attributes, its elements and its text, or a string if it has nothing but text.
type treeWriter struct {
	*Format
	dec      *xml.Decoder
	limit    int64
	out      []byte // the values of the members of all open elements, without names
	members  []member
	text     []byte // of all open elements
	open     []element
	scratch  []byte
	elements int
}

// element is an open element. Its members and its text begin where those of the
// element around it were when it began.
type element struct {
	name, space         string
	lists               *Lists
	members, text, from int
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
func (f *Format) fromXML(body string, limit int64) (string, error) {
	w := &treeWriter{Format: f, dec: xml.NewDecoder(strings.NewReader(strings.TrimPrefix(body, "\ufeff"))), limit: limit}
	w.dec.CharsetReader = func(_ string, from io.Reader) (io.Reader, error) { return from, nil } // it is UTF-8 by now
	w.out = make([]byte, 0, len(body))
	w.open = append(w.open, element{lists: &f.Lists}) // the document
	for {
		token, err := w.dec.Token()
		switch {
		case errors.Is(err, io.EOF):
			return w.document()
		case err != nil:
			return "", w.refuse("the reply is not well-formed XML")
		}
		if err = w.token(token); err != nil {
			return "", err
		}
		if int64(len(w.out)) > limit {
			return "", tooLarge(limit)
		}
	}
}

// refuse says where the document cannot be accepted.
func (w *treeWriter) refuse(why string) error {
	return refusal("xml", "%s at byte %d", why, w.dec.InputOffset())
}

// document closes the element that stands for the whole.
func (w *treeWriter) document() (string, error) {
	if len(w.members) != 1 {
		return "", refusal("xml", "the reply is not an XML document: it has no element")
	}
	err := w.end()
	return string(w.out), err
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
			w.text = append(w.text, token...)
		} else if !blank(token) {
			return w.refuse("text outside of the root element")
		}
	case xml.Directive:
		return w.refuse("a document type definition, which is not read")
	case xml.Comment, xml.ProcInst:
	}
	return nil
}

// start opens an element. A SOAP fault ends the reading: it is a failure, however its
// parts are named.
func (w *treeWriter) start(t xml.StartElement) error {
	around := &w.open[len(w.open)-1]
	w.elements++
	switch {
	case len(w.open) == 1 && len(w.members) > 0:
		return w.refuse("a second root element")
	case len(w.open) > maxDepth:
		return w.refuse("elements nested too deeply")
	case w.elements > maxElements:
		return w.refuse("too many elements")
	}
	e := element{
		name: t.Name.Local, space: t.Name.Space,
		members: len(w.members), text: len(w.text), from: len(w.out),
	}
	if e.name == "Fault" && len(w.open) == 3 && w.open[1].name == "Envelope" && w.open[2].name == "Body" {
		return refusal("fault", "the reply is a SOAP fault")
	}
	e.lists = around.lists.at(e.name)
	w.open = append(w.open, e)
	return w.attributes(t.Attr)
}

// attributes makes members of the attributes of the element that was opened.
// Declarations of namespaces are none, and of xsi only nil means something.
func (w *treeWriter) attributes(list []xml.Attr) error {
	if len(list) > maxAttributes {
		return w.refuse("too many attributes")
	}
	e := &w.open[len(w.open)-1]
	for i, a := range list {
		if slices.ContainsFunc(list[:i], func(b xml.Attr) bool { return a.Name == b.Name }) {
			return w.refuse("the same attribute twice")
		}
		switch {
		case a.Name.Space == "xmlns" || a.Name.Space == "" && a.Name.Local == "xmlns":
			continue
		case a.Name.Space == instance:
			e.null = e.null || a.Name.Local == "nil" && (a.Value == "true" || a.Value == "1")
			continue
		}
		name := Attribute + a.Name.Local
		if slices.ContainsFunc(w.members[e.members:], func(m member) bool { return m.name == name }) {
			return w.refuse("two attributes with the same name in different namespaces")
		}
		w.add(member{name: name, attribute: true, from: len(w.out)}, a.Value)
	}
	return nil
}

// add appends a member whose value is a text.
func (w *treeWriter) add(m member, text string) {
	w.out = appendText(w.out, text)
	m.to = len(w.out)
	w.members = append(w.members, m)
}

// appendText writes a JSON string. The whole document is UTF-8 by now.
func appendText[T string | []byte](dst []byte, text T) []byte {
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}

// end closes an element and makes it a member of the one around it.
func (w *treeWriter) end() (err error) {
	e := w.open[len(w.open)-1]
	text, members := w.text[e.text:], w.members[e.members:]
	switch {
	case e.null:
		w.out = append(w.out[:e.from], "null"...)
	case len(members) == 0 && !(e.lists.holdsLists() && blank(text)):
		w.out = appendText(w.out, text)
	default:
		if w.scratch, err = w.object(w.scratch[:0], e, members, text); err != nil {
			return err
		}
		w.out = append(w.out[:e.from], w.scratch...)
	}
	w.text, w.members, w.open = w.text[:e.text], w.members[:e.members], w.open[:len(w.open)-1]
	if len(w.open) > 0 {
		w.members = append(w.members, member{
			name: e.name, space: e.space, from: e.from, to: len(w.out), list: e.lists != nil && e.lists.list,
		})
	}
	return nil
}
