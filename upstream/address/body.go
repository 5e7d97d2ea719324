package address

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/text/encoding"

	"inquiry-gateway/upstream/decode"
)

// The values of body_type.
const (
	BodyJSON = "json"
	BodyForm = "form"
	BodyXML  = "xml"
)

// compileBody compiles the body, and sets the header that names its media type.
func (c *specCompiler) compileBody(s Sending, headers map[string]string, field string) {
	key, bodyType := field+".body", cmp.Or(s.BodyType, BodyJSON)
	charset, err := decode.Charset(s.BodyCharset)
	c.AddIf(err != nil, field+".body_charset", "%v", err)
	c.AddIf(bodyType == BodyJSON && err == nil && charset != encoding.Nop, field+".body_charset", "JSON is always UTF-8; remove the key")
	encode := func(text string) (string, error) { return text, nil }
	if err == nil && charset != encoding.Nop {
		encode = func(text string) (string, error) { return charset.NewEncoder().String(text) }
	}
	named := cmp.Or(s.BodyCharset, "utf-8")
	if headers["Content-Type"] == "" {
		headers["Content-Type"] = map[string]string{
			BodyJSON: "application/json", BodyForm: "application/x-www-form-urlencoded", BodyXML: "text/xml; charset=" + named,
		}[bodyType]
	}
	_, params, _ := mime.ParseMediaType(headers["Content-Type"])
	c.sameCharset(params["charset"], charset, field+".headers.Content-Type", "the header names")
	switch bodyType {
	case BodyForm:
		c.made.body = c.form(s.Body, key, encode)
	case BodyXML:
		c.made.body = c.xml(s.Body, key, charset, encode)
	default:
		root := c.node(s.Body, key, false)
		c.made.body = func(values Values) string {
			return cmp.Or(string(root.append(nil, values)), "{}") // all that it holds is absent
		}
	}
}

// sameCharset refuses a declaration of another charset than the one that the bytes of
// the body are in.
func (c *specCompiler) sameCharset(declared string, charset encoding.Encoding, key, who string) {
	if declared == "" {
		return
	}
	other, err := decode.Charset(declared)
	c.AddIf(err != nil || other != charset, key, "%s charset %s, and the body is sent in another; set body_charset: %s", who, declared, strings.ToLower(declared))
}

// node is a value of a JSON body. What holds no placeholder is a literal, written once.
type node struct {
	literal string   // the value itself; "": what follows counts
	text    *text    // with placeholders
	keys    []string // of an object, each with its colon; nil: the items are an array's
	items   []*node
	element bool // of a list
}

// node compiles a value. element: it is one of a list.
func (c *specCompiler) node(v any, key string, element bool) *node {
	n := &node{element: element}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			c.AddIf(placeholders.MatchString(name), key+"."+name, "a key cannot hold a placeholder")
			n.keys = append(n.keys, quote(name)+":")
			n.items = append(n.items, c.node(v[name], key+"."+name, false))
		}
	case []any:
		for i, item := range v {
			n.items = append(n.items, c.node(item, fmt.Sprintf("%s[%d]", key, i), true))
		}
	case string:
		if n.text = c.text(v, text{key: key, name: bodyName(key), in: inJSON, element: element}); n.text.plain() {
			n.literal = quote(v)
		}
		return n
	}
	if len(n.items) == 0 {
		b, err := json.Marshal(v)
		c.AddIf(err != nil, key, "cannot be written as JSON; use texts, numbers, true, false, null, lists and mappings")
		n.literal = string(b)
	}
	return n
}

// bodyName names a text by its key within the request.
func bodyName(key string) string { return key[strings.Index(key, "body"):] }

// quote writes a text as JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // a string always can be
		panic(err)
	}
	return string(b)
}

// append writes the value, or nothing if it is to be left out: a placeholder that
// has no value, and an object or array that has lost all it held by that. So is an
// element of a list, such as the condition [state, in, ["{status}"]], that has lost its
// value and has only constants besides: half a condition means something else.
func (n *node) append(b []byte, values Values) []byte {
	switch {
	case n.literal != "":
		return append(b, n.literal...)
	case n.items == nil:
		return n.appendText(b, values)
	}
	start, brackets := len(b), "[]"
	if n.keys != nil {
		brackets = "{}"
	}
	b = append(b, brackets[0])
	half, constants := false, true
	for i, item := range n.items {
		before := len(b)
		if before > start+1 {
			b = append(b, ',')
		}
		if n.keys != nil {
			b = append(b, n.keys[i]...)
		}
		at := len(b)
		if b = item.append(b, values); len(b) > at {
			constants = constants && item.literal != ""
			continue
		}
		b = b[:before]
		half = half || item.keys == nil // an object, such as the variables of a call, is no value of a condition
	}
	if len(b) == start+1 || n.element && half && constants {
		return b[:start]
	}
	return append(b, brackets[1])
}

