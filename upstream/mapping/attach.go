package mapping

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsonwalk"
)

// Second is how the responses to a list's inquiries, or the details of its records,
// are asked for by further requests. It is read-only and safe for concurrent use.
type Second struct {
	*Plan           // of the request and its replies
	Concurrency int // requests at a time

	id     identity // of a record
	idPath string   // as it was written
	batch  int      // records per request; 0: one
	join   string   // between the ids of a batch
}

// identity is what a further request is made with: values of a record by their
// placeholders.
type identity []idValue

type idValue struct {
	placeholder string
	at          source
}

// idSeparator stands between several values in the one text that identifies a record.
const idSeparator = "\x00"

// of gives the text that identifies a record; false: a value is missing, or none.
func (all identity) of(f *jsonwalk.Frame) (id string, ok bool) {
	for i, one := range all {
		v := one.at.find(f)
		if v.Plain() == "" || !v.Scalar() || len(all) > 1 && strings.Contains(v.String(), idSeparator) {
			return "", false
		}
		if i > 0 {
			id += idSeparator
		}
		id += v.String()
	}
	return id, true
}

// shownID is the text for a person.
func shownID(id string) string { return strings.ReplaceAll(id, idSeparator, ", ") }

// defaultSecondConcurrency is how many second requests are made at a time.
const defaultSecondConcurrency = 8

// placeholderName is what fetch.ids may call a value, where it means nothing else.
var placeholderName = regexp.MustCompile(`^[a-z_]+$`)

// second compiles a second request. plan is that of its replies.
func (c *compiler) second(field string, f FetchConfig, plan *Plan) *Second {
	plan.Format = c.plan.Format
	plan.Format.Lists = decode.Lists{}
	if setting.Says(f.Reply) {
		plan.Format = c.format(field+".reply", f.Reply)
	}
	name := address.ID
	if f.Batch > 0 {
		name = address.IDs
	}
	paths := map[string]string{name: f.ID}
	if len(f.IDs) > 0 {
		paths = f.IDs
		c.AddIf(f.ID != "", field+".id", "ids is set, too; remove the one or the other")
		c.AddIf(f.Batch > 0, field+".ids", "has no meaning with batch, whose requests name many records by one value each; use id, or remove batch")
	}
	names := slices.Sorted(maps.Keys(paths))
	known := append([]string{address.Account}, names...)
	c.request(plan, field, f.RequestConfig, f.Paging, known, known)
	s := &Second{Plan: plan, Concurrency: cmp.Or(f.Concurrency, defaultSecondConcurrency), batch: f.Batch, join: f.Join}
	switch within := s.request.Within(name); {
	case s.batch == 0 || s.join != "":
	case len(within) > 0:
		c.Add(field+".join", `missing: %s is more than {ids}, and several ids make one text of it; say what stands between them, such as join: ",", or leave batch out: one request for each record, named by {id}`, within[0])
	case s.request.InLists(name):
		s.join = repeatValues
	}
	s.join = cmp.Or(s.join, ",")
	for _, name := range names {
		key, path := field+".id", paths[name]
		if len(f.IDs) > 0 {
			key = field + ".ids." + name
			taken := slices.Contains([]string{address.Account, address.Status, address.Type, address.ID, address.IDs, address.Page, address.Offset, address.Cursor, address.Size}, name)
			c.AddIf(taken || !placeholderName.MatchString(name), key, "cannot be the name of a placeholder; use small letters and _, such as project, and none that has a meaning already")
		}
		c.AddIf(!s.request.Has(name), field+".path", "neither path, query nor body holds {%s}: every record would get the same reply", name)
		if path == "" {
			c.Add(key, "missing: the GJSON path, within a record, of the id that the request is made with")
		} else if c.path(key, path) {
			s.id = append(s.id, idValue{name, c.source(path)})
			c.use(key, "", false, path)
		}
		s.idPath = strings.TrimPrefix(s.idPath+", "+path, ", ")
	}
	c.AddIf(f.Batch > 0 && f.Key == "", field+".key", "missing: the GJSON path, within what comes, of the id of its record")
	c.AddIf(f.Batch == 0 && f.Join != "", field+".join", "has no meaning without batch; remove it")
	c.AddIf(f.Batch == 0 && f.Key != "", field+".key", "has no meaning without batch; remove it")
	if f.Join == repeatValues {
		for _, place := range s.request.OneValue(address.IDs) {
			c.Add(field+".join", cannotRepeat, place, address.IDs)
		}
		c.AddIf(s.request.InPath(address.IDs), field+".join", "a path cannot be repeated; give a separator")
	}
	return s
}

