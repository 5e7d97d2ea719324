package upstream

import (
	"slices"
	"strings"

	"inquiry-gateway/upstream/jsonwalk"
)

// endpointPlan is the compiled mapping of one endpoint. It is read-only and
// shared by all requests.
type endpointPlan struct {
	kind      string
	request   requestPlan
	paging    pagingPlan
	root      *jsonwalk.Node // of a whole reply
	items     string         // path of the records if it is not simple
	records   *jsonwalk.Node // an array of records, for items
	sizes     [frameCount]int
	itemsSlot int
	keyed     bool // the items are the members of an object
	noItems   bool // nothing at items means an empty list

	// The paths as they were written, for probe.
	itemsPath  string
	ownerPaths []string
	idPaths    []string

	title, content, status, inquiryType, company *textPlan // nil: not in this kind's records
	created                                      *timePlan
	responses                                    *responsesPlan

	owner       []source
	ids         []string // paths of internal ids that are not simple
	byStatus    filter
	byType      filter
	dropForeign bool
	skipInvalid bool
	maxRecords  int
	second      bool // the replies are lists of responses
}

// responsesPlan is the compiled mapping of the answers, wherever they come
// from.
type responsesPlan struct {
	keyed         bool // the items are the members of an object
	items         source
	ids           []string       // paths of internal ids that are not simple
	list          *jsonwalk.Node // an array of responses, for an items path that is not simple
	content, role *textPlan
	created       *timePlan
	itemsPath     string     // as it was written, for probe
	idPaths       []string   // likewise
	fetch         *fetchPlan // nil: the responses are within the record
	key           []source   // of a response's inquiry, in a batch
}

// compiler builds a plan and collects what is wrong with the configuration.
type compiler struct {
	*problems
	plan   *endpointPlan
	prefix string // of field names in messages
	frame  int
	root   *jsonwalk.Node // of the frame's element
}

// compileEndpoint gives the plan of an endpoint; it is usable if no problem was
// added.
func compileEndpoint(kind string, cfg EndpointConfig, p *problems) *endpointPlan {
	c := &compiler{problems: p, prefix: kind, plan: &endpointPlan{
		kind: kind, root: jsonwalk.NewNode(frameReply), skipInvalid: cfg.OnInvalidRecord == "skip", dropForeign: cfg.OnForeignRecord == "drop",
	}}
	c.plan.request = requestSpec{
		cfg.Path, cfg.Query, []string{varAccount}, []string{varAccount, varStatus, varType},
	}.compile(kind, p)
	c.plan.paging = compilePaging(kind+".paging", cfg.Paging, p)
	c.records(cfg)
	c.owner(cfg)
	c.fields(cfg.Fields)
	c.plan.ids = c.internalIDs(kind+".internal_ids", cfg.InternalIDs)
	c.plan.idPaths = cfg.InternalIDs
	c.filters(cfg)
	return c.plan
}

// bind puts in what both endpoints share.
func (p *endpointPlan) bind(cfg Config) {
	p.request.base = strings.TrimRight(cfg.BaseURL, "/")
	p.maxRecords = cfg.MaxRecords
	if p.responses != nil && p.responses.fetch != nil {
		p.responses.fetch.request.base = p.request.base
		p.responses.fetch.reply.maxRecords = cfg.MaxRecords
	}
}

// path checks a GJSON path and tells whether it can be used.
func (c *compiler) path(field, path string) bool {
	if err := jsonwalk.CheckPath(path); err != nil {
		c.add(field, "%v", err)
		return false
	}
	return true
}

// slot reserves a place in the frame for the value at a node.
func (c *compiler) slot(n *jsonwalk.Node) int {
	s := c.plan.sizes[n.Frame()]
	c.plan.sizes[n.Frame()]++
	n.AddSlot(s)
	return s
}

