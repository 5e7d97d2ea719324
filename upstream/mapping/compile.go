package mapping

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsontree"
)

// compiler builds a plan and collects what is wrong with the configuration.
type compiler struct {
	*setting.Problems
	base   string // of all addresses
	plan   *Plan
	record *scope // of a record
	id     string // the path of what tells records apart; empty: there is none
	rows   bool   // several may be one record
}

// scope is what paths lead into: a reply, or the records or responses in it.
type scope struct {
	*compiler
	replies *Replies        // where the element came
	in      int             // inReply, inRecord or inResponse
	outline *decode.Outline // of the element, should it be XML
	xml     bool            // it is, or a part of it
}

// Compile makes the plan of an endpoint whose requests go below baseURL and whose
// lists have at most maxRecords. What is wrong is added to problems, under the keys
// of the section that kind names. The plan is usable if nothing was.
func Compile(kind string, cfg EndpointConfig, baseURL string, maxRecords int, problems *setting.Problems) *Plan {
	p := &Plan{Kind: kind, dropForeign: cfg.OnOwnerMismatch == "drop"}
	p.MaxRecords, p.skipsInvalid = maxRecords, cfg.OnInvalidRecord == "skip"
	c := &compiler{Problems: problems, base: baseURL, plan: p, rows: cfg.Group != ""}
	if cfg.ID != noID && cfg.ID != keyPath {
		c.id = cfg.ID
	}
	p.Format = c.format(kind+".reply", cfg.Reply)
	reply := c.request(&p.Replies, "record", kind, cfg.RequestConfig, cfg.RepliesConfig, []string{address.Account}, []string{address.Account, address.Status, address.Type})
	c.AddIf(cfg.Items == "", kind+".items", `missing: the GJSON path of the array of records, "@this" where the reply is the array`)
	c.AddIf(p.Format.XML && cfg.Items == "@this", kind+".items", "an XML reply is one element, no list; name the way from it to the records, such as tickets.ticket")
	record := reply.items(&p.items, kind+".", cfg.ItemsConfig, inRecord)
	record.identify(kind+".id", cfg.ID)
	record = record.details(kind+".details", cfg.Details) // before the others, whose paths may lead into it
	c.record = &record
	record.group(cfg)
	record.owner(cfg)
	p.items.where = record.conditions(kind+".where", cfg.Where, harmRecords)
	record.fields(kind+".fields.", cfg.Fields)
	p.items.ids = record.internalIDs(kind+".internal_ids", cfg.InternalIDs) // after the responses, in which some lie
	if c.rows {                                                             // a row that becomes no response may have their ids, too
		p.items.ids = append(p.items.ids, record.internalIDs(kind+".fields.responses.internal_ids", cfg.Fields.Responses.InternalIDs)...)
	}
	p.idPatterns = c.patterns(kind+".internal_id_patterns", cfg.InternalIDPatterns)
	c.filters(cfg.Fields)
	return p
}

// request compiles what is asked for, with the placeholders that its path and its query or
// body may hold besides those of pages, and what each reply must be. It gives what paths in a
// reply lead into.
func (c *compiler) request(r *Replies, what, field string, cfg RequestConfig, replies RepliesConfig, inPath, inQuery []string) scope {
	r.Format.Outline, r.itemName = &decode.Outline{}, what
	reply := scope{compiler: c, replies: r, in: inReply, outline: r.Format.Outline, xml: r.Format.XML}
	if setting.IsSet(replies.Reply) { // else it is as the list's
		r.Format.EmptyIf = reply.conditions(field+".reply.empty_if", replies.Reply.EmptyIf, "")
	}
	r.request = address.Spec{
		Path: cfg.Path, Query: cfg.Query, Sending: cfg.Sending, InPath: inPath, InQuery: append(inQuery, replies.Paging.placeholders()...),
	}.Compile(c.base, field, c.Problems)
	r.Paging = reply.paging(field+".paging", replies.Paging)
	r.Format.Pages = r.Paging.Style != PageNone
	r.expect = reply.conditions(field+".expect", cfg.Expect, "")
	return reply
}

// index names an item of a list in messages.
func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// compilePath compiles a path, unless it is not set, and reports whether it can be used.
func (c *compiler) compilePath(field, text string, set bool) (path jsontree.Path, ok bool) {
	if !set {
		return path, false
	}
	path, err := jsontree.CompilePath(text)
	c.AddIf(err != nil, field, "%v", err)
	return path, err == nil
}