// appendText writes a text with placeholders. Several values are several elements
// of the list around it.
func (n *node) appendText(b []byte, values Values) []byte {
	if !n.text.bare() {
		if text, ok := n.text.render(values, strings.Clone); ok {
			return append(b, quote(text)...)
		}
		return b
	}
	p, start := n.text.pieces[0], len(b)
	for _, value := range p.all(values) {
		if value == "" {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		switch {
		case p.as == asNumber || p.name == Page || p.name == Offset || p.name == Size:
			b = append(b, value...)
		case p.name == Cursor && values.first(Cursor) != "":
			b = append(b, values.first(cursorJSON)...)
		default:
			b = append(b, quote(value)...)
		}
	}
	if len(b) == start && p.as == asNull {
		return append(b, "null"...)
	}
	return b
}

// form compiles a body of parameters, which are written as those of a query. Their
// order is that of their names, so that equal requests are equal bytes.
func (c *specCompiler) form(body any, key string, encode func(string) (string, error)) func(Values) string {
	fields, ok := body.(map[string]any)
	c.AddIf(!ok, key, "a form is a mapping of parameters, such as {customer: %q}", "{account}")
	var params []param
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := key + "." + name
		switch fields[name].(type) {
		case map[string]any, []any, nil:
			c.Add(at, "a parameter of a form is one text; for lists and mappings use body_type: json")
		}
		c.AddIf(placeholders.MatchString(name), at, "a parameter's name cannot hold a placeholder")
		value := c.text(fmt.Sprint(fields[name]), text{key: at, name: bodyName(at), in: inParam, encode: encode})
		encoded, err := encode(name)
		c.AddIf(err != nil, at, "the name has characters that body_charset cannot hold")
		params = append(params, param{url.QueryEscape(encoded), value})
	}
	return func(values Values) string {
		return string(appendParams(nil, params, values, "", func(text string) string {
			encoded, _ := encode(text) // whose parts were tried
			return url.QueryEscape(encoded)
		}))
	}
}

// probeText has all characters that mean something in XML.
const probeText = `a<b>&c"d'e]]>--f`

// xml compiles a text of XML. A placeholder may stand where escaping makes any value
// one text: in an element's content or an attribute's value. This is tried out: the
// text is filled with characters that have a meaning, and must be found whole in
// contents and attributes as often as there are placeholders.
func (c *specCompiler) xml(body any, key string, charset encoding.Encoding, encode func(string) (string, error)) func(Values) string {
	source, ok := body.(string)
	if !ok {
		c.Add(key, "XML is one text; write it below the key as a block, after |")
		return nil
	}
	document := c.text(source, text{key: key, name: bodyName(key), in: inXML, encode: encode})
	all, always, count, probe := Values{}, Values{}, 0, text{}
	for _, p := range document.pieces {
		p.quote = "" // or the probe's text would not be found as it is
		if probe.pieces = append(probe.pieces, p); p.name == "" {
			continue
		}
		c.AddIf(optional(p.name) && p.group == 0 && p.text == "", key, "{%s} is not in every request; put the part that depends on it in brackets, as in [<%s>{%s}</%s>]", p.name, p.name, p.name, p.name)
		all[p.name], count = []string{probeText}, count+1
		if p.group == 0 {
			always[p.name] = []string{"a"}
		}
	}
	rendered, _ := probe.render(all, escapeXML)
	without, _ := probe.render(always, escapeXML)
	found, declared, err := countInXML(rendered)
	if _, _, other := countInXML(without); err == nil {
		err = other
	}
	switch {
	case err != nil:
		c.Add(key, "not XML: %v", err)
	case found != count:
		c.Add(key, "a placeholder may stand in an element's content or an attribute's value only, and not in CDATA or a comment")
	}
	if declared == "" && strings.HasPrefix(source, "<?xml") {
		declared = "utf-8" // named, or meant
	}
	c.sameCharset(declared, charset, key, "its first line names")
	return func(values Values) string {
		s, _ := document.render(values, escapeXML)
		s, _ = encode(s) // whose parts were tried
		return s
	}
}

// escapeXML writes a text so that it is one in content and in attributes.
func escapeXML(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

// countInXML tells how often the probe's text is found in content and attributes, and
// which charset other than UTF-8 the text declares.
func countInXML(s string) (n int, charset string, err error) {
	d := xml.NewDecoder(strings.NewReader(s))
	d.CharsetReader = func(name string, r io.Reader) (io.Reader, error) {
		charset = name
		return r, nil
	}
	elements := 0
	for {
		t, err := d.Token()
		switch {
		case err == io.EOF && elements == 0:
			return n, charset, errors.New("there is no element")
		case err == io.EOF:
			return n, charset, nil
		case err != nil:
			return n, charset, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			elements++
			for _, a := range t.Attr {
				n += strings.Count(a.Value, probeText)
			}
		case xml.CharData:
			n += strings.Count(string(t), probeText)
		}
	}
}

// notInXML is true for characters that XML has no way to write (XML 1.0, 2.2).
func notInXML(r rune) bool {
	return r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == 0xFFFE || r == 0xFFFF
}

// isNumber tells whether a text, which is not empty, is a number of JSON and nothing
// else.
func isNumber(s string) bool {
	return strings.IndexByte("-0123456789", s[0]) >= 0 && json.Valid([]byte(s)) && strings.TrimSpace(s) == s
}
