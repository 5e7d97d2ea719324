package upstream

import "fmt"

func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// fields compiles what each kind's records consist of, and refuses the rest.
func (c *compiler) fields(cfg FieldsConfig) {
	at := c.prefix + ".fields."
	plan := c.plan
	plan.title = c.text(at, "title", cfg.Title)
	plan.status = c.text(at, "status", cfg.Status)
	plan.inquiryType = c.text(at, "inquiry_type", cfg.InquiryType)
	plan.created = c.time(at, "created_at", cfg.CreatedAt)
	if plan.kind == "buyer" {
		plan.content = c.text(at, "content", cfg.Content)
		plan.inquiryType.nullable = true
		c.none(at+"company_name", cfg.CompanyName, "a buyer's record has no company_name")
		c.responses(at, cfg.Responses)
	} else {
		plan.company = c.text(at, "company_name", cfg.CompanyName)
		c.none(at+"content", cfg.Content, "a seller's record has no content")
		if r := cfg.Responses; r.Items != "" || r.Fetch.Path != "" || r.Fields.Content.set() {
			c.add(at+"responses", "a seller's record has no responses; remove the key")
		}
		if cfg.InquiryType.Default.Null {
			c.add(at+"inquiry_type.default", "the inquiry_type of a seller's record is never null; give a text")
		}
	}
	for _, t := range []*textPlan{plan.title, plan.status} {
		if t.def.Null {
			c.add(at+t.name+".default", "%s is never null; give a text", t.name)
		}
	}
}

func (c *compiler) none(field string, f Field, why string) {
	if f.set() {
		c.add(field, "%s; remove the key", why)
	}
}

func (c *compiler) responses(at string, cfg ResponsesConfig) {
	at += "responses."
	r := &responsesPlan{}
	c.plan.responses = r
	element := &node{frame: frameResponse}
	items := &list{frame: frameResponse, done: (*reply).response}
	switch keys, simple := simplePath(cfg.Items, false); {
	case cfg.Items == "":
		if cfg.Fetch.Path == "" {
			c.add(at+"items", "missing: the GJSON path, within a record, of the array of responses")
		}
	case !c.path(at+"items", cfg.Items):
	case simple:
		n := c.root.at(keys, frameRecord)
		n.list, n.each = items, element
		r.items = source{slot: c.slot(n)}
	default:
		r.items = source{path: cfg.Items}
		r.list = &node{list: items, each: element}
	}
	inner := *c
	inner.root, inner.frame = element, frameResponse
	at += "fields."
	r.content = inner.text(at, "content", cfg.Fields.Content)
	r.role = inner.text(at, "responder_type", cfg.Fields.ResponderType)
	r.created = inner.time(at, "created_at", cfg.Fields.CreatedAt)
	r.content.name, r.role.name, r.created.name = "responses.content", "responses.responder_type", "responses.created_at"
	r.role.nullable = true
	if r.content.def.Null {
		c.add(at+"content.default", "the content of a response is never null; give a text")
	}
}

func (c *compiler) sources(field string, f Field) (list []source) {
	if len(f.Path) == 0 {
		c.add(field, "missing: say where the field comes from, as a GJSON path or as {path: ...}")
	}
	for _, path := range f.Path {
		if c.path(field, path) {
			list = append(list, c.source(path))
		}
	}
	return list
}

func (c *compiler) text(at, name string, f Field) *textPlan {
	field := at + name
	c.later(field, f)
	t := &textPlan{name: name, sources: c.sources(field, f), values: f.Values, def: f.Default}
	if f.Format != "" || f.Zone != "" {
		c.add(field, "format and zone are for times; remove them")
	}
	if f.Values != nil && len(f.Values) == 0 {
		c.add(field+".values", "empty: no value would be accepted")
	}
	for legacy, public := range f.Values {
		if public == "" {
			c.add(field+".values."+legacy, "the public value is empty")
		}
	}
	return t
}

func (c *compiler) time(at, name string, f Field) *timePlan {
	field := at + name
	c.later(field, f)
	if f.Values != nil {
		c.add(field+".values", "values are for texts; remove the key")
	}
	if f.Default.Set {
		c.add(field+".default", "a time has no default: nobody can know when it was; remove the key")
	}
	t := &timePlan{name: name, format: f.Format}
	if f.Format == "" {
		t.format = "rfc3339"
	}
	var formatErr, zoneErr error
	t.parse, formatErr, zoneErr = timeParser(f.Format, f.Zone)
	if formatErr != nil {
		c.add(field+".format", "%v", formatErr)
	}
	if zoneErr != nil {
		c.add(field+".zone", "%v", zoneErr)
	}
	t.sources = c.sources(field, f)
	return t
}

// later refuses the keys of a field that cannot be obeyed yet.
func (c *compiler) later(field string, f Field) {
	for _, k := range []struct {
		name string
		used bool
	}{
		{"path", len(f.Path) > 1}, {"const", f.Const.Set}, {"join", f.Join.Set}, {"trim_html", f.TrimHTML},
		{"unknown_values", f.UnknownValues != ""}, {"values_join", f.ValuesJoin != ""},
	} {
		if k.used && k.name == "path" {
			c.add(field+".path", "a list of paths is not supported yet; give one")
		} else if k.used {
			c.add(field+"."+k.name, "not supported yet; remove the key")
		}
	}
}
