package mapping

import (
	"cmp"
	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsonwalk"
)

// responsesPlan is the compiled mapping of the answers, wherever they come
// from.
type responsesPlan struct {
	kind          jsonwalk.Kind // what holds the answers: an array, or an object
	items         source
	entries       *entries       // nil: what is at items are the answers themselves
	holder        *holder        // nil: the record itself, or what has other fields, too
	list          *jsonwalk.Node // of the answers alone, where their path is not simple
	ids           []string       // paths of internal ids that are not simple
	content, role *textPlan
	created       *timePlan
	itemsPath     string // as it was written, for Explain
	idPaths       []string
	where         []condition // that an answer must have to be shown
	key           []source    // of a response's inquiry, in a batch
}

// defaultSecondConcurrency is how many second requests are made at a time.
const defaultSecondConcurrency = 8

// responses compiles the answers: within the record, or behind a second request. Of
// these the items belong to another reply, so they are compiled against a plan of their
// own.
func (c *compiler) responses(at string, cfg ResponsesConfig) {
	at += "responses."
	r := &responsesPlan{itemsPath: cfg.Items, idPaths: cfg.InternalIDs}
	c.plan.responses = r
	element := jsonwalk.NewNode(frameResponse)
	items := c.list(at+"internal_ids", cfg.Items, cfg.InternalIDs, frameResponse)
	r.kind = listKind(items.Keyed)
	c.AddIf(cfg.ItemsOptional && !invalid.Says(cfg.Fetch), at+"items_optional",
		"has no meaning without fetch: a record without responses is one with none; remove it")
	looked := invalid.Says(cfg.Lookup)
	c.AddIf(looked && invalid.Says(cfg.Fetch), at+"lookup", "the answers come by fetch, too; remove the one or the other")
	if looked {
		c.lookupKeys(at+"lookup", cfg.Lookup)
		r.entries = &entries{c.table(cfg.Lookup.In, cfg.Lookup.Key), cfg.Lookup.By, c.plan.Format.XML}
		for _, path := range cfg.Lookup.By {
			c.path(at+"lookup.by", path)
			c.plan.byPaths = append(c.plan.byPaths, cfg.Items)
		}
	}
	inner := *c
	path, _ := itemsOf(cfg.Items)
	keys, simple := jsonwalk.SimplePath(path, false)
	switch {
	case cfg.Items == "":
		c.Add(at+"items", "missing: the GJSON path of the array of responses")
	case !c.path(at+"items", cfg.Items):
	case invalid.Says(cfg.Fetch):
		inner.plan = &Plan{Kind: c.plan.Kind, MaxRecords: c.plan.MaxRecords, responses: r, onlyResponses: true}
		c.plan.Second = c.second(at+"fetch", cfg.Fetch, inner.plan)
		inner.plan.reply = inner.replyItems(cfg.Items, cfg.ItemsOptional, items, element)
	case simple && !looked:
		n := c.root.At(keys, frameRecord)
		element = n.SetList(items, element) // ids that lie deeper were met before
		r.items = source{slot: c.slot(n)}
	default:
		r.items = c.source(path)
		r.list = jsonwalk.NewNode(frameRecord)
		r.list.SetList(items, element)
	}
	inner.at = c.at
	if invalid.Says(cfg.Fetch) && c.plan.Second != nil {
		inner.at = c.plan.Second.plan.Format.place()
	}
	inner.at = inner.at.inside(cfg.Items)
	if looked {
		inner.at = c.plan.Format.place().inside(cfg.Lookup.In)
	}
	inner.root, inner.frame = element, frameResponse
	inner.response(at, cfg, r)
}

// response compiles the fields of one answer, in the frame that c is set to.
func (c *compiler) response(at string, cfg ResponsesConfig, r *responsesPlan) {
	r.ids = c.internalIDs(at+"internal_ids", cfg.InternalIDs)
	r.where = c.conditions(at+"where", cfg.Where)
	if cfg.Fetch.Key != "" && c.path(at+"fetch.key", cfg.Fetch.Key) {
		r.key = []source{c.source(cfg.Fetch.Key)}
	}
	at += "fields."
	r.content = c.text(at+"content", "responses.content", cfg.Fields.Content, false)
	r.role = c.text(at+"responder_type", "responses.responder_type", cfg.Fields.ResponderType, true)
	r.created = c.time(at+"created_at", "responses.created_at", cfg.Fields.CreatedAt)
}

// second compiles a second request. plan is that of its replies.
func (c *compiler) second(field string, f FetchConfig, plan *Plan) *Second {
	plan.Format = c.plan.Format
	plan.Format.Lists = decode.Lists{}
	if invalid.Says(f.Reply) {
		plan.Format = c.format(field+".reply", f.Reply)
	}
	c.expect(field+".expect", f.Expect, plan)
	name := address.ID
	if f.Batch > 0 {
		name = address.IDs
	}
	known := []string{address.Account, name}
	s := &Second{
		Format: &plan.Format, Concurrency: f.Concurrency, idPath: f.ID, batch: f.Batch, join: f.Join, plan: plan,
		request: address.Spec{
			Path: f.Path, Query: f.Query, Sending: f.Sending, InPath: known, InQuery: append(known, f.Paging.placeholders()...),
		}.Compile(c.base, field, c.Problems),
	}
	s.Paging = f.Paging.check(field+".paging", &s.request, c.Problems)
	switch {
	case s.join != "":
	case s.request.InLists(name):
		s.join = repeatValues
	default:
		s.join = ","
	}
	s.Concurrency = cmp.Or(s.Concurrency, defaultSecondConcurrency)
	c.checkSecond(field, name, f, &s.request)
	if f.ID == "" {
		c.Add(field+".id", "missing: the GJSON path, within a record, of the id that the request is made with")
	} else if c.path(field+".id", f.ID) {
		s.id = []source{c.source(f.ID)}
	}
	return s
}

// checkSecond reports what would make the second request mean something else
// than it says.
func (c *compiler) checkSecond(field, name string, f FetchConfig, request *address.Plan) {
	c.AddIf(!request.Has(name), field+".path", "neither path, query nor body holds {%s}: every record would get the same reply", name)
	c.AddIf(f.Batch < 0, field+".batch", "must not be negative")
	c.AddIf(f.Concurrency < 0, field+".concurrency", "must not be negative")
	c.AddIf(f.Batch > 0 && f.Key == "", field+".key", "missing: the GJSON path, within what comes, of the id of its record")
	c.AddIf(f.Batch == 0 && f.Join != "", field+".join", "has no meaning without batch; remove it")
	c.AddIf(f.Batch == 0 && f.Key != "", field+".key", "has no meaning without batch; remove it")
	if f.Join != repeatValues {
		return
	}
	for _, place := range request.OneValue(address.IDs) {
		c.Add(field+".join", cannotRepeat, place, address.IDs)
	}
	c.AddIf(request.InPath(address.IDs), field+".join", "a path cannot be repeated; give a separator")
}