// notePaths notes paths for [Explainer]. Those in the replies to second requests are left out, as
// they are not looked at there.
func (s scope) notePaths(key, harm string, mayBeAbsent bool, paths ...string) {
	for _, path := range paths {
		if path != "" && path != keyPath && (s.in != inReply || s.replies == &s.plan.Replies) {
			in := [...]string{"replies", "records", "responses"}[s.in]
			s.plan.usedPaths = append(s.plan.usedPaths, usedPath{strings.TrimPrefix(key, s.plan.Kind+"."), path, in, harm, mayBeAbsent})
		}
	}
}

// use compiles a path, and notes it for [Explainer].
func (s scope) use(key, text, harm string, mayBeAbsent bool) (at compiledPath, ok bool) {
	path, ok := s.compilePath(key, text, true)
	if ok {
		at = s.locate(path)
		s.notePaths(key, harm, mayBeAbsent, text)
	}
	return at, ok
}

// locate is how a value at a path is read.
func (s scope) locate(path jsontree.Path) compiledPath {
	markLists(s.outline, path)
	return compiledPath{Path: path, xml: s.xml}
}

// locateAll compiles paths of which the first present one counts. Of several each is
// called by its number in the list.
func (s scope) locateAll(field, list string, paths Paths) (all compiledPaths) {
	for i, text := range paths {
		if len(paths) > 1 {
			field = index(list, i)
		}
		if path, ok := s.compilePath(field, text, true); ok {
			all = append(all, s.locate(path))
		}
	}
	return all
}

// items compiles where items are, and returns what the paths in each lead into.
func (s scope) items(it *items, field string, cfg ItemsConfig, in int) scope {
	*it = items{path: cfg.Items, kind: jsontree.Array, optional: cfg.ItemsOptional, single: it.single}
	path, _ := s.compilePath(field+"items", cfg.Items, cfg.Items != "")
	inner := s
	inner.in, inner.outline = in, markLists(s.outline, path)
	keyed := false
	if it.at, keyed = path.CutValues(); keyed {
		it.kind = jsontree.Object
	}
	it.keyIDs = slices.Contains(cfg.InternalIDs, keyPath)
	s.AddIf(it.keyIDs && !keyed, field+"internal_ids", "%s is for items that are the members of an object; let the path of items end in @values", keyPath)
	if !it.single {
		inner.outline.List = true
	}
	return inner
}

// internalIDs compiles the paths of internal ids.
func (s scope) internalIDs(field string, paths []string) (all compiledPaths) {
	for i, text := range paths {
		if text == keyPath {
			continue
		}
		if at, ok := s.use(index(field, i), text, harmIDs, false); ok {
			all = append(all, at)
		}
	}
	return all
}

// owner compiles the ownership check, and refuses a request that asks for everybody's
// records without one: the list of one account would be that of all.
func (s scope) owner(cfg EndpointConfig) {
	p, key, paths := s.plan, s.plan.Kind+".owner", cfg.Owner.Path
	s.AddIf(cfg.OnOwnerMismatch == "drop" && len(paths) == 0, p.Kind+".on_owner_mismatch",
		"nothing tells a foreign record; name the owner's path, or remove the key")
	s.AddIf(len(paths) == 0 && !p.request.Binds(address.Account), key,
		"nothing binds the list to the account: name {account} in path, query or body, or the owner's path in a record")
	p.ownerIs = cmp.Or(cfg.Owner.Is, accountPlaceholder)
	s.AddIf(!strings.Contains(p.ownerIs, accountPlaceholder), key+".is", "holds no {account}: it would be the same for every account")
	var written Paths
	p.owner, written = s.found(key, paths, cfg.Owner.Lookup, "")
	p.ownerKey = strings.Join(written, ", ")
	p.ownerInList = !slices.ContainsFunc(slices.Concat(paths, cfg.Owner.Lookup.By), s.inDetail)
}

// group compiles what the rows of one record have in common.
func (s scope) group(cfg EndpointConfig) {
	key := s.plan.Kind + ".group"
	if !s.rows {
		return
	}
	at, _ := s.use(key, cfg.Group, "", false)
	s.plan.stages = append(s.plan.stages, stage{name: stageRows, memberName: rowsMember, id: identity{{at: at}}, noID: Violation{Field: "record", Problem: reasonNoGroup}})
	s.AddIf(s.plan.Details != nil, key, "rows of one record cannot wait for details; remove the one or the other")
}

// detailMember is the member of a record that has its detail.
const detailMember = "details"

