package mapping

import (
	"cmp"
	"slices"
	"strings"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/jsonwalk"
)

// bareID is the member that a record has which came as a bare id.
const bareID = "id"

// listed is an item of a list before its detail is there, or a detail.
type listed struct {
	raw    string
	id     string // of the record
	tables []map[string]jsonwalk.Value
}

// details compiles the request for details and the plan of its replies. Without the
// section it does nothing. It must run before the fields are compiled, whose paths may
// lead into the detail.
func (c *compiler) details(field string, cfg DetailsConfig) {
	if !invalid.Says(cfg) {
		return
	}
	cfg.As = cmp.Or(cfg.As, "details")
	cfg.Items = cmp.Or(cfg.Items, "@this")
	keys, simple := jsonwalk.SimplePath(cfg.As, false)
	c.AddIf(!simple || len(keys) != 1, field+".as", "must be a single name of letters, digits and _, which paths of the record begin with")
	usable := c.path(field+".items", cfg.Items)
	plan := &Plan{Kind: c.plan.Kind, MaxRecords: c.plan.MaxRecords}
	c.plan.Details = c.second(field+".fetch", cfg.Fetch, plan)
	c.plan.as, c.plan.collect = cfg.As, c.plan.Details.id
	c.plan.merged = jsonwalk.NewNode(frameReply)
	c.plan.merged.SetList(jsonwalk.List{Frame: frameRecord}, c.root)
	inner := *c
	inner.plan, inner.root, inner.frame, inner.at = plan, jsonwalk.NewNode(frameRecord), frameRecord, plan.Format.place()
	if cfg.Fetch.Batch == 0 {
		plan.single, plan.reply.root = cfg.Items, jsonwalk.NewNode(frameReply)
		inner.at = inner.at.note(cfg.Items)
		c.AddIf(c.plan.Details.Paging.Style != PageNone, field+".fetch.paging", "one detail has no pages; remove it, or set batch")
	} else if usable {
		plan.reply = inner.replyItems(cfg.Items, false, jsonwalk.List{Frame: frameRecord}, inner.root)
		inner.at = inner.at.inside(cfg.Items)
		plan.collect = inner.paths(field+".fetch.key", field+".fetch.key", Paths{cfg.Fetch.Key})
	}
	c.at.as, c.at.detail = cfg.As, &inner.at
}

// collect keeps an item for the time when its detail is there.
func (r *Reply) collect(f *jsonwalk.Frame) bool {
	id := firstOf(r.plan.collect, f)
	if d := r.plan.Details; d != nil && d.idPath == bareID && !f.IsObject() {
		id = jsonwalk.FromJSON(f.Element) // as the record that it becomes has it
	}
	if id.Plain() == "" || !id.Scalar() {
		return r.refuse(violation{"details", whyNoDetailID})
	}
	r.listed = append(r.listed, listed{f.Element, id.String(), f.Tables})
	return true
}

// takeDetail takes a reply that is one detail, or tells that there is none.
func (r *Reply) takeDetail(body string) *Error {
	r.items = jsonwalk.Lookup(body, r.plan.single)
	switch {
	case r.items.Kind == jsonwalk.Object:
		r.listed = append(r.listed, listed{raw: r.items.Raw})
	case r.items.Present():
		return refusal("items", "the detail is not an object")
	}
	return nil
}

// DetailBatches are the ids of the records that details are asked for, as many
// together as one request asks for.
func (r *Reply) DetailBatches() [][]string {
	if r.plan.Details == nil || len(r.listed) == 0 {
		return nil
	}
	ids := make([]string, len(r.listed))
	for i, one := range r.listed {
		ids[i] = one.id
	}
	return slices.Collect(slices.Chunk(ids, max(r.plan.Details.batch, 1)))
}

// AddDetails maps the records of the list with the details in subs, which has one
// reply for each of the batches. An error is an [*Error].
func (r *Reply) AddDetails(subs []*Reply) error {
	details, err := r.dealDetails(subs)
	if err != nil {
		return err
	}
	r.Seen, r.merging, r.size = 0, true, 0
	for i, one := range r.listed {
		text, err := r.plan.merge(one.raw, details[i])
		if err != nil {
			return err
		}
		r.noDetail = details[i] == ""
		r.setTables(one.tables)
		if err := r.walk(text, r.plan.merged, frameReply); err != nil {
			return err
		}
	}
	return nil
}

// dealDetails finds the detail of each record; empty: it has none. What came for a
// record that was not asked for could be somebody else's, and is refused.
func (r *Reply) dealDetails(subs []*Reply) ([]string, error) {
	details := make([]string, len(r.listed))
	size := max(r.plan.Details.batch, 1)
	for i, sub := range subs {
		if sub == nil || len(sub.listed) == 0 {
			continue
		}
		if r.plan.Details.batch == 0 {
			details[i] = sub.listed[0].raw
			continue
		}
		byID := make(map[string]string, len(sub.listed))
		for _, one := range sub.listed {
			if byID[one.id] != "" {
				return nil, refusal("record", "two details of one record came")
			}
			byID[one.id] = one.raw
		}
		asked := map[string]bool{}
		for j := i * size; j < min((i+1)*size, len(r.listed)); j++ {
			id := r.listed[j].id
			details[j], asked[id] = byID[id], true
		}
		for id := range byID {
			if !asked[id] {
				return nil, refusal("record", "a detail came of a record that was not asked for")
			}
		}
	}
	return details, nil
}

// merge writes an array of one record, with its detail as a member. Both are valid JSON
// by now, so that the texts can be put together as they are. A bare id becomes a
// record.
func (p *Plan) merge(raw, detail string) (string, error) {
	var b strings.Builder
	b.Grow(len(raw) + len(detail) + len(p.as) + 16)
	b.WriteByte('[')
	if raw[0] == '{' {
		if jsonwalk.Lookup(raw, p.as).Kind != jsonwalk.Missing {
			return "", refusal("record", "a record has a member %q of its own; give another name as details.as", p.as)
		}
		b.WriteString(strings.TrimRight(raw[:len(raw)-1], " \t\r\n"))
	} else {
		b.WriteString(`{"` + bareID + `":` + raw)
	}
	if detail != "" {
		if b.Len() > len("[{") {
			b.WriteByte(',')
		}
		b.WriteString(`"` + p.as + `":` + detail)
	}
	b.WriteString("}]")
	return b.String(), nil
}
