package upstream

import (
	"slices"

	"inquiry-gateway/upstream/jsonwalk"
)

// fetchPlan is the compiled second request for responses.
type fetchPlan struct {
	request     requestPlan
	paging      pagingPlan
	id          []source // within a record
	idPath      string   // as it was written
	batch       int      // inquiries per request; 0: one
	join        string
	concurrency int
	reply       *endpointPlan // of a reply to it
}

// used tells whether any key of the section says something. Empty lists do not:
// a configuration that is written out in full has them.
func (r ResponsesConfig) used() bool {
	f := r.Fields
	return r.Items != "" || r.ItemsOptional || len(r.InternalIDs) > 0 || r.Fetch.used() ||
		f.Content.set() || f.ResponderType.set() || f.CreatedAt.set()
}

// used tells whether any key of the section is set, so that one that lacks
// its path is found, not ignored.
func (f FetchConfig) used() bool {
	return f.Path != "" || len(f.Query) > 0 || f.ID != "" || f.Key != "" || f.Batch != 0 || f.Join != "" || f.Concurrency != 0
}

// responses compiles the answers: within the record, or behind a second
// request.
func (c *compiler) responses(at string, cfg ResponsesConfig) {
	at += "responses."
	path, keyed := itemsOf(cfg.Items)
	r := &responsesPlan{keyed: keyed, itemsPath: cfg.Items, idPaths: cfg.InternalIDs}
	c.plan.responses = r
	element := jsonwalk.NewNode(frameResponse)
	items := jsonwalk.List{Frame: frameResponse, Keyed: keyed, KeyID: slices.Contains(cfg.InternalIDs, keyPath)}
	if cfg.ItemsOptional && !cfg.Fetch.used() {
		c.add(at+"items_optional", "has no meaning without fetch: a record without responses is one with none; remove it")
	}
	if items.KeyID && !keyed {
		c.add(at+"internal_ids", "%s is for items that are the members of an object; let the path of items end in @values", keyPath)
	}
	inner := *c
	keys, simple := jsonwalk.SimplePath(path, false)
	switch {
	case cfg.Items == "":
		c.add(at+"items", "missing: the GJSON path of the array of responses")
	case !c.path(at+"items", cfg.Items):
	case cfg.Fetch.used():
		inner.plan = c.second(at+"fetch", cfg, r, items, element)
	case simple:
		n := c.root.At(keys, frameRecord)
		element = n.SetList(items, element) // ids that lie deeper were met before
		r.items = source{slot: c.slot(n)}
	default:
		r.items = source{path: path}
		r.list = jsonwalk.NewNode(frameRecord)
		r.list.SetList(items, element)
	}
	inner.root, inner.frame = element, frameResponse
	inner.response(at, cfg, r)
}

// response compiles what one response consists of.
func (c *compiler) response(at string, cfg ResponsesConfig, r *responsesPlan) {
	r.ids = c.internalIDs(at+"internal_ids", cfg.InternalIDs)
	if cfg.Fetch.Key != "" && c.path(at+"fetch.key", cfg.Fetch.Key) {
		r.key = []source{c.source(cfg.Fetch.Key)}
	}
	fields := at + "fields."
	r.content = c.text(fields, "content", cfg.Fields.Content)
	r.role = c.text(fields, "responder_type", cfg.Fields.ResponderType)
	r.created = c.time(fields, "created_at", cfg.Fields.CreatedAt)
	r.content.name, r.role.name, r.created.name = "responses.content", "responses.responder_type", "responses.created_at"
	r.role.nullable = true
	c.notNull(at[:len(at)-len("responses.")], r.content)
}

// second compiles the second request and gives the plan of its replies.
func (c *compiler) second(field string, cfg ResponsesConfig, r *responsesPlan, items jsonwalk.List, element *jsonwalk.Node) *endpointPlan {
	f := cfg.Fetch
	records := jsonwalk.NewNode(frameReply)
	records.SetList(items, element)
	plan := &endpointPlan{kind: c.plan.kind, root: jsonwalk.NewNode(frameReply), records: records, responses: r, second: true, noItems: cfg.ItemsOptional}
	path, keyed := itemsOf(cfg.Items)
	plan.keyed = keyed
	if keys, simple := jsonwalk.SimplePath(path, false); simple || path == "@this" {
		n := plan.root.At(keys, frameReply)
		n.SetList(items, element)
		sub := *c
		sub.plan = plan
		plan.itemsSlot = sub.slot(n)
	} else {
		plan.items = path
	}
	name := varID
	if f.Batch > 0 {
		name = varIDs
	}
	known := []string{varAccount, name}
	r.fetch = &fetchPlan{
		request: requestSpec{f.Path, f.Query, known, known}.compile(field, c.problems),
		paging:  compilePaging(field+".paging", f.Paging, c.problems),
		idPath:  f.ID,
		batch:   f.Batch, join: f.Join, concurrency: f.Concurrency, reply: plan,
	}
	c.checkSecond(field, name, f, r.fetch)
	if f.ID == "" {
		c.add(field+".id", "missing: the GJSON path, within a record, of the id that the responses are asked for with")
	} else if c.path(field+".id", f.ID) {
		r.fetch.id = []source{c.source(f.ID)}
	}
	return plan
}

// checkSecond reports what would make the second request mean something else
// than it says.
func (c *compiler) checkSecond(field, name string, f FetchConfig, plan *fetchPlan) {
	if !plan.request.has(name) {
		c.add(field+".path", "neither path nor query holds {%s}: every inquiry would get the same responses", name)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"batch", f.Batch}, {"concurrency", f.Concurrency}} {
		if n.value < 0 {
			c.add(field+"."+n.name, "must not be negative")
		}
	}
	if f.Batch > 0 && f.Key == "" {
		c.add(field+".key", "missing: the GJSON path, within a response, of the id of its inquiry")
	}
	if f.Batch == 0 && f.Join != "" {
		c.add(field+".join", "has no meaning without batch; remove it")
	}
	if f.Batch == 0 && f.Key != "" {
		c.add(field+".key", "has no meaning without batch; remove it")
	}
	for _, q := range plan.request.query {
		if f.Join == repeatValues && q.text.has(varIDs, true) && !q.text.alone() {
			c.add(field+".join", "parameter %q holds more than {ids}, so it cannot be repeated for each id; give a separator", q.name)
		}
	}
	if f.Join == repeatValues && slices.ContainsFunc(plan.request.path, func(p piece) bool { return p.name == varIDs }) {
		c.add(field+".join", "a path cannot be repeated; give a separator")
	}
	if plan.join == "" {
		plan.join = ","
	}
	if plan.concurrency == 0 {
		plan.concurrency = 8
	}
}