// source finds out how a path is evaluated.
func (c *compiler) source(path string) source {
	if keys, ok := jsonwalk.SimplePath(path, false); ok {
		return source{slot: c.slot(c.root.At(keys, c.frame))}
	}
	return source{path: path}
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

// records compiles where the records are. Their node is made first: fields,
// owner and ids hang on it.
func (c *compiler) records(cfg EndpointConfig) {
	path, keyed := itemsOf(cfg.Items)
	items := jsonwalk.List{Frame: frameRecord, Keyed: keyed, KeyID: slices.Contains(cfg.InternalIDs, keyPath)}
	if items.KeyID && !keyed {
		c.add(c.prefix+".internal_ids", "%s is for items that are the members of an object; let the path of items end in @values", keyPath)
	}
	element := jsonwalk.NewNode(frameRecord)
	c.plan.records = jsonwalk.NewNode(frameReply)
	c.plan.records.SetList(items, element)
	c.root, c.frame = element, frameRecord
	c.plan.itemsPath, c.plan.noItems = cfg.Items, cfg.ItemsOptional
	c.plan.keyed = keyed
	switch keys, simple := jsonwalk.SimplePath(path, false); {
	case cfg.Items == "":
		c.add(c.prefix+".items", `missing: the GJSON path of the array of records, "@this" where the reply is the array`)
	case !c.path(c.prefix+".items", cfg.Items):
	case simple || path == "@this":
		n := c.plan.root.At(keys, frameReply)
		n.SetList(items, element)
		c.plan.itemsSlot = c.slot(n)
	default:
		c.plan.items = path
	}
	switch cfg.OnInvalidRecord {
	case "", "fail", "skip":
	default:
		c.add(c.prefix+".on_invalid_record", "%q is neither fail nor skip", cfg.OnInvalidRecord)
	}
}

// owner compiles the ownership check, and refuses a request that asks for
// everybody's records without one.
func (c *compiler) owner(cfg EndpointConfig) {
	switch cfg.OnForeignRecord {
	case "", "fail", "drop":
	default:
		c.add(c.prefix+".on_foreign_record", "%q is neither fail nor drop", cfg.OnForeignRecord)
	}
	if cfg.OnForeignRecord == "drop" && len(cfg.Owner) == 0 {
		c.add(c.prefix+".on_foreign_record", "nothing tells a foreign record; name the owner's path, or remove the key")
	}
	if len(cfg.Owner) == 0 && !c.plan.request.bindsAccount() {
		c.add(c.prefix+".owner", "nothing binds the list to the account: name {account} in path or query, or the owner's path in a record")
	}
	c.plan.ownerPaths = cfg.Owner
	for i, path := range cfg.Owner {
		field := c.prefix + ".owner"
		if len(cfg.Owner) > 1 {
			field = index(field, i)
		}
		if c.path(field, path) {
			c.plan.owner = append(c.plan.owner, c.source(path))
		}
	}
}

// internalIDs puts the simple paths into the tree and gives the others back.
func (c *compiler) internalIDs(field string, paths []string) (complex []string) {
	for i, path := range paths {
		if path == keyPath || !c.path(index(field, i), path) {
			continue
		}
		if keys, ok := jsonwalk.SimplePath(path, true); ok {
			c.root.At(keys, c.frame).MarkID()
		} else {
			complex = append(complex, path)
		}
	}
	return complex
}

// filters compiles both filters, and refuses a configuration in which one
// would silently not be applied.
func (c *compiler) filters(cfg EndpointConfig) {
	sent := cfg.Filtering != filterGateway
	hasStatus, hasType := c.plan.request.has(varStatus), c.plan.request.has(varType)
	switch cfg.Filtering {
	case "", filterUpstream:
		if !hasStatus {
			c.add(c.prefix+".filtering", "the legacy is to filter but no parameter of the query holds {status}; add one, or set filtering: gateway")
		}
	case filterGateway:
		if hasStatus || hasType {
			c.add(c.prefix+".filtering", "the gateway is to filter but the query holds {status} or {inquiry_type}; remove them, or set filtering: upstream")
		}
	default:
		c.add(c.prefix+".filtering", "%q is neither upstream nor gateway", cfg.Filtering)
	}
	c.repeatable(varStatus, cfg.Fields.Status.ValuesJoin)
	c.repeatable(varType, cfg.Fields.InquiryType.ValuesJoin)
	c.plan.byStatus = newFilter(c.plan.status, cfg.Fields.Status.ValuesJoin, sent && hasStatus)
	c.plan.byType = newFilter(c.plan.inquiryType, cfg.Fields.InquiryType.ValuesJoin, sent && hasType)
}

// repeatable checks that a parameter that is to be repeated is nothing but the
// value.
func (c *compiler) repeatable(name, join string) {
	for _, q := range c.plan.request.query {
		if join == repeatValues && q.text.has(name, true) && !q.text.alone() {
			c.add(c.prefix+".fields."+name+".values_join", "parameter %q holds more than {%s}, so it cannot be repeated for each value; give a separator", q.name, name)
		}
	}
}
