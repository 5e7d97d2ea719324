package upstream

import (
	"fmt"
	"strings"

	"inquiry-gateway/upstream/timeparse"
)

// index names an item of a list in messages.
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
		if cfg.Responses.used() {
			c.add(at+"responses", "a seller's record has no responses; remove the key")
		}
		c.notNull(at, plan.inquiryType)
	}
	for _, t := range []*textPlan{plan.title, plan.status, plan.content, plan.company} {
		c.notNull(at, t)
	}
}

// notNull refuses a null where the public record has a text in any case.
func (c *compiler) notNull(at string, t *textPlan) {
	if t == nil {
		return
	}
	name := strings.Replace(t.name, "responses.", "responses.fields.", 1)
	if t.def.Null {
		c.add(at+name+".default", "%s is never null here; give a text", t.name)
	}
	if t.fixed.Null {
		c.add(at+name+".const", "%s is never null here; give a text", t.name)
	}
}

// none refuses a field that this kind's public record does not have: it would
// never be seen.
func (c *compiler) none(field string, f Field, why string) {
	if f.set() {
		c.add(field, "%s; remove the key", why)
	}
}

// sources compiles the paths of a field.
func (c *compiler) sources(field string, f Field) (list []source) {
	if len(f.Path) == 0 && !f.Const.Set {
		c.add(field, "missing: say where the field comes from, as a GJSON path or as {path: ...}")
	}
	for i, path := range f.Path {
		name := field
		if len(f.Path) > 1 {
			name = index(field+".path", i)
		}
		if c.path(name, path) {
			list = append(list, c.source(path))
		}
	}
	return list
}

// text compiles a field that holds a string.
func (c *compiler) text(at, name string, f Field) *textPlan {
	field := at + name
	c.textKeys(field, f)
	for legacy, public := range f.Values {
		if public == "" {
			c.add(field+".values."+legacy, "the public value is empty")
		}
	}
	t := &textPlan{
		name: name, paths: f.Path, sources: c.sources(field, f), values: f.Values, def: f.Default, fixed: f.Const, join: f.Join,
		html: f.TrimHTML, noEmpty: f.Empty == "missing", keep: f.UnknownValues == "keep",
	}
	return t.prepare()
}

// textKeys finds keys of a text field that contradict each other.
func (c *compiler) textKeys(field string, f Field) {
	if f.Format != "" || f.Zone != "" {
		c.add(field, "format and zone are for times; remove them")
	}
	if f.Const.Set && (len(f.Path) > 0 || f.Values != nil || f.Default.Set) {
		c.add(field+".const", "a constant needs no path, values or default; remove the one or the others")
	}
	if f.Values != nil && len(f.Values) == 0 {
		c.add(field+".values", "empty: no value would be accepted")
	}
	switch f.UnknownValues {
	case "", "keep", "fail":
	default:
		c.add(field+".unknown_values", "%q is neither keep nor fail", f.UnknownValues)
	}
	switch f.Empty {
	case "", "keep", "missing":
	default:
		c.add(field+".empty", "%q is neither keep nor missing", f.Empty)
	}
	if f.Values == nil && f.UnknownValues != "" {
		c.add(field+".unknown_values", "there are no values that a value could be missing from; remove the key")
	}
	if f.Values == nil && f.ValuesJoin != "" {
		c.add(field+".values_join", "there are no values to join; remove the key")
	}
}

// time compiles a field that holds a time.
func (c *compiler) time(at, name string, f Field) *timePlan {
	field := at + name
	for _, k := range []struct {
		name string
		used bool
	}{
		{"values", f.Values != nil}, {"const", f.Const.Set}, {"join", f.Join.Set}, {"trim_html", f.TrimHTML},
		{"unknown_values", f.UnknownValues != ""}, {"values_join", f.ValuesJoin != ""}, {"empty", f.Empty != ""},
	} {
		if k.used {
			c.add(field+"."+k.name, "%s is for texts; remove the key", k.name)
		}
	}
	if f.Default.Set {
		c.add(field+".default", "a time has no default: nobody can know when it was; remove the key")
	}
	t := &timePlan{name: name, paths: f.Path, format: f.Format}
	if f.Format == "" {
		t.format = "rfc3339"
	}
	var formatErr, zoneErr error
	t.parse, formatErr, zoneErr = timeparse.New(f.Format, f.Zone)
	if formatErr != nil {
		c.add(field+".format", "%v", formatErr)
	}
	if zoneErr != nil {
		c.add(field+".zone", "%v", zoneErr)
	}
	t.sources = c.sources(field, f)
	return t
}