// inDetail tells whether a path may lead into the detail of a record.
func (c *compiler) inDetail(path string) bool {
	first, _, _ := strings.Cut(path, ".")
	return c.plan.Details != nil && (first == detailMember || strings.ContainsAny(first, "@#"))
}

// fields compiles what each kind's records consist of, and refuses the rest,
// which would never be seen.
func (s scope) fields(at string, cfg FieldsConfig) {
	p, buyer := s.plan, s.plan.Kind == "buyer"
	p.title = s.text(at+"title", "title", cfg.Title, false)
	p.status = s.text(at+"status", "status", cfg.Status, false)
	p.inquiryType = s.text(at+"inquiry_type", "inquiry_type", cfg.InquiryType, buyer)
	p.created = s.time(at+"created_at", "created_at", cfg.CreatedAt)
	if buyer {
		p.content = s.text(at+"content", "content", cfg.Content, false)
		s.AddIf(cfg.CompanyName.isSet(), at+"company_name", "a buyer's record has no company_name; remove the key")
		s.responses(at+"responses.", cfg.Responses)
	} else {
		p.company = s.text(at+"company_name", "company_name", cfg.CompanyName, false)
		s.AddIf(cfg.Content.isSet(), at+"content", "a seller's record has no content; remove the key")
		s.AddIf(setting.IsSet(cfg.Responses), at+"responses", "a seller's record has no responses; remove the key")
	}
	for nth, t := range p.allTexts() {
		t.index = nth
	}
}

// rowsMember is the member of a record that has its other rows.
const rowsMember = "rows"

// fetchedMember is the member of a record that has its responses, where they came by a second
// request. No system has one of its own that is called so.
const fetchedMember = "responses of the second request"

// responses compiles the answers: within the record, where a second request puts them, too.
func (s scope) responses(at string, cfg ResponsesConfig) {
	p, fetched, looked := s.plan, setting.IsSet(cfg.Fetch), setting.IsSet(cfg.Lookup)
	s.AddIf(looked && fetched, at+"lookup", "the answers come by fetch, too; remove the one or the other")
	s.AddIf(cfg.Items == "", at+"items", "missing: the GJSON path of the array of responses")
	within, r := cfg.ItemsConfig, &responseFields{skip: cfg.Skip, path: cfg.Items, optional: cfg.ItemsOptional || fetched}
	if cfg.Total != "" {
		total, _ := s.use(at+"total", cfg.Total, "", true)
		r.total = &total
	}
	if setting.IsSet(cfg.Last) {
		r.last = s.condition(at+"last", cfg.Last, "")
	}
	s.AddIf(fetched && (r.total != nil || r.last != nil), at+"fetch.paging", "total and last of responses that come by fetch are keys of its paging")
	p.responseItems, p.responses = &items{}, r
	var element scope
	if fetched {
		p.Responses, element = s.secondRequest(stageResponses, at+"fetch", cfg.Fetch, at, cfg.ItemsConfig)
		p.stages = append(p.stages, p.Responses.stage(fetchedMember, false))
		within = ItemsConfig{Items: fetchedMember}
	} else {
		s.notePaths(at+"items", harmResponses, false, cfg.Items)
	}
	response := s.items(p.responseItems, at, within, inResponse)
	switch {
	case fetched:
		response.replies, response.outline, response.xml = element.replies, element.outline, element.xml
	case looked: // the paths lead into the entry
		p.responseItems.lookup, response = response.lookup(at+"lookup", cfg.Lookup)
	case s.rows && cfg.Items == rowsMember:
		response.outline = s.outline
	}
	p.responseItems.ids = response.internalIDs(at+"internal_ids", cfg.InternalIDs)
	p.responseItems.where = response.conditions(at+"where", cfg.Where, harmResponses)
	r.content = response.text(at+"fields.content", "responses.content", cfg.Fields.Content, false)
	r.responderType = response.text(at+"fields.responder_type", "responses.responder_type", cfg.Fields.ResponderType, true)
	r.created = response.time(at+"fields.created_at", "responses.created_at", cfg.Fields.CreatedAt)
}

// details compiles the request for details, and gives what paths in a record lead into that
// has one. Without the section it does nothing.
func (s scope) details(field string, cfg DetailsConfig) scope {
	if !setting.IsSet(cfg) {
		return s
	}
	cfg.Items = cmp.Or(cfg.Items, "@this")
	d, detail := s.secondRequest(stageDetails, field+".fetch", cfg.Fetch, field+".", ItemsConfig{Items: cfg.Items, ID: cfg.ID})
	s.plan.Details = d
	s.plan.stages = append(s.plan.stages, d.stage(detailMember, d.batch > 0 || d.items.single))
	s.outline.Put(detailMember, detail.outline)
	s.xml = s.xml || d.Format.XML
	return s
}

