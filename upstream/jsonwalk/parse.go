package jsonwalk

import "strings"

// maxDepth bounds the nesting of a reply. Real ones have less than twenty
// levels; the parser recurses once per level.
const maxDepth = 100

// parser reads one text for a walker. It is used once.
//
// Its methods take the position to go on from and give the one after what they
// parsed, or a negative number for a mistake: positions in registers make the
// whole a third faster than one in memory.
type parser struct {
	s   string
	w   *Walker
	err *SyntaxError
	// invalidUTF8: a string is not UTF-8. That is told at the end, because RFC 8259
	// makes it no mistake of the grammar.
	invalidUTF8 bool
}

// fail notes the first mistake. It gives the negative number, so that callers
// can return it.
func (p *parser) fail(at int, what string) int {
	if p.err == nil {
		p.err = &SyntaxError{what, at}
	}
	return -1
}

// document parses the whole text as one value, or as one item, and gives where it stands; to
// is negative for a mistake.
func (p *parser) document(root *Node, item bool) (from, to int) {
	at := p.w.root(root)
	if from = p.space(0); item {
		to = p.item(from, at, root.frame, 0)
	} else {
		to = p.value(from, at, 0)
	}
	if to >= 0 {
		if end := p.space(to); end < len(p.s) {
			to = p.fail(end, "something follows the JSON value")
		}
	}
	return from, to
}

// space skips white space. Compact replies have none, so that is seen inline.
func (p *parser) space(i int) int {
	if i < len(p.s) && p.s[i] > ' ' {
		return i
	}
	return skipSpace(p.s, i)
}

// skipSpace skips the four characters that RFC 8259 calls white space.
func skipSpace(s string, i int) int {
	for i < len(s) {
		switch s[i] {
		case ' ', '\t', '\r', '\n':
			i++
		default:
			return i
		}
	}
	return i
}

// value parses the value that starts at i, and that has the shape.
func (p *parser) value(i int, at *shape, depth int) (end int) {
	if i >= len(p.s) {
		return p.fail(i, "the text ends where a value is expected")
	}
	v := slot{from: int32(i)}
	switch p.s[i] {
	case '"':
		if n := at.node; n != nil && n.id && len(n.slots) == 0 {
			if size := p.w.ids.AddQuoted(p.s, i); size > 0 {
				return i + size
			}
		}
		v.kind = Text
		end, v.esc = p.str(i)
	case '{':
		v.kind = Object
		end = p.object(i, at, depth+1)
	case '[':
		v.kind = Array
		end = p.array(i, at, depth+1)
	case 't':
		v.kind = Bool
		end = p.literal(i, "true")
	case 'f':
		v.kind = Bool
		end = p.literal(i, "false")
	case 'n':
		v.kind = Null
		end = p.literal(i, "null")
	default:
		v.kind = Number
		end = p.number(i)
	}
	if n := at.node; n != nil && end >= 0 && (n.id || len(n.slots) > 0) {
		v.to = int32(end)
		p.w.capture(n, v, p.s)
	}
	return end
}

// literal parses true, false or null.
func (p *parser) literal(i int, word string) int {
	if !strings.HasPrefix(p.s[i:], word) {
		return p.fail(i, "unknown word")
	}
	return i + len(word)
}

// object parses an object. What it holds is checked even where no node wants
// it: half a check would let the other half through.
func (p *parser) object(i int, at *shape, depth int) int {
	if depth > maxDepth {
		return p.fail(i, "nested too deeply")
	}
	if i = p.space(i + 1); i < len(p.s) && p.s[i] == '}' {
		return i + 1
	}
	var seen nameBits
	if at.fixed || at.node.itemsIn(true) != nil {
		return p.slowObject(i, at, &seen, depth)
	}
	for next := 0; ; next++ {
		var after int
		if next < len(at.names) && at.names[next].matchesAt(p.s, i) {
			after = i + len(at.names[next].raw)
		} else if next, after = p.findName(i, at, next, &seen); after < 0 {
			return after
		} else if next < 0 {
			return p.slowObject(i, at, &seen, depth)
		}
		if !seen.add(next) {
			return p.fail(after, duplicateName)
		}
		if i = p.colon(after); i < 0 {
			return i
		}
		if i = p.value(i, &at.names[next], depth); i < 0 {
			return i
		}
		if i+1 < len(p.s) && p.s[i] == ',' && p.s[i+1] > ' ' { // what next says, of compact replies
			i++
			continue
		}
		more := false
		if i, more = p.next(i, '}'); !more {
			return i
		}
	}
}

