package mapping

import (
	"regexp"
	"slices"
	"strings"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/jsonwalk"
)

// Plan is the compiled mapping of one endpoint: what is asked for a list, and how
// the replies are read. It is read-only and safe for concurrent use.
type Plan struct {
	Kind       string
	Paging     PagingConfig // with its defaults
	MaxRecords int          // of one list
	OwnerPaths []string     // as they were written
	Format     Format       // of the replies
	Details    *Second      // nil: the list has all of a record
	Second     *Second      // nil: the replies have all that belongs to a list

	request     address.Plan
	selects     bool // the gateway applies all filters: the whole list is read for each
	reply       replyPlan
	expect      []condition    // that a reply must meet; nil: none
	collect     []source       // ids: the items wait for their details, or are details
	as          string         // name of the detail within a record
	merged      *jsonwalk.Node // of an array of records with their details
	single      string         // path of the detail, if the reply is one
	tables      []tablePlan    // that fields are looked up in
	byPaths     []string       // of records, that no field names
	byInner     []string       // of responses likewise
	where       []condition    // that a record must have to be shown
	sizes       [frameCount]int
	idPaths     []string
	owner       []source
	ids         []string // paths of internal ids that are not simple
	idPatterns  []*regexp.Regexp
	byStatus    filter
	byType      filter
	dropForeign bool
	skipInvalid bool

	title, content, status, inquiryType, company *textPlan // nil: not in this kind's records
	created                                      *timePlan
	responses                                    *responsesPlan // nil for sellers
	onlyResponses                                bool           // the items are responses: this is the plan of a second request
}

// replyPlan is where in a reply the items are.
type replyPlan struct {
	root     *jsonwalk.Node // of a whole reply
	items    *jsonwalk.Node // of the items alone, where their path is not simple
	path     string         // of the items if it is not simple
	way      []string       // the keys that lead to the items, as far as they are plain
	slot     int            // of the items if it is simple
	kind     jsonwalk.Kind  // what holds the items: an array, or an object
	optional bool           // nothing there means an empty list
}

// texts are the texts that the kind's records have.
func (p *Plan) texts() []*textPlan {
	all := []*textPlan{p.title, p.content, p.status, p.inquiryType, p.company}
	return slices.DeleteFunc(all, func(t *textPlan) bool { return t == nil })
}

// DropsForeign tells whether records of other accounts are expected, and left out.
func (p *Plan) DropsForeign() bool { return p.dropForeign }

// FieldNames are the names under which refused records and removed ids are
// counted.
func (p *Plan) FieldNames() []string {
	names, texts := []string{"record", "owner", p.created.name}, p.texts()
	if p.Details != nil {
		names = append(names, "details")
	}
	if r := p.responses; r != nil {
		names = append(names, "responses", r.created.name)
		texts = append(texts, r.content, r.role)
	}
	for _, t := range texts {
		names = append(names, t.name)
	}
	return names
}

// compiler builds a plan and collects what is wrong with the configuration.
type compiler struct {
	*invalid.Problems
	base   string // of all addresses
	plan   *Plan
	prefix string // of field names in messages
	frame  int
	texts  int            // compiled so far
	root   *jsonwalk.Node // of the frame's element
	at     place          // of the frame's element in XML
}

// Compile makes the plan of an endpoint whose requests go below baseURL and whose
// lists have at most maxRecords. What is wrong is added to problems, under the keys
// of the section that kind names. The plan is usable if nothing was.
func Compile(kind string, cfg EndpointConfig, baseURL string, maxRecords int, problems *invalid.Problems) *Plan {
	c := &compiler{Problems: problems, base: baseURL, prefix: kind, plan: &Plan{
		Kind: kind, MaxRecords: maxRecords, OwnerPaths: cfg.Owner, idPaths: cfg.InternalIDs,
		skipInvalid: cfg.OnInvalidRecord == "skip", dropForeign: cfg.OnForeignRecord == "drop",
	}}
	problems.Enums(kind, cfg)
	c.plan.request = address.Spec{
		Path: cfg.Path, Query: cfg.Query, Sending: cfg.Sending,
		InPath: []string{address.Account}, InQuery: append([]string{address.Account, address.Status, address.Type}, cfg.Paging.placeholders()...),
	}.Compile(baseURL, kind, problems)
	c.plan.Paging = cfg.Paging.check(kind+".paging", &c.plan.request, problems)
	c.plan.Format = c.format(kind+".reply", cfg.Reply)
	c.expect(kind+".expect", cfg.Expect, c.plan)
	c.at = c.plan.Format.place()
	c.records(cfg)
	c.details(kind+".details", cfg.Details)
	c.owner(cfg)
	c.plan.where = c.conditions(kind+".where", cfg.Where)
	c.fields(cfg.Fields)
	c.plan.ids = c.internalIDs(kind+".internal_ids", cfg.InternalIDs)
	c.plan.idPatterns = c.patterns(kind+".internal_id_patterns", cfg.InternalIDPatterns)
	c.filters(cfg)
	c.holder(cfg.Fields.Responses.Items)
	return c.plan
}

