package upstream

import "strings"

// maxDepth bounds the nesting of a reply. Real ones have less than twenty
// levels; the parser recurses once per level.
const maxDepth = 100

// parser checks a reply strictly by RFC 8259 (no duplicate names in an object,
// a bounded depth) and, on the way, hands the values that a tree of nodes asks
// for to the reply. It is an error to use it twice.
type parser struct {
	s    string
	pos  int
	keys []string // of the objects that are open
	into *reply
	err  *Error
}

// fail notes the first mistake. It gives false, so that callers can return
// it. The text names a position and nothing of the content.
func (p *parser) fail(what string) bool {
	if p.err == nil {
		p.err = invalid("json", "%s at byte %d", what, p.pos)
	}
	return false
}

// document parses the whole text as one value.
func (p *parser) document(n *node) bool {
	p.space()
	if !p.value(n, 0) {
		return false
	}
	p.space()
	if p.pos < len(p.s) {
		return p.fail("something follows the JSON value")
	}
	return true
}

// space skips white space. Compact replies have none, so that is seen inline.
func (p *parser) space() {
	if p.pos < len(p.s) && p.s[p.pos] > ' ' {
		return
	}
	p.skipSpace()
}

// skipSpace skips the four characters that RFC 8259 calls white space.
func (p *parser) skipSpace() {
	for p.pos < len(p.s) {
		switch p.s[p.pos] {
		case ' ', '\t', '\r', '\n':
			p.pos++
		default:
			return
		}
	}
}

// value parses the value that starts at pos.
func (p *parser) value(n *node, depth int) bool {
	if p.pos >= len(p.s) {
		return p.fail("the text ends where a value is expected")
	}
	v := slot{from: int32(p.pos)}
	ok := true
	switch c := p.s[p.pos]; c {
	case '"':
		v.kind = text
		v.esc, ok = p.str()
	case '{':
		v.kind = object
		ok = p.object(n, depth+1)
	case '[':
		v.kind = array
		ok = p.array(n, depth+1)
	case 't':
		v.kind = boolean
		ok = p.literal("true")
	case 'f':
		v.kind = boolean
		ok = p.literal("false")
	case 'n':
		v.kind = null
		ok = p.literal("null")
	default:
		v.kind = number
		ok = p.number()
	}
	if ok && n != nil && (n.id || len(n.slots) > 0) {
		v.to = int32(p.pos)
		p.into.capture(n, v, p.s)
	}
	return ok
}

// literal parses true, false or null.
func (p *parser) literal(word string) bool {
	if !strings.HasPrefix(p.s[p.pos:], word) {
		return p.fail("unknown word")
	}
	p.pos += len(word)
	return true
}

// object parses an object. What it holds is checked even where no node wants
// it: half a check would let the other half through.
func (p *parser) object(n *node, depth int) bool {
	if depth > maxDepth {
		return p.fail("nested too deeply")
	}
	names := nameSet{base: len(p.keys)}
	p.pos++
	p.space()
	if p.pos < len(p.s) && p.s[p.pos] == '}' {
		p.pos++
		return true
	}
	for {
		key, ok := p.key()
		if !ok {
			return false
		}
		if !names.add(&p.keys, key) {
			return p.fail("duplicate name in an object")
		}
		p.space()
		if n != nil && n.list != nil && n.list.keyed {
			ok = p.member(n, key, depth)
		} else {
			ok = p.value(n.child(key), depth)
		}
		if !ok {
			return false
		}
		more, ok := p.next('}')
		if !ok {
			return false
		}
		if !more {
			p.keys = p.keys[:names.base]
			return true
		}
	}
}

// key parses a name and the colon after it.
func (p *parser) key() (string, bool) {
	if p.pos >= len(p.s) || p.s[p.pos] != '"' {
		return "", p.fail("a name in quotation marks is expected")
	}
	start := p.pos
	esc, ok := p.str()
	if !ok {
		return "", false
	}
	key := p.s[start+1 : p.pos-1]
	if esc {
		key = unescape(key)
	}
	p.space()
	if p.pos >= len(p.s) || p.s[p.pos] != ':' {
		return "", p.fail("a colon is expected")
	}
	p.pos++
	return key, true
}

// next parses what follows an element: a comma and the white space after it,
// or the end.
func (p *parser) next(end byte) (more, ok bool) {
	p.space()
	if p.pos >= len(p.s) {
		return false, p.fail("the text ends within an object or array")
	}
	c := p.s[p.pos]
	if c != ',' && c != end {
		return false, p.fail("a comma or the end of an object or array is expected")
	}
	p.pos++
	if c == end {
		return false, true
	}
	p.space()
	return true, true
}

// array parses an array, whose elements may be the items of a list.
func (p *parser) array(n *node, depth int) bool {
	if depth > maxDepth {
		return p.fail("nested too deeply")
	}
	var child *node
	var items *list
	if n != nil {
		child = n.each
	}
	if n != nil && n.list != nil && !n.list.keyed {
		items = n.list
	}
	p.pos++
	p.space()
	if p.pos < len(p.s) && p.s[p.pos] == ']' {
		p.pos++
		return true
	}
	for {
		ok := false
		if items != nil {
			ok = p.item(child, items, depth)
		} else {
			ok = p.value(child, depth)
		}
		if !ok {
			return false
		}
		more, ok := p.next(']')
		if !more {
			return ok
		}
	}
}

// member parses a record that stands in an object under a key.
func (p *parser) member(n *node, key string, depth int) bool {
	if n.list.keyID {
		p.into.ids.addString(key)
	}
	return p.item(n.each, n.list, depth)
}

// item parses an element of a list and tells the reply about it.
func (p *parser) item(n *node, l *list, depth int) bool {
	p.into.clear(l.frame)
	start := p.pos
	if !p.value(n, depth) {
		return false
	}
	f := &p.into.frames[l.frame]
	f.record = p.s[start:p.pos]
	return l.done(p.into, f)
}
