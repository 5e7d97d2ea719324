package mapping

import (
	"cmp"
	"fmt"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/timeparse"
)

// index names an item of a list in messages.
func index(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// fields compiles what each kind's records consist of, and refuses the rest,
// which would never be seen.
func (c *compiler) fields(cfg FieldsConfig) {
	at := c.prefix + ".fields."
	plan, buyer := c.plan, c.plan.Kind == "buyer"
	plan.title = c.text(at+"title", "title", cfg.Title, false)
	plan.status = c.text(at+"status", "status", cfg.Status, false)
	plan.inquiryType = c.text(at+"inquiry_type", "inquiry_type", cfg.InquiryType, buyer)
	plan.created = c.time(at+"created_at", "created_at", cfg.CreatedAt)
	if buyer {
		plan.content = c.text(at+"content", "content", cfg.Content, false)
		c.AddIf(cfg.CompanyName.set(), at+"company_name", "a buyer's record has no company_name; remove the key")
		c.responses(at, cfg.Responses)
		return
	}
	plan.company = c.text(at+"company_name", "company_name", cfg.CompanyName, false)
	c.AddIf(cfg.Content.set(), at+"content", "a seller's record has no content; remove the key")
	c.AddIf(invalid.Says(cfg.Responses), at+"responses", "a seller's record has no responses; remove the key")
}

// field compiles where a field comes from: a look-up, or paths of which the first
// present one counts. A constant comes from nowhere.
func (c *compiler) field(key, name string, f Field) fieldPlan {
	p := fieldPlan{name: name, paths: f.Path, join: f.Join, looked: invalid.Says(f.Lookup)}
	if p.looked {
		c.AddIf(len(f.Path) > 0 || f.Const.Set, key+".lookup", "the field has a path or a constant, too; remove the one or the other")
		p.paths, p.sources = Paths{f.Lookup.String()}, c.lookup(key+".lookup", f.Lookup)
		return p
	}
	c.AddIf(len(f.Path) == 0 && !f.Const.Set, key, "missing: say where the field comes from, as a GJSON path or as {path: ...}")
	p.sources = c.paths(key, key+".path", f.Path)
	return p
}

// text compiles a field that holds a string, and null only if nullable.
func (c *compiler) text(field, name string, f Field, nullable bool) *textPlan {
	values, nulls := f.translations()
	c.textKeys(field, f, values != nil)
	c.AddIf(!nullable && f.Default.Null, field+".default", "%s is never null here; give a text", name)
	c.AddIf(!nullable && f.Const.Null, field+".const", "%s is never null here; give a text", name)
	for _, legacy := range nulls {
		c.AddIf(values[legacy] != "", field+".null_values", "%q has an entry in values, too; remove the one or the other", legacy)
	}
	for legacy, public := range values {
		c.AddIf(public == "", field+".values."+legacy, "the public value is empty")
	}
	cut := c.patterns(field+".cut", f.Cut)
	t := &textPlan{
		fieldPlan: c.field(field, name, f), values: values, def: f.Default, fixed: f.Const, nullable: nullable,
		nth: c.texts, cut: cut, html: f.TrimHTML, noEmpty: f.Empty == "missing", nulls: nulls, keep: f.UnknownValues == "keep",
	}
	c.texts++
	return t.prepare()
}

// textKeys finds keys of a text field that contradict each other. translated: it has
// values that are not null.
func (c *compiler) textKeys(field string, f Field, translated bool) {
	c.AddIf(f.Format != "" || f.Zone != "", field, "format and zone are for times; remove them")
	c.AddIf(f.Const.Set && (len(f.Path) > 0 || translated || f.Default.Set), field+".const",
		"a constant needs no path, values or default; remove the one or the others")
	c.AddIf(f.Values != nil && len(f.Values) == 0, field+".values", "empty: no value would be accepted")
	c.AddIf(!translated && f.UnknownValues != "", field+".unknown_values", "there are no values that a value could be missing from; remove the key")
	c.AddIf(!translated && f.ValuesJoin != "", field+".values_join", "there are no values to join; remove the key")
}

// time compiles a field that holds a time. Keys that only texts have are refused,
// because they would have no effect.
func (c *compiler) time(field, name string, f Field) *timePlan {
	for key, used := range map[string]bool{
		"values": f.Values != nil, "const": f.Const.Set, "null_values": len(f.NullValues) > 0, "trim_html": f.TrimHTML, "cut": len(f.Cut) > 0,
		"unknown_values": f.UnknownValues != "", "values_join": f.ValuesJoin != "", "empty": f.Empty != "",
	} {
		c.AddIf(used, field+"."+key, "%s is for texts; remove the key", key)
	}
	c.AddIf(f.Default.Set, field+".default", "a time has no default: nobody can know when it was; remove the key")
	c.AddIf(f.Join.Set && len(f.Path) < 2, field+".join", "a time is joined of several paths, such as [date, time]; name them, or remove the key")
	t := &timePlan{fieldPlan: c.field(field, name, f), format: cmp.Or(f.Format, "rfc3339")}
	var formatErr, zoneErr error
	t.parse, formatErr, zoneErr = timeparse.New(f.Format, f.Zone)
	c.AddIf(formatErr != nil, field+".format", "%v", formatErr)
	c.AddIf(zoneErr != nil, field+".zone", "%v", zoneErr)
	return t
}