// defaultSecondConcurrency is how many second requests are made at a time.
const defaultSecondConcurrency = 8

// placeholderName is what fetch.ids may call a value, where it means nothing else.
var placeholderName = regexp.MustCompile(`^[a-z_]+$`)

// secondRequest compiles one, and gives what paths in its items lead into.
func (s scope) secondRequest(name, field string, f FetchConfig, at string, cfg ItemsConfig) (*SecondRequest, scope) {
	r := &SecondRequest{Name: name, Concurrency: cmp.Or(f.Concurrency, defaultSecondConcurrency), batch: f.Batch, idOptional: f.IDOptional, Missing: f.Missing}
	if r.MaxRecords, r.Format = s.plan.MaxRecords, s.plan.Format; setting.IsSet(f.Reply) {
		r.Format = s.format(field+".reply", f.Reply)
	}
	id := address.ID
	if f.Batch > 0 {
		id = address.IDs
	}
	paths := map[string]string{id: cmp.Or(f.ID, s.id)}
	if len(f.IDs) > 0 {
		paths = f.IDs
		s.AddIf(f.ID != "", field+".id", "ids is set, too; remove the one or the other")
		s.AddIf(f.Batch > 0, field+".ids", "has no meaning with batch, whose requests name many records by one value each; use id, or remove batch")
	}
	r.Format.MayBeMissing = f.Missing == "empty" || f.Missing == "skip"
	names := slices.Sorted(maps.Keys(paths))
	known := append([]string{address.Account}, names...)
	reply := s.request(&r.Replies, strings.TrimSuffix(name, "s"), field, f.RequestConfig, f.RepliesConfig, known, known)
	if f.Batch > 0 {
		_, err := r.request.Join(address.IDs, f.Join, ",")
		s.AddIf(err != nil, field+".join", "%v", err)
	}
	for _, name := range names {
		key, path := field+".id", paths[name]
		if len(f.IDs) > 0 {
			key = field + ".ids." + name
			taken := slices.Contains([]string{address.Account, address.Status, address.Type, address.ID, address.IDs, address.Page, address.Offset, address.Cursor, address.Size, address.Secret}, name)
			s.AddIf(taken || !placeholderName.MatchString(name), key, "cannot be the name of a placeholder; use small letters and _, such as project, and none that has a meaning already")
		}
		s.AddIf(!r.request.Has(name), field+".path", "neither path, query nor body holds {%s}: every record would get the same reply", name)
		if path == "" {
			s.Add(key, "missing: the GJSON path, within a record, of the id that the request is made with")
		} else if to, ok := s.use(key, path, "", false); ok {
			r.id = append(r.id, idValue{name, to})
		}
	}
	s.AddIf(f.Batch > 0 && f.Key == "", field+".key", "missing: the GJSON path, within what comes, of the id of its record")
	if f.Version != "" {
		s.AddIf(f.Batch > 0, field+".version", "has no meaning with batch, whose replies are of many records; remove the one or the other")
		version, _ := s.use(field+".version", f.Version, "", false)
		r.version = compiledPaths{version}
	}
	s.AddIf(f.Batch > 0 && f.Missing != "", field+".missing", "has no meaning with batch, whose replies are of many records; remove the one or the other")
	s.AddIf(f.Batch == 0 && f.Join != "", field+".join", "has no meaning without batch; remove it")
	s.AddIf(f.Batch == 0 && f.Key != "", field+".key", "has no meaning without batch; remove it")
	// A detail that comes in pages is the array of the items on them.
	r.items.single = name == stageDetails && f.Batch == 0 && r.Paging.Style == PageNone
	element := reply.items(&r.items, at, cfg, inRecord)
	element.identify(at+"id", cfg.ID)
	if key, ok := s.compilePath(field+".key", f.Key, f.Key != ""); ok {
		r.key = compiledPaths{element.locate(key)}
	}
	return r, element
}

// stage is that of a second request, whose answers become a member of a record.
func (r *SecondRequest) stage(memberName string, one bool) stage {
	return stage{name: r.Name, memberName: memberName, single: one, id: r.id, noID: Violation{Field: r.Name, Problem: reasonNoID + r.Name + " with"}, second: r}
}
