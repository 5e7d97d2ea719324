package legacy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// The two time notations: wall clock of Seoul, no zone.
const (
	buyerTime  = "2006-01-02 15:04:05"
	sellerTime = "20060102150405"
)

const (
	agentDomain  = "agents.legacydesk.internal"
	internalNote = "internal note: do not show"
)

// object is a JSON object: names and values in turn, written in this order.
type object []any

// list is a JSON array.
type list []any

// appendJSON appends a value as JSON. encoding/json writes the members of a map in the
// order of their names, and this system has an order of its own.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case object:
		b = append(b, '{')
		for i := 0; i < len(v); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendJSON(b, v[i]), ':')
			b = appendJSON(b, v[i+1])
		}
		return append(b, '}')
	case list:
		b = append(b, '[')
		for i, element := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, element)
		}
		return append(b, ']')
	default:
		rendered, err := json.Marshal(v)
		if err != nil {
			panic("legacy: strings and numbers always marshal: " + err.Error())
		}
		return append(b, rendered...)
	}
}

// optional is null for an empty text.
func optional(s string) any {
	if s == null {
		return nil
	}
	return s
}

// local is a moment as the clocks of Seoul show it.
func local(t time.Time, layout string) string { return t.In(seoul()).Format(layout) }

// buyerItem is a ticket as the newer endpoint shows it: nested, with local times and no
// escapes.
func (d *dataset) buyerItem(t *ticket) object {
	var replies any // null where there are none and the number is odd
	if len(t.replies) > 0 || t.number%2 == 0 {
		all := list{}
		for _, r := range t.replies {
			all = append(all, object{"uuid", r.id, "text", r.text.raw, "by", d.who(r.by), "at", local(r.at, buyerTime)})
		}
		replies = all
	}
	return object{
		"uuid", t.id, "no", t.number,
		"customer", object{"id", t.buyer.account, "ref", t.buyer.ref},
		"subject", t.subject.raw,
		"body", object{"text", t.body.raw, "format", "plain", "lang", nil},
		"state", states[t.state].buyer,
		"category", optional(categories[t.category].buyer),
		"opened", local(t.opened, buyerTime),
		"replies", replies,
		"_memo", internalNote,
	}
}

// who wrote a reply; null stands for the system.
func (d *dataset) who(by role) any {
	switch by {
	case staff:
		return object{"role", roles[by].buyer, "mail", "cs@" + agentDomain, "user_uuid", d.agentUserID}
	case customer:
		return object{"role", roles[by].buyer}
	default:
		return nil
	}
}

// sellerItem is a ticket as the older endpoint shows it: abbreviated names, digits for
// times, and a code in an object of its own.
func sellerItem(t *ticket) object {
	var kind any
	if code := categories[t.category].seller; code != null {
		kind = object{"cd", code}
	}
	thread := list{}
	for _, r := range t.replies {
		thread = append(thread, object{"msgId", r.id, "rl", roles[r.by].seller})
	}
	return object{
		"ticketId", t.id, "seq", t.number,
		"vendor", object{
			"code", t.company.account, "ref", t.company.ref,
			"corp", object{"name", object{"local", t.company.name, "en", nil}},
		},
		"ttl", t.subject.raw,
		"st", object{"cd", states[t.state].seller},
		"kind", kind,
		"rqstr", t.buyer.ref, // internal UUID of the customer
		"regDt", local(t.opened, sellerTime),
		"thread", thread,
		"memo", internalNote,
	}
}

// record renders one ticket in the notation of a kind.
func (d *dataset) record(kind string, t *ticket) []byte {
	if kind == KindSeller {
		return escaped(appendJSON(nil, sellerItem(t)))
	}
	return appendJSON(nil, d.buyerItem(t))
}

// escaped rewrites JSON in the notation of old serializers: everything outside
// ASCII as \u escapes, in surrogate pairs where needed, and \/ for a slash. Both
// occur inside strings only, so the values stay the same.
func escaped(in []byte) []byte {
	out := make([]byte, 0, len(in)+len(in)/4)
	for i := 0; i < len(in); {
		r, size := utf8.DecodeRune(in[i:])
		i += size
		switch {
		case r == '/':
			out = append(out, `\/`...)
		case r < utf8.RuneSelf:
			out = append(out, byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

// envelope joins rendered records into a whole reply.
func envelope(kind string, records [][]byte) []byte {
	head, tail := `{"result":{"code":"OK","total":%d,"items":[`, `]},"took_ms":3}`
	if kind == KindSeller {
		head, tail = `{"resultCode":"0000","resultMsg":null,"data":{"cnt":"%d","list":[`, `]}}`
	}
	body := fmt.Appendf(nil, head, len(records))
	body = append(body, bytes.Join(records, []byte(","))...)
	return append(body, tail...)
}

// Bounds of the rendered replies that are kept. They exist so that this server
// costs little beside the gateway that it is measured with.
const (
	maxBodies    = 8192
	maxBodyBytes = 64 << 20
)

// bodyKey is all that the bytes of a reply depend on, besides the version of the list.
type bodyKey struct {
	kind, account, states, categories string
}

// body is a rendered reply.
type body struct {
	version int // of the list
	text    []byte
}

// bodyCache keeps rendered replies. Full, it starts anew: the lists that are in
// demand are rendered again soon. Its zero value is usable, and safe for
// concurrent use.
type bodyCache struct {
	mu     sync.RWMutex
	bodies map[bodyKey]body
	bytes  int
}

// get finds the reply of that version of a list.
func (c *bodyCache) get(k bodyKey, version int) ([]byte, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b, ok := c.bodies[k]
	return b.text, ok && b.version == version
}

// put keeps a reply in place of that of an older version.
func (c *bodyCache) put(k bodyKey, b body) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bodies == nil || len(c.bodies) >= maxBodies || c.bytes+len(b.text) > maxBodyBytes {
		c.bodies, c.bytes = make(map[bodyKey]body), 0
	}
	c.bytes += len(b.text) - len(c.bodies[k].text)
	c.bodies[k] = b
}
