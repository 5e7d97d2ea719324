package mapping

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsonwalk"
)

// Plan is the compiled mapping of one endpoint: what is asked for a list, and how
// the replies are read. It is read-only and safe for concurrent use.
type Plan struct {
	Kind       string
	Paging     PagingConfig // with its defaults
	MaxRecords int          // of one list
	Format     Format       // of the replies
	Details    *Second      // nil: the list has all of a record
	Second     *Second      // nil: the replies have all that belongs to a list

	request        address.Plan
	byStatus       filter
	byType         filter
	selects        bool // the gateway applies all filters: the whole list is read for each
	dropForeign    bool
	skipInvalid    bool
	root           *jsonwalk.Node  // of a whole reply
	items          list            // records; or responses, or details
	ids            sources         // that tell the items of a list in pages from each other
	sizes          [frameCount]int // slots of the frames
	tables         []table         // that fields are looked up in
	expect         Conditions      // that a reply must meet; nil: none
	owner          sources
	idPatterns     []*regexp.Regexp
	uses           []use
	ownerKey       string // paths of the owner, as they were written
	onlyResponses  bool   // the items are responses: this is the plan of a second request
	detailOfRecord        // zero: the list has all of a record

	title, content, status, inquiryType, company *field // nil: not in this kind's records
	created                                      *field
	responses                                    *responses // nil for sellers
}

// detailOfRecord is how a plan deals with details: that of the list whose records wait
// for them, and that of the replies that have them.
type detailOfRecord struct {
	collect identity       // ids: the items wait for their details, or are details
	as      string         // name of the detail within a record
	merged  *jsonwalk.Node // of an array of records with their details
	early   bool           // the list tells whose a record is: it is judged before its detail is asked for
	single  string         // path of the detail, if the reply is one
}

// use is a path of the configuration, for [Explainer].
type use struct {
	key   string // below the endpoint
	path  string
	in    string // records, responses or replies
	hides string // what a path without a value does silently; empty: that shows elsewhere
	only  bool   // it is no field that may be missing by mistake: it is used and not counted
}

// texts are the texts that the kind's records have.
func (p *Plan) texts() []*field {
	all := []*field{p.title, p.content, p.status, p.inquiryType, p.company}
	return slices.DeleteFunc(all, func(t *field) bool { return t == nil })
}

// DropsForeign tells whether records of other accounts are expected, and left out.
func (p *Plan) DropsForeign() bool { return p.dropForeign }