// Request gives the requests for what belongs to the records with the ids, and what
// takes the replies. An id comes from the legacy and must stay one value: one that
// would be read as two, or as another address, is refused with an [*Error].
func (s *Second) Request(account string, ids []string) (ask Asking, sub *Builder, err error) {
	values := address.Values{address.Account: {account}}
	if s.batch == 0 {
		for i, value := range strings.SplitN(ids[0], idSeparator, len(s.id)) {
			values[s.id[i].placeholder] = []string{value}
		}
	} else {
		values[address.IDs] = ids
		if s.join != repeatValues {
			values[address.IDs] = []string{strings.Join(ids, s.join)}
		}
		for _, id := range ids {
			if err := s.request.Check(address.IDs, id); err != nil {
				return ask, nil, refusal("record", "the id of a record cannot be sent: %w", err)
			}
			if s.join != repeatValues && strings.Contains(id, s.join) {
				return ask, nil, refusal("record", "the id of a record holds the separator of the batch")
			}
		}
	}
	return Asking{&s.request, values, true}, s.NewBuilder(Request{Account: account}), nil
}

// batches are the ids of some records, as many together as one request asks for.
func (s *Second) batches(ids []string) [][]string {
	if s == nil || len(ids) == 0 {
		return nil
	}
	return slices.Collect(slices.Chunk(ids, max(s.batch, 1)))
}

// deal calls give with each record of a batch and what came for it: the indexes of the
// record and of the element. One id may stand for several records: each of them gets all.
// What came for a record that was not asked for could be somebody else's: false.
func deal(ids, keys []string, give func(record, element int)) bool {
	records := make(map[string][]int, len(ids))
	for i, id := range ids {
		records[id] = append(records[id], i)
	}
	for element, key := range keys {
		at, asked := records[key]
		if !asked {
			return false
		}
		for _, record := range at {
			give(record, element)
		}
	}
	return true
}

// Batches are the ids of the list's inquiries, as many together as one further
// request asks for. It is empty if there is nothing to ask for.
func (b *Builder) Batches() [][]string { return b.plan.Second.batches(b.secondIDs) }

// AddResponses gives the inquiries of the list the responses in subs, which has
// one for each of the batches. An error is an [*Error].
func (b *Builder) AddResponses(subs []*Builder) error {
	kept, at := b.List[:0], 0
	for i, ids := range b.Batches()[:len(subs)] {
		sub, list, wrong := subs[i], b.List[at:at+len(ids)], make([]violation, len(ids))
		b.ids.Merge(&sub.ids)
		for t, n := range sub.defaulted {
			b.defaulted[t] += n
		}
		spoilt := slices.Collect(maps.Keys(sub.spoilt))
		switch {
		case b.plan.Second.batch == 0:
			list[0].Responses, wrong[0] = sub.responses, sub.broken
		case sub.broken.why != "": // whose response it is cannot be told, so none of them can be used
			return refusal("record", "%s: %s", sub.broken.field, sub.broken.why)
		case !deal(ids, sub.keys, func(i, k int) { list[i].Responses = append(list[i].Responses, sub.responses[k]) }) ||
			!deal(ids, spoilt, func(i, k int) { wrong[i] = sub.spoilt[spoilt[k]] }):
			return refusal("record", "a response belongs to an inquiry that was not asked for")
		}
		for i, bad := range wrong {
			at++
			if b.notes != nil {
				b.notes.noteResponse(bad)
			}
			// Whether a mistake in one of them ends the list is the configuration's choice, as
			// for any other mistake in a record.
			if bad.why == "" {
				kept = append(kept, list[i])
			} else if !b.refuse(bad, refusal("record", "responses of inquiry %d: %s: %s", at, bad.field, bad.why)) {
				return b.err
			}
		}
	}
	kept = append(kept, b.List[at:]...)
	clear(b.List[len(kept):])
	b.List = kept
	return nil
}

// bareID is the member that a record has which came as a bare id.
const bareID = "id"

// waiting is a record before its detail is there, or a detail.
type waiting struct {
	raw    string
	number int // of the record
	tables []map[string]jsonwalk.Value
}

