package address

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"inquiry-gateway/internal/invalid"
)

// The values of body_type.
const (
	BodyJSON = "json"
	BodyForm = "form"
	BodyXML  = "xml"
)

// bodyCompiler compiles the body of one request. Texts with placeholders are noted in
// the plan, too.
type bodyCompiler struct {
	*invalid.Problems
	known []string
	plan  *Plan
}

// compile gives what writes the body.
func (c *bodyCompiler) compile(bodyType string, body any, key string) func(Values) string {
	switch bodyType {
	case BodyForm:
		return c.form(body, key)
	case BodyXML:
		return c.xml(body, key)
	}
	root := c.node(body, key, false)
	return func(values Values) string {
		if b := root.append(nil, values); len(b) > 0 {
			return string(b)
		}
		return "{}" // all that it holds is absent
	}
}

// text compiles a text with placeholders. place says what else is known of it.
func (c *bodyCompiler) text(s, key string, place place) template {
	text, err := parseBodyText(s, c.known)
	if err != nil {
		c.Add(key, "%v", err)
		return nil
	}
	if !text.plain() {
		place.name, place.text = key[strings.Index(key, "body"):], text
		place.check(key, c.Problems)
		c.plan.places = append(c.plan.places, place)
	}
	return text
}

// node is a value of a JSON body. What holds no placeholder is a literal, written once.
type node struct {
	literal string   // the value itself; "": what follows counts
	text    template // a text with placeholders
	as      string   // how a text that is one placeholder is sent: "", asNumber or asNull
	keys    []string // of an object, each with its colon; nil: the items are an array's
	items   []*node
}

// What may stand after the name of a placeholder that is a whole value of JSON.
const (
	asNumber = ":number"
	asNull   = ":null"
)

// node compiles a value. element: it is one of a list.
func (c *bodyCompiler) node(v any, key string, element bool) *node {
	n := &node{}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			c.AddIf(bodyPlaceholder.MatchString(name), key+"."+name, "a key cannot hold a placeholder")
			n.keys = append(n.keys, quote(name)+":")
			n.items = append(n.items, c.node(v[name], key+"."+name, false))
		}
	case []any:
		for i, item := range v {
			n.items = append(n.items, c.node(item, fmt.Sprintf("%s[%d]", key, i), true))
		}
	case string:
		return c.textNode(v, key, element)
	}
	if len(n.items) > 0 {
		return n
	}
	b, err := json.Marshal(v)
	c.AddIf(err != nil, key, "cannot be written as JSON; use texts, numbers, true, false, null, lists and mappings")
	return &node{literal: string(b)}
}

// textNode compiles a text of a JSON body. One that is nothing but a placeholder, which
// may name a type, is sent as that type; every other one is a string.
func (c *bodyCompiler) textNode(s, key string, element bool) *node {
	n, whole := &node{}, s
	for _, as := range []string{asNumber, asNull} {
		if name, ok := strings.CutSuffix(s, as+"}"); ok {
			n.as, whole = as, name+"}"
		}
	}
	text, _ := parseBodyText(whole, c.known)
	if !text.alone() {
		n.as, whole = "", s
	}
	n.text = c.text(whole, key, place{element: element, json: true, number: n.as == asNumber})
	if n.text.plain() {
		n.literal = quote(s)
	}
	return n
}

// quote writes a text as JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil { // a string always can be
		panic(err)
	}
	return string(b)
}

// append writes the value, or nothing if it is to be left out: a placeholder that
// has no value, and an object or array that has lost all it held by that.
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
	for i, item := range n.items {
		before := len(b)
		if before > start+1 {
			b = append(b, ',')
		}
		if n.keys != nil {
			b = append(b, n.keys[i]...)
		}
		at := len(b)
		if b = item.append(b, values); len(b) == at {
			b = b[:before]
		}
	}
	if len(b) == start+1 {
		return b[:start]
	}
	return append(b, brackets[1])
}

