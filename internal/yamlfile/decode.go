package yamlfile

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/setting"
)

// What a type may do to be a value of the file.
type (
	// Defaulter is a section behind a pointer, with defaults for the keys that the file leaves out.
	Defaulter interface{ SetDefaults() }
	// Nullable is a single value for which null means something.
	Nullable interface{ SetNull() }
)

// IsNullable reports whether null means something for a type.
func IsNullable(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[Nullable]())
}

// newWithDefaults returns a new variable of a type, with its defaults.
func newWithDefaults(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	setDefaults(v)
	return v
}

func setDefaults(v reflect.Value) {
	if d, ok := v.Addr().Interface().(Defaulter); ok {
		d.SetDefaults()
	}
}

// decode stores the value n in a settable variable, by the variable's Go type and the rules of its
// field. path is the key, for errors. A value that cannot be stored is reported, and the variable stays as
// it was. Keys that the file leaves out keep their defaults; maps and lists are replaced whole.
//
// It is not the library's decoder, which names Go types in its errors and knows neither durations, sizes,
// variables nor rules.
func (doc *File) decode(n *yaml.Node, into reflect.Value, path string, r Rules) {
	if n == nil || n.Kind == 0 {
		return // reported already
	}
	if doc.unexpanded[n] { // reported already; other keys are checked against its placeholders
		if k := into.Kind(); k == reflect.String || k == reflect.Interface {
			into.Set(reflect.ValueOf(n.Value).Convert(into.Type()))
		}
		return
	}
	if IsNull(n) {
		doc.decodeNull(n, into, path)
		return
	}
	switch target := into.Addr().Interface().(type) {
	case *time.Duration:
		doc.decodeDuration(n, into, path, r)
		return
	case encoding.TextUnmarshaler:
		form := "a text"
		if _, ok := target.(*time.Time); ok {
			form = "a time such as 2027-01-01T00:00:00Z"
		}
		if n.Kind != yaml.ScalarNode || target.UnmarshalText([]byte(n.Value)) != nil {
			doc.reportForm(n, path, form)
		}
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		pointed := newWithDefaults(into.Type().Elem())
		doc.decode(n, pointed, path, r)
		into.Set(pointed.Addr())
	case reflect.Struct:
		doc.decodeSection(n, into, path, r)
	case reflect.Map:
		doc.decodeMap(n, into, path)
	case reflect.Slice:
		doc.decodeList(n, into, path, r)
	case reflect.Interface:
		var plain any
		_ = n.Load(&plain) // what cannot be loaded is reported already
		into.Set(reflect.ValueOf(&plain).Elem())
	default:
		doc.decodeScalar(n, into, path, r)
	}
}

// decodeNull handles a key without a value. A section, list or mapping keeps its default, because all of
// its keys may be commented out. For a single value it is a mistake: a template may have rendered nothing.
func (doc *File) decodeNull(n *yaml.Node, into reflect.Value, path string) {
	if target, ok := into.Addr().Interface().(Nullable); ok {
		target.SetNull()
		return
	}
	_, isTime := into.Addr().Interface().(*time.Time) // which null leaves at zero
	switch kind := into.Kind(); {
	case kind == reflect.Interface, kind == reflect.Pointer && HasKeys(into.Type().Elem()):
		into.SetZero()
	case kind == reflect.Map, kind == reflect.Slice, HasKeys(into.Type()), isTime:
	default:
		doc.reportAndSuppress(placeOf(n), path, "has no value; write one, or remove the key")
	}
}

// reportForm reports a value of the wrong form.
func (doc *File) reportForm(n *yaml.Node, path, what string) {
	doc.reportAndSuppress(placeOf(n), path, "wants %s, got %s", what, doc.describe(n))
}

// describe names a value in an error: its type, and its text shortened. It never shows the content of a
// variable, which may be a secret.
func (doc *File) describe(n *yaml.Node) string {
	written, variable := doc.Written(n)
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case variable:
		return "the value of " + shorten(written)
	case Quoted(n):
		return fmt.Sprintf("the quoted text %q", shorten(n.Value))
	case n.Value == "true" || n.Value == "false":
		return n.Value
	case isNumber(n.Value) && len(n.Value) > 1 && n.Value[0] == '0' && n.Value[1] != '.':
		return "the number " + shorten(n.Value) + ", which begins with a zero"
	case isNumber(n.Value):
		return "the number " + shorten(n.Value)
	}
	return fmt.Sprintf("the text %q", shorten(n.Value))
}