// path checks a GJSON path and tells whether it can be used.
func (c *compiler) path(field, path string) bool {
	err := jsonwalk.CheckPath(path)
	c.AddIf(err != nil, field, "%v", err)
	return err == nil
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
	s := source{path: path, xml: c.at.lists != nil || c.at.detail != nil && c.at.detail.lists != nil}
	if keys, ok := jsonwalk.SimplePath(path, false); ok && c.root != nil {
		s.path, s.slot = "", c.slot(c.root.At(keys, c.frame))
	}
	return s
}

// keyPath stands among internal ids for the key under which a record is found.
const keyPath = "@key"

// itemsOf splits @values off the end of a path. gjson makes an empty array of
// it where nothing is, and then a reply that is an error would be an empty list.
func itemsOf(path string) (base string, keyed bool) {
	base, keyed = strings.CutSuffix(path, "@values")
	switch {
	case !keyed:
		return path, false
	case base == "":
		return "@this", true
	}
	return base[:len(base)-1], true
}

// list describes the items at a path to the walker.
func (c *compiler) list(field, path string, ids []string, frame int) jsonwalk.List {
	_, keyed := itemsOf(path)
	l := jsonwalk.List{Frame: frame, Keyed: keyed, KeyID: slices.Contains(ids, keyPath)}
	c.AddIf(l.KeyID && !keyed, field, "%s is for items that are the members of an object; let the path of items end in @values", keyPath)
	return l
}

// replyItems compiles where in a reply the items are. Each of them is an element. Where
// their path is more than keys the reply is walked once for its grammar, and what gjson
// finds at the path is walked again for the items.
func (c *compiler) replyItems(path string, optional bool, l jsonwalk.List, element *jsonwalk.Node) replyPlan {
	path, keyed := itemsOf(path)
	r := replyPlan{root: jsonwalk.NewNode(frameReply), items: jsonwalk.NewNode(frameReply), kind: listKind(keyed), optional: optional}
	r.items.SetList(l, element)
	if keys, simple := jsonwalk.SimplePath(path, false); simple || path == "@this" {
		n := r.root.At(keys, frameReply)
		n.SetList(l, element)
		r.way = keys
		r.slot = c.slot(n)
	} else {
		r.path = path
		r.way = wayTo(path)
	}
	return r
}

// listKind is object for the members of one, else array.
func listKind(keyed bool) jsonwalk.Kind {
	if keyed {
		return jsonwalk.Object
	}
	return jsonwalk.Array
}

// records compiles where the records are. Their node is made first: fields, owner and
// ids hang on it. In XML the reply itself is one element and cannot be the list.
func (c *compiler) records(cfg EndpointConfig) {
	c.root, c.frame = jsonwalk.NewNode(frameRecord), frameRecord
	if cfg.Items == "" {
		c.Add(c.prefix+".items", `missing: the GJSON path of the array of records, "@this" where the reply is the array`)
	} else {
		c.path(c.prefix+".items", cfg.Items)
	}
	c.AddIf(c.plan.Format.XML && cfg.Items == "@this", c.prefix+".items", "an XML reply is one element, no list; name the way from it to the records, such as tickets.ticket")
	c.at = c.at.inside(cfg.Items)
	l := c.list(c.prefix+".internal_ids", cfg.Items, cfg.InternalIDs, frameRecord)
	c.plan.reply = c.replyItems(cfg.Items, cfg.ItemsOptional, l, c.root)
}

// owner compiles the ownership check, and refuses a request that asks for everybody's
// records without one: the list of one account would be that of all.
func (c *compiler) owner(cfg EndpointConfig) {
	told := len(cfg.Owner) > 0 || invalid.Says(cfg.OwnerLookup)
	c.AddIf(cfg.OnForeignRecord == "drop" && !told, c.prefix+".on_foreign_record",
		"nothing tells a foreign record; name the owner's path, or remove the key")
	c.AddIf(!told && !c.plan.request.BindsAccount(), c.prefix+".owner",
		"nothing binds the list to the account: name {account} in path, query or body, or the owner's path in a record")
	c.plan.owner = c.paths(c.prefix+".owner", c.prefix+".owner", cfg.Owner)
	if invalid.Says(cfg.OwnerLookup) {
		c.AddIf(len(cfg.Owner) > 0, c.prefix+".owner_lookup", "owner is set, too; remove the one or the other")
		c.plan.owner = c.lookup(c.prefix+".owner_lookup", cfg.OwnerLookup)
		c.plan.OwnerPaths = Paths{cfg.OwnerLookup.String()}
	}
}

// paths compiles paths of which the first present one counts. Of several each is
// called by its number in the list.
func (c *compiler) paths(field, list string, paths Paths) (sources []source) {
	for i, path := range paths {
		if len(paths) > 1 {
			field = index(list, i)
		}
		if c.path(field, path) {
			sources = append(sources, c.source(path))
		}
	}
	return sources
}

// internalIDs puts the simple paths into the tree and gives the others back, which are
// looked up in each record.
func (c *compiler) internalIDs(field string, paths []string) (complex []string) {
	for i, path := range paths {
		if path == keyPath || !c.path(index(field, i), path) {
			continue
		}
		c.at.note(path)
		if keys, ok := jsonwalk.SimplePath(path, true); ok {
			c.root.At(keys, c.frame).MarkID()
		} else {
			complex = append(complex, path)
		}
	}
	return complex
}