const duplicateName = "duplicate name in an object"

// slowObject parses the rest of an object without the key-order cache: it has too
// many names, or each name is the key of an item.
func (p *parser) slowObject(i int, at *shape, seen *nameBits, depth int) int {
	names := make(map[string]struct{})
	for k := range at.names {
		if seen.has(k) {
			names[at.names[k].name] = struct{}{}
		}
	}
	items := at.node.itemsIn(true)
	for more := true; more; {
		key, after := p.key(i)
		if after < 0 {
			return after
		}
		if _, twice := names[key]; twice {
			return p.fail(after, duplicateName)
		}
		names[key] = struct{}{}
		if i = p.colon(after); i < 0 {
			return i
		}
		if items != nil {
			i = p.member(i, at, key, depth)
		} else {
			i = p.value(i, p.w.unlearnt(at.node.child(key)), depth)
		}
		if i < 0 {
			return i
		}
		i, more = p.next(i, '}')
	}
	return i
}

// key parses a name in quotation marks and gives it without escapes.
func (p *parser) key(i int) (key string, after int) {
	if i >= len(p.s) || p.s[i] != '"' {
		return "", p.fail(i, "a name in quotation marks is expected")
	}
	after, esc := p.str(i)
	if after < 0 {
		return "", after
	}
	key = p.s[i+1 : after-1]
	if esc {
		key = unescape(key)
	}
	return key, after
}

// colon parses the colon after a name, and the white space around it.
func (p *parser) colon(i int) int {
	if i+1 < len(p.s) && p.s[i] == ':' && p.s[i+1] > ' ' {
		return i + 1
	}
	return p.farColon(i)
}

// farColon is for a colon with white space around it, and for none.
func (p *parser) farColon(i int) int {
	if i = p.space(i); i >= len(p.s) || p.s[i] != ':' {
		return p.fail(i, "a colon is expected")
	}
	return p.space(i + 1)
}

// next parses what follows an element: a comma and the white space after it,
// or the end.
func (p *parser) next(i int, end byte) (after int, more bool) {
	i = p.space(i)
	if i >= len(p.s) {
		return p.fail(i, "the text ends within an object or array"), false
	}
	switch p.s[i] {
	case ',':
		return p.space(i + 1), true
	case end:
		return i + 1, false
	}
	return p.fail(i, "a comma or the end of an object or array is expected"), false
}

// array parses an array, whose elements may be items.
func (p *parser) array(i int, at *shape, depth int) int {
	if depth > maxDepth {
		return p.fail(i, "nested too deeply")
	}
	if i = p.space(i + 1); i < len(p.s) && p.s[i] == ']' {
		return i + 1
	}
	element, items := p.w.element(at), at.node.itemsIn(false)
	for more := true; more; {
		if items != nil {
			i = p.item(i, element, items.Frame, depth)
		} else {
			i = p.value(i, element, depth)
		}
		if i < 0 {
			return i
		}
		i, more = p.next(i, ']')
	}
	return i
}

// member parses an item that is a member of an object.
func (p *parser) member(i int, at *shape, key string, depth int) int {
	if at.node.items.KeyID {
		p.w.ids.Add(key)
	}
	p.w.frames[at.node.items.Frame].Key = key
	return p.item(i, p.w.element(at), at.node.items.Frame, depth)
}

// item parses an item and tells the sink about it.
func (p *parser) item(i int, at *shape, frame, depth int) int {
	p.w.Clear(frame)
	end := p.value(i, at, depth)
	if end < 0 {
		return end
	}
	f := &p.w.frames[frame]
	f.Element = element(p.s[i:end])
	if !p.w.sink.End(frame, f) {
		return -1
	}
	return end
}