// Quoted reports whether a scalar is in quotes or a block.
func Quoted(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

// decodeSection decodes the keys that the struct has, and reports all others.
func (doc *File) decodeSection(n *yaml.Node, into reflect.Value, path string, r Rules) {
	fields := FieldsOf(into.Type())
	if n.Kind != yaml.MappingNode {
		for _, f := range fields {
			if f.Key == r.Short() {
				doc.decode(n, into.FieldByIndex(f.Index), path, f.Rules)
				return
			}
		}
		doc.reportForm(n, path, "a mapping with keys of its own below it")
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		known := slices.IndexFunc(fields, func(f Field) bool { return f.Key == key.Value })
		if known < 0 {
			doc.unknown(key, fields, path)
			continue
		}
		doc.decode(n.Content[i+1], into.FieldByIndex(fields[known].Index), Join(path, key.Value), fields[known].Rules)
	}
	ruled := slices.ContainsFunc(fields, func(f Field) bool { return f.Required() != "" || f.Tags.Get("with") != "" })
	if len(n.Content) == 0 || !ruled || !setting.IsSet(into.Interface()) {
		return // nothing is set
	}
	for _, f := range fields {
		if selector, _ := f.With(); selector != "" && doc.Suppressed(Join(path, selector)) {
			continue // what decides is wrong itself
		}
		if complaint := f.complaint(into, fields); complaint != "" {
			doc.Errorf(Join(path, f.Key), "%s", complaint)
			doc.Suppress(Join(path, f.Key))
		}
	}
}

// unknown reports a key that the section does not have, and names the most similar one. That one is
// suppressed, because a report that it is missing would be about the same mistake.
func (doc *File) unknown(key *yaml.Node, fields []Field, path string) {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	full, at := Join(path, key.Value), placeOf(key)
	name, _, joined := strings.Cut(key.Value, ":")
	near := setting.Nearest(key.Value, keys)
	switch {
	case joined && slices.Contains(keys, name):
		doc.reportAndSuppress(at, full, "unknown key; write a blank after the colon: %s: ...", name)
		doc.Suppress(Join(path, name))
	case near != "":
		doc.reportAndSuppress(at, full, "unknown key; did you mean %q?", near)
		doc.Suppress(Join(path, near))
	default:
		doc.reportAndSuppress(at, Join(path, shorten(key.Value)), "unknown key; known here: %s", strings.Join(keys, ", "))
	}
}

// decodeList replaces the whole list; elements of the default do not stay. The rules apply to each
// element.
func (doc *File) decodeList(n *yaml.Node, into reflect.Value, path string, r Rules) {
	items := n.Content
	switch {
	case n.Kind == yaml.SequenceNode:
	case r.Short() == ShortList && n.Kind == yaml.ScalarNode:
		items = []*yaml.Node{n}
	case into.Type().Elem() == reflect.TypeFor[setting.File]():
		doc.reportAndSuppress(placeOf(n), path, "wants a list of files such as [a, b]") // what stands there may be the secret itself
		return
	default:
		doc.reportForm(n, path, "a list such as [a, b]")
		return
	}
	out := reflect.MakeSlice(into.Type(), len(items), len(items))
	for i, item := range items {
		at := Item(path, i)
		if item == n {
			at = path
		}
		setDefaults(out.Index(i))
		doc.decode(item, out.Index(i), at, r)
	}
	into.Set(out)
}

// decodeMap replaces the whole map. Its keys are texts as they are written.
func (doc *File) decodeMap(n *yaml.Node, into reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		doc.reportForm(n, path, "a mapping such as {key: value}")
		return
	}
	out := reflect.MakeMapWithSize(into.Type(), len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		element := newWithDefaults(into.Type().Elem())
		doc.decode(n.Content[i+1], element, Join(path, n.Content[i].Value), Rules{})
		out.SetMapIndex(reflect.ValueOf(n.Content[i].Value).Convert(into.Type().Key()), element)
	}
	into.Set(out)
}

// decodeScalar stores any scalar in a string, as it is written. An int64 is a size in bytes. Numbers and bools are
// those of JSON, which has no 010, .nan or yes. In quotes they are texts, unless a variable stands there, which within
// { } and [ ] needs quotes.
func (doc *File) decodeScalar(n *yaml.Node, into reflect.Value, path string, r Rules) {
	taken, ok := reflect.New(into.Type()).Elem(), n.Kind == yaml.ScalarNode
	_, variable := doc.Written(n)
	switch kind := into.Kind(); {
	case kind == reflect.String:
		taken.SetString(n.Value)
	case kind == reflect.Int64 && ok:
		size, err := setting.ParseBytes(n.Value)
		if err != nil {
			doc.reportAndSuppress(placeOf(n), path, "%v, got %s", err, doc.describe(n))
			return
		}
		taken.SetInt(size)
	default:
		ok = ok && (variable || !Quoted(n)) && n.Value != "null" && json.Unmarshal([]byte(n.Value), taken.Addr().Interface()) == nil
	}
	if !ok {
		doc.reportForm(n, path, formOf(into.Kind()))
		return
	}
	doc.setIfAllowed(n, taken, into, path, r)
}

// formOf describes a value that a type can hold to the file's author.
func formOf(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false (without quotes)"
	case reflect.Int64:
		return "a size such as 16MiB or a number of bytes"
	case reflect.Float64:
		return "a number such as 0.5"
	}
	return "a whole number that is not too large"
}

// setIfAllowed stores a value that satisfies the rules, and reports any other.
func (doc *File) setIfAllowed(n *yaml.Node, taken, into reflect.Value, path string, r Rules) {
	if what := r.Refuses(taken); what != "" {
		doc.reportForm(n, path, what)
		return
	}
	into.Set(taken)
}

// decodeDuration requires a unit: 30 alone could be seconds or milliseconds.
func (doc *File) decodeDuration(n *yaml.Node, into reflect.Value, path string, r Rules) {
	d, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode:
		doc.reportForm(n, path, "a duration such as 30s")
	case err != nil && isNumber(n.Value):
		doc.reportAndSuppress(placeOf(n), path, "wants a duration such as 30s, got %s; add a unit (ms, s, m, h)", doc.describe(n))
	case err != nil:
		doc.reportForm(n, path, "a duration such as 30s or 1h30m (units ms, s, m, h)")
	case d < 0:
		doc.reportForm(n, path, "a duration of 0s or more")
	default:
		doc.setIfAllowed(n, reflect.ValueOf(d), into, path, r)
	}
}
