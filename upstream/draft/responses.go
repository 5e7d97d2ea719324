package draft

import (
	"cmp"
	"slices"
)

// Responses is what is proposed for the answers to an inquiry.
type Responses struct {
	Items                  string // empty: no list of texts is in the records
	Content, Role, Created Choice
	ids
	Where []Where
	Fetch string // a second call that an OpenAPI document lists; empty: none
	doubts
}

// answers finds the list within the records whose elements have a text and a time. It
// is nil if there is none.
func (d *drafter) answers(t *table) (*nested, Responses) {
	var found *nested
	var r Responses
	score, second := 0.5, ""
	for _, list := range t.lists {
		s := d.vocabulary.responses.score(list.keys)
		times := 0
		for _, col := range list.rows.columns {
			if col.time != nil {
				times++
			}
		}
		// Attachments and histories have times too; answers have little else.
		if times > 0 {
			s += 0.7 + 0.5*float64(times)/float64(len(list.rows.columns))
		}
		texts := slices.ContainsFunc(d.texts(&list.rows), func(c *column) bool { return c.share(isProse) > 0.3 })
		if texts {
			s += 0.5
		}
		if s > score && texts {
			if found != nil {
				second = found.path
			}
			found, score = list, s
		} else if texts && s > 0.8 {
			second = list.path
		}
	}
	if found == nil {
		return nil, r
	}
	r.Items = found.path
	if second != "" {
		r.doubt("or is it %s?", second)
	}
	return found, r
}

// response chooses the fields of the answers.
func (d *drafter) response(r *Responses, t *table) {
	r.Created = d.created(t)
	r.Content = d.content(t)
	r.Role = d.role(t)
	r.addAll(d, t, "")
	r.Where = d.where(t)
}

// role is the enumeration that says who answered. There need not be one.
func (d *drafter) role(t *table) Choice {
	c, all := d.bestCode(t, 0.7, func(col *column) float64 {
		score := 1.2*d.vocabulary.role.score(col.keys) - 0.05*float64(len(col.keys)) + col.coded()
		if len(col.set()) >= 2 {
			score += 0.3
		}
		return score
	})
	if len(all) == 0 {
		c.doubt("no value says whether a customer or the staff answered")
		return c
	}
	col := all[0].column
	if !col.always() {
		c.Default = new("null")
	}
	if col.share(func(x cell) bool { return x.kind == text && wordForm.MatchString(x.text) }) < 1 || col.length() < 4 {
		c.values(col, nil, responder)
		c.doubt("only the values of these samples; the public words on the right are a proposal")
	}
	if len(col.set()) == 1 {
		c.doubt("all responses have the same value")
	}
	c.near(all, 0.35)
	return c
}

// responder says what the words for a sort of author mean to the public.
func responder(word string) string {
	sort := ""
	for _, part := range split(word) {
		sort = cmp.Or(sort, sortOf(part, map[string]string{
			"customer": "customer cust buyer user client requester enduser end contact 고객 회원 member",
			"staff":    "staff agent admin operator employee support seller vendor manager 상담원 관리자 판매자",
			"system":   "system bot auto automation 시스템",
		}))
	}
	return sort
}