// appendText writes a text with placeholders. Several values are several elements
// of the list around it.
func (n *node) appendText(b []byte, values Values) []byte {
	if !n.text.alone() {
		if text, ok := n.text.render(values, strings.Clone); ok {
			return append(b, quote(text)...)
		}
		return b
	}
	name, start := n.text[0].name, len(b)
	for _, value := range values[name] {
		if value == "" {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		switch {
		case n.as == asNumber || name == Page || name == Offset || name == Size:
			b = append(b, value...)
		case name == Cursor:
			b = append(b, values.first(cursorJSON)...)
		default:
			b = append(b, quote(value)...)
		}
	}
	if len(b) == start && n.as == asNull {
		return append(b, "null"...)
	}
	return b
}

// form compiles a body of parameters, which are written as those of a query. Their
// order is that of their names, so that equal requests are equal bytes.
func (c *bodyCompiler) form(body any, key string) func(Values) string {
	fields, ok := body.(map[string]any)
	c.AddIf(!ok, key, "a form is a mapping of parameters, such as {customer: %q}", "{account}")
	var params []param
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := key + "." + name
		switch fields[name].(type) {
		case map[string]any, []any, nil:
			c.Add(at, "a parameter of a form is one text; for lists and mappings use body_type: json")
		}
		c.AddIf(bodyPlaceholder.MatchString(name), at, "a parameter's name cannot hold a placeholder")
		params = append(params, param{name, c.text(fmt.Sprint(fields[name]), at, place{})})
	}
	return func(values Values) string { return string(appendParams(nil, params, values, "")) }
}

// probeText has all characters that mean something in XML.
const probeText = `a<b>&c"d'e]]>--f`

// xml compiles a text of XML. A placeholder may stand where escaping makes any value
// one text: in an element's content or an attribute's value. This is tried out: the
// text is filled with characters that have a meaning, and must be found whole in
// contents and attributes as often as there are placeholders.
func (c *bodyCompiler) xml(body any, key string) func(Values) string {
	source, ok := body.(string)
	if !ok {
		c.Add(key, "XML is one text; write it below the key as a block, after |")
		return nil
	}
	text := c.text(source, key, place{markup: true})
	for _, name := range []string{Status, Type, Cursor} {
		c.AddIf(text.has(name, false), key, "{%s} is not in every request; put the part that depends on it in brackets, as in [<%s>{%s}</%s>]", name, name, name, name)
	}
	all, count := Values{}, 0
	for _, p := range text {
		if p.name != "" {
			all[p.name], count = []string{probeText}, count+1
		}
	}
	rendered, _ := text.render(all, escapeXML)
	without, _ := text.render(Values{Account: {"a"}, ID: {"a"}, IDs: {"a"}, Page: {"1"}, Offset: {"1"}, Size: {"1"}}, escapeXML)
	found, err := countInXML(rendered)
	if _, other := countInXML(without); err == nil {
		err = other
	}
	switch {
	case err != nil:
		c.Add(key, "not XML: %v", err)
	case found != count:
		c.Add(key, "a placeholder may stand in an element's content or an attribute's value only, and not in CDATA or a comment")
	}
	return func(values Values) string {
		s, _ := text.render(values, escapeXML)
		return s
	}
}

// escapeXML writes a text so that it is one in content and in attributes.
func escapeXML(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes everything
	return b.String()
}

// countInXML tells how often the probe's text is found in content and attributes.
func countInXML(s string) (n int, err error) {
	d := xml.NewDecoder(strings.NewReader(s))
	elements := 0
	for {
		t, err := d.Token()
		switch {
		case err == io.EOF && elements == 0:
			return n, fmt.Errorf("there is no element")
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
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

// appendParams writes parameters, the first after sep and the others after "&".
func appendParams(b []byte, params []param, values Values, sep string) []byte {
	for _, q := range params {
		for _, value := range q.values(values) {
			b = append(b, sep...)
			b = append(b, url.QueryEscape(q.name)...)
			b = append(b, '=')
			b = append(b, url.QueryEscape(value)...)
			sep = "&"
		}
	}
	return b
}