// details compiles the request for details and the plan of its replies. Without the
// section it does nothing. It must run before the fields are compiled, whose paths may
// lead into the detail.
func (c *compiler) details(field string, cfg DetailsConfig) {
	if !setting.Says(cfg) {
		return
	}
	cfg.As, cfg.Items = cmp.Or(cfg.As, "details"), cmp.Or(cfg.Items, "@this")
	keys, simple := jsonwalk.SimplePath(cfg.As, false)
	c.AddIf(!simple || len(keys) != 1, field+".as", "must be a single name of letters, digits and _, which paths of the record begin with")
	usable := c.path(field+".items", cfg.Items)
	plan := &Plan{Kind: c.plan.Kind, MaxRecords: c.plan.MaxRecords, root: jsonwalk.NewNode(frameReply)}
	c.plan.Details = c.second(field+".fetch", cfg.Fetch, plan)
	c.plan.as, c.plan.collect = cfg.As, c.plan.Details.id
	c.plan.merged = jsonwalk.NewNode(frameReply)
	c.plan.merged.SetList(jsonwalk.List{Frame: frameRecord}, c.root)
	inner := *c
	inner.plan, inner.root, inner.frame, inner.at = plan, plan.root, frameReply, plan.Format.place()
	if cfg.Fetch.Batch == 0 {
		plan.single = cfg.Items
		inner.at = inner.at.note(cfg.Items)
		c.AddIf(c.plan.Details.Paging.Style != PageNone, field+".fetch.paging", "one detail has no pages; remove it, or set batch")
	} else if usable {
		plan.items, inner.root = inner.list(field+".", cfg.Items, nil, list{}, jsonwalk.NewNode(frameRecord))
		inner.frame, inner.at = frameRecord, inner.at.inside(cfg.Items)
		for _, key := range inner.sources(field+".fetch.key", field+".fetch.key", Paths{cfg.Fetch.Key}) {
			plan.collect = identity{{at: key}}
		}
	}
	c.at.as, c.at.detail = cfg.As, &inner.at
}

// wait keeps a record for the time when its detail is there, or a detail.
func (b *Builder) wait(f *jsonwalk.Frame) (fate, violation) {
	id, ok := b.plan.collect.of(f)
	if d := b.plan.Details; d != nil && d.idPath == bareID && !f.IsObject() {
		bare := jsonwalk.FromJSON(f.Element) // as the record that it becomes has it
		id, ok = bare.String(), bare.Plain() != "" && bare.Scalar()
	}
	if !ok {
		return refused, violation{"details", whyNoDetailID}
	}
	b.waiting = append(b.waiting, waiting{f.Element, b.number, f.Tables})
	b.keys = append(b.keys, id)
	return waits, violation{}
}

// takeDetail takes a reply that is one detail, or tells that there is none.
func (b *Builder) takeDetail(body string) *Error {
	b.held = jsonwalk.Lookup(body, b.plan.single)
	switch {
	case b.held.Kind == jsonwalk.Object:
		b.Seen++
		b.waiting = append(b.waiting, waiting{raw: b.held.Raw})
	case b.held.Present():
		return refusal("items", "the detail is not an object")
	}
	return nil
}

// DetailBatches are the ids of the records that details are asked for, as many
// together as one request asks for.
func (b *Builder) DetailBatches() [][]string { return b.plan.Details.batches(b.keys) }

// AddDetails maps the records of the list with the details in subs, which has one
// for each of the batches. An error is an [*Error].
func (b *Builder) AddDetails(subs []*Builder) error {
	details := make([]string, len(b.waiting)) // empty: there is none
	at, twice := 0, false
	for i, ids := range b.DetailBatches()[:len(subs)] {
		sub, mine := subs[i], details[at:at+len(ids)]
		at += len(ids)
		switch {
		case sub == nil || len(sub.waiting) == 0:
		case b.plan.Details.batch == 0:
			mine[0] = sub.waiting[0].raw
		case !deal(ids, sub.keys, func(i, k int) { twice = twice || mine[i] != ""; mine[i] = sub.waiting[k].raw }):
			return refusal("record", "a detail came of a record that was not asked for")
		case twice:
			return refusal("record", "two details of one record came")
		}
	}
	b.merging, b.body = true, ""
	for i, one := range b.waiting {
		text, err := b.plan.merge(one.raw, details[i])
		if err != nil {
			return err
		}
		b.number, b.noDetail = one.number, details[i] == ""
		b.setTables(one.tables)
		if err := b.walk(text, b.plan.merged, frameReply); err != nil {
			return err
		}
	}
	return nil
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