// FieldNames are the names under which refused records and removed ids are
// counted.
func (p *Plan) FieldNames() []string {
	names, fields := []string{"record", "owner"}, append(p.texts(), p.created)
	if p.Details != nil {
		names = append(names, "details")
	}
	if r := p.responses; r != nil {
		names, fields = append(names, "responses"), append(fields, r.created, r.content, r.role)
	}
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

// compiler builds a plan and collects what is wrong with the configuration. Copies of it
// compile what is below: with a frame, a tree and a place of their own, maybe for another
// plan.
type compiler struct {
	*setting.Problems
	base   string // of all addresses
	plan   *Plan
	prefix string // of field names in messages
	frame  int
	root   *jsonwalk.Node // of the frame's element; nil: it has no tree
	at     place          // of the frame's element in XML
	uses   *[]use         // of the endpoint
}

// Compile makes the plan of an endpoint whose requests go below baseURL and whose
// lists have at most maxRecords. What is wrong is added to problems, under the keys
// of the section that kind names. The plan is usable if nothing was.
func Compile(kind string, cfg EndpointConfig, baseURL string, maxRecords int, problems *setting.Problems) *Plan {
	p := &Plan{Kind: kind, MaxRecords: maxRecords, root: jsonwalk.NewNode(frameReply), skipInvalid: cfg.OnInvalidRecord == "skip", dropForeign: cfg.OnForeignRecord == "drop"}
	c := &compiler{Problems: problems, base: baseURL, prefix: kind, plan: p, frame: frameReply, root: p.root, uses: &p.uses}
	p.Format = c.format(kind+".reply", cfg.Reply)
	c.request(p, kind, cfg.RequestConfig, cfg.Paging, []string{address.Account}, []string{address.Account, address.Status, address.Type})

	if cfg.Items == "" {
		c.Add(kind+".items", `missing: the GJSON path of the array of records, "@this" where the reply is the array`)
	} else {
		c.path(kind+".items", cfg.Items)
	}
	c.AddIf(p.Format.XML && cfg.Items == "@this", kind+".items", "an XML reply is one element, no list; name the way from it to the records, such as tickets.ticket")
	c.at = p.Format.place()
	var record *jsonwalk.Node // made first: fields, owner and ids hang on it
	p.items, record = c.list(kind+".", cfg.Items, cfg.InternalIDs, list{optional: cfg.ItemsOptional}, jsonwalk.NewNode(frameRecord))
	c.root, c.frame, c.at = record, frameRecord, c.at.inside(cfg.Items)

	c.details(kind+".details", cfg.Details)
	c.owner(cfg)
	p.items.where = c.conditions(kind+".where", cfg.Where, hidesRecords)
	c.fields(cfg.Fields)
	p.items.ids = c.internalIDs(kind+".internal_ids", cfg.InternalIDs)
	p.idPatterns = c.idPatterns(kind+".internal_id_patterns", cfg.InternalIDPatterns)
	p.ids = c.tells(cfg.InternalIDs, p.Details, p.Second)
	c.filters(cfg)
	c.holder()
	return p
}

// request compiles what a plan asks for, with the placeholders that its path and its query or
// body may hold besides those of pages, and what each reply must be.
func (c *compiler) request(p *Plan, field string, r RequestConfig, paging PagingConfig, inPath, inQuery []string) {
	p.request = address.Spec{
		Path: r.Path, Query: r.Query, Sending: r.Sending, InPath: inPath, InQuery: append(inQuery, paging.placeholders()...),
	}.Compile(c.base, field, c.Problems)
	p.Paging = c.paging(field+".paging", paging, p)
	c.expect(field+".expect", r.Expect, p)
}

// index names an item of a list in messages.
func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// path checks a GJSON path and tells whether it can be used.
func (c *compiler) path(field, path string) bool {
	err := jsonwalk.CheckPath(path)
	c.AddIf(err != nil, field, "%v", err)
	return err == nil
}

// use notes a path of the frame's element, or of several.
func (c *compiler) use(key, hides string, only bool, paths ...string) {
	for _, path := range paths {
		if path != "" && path != keyPath {
			in := [frameCount]string{"replies", "records", "responses"}[c.frame]
			*c.uses = append(*c.uses, use{strings.TrimPrefix(key, c.prefix+"."), path, in, hides, only})
		}
	}
}

// slot reserves a place in the frame for the value at a node.
func (c *compiler) slot(n *jsonwalk.Node) int {
	s := c.plan.sizes[n.Frame()]
	c.plan.sizes[n.Frame()]++
	n.AddSlot(s)
	return s
}

// source finds out how a path is evaluated: in a slot that the walker fills, or by
// gjson from the element's text where a path is more than keys, or the frame has no
// tree.
func (c *compiler) source(path string) source {
	c.at.note(path)
	s := source{path: path, xml: c.at.xml()}
	if keys, ok := jsonwalk.SimplePath(path, false); ok && c.root != nil {
		s.path, s.slot = "", c.slot(c.root.At(keys, c.frame))
	}
	return s
}

// sources compiles paths of which the first present one counts. Of several each is
// called by its number in the list.
func (c *compiler) sources(field, list string, paths Paths) (all sources) {
	for i, path := range paths {
		if len(paths) > 1 {
			field = index(list, i)
		}
		if c.path(field, path) {
			all = append(all, c.source(path))
		}
	}
	return all
}

// owner compiles the ownership check, and refuses a request that asks for everybody's
// records without one: the list of one account would be that of all.
func (c *compiler) owner(cfg EndpointConfig) {
	p, looked := c.plan, setting.Says(cfg.OwnerLookup)
	told, paths := len(cfg.Owner) > 0 || looked, cfg.Owner
	c.AddIf(cfg.OnForeignRecord == "drop" && !told, c.prefix+".on_foreign_record",
		"nothing tells a foreign record; name the owner's path, or remove the key")
	c.AddIf(!told && !p.request.Binds(address.Account), c.prefix+".owner",
		"nothing binds the list to the account: name {account} in path, query or body, or the owner's path in a record")
	p.owner, p.ownerKey = c.sources(c.prefix+".owner", c.prefix+".owner", cfg.Owner), strings.Join(cfg.Owner, ", ")
	if looked {
		c.AddIf(len(cfg.Owner) > 0, c.prefix+".owner_lookup", "owner is set, too; remove the one or the other")
		p.owner, p.ownerKey, paths = c.lookup(c.prefix+".owner_lookup", cfg.OwnerLookup), cfg.OwnerLookup.String(), cfg.OwnerLookup.By
	}
	c.use(c.prefix+".owner", "", looked, paths...)
	p.early = p.collect != nil && !slices.ContainsFunc(paths, c.late)
}

// late tells whether a path leads into the detail of a record.
func (c *compiler) late(path string) bool {
	first, _, _ := strings.Cut(path, ".")
	return c.plan.as != "" && (first == c.plan.as || strings.ContainsAny(first, "@#({[|*?"))
}

// fields compiles what each kind's records consist of, and refuses the rest,
// which would never be seen.
func (c *compiler) fields(cfg FieldsConfig) {
	at := c.prefix + ".fields."
	p, buyer := c.plan, c.plan.Kind == "buyer"
	p.title = c.text(at+"title", "title", cfg.Title, false)
	p.status = c.text(at+"status", "status", cfg.Status, false)
	p.inquiryType = c.text(at+"inquiry_type", "inquiry_type", cfg.InquiryType, buyer)
	p.created = c.time(at+"created_at", "created_at", cfg.CreatedAt)
	if buyer {
		p.content = c.text(at+"content", "content", cfg.Content, false)
		c.AddIf(cfg.CompanyName.set(), at+"company_name", "a buyer's record has no company_name; remove the key")
		c.responses(at+"responses.", cfg.Responses)
	} else {
		p.company = c.text(at+"company_name", "company_name", cfg.CompanyName, false)
		c.AddIf(cfg.Content.set(), at+"content", "a seller's record has no content; remove the key")
		c.AddIf(setting.Says(cfg.Responses), at+"responses", "a seller's record has no responses; remove the key")
	}
	for nth, f := range p.texts() {
		f.nth = nth
	}
}

// responses is the compiled mapping of the answers, wherever they come from.
type responses struct {
	list
	holder        *holder // nil: the record itself, or what has other fields, too
	key           sources // of a response's inquiry, in a batch
	content, role *field
	created       *field
}

// responses compiles the answers: within the record, or behind a second request. Of
// these the items belong to another reply, so they are compiled against a plan of their
// own.
func (c *compiler) responses(at string, cfg ResponsesConfig) {
	r, fetched, looked := &responses{}, setting.Says(cfg.Fetch), setting.Says(cfg.Lookup)
	c.plan.responses = r
	c.AddIf(cfg.ItemsOptional && !fetched, at+"items_optional", "has no meaning without fetch: a record without responses is one with none; remove it")
	c.AddIf(looked && fetched, at+"lookup", "the answers come by fetch, too; remove the one or the other")
	if cfg.Items == "" {
		c.Add(at+"items", "missing: the GJSON path of the array of responses")
	} else {
		c.path(at+"items", cfg.Items)
	}
	inner, l := *c, list{optional: cfg.ItemsOptional}
	if fetched {
		inner.plan = &Plan{Kind: c.plan.Kind, MaxRecords: c.plan.MaxRecords, root: jsonwalk.NewNode(frameReply), responses: r, onlyResponses: true}
		c.plan.Second = c.second(at+"fetch", cfg.Fetch, inner.plan)
		inner.root, inner.frame, inner.at = inner.plan.root, frameReply, inner.plan.Format.place()
	} else {
		c.use(at+"items", hidesResponses, false, cfg.Items)
	}
	element := inner.at.inside(cfg.Items)
	if looked { // the paths below lead into the entry
		l.entries = c.elementLookup(at+"lookup", cfg.Lookup, element)
		element = c.plan.Format.place().inside(cfg.Lookup.In)
	}
	r.list, inner.root = inner.list(at, cfg.Items, cfg.InternalIDs, l, jsonwalk.NewNode(frameResponse))
	if fetched {
		inner.plan.items = r.list
	}
	inner.frame, inner.at = frameResponse, element
	r.ids = inner.internalIDs(at+"internal_ids", cfg.InternalIDs)
	r.where = inner.conditions(at+"where", cfg.Where, hidesResponses)
	if cfg.Fetch.Key != "" && c.path(at+"fetch.key", cfg.Fetch.Key) {
		r.key = sources{inner.source(cfg.Fetch.Key)}
	}
	at += "fields."
	r.content = inner.text(at+"content", "responses.content", cfg.Fields.Content, false)
	r.role = inner.text(at+"responder_type", "responses.responder_type", cfg.Fields.ResponderType, true)
	r.created = inner.time(at+"created_at", "responses.created_at", cfg.Fields.CreatedAt)
	if fetched {
		inner.plan.ids = inner.tells(cfg.InternalIDs)
	}
	r.content.nth, r.role.nth = maxTexts-1, maxTexts-2
}
