package yamlfile

import (
	"encoding"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/internal/setting"
)

// What a type may do to be a value of the file.
type (
	// Defaulter is a section behind a pointer, with defaults for the keys that the file leaves out.
	Defaulter interface{ SetDefaults() }
	// Nullable is a single value for which null means something.
	Nullable interface{ SetNull() }
	// Hinter is a section that says what to write for keys that it does not have: those that
	// are gone, and those of a section that is much like it.
	Hinter interface{ Hints() map[string]string }
)

// decode puts the value v into a variable that can be set, by its Go type and by the rules of
// its field. path is the key, for errors. What cannot be taken is reported, and into keeps
// what it had. What is not in the tree keeps its default; maps and lists are replaced whole.
//
// The YAML library's own decoder stops at the first mistake, names Go types, and is
// lenient where a slip must not pass: it takes 5.5 and "5" for the number 5, 010 for 8,
// and 1.10 for the text 1.1.
func (doc *File) decode(v *Value, into reflect.Value, path string, r Rules) {
	if v == nil {
		return // reported already
	}
	target := into.Addr().Interface()
	if v.Kind == Null {
		doc.decodeNull(v, into, path)
		return
	}
	switch target := target.(type) {
	case *time.Duration:
		doc.decodeDuration(v, into, path, r)
		return
	case encoding.TextUnmarshaler:
		form := "a text"
		if _, ok := target.(*time.Time); ok {
			form = "a time such as 2027-01-01T00:00:00Z"
		}
		if v.Kind != Scalar || target.UnmarshalText([]byte(v.Text)) != nil {
			doc.wants(v, path, form)
		}
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		pointed := Fresh(into.Type().Elem())
		doc.decode(v, pointed, path, r)
		into.Set(pointed.Addr())
	case reflect.Struct:
		doc.decodeSection(v, into, path, r)
	case reflect.Map:
		doc.decodeMap(v, into, path)
	case reflect.Slice:
		doc.decodeList(v, into, path, r)
	case reflect.Interface:
		into.Set(reflect.ValueOf(v.Plain()))
	default:
		doc.decodeScalar(v, into, path, r)
	}
}

// IsNullable tells whether null means something for a type.
func IsNullable(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[Nullable]())
}

// Fresh makes a variable of a type, with its defaults.
func Fresh(t reflect.Type) reflect.Value {
	v := reflect.New(t)
	if d, ok := v.Interface().(Defaulter); ok {
		d.SetDefaults()
	}
	return v.Elem()
}

// decodeNull handles a key without a value. For a section it is the same as
// leaving the key out, because all its keys may be commented out; for a single
// value it is more likely a mistake.
func (doc *File) decodeNull(v *Value, into reflect.Value, path string) {
	if target, ok := into.Addr().Interface().(Nullable); ok {
		target.SetNull()
		return
	}
	switch into.Kind() {
	case reflect.Pointer, reflect.Interface:
		into.SetZero()
	case reflect.Struct, reflect.Map, reflect.Slice:
	default:
		doc.add(v.at, path, "has no value; write one, or remove the key")
	}
}

// wants reports a value of the wrong form.
func (doc *File) wants(v *Value, path, what string) {
	doc.add(v.at, path, "wants %s, got %s", what, v)
}

// decodeSection decodes the keys that the struct has, and reports all others.
func (doc *File) decodeSection(v *Value, into reflect.Value, path string, r Rules) {
	fields := FieldsOf(into.Type())
	if v.Kind != Section {
		for _, f := range fields {
			if f.Key == r.Short() {
				doc.decode(v, into.FieldByIndex(f.Index), path, f.Rules)
				return
			}
		}
		doc.wants(v, path, "a mapping with keys of its own below it")
		return
	}
	for _, e := range v.Keys {
		known := slices.IndexFunc(fields, func(f Field) bool { return f.Key == e.Key })
		if known < 0 {
			hints, _ := into.Interface().(Hinter)
			if hints != nil && hints.Hints()[e.Key] != "" {
				doc.add(e.at, Join(path, e.Key), "%s", hints.Hints()[e.Key])
			} else {
				doc.unknown(e, fields, path)
			}
			continue
		}
		doc.decode(e.Value, into.FieldByIndex(fields[known].Index), Join(path, e.Key), fields[known].Rules)
	}
	if len(v.Keys) == 0 || !setting.Says(into.Interface()) {
		return // nothing is set
	}
	for _, f := range fields {
		if selector, _ := f.With(); selector != "" && doc.Follows(Join(path, selector)) {
			continue // what decides is wrong itself
		}
		if complaint := f.complaint(into, fields); complaint != "" {
			doc.Wrong(Join(path, f.Key), "%s", complaint)
			doc.Touch(Join(path, f.Key))
		}
	}
}

// unknown reports a key that the struct does not have, with the one that was probably
// meant.
func (doc *File) unknown(e Entry, fields []Field, path string) {
	key := Join(path, e.Key)
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	if name, _, joined := strings.Cut(e.Key, ":"); joined && slices.Contains(keys, name) {
		doc.add(e.at, key, "unknown key; write a blank after the colon: %s: ...", name)
		doc.touched = append(doc.touched, Join(path, name))
		return
	}
	if near := Nearest(e.Key, keys); near != "" {
		doc.add(e.at, key, "unknown key; did you mean %q?", near)
		// A complaint that the right key is missing would say the same again.
		doc.touched = append(doc.touched, Join(path, near))
		return
	}
	doc.add(e.at, Join(path, shorten(e.Key)), "unknown key; known here: %s", strings.Join(keys, ", "))
}

// decodeList replaces the whole list: elements of the default do not stay. The rules are
// about each element.
func (doc *File) decodeList(v *Value, into reflect.Value, path string, r Rules) {
	switch {
	case v.Kind == List:
	case r.Short() == ShortList && v.Kind == Scalar:
		out := reflect.MakeSlice(into.Type(), 1, 1)
		doc.decode(v, out.Index(0), path, r)
		into.Set(out)
		return
	case into.Type().Elem() == reflect.TypeFor[setting.File]():
		doc.add(v.at, path, "wants a list of files such as [a, b]") // what stands there may be the secret itself
		return
	default:
		doc.wants(v, path, "a list such as [a, b]")
		return
	}
	out := reflect.MakeSlice(into.Type(), len(v.Items), len(v.Items))
	for i, one := range v.Items {
		out.Index(i).Set(Fresh(into.Type().Elem()))
		doc.decode(one, out.Index(i), Item(path, i), r)
	}
	into.Set(out)
}

// decodeMap replaces the whole map. Its keys are texts as they are written.
func (doc *File) decodeMap(v *Value, into reflect.Value, path string) {
	if v.Kind != Section {
		doc.wants(v, path, "a mapping such as {key: value}")
		return
	}
	out := reflect.MakeMapWithSize(into.Type(), len(v.Keys))
	for _, e := range v.Keys {
		element := Fresh(into.Type().Elem())
		doc.decode(e.Value, element, Join(path, e.Key), Rules{})
		out.SetMapIndex(reflect.ValueOf(e.Key).Convert(into.Type().Key()), element)
	}
	into.Set(out)
}

// decodeScalar takes any scalar for a text, as it is written. An int64 is a size in
// bytes. A number or bool in quotes is refused: it was meant as a text.
func (doc *File) decodeScalar(v *Value, into reflect.Value, path string, r Rules) {
	taken := reflect.New(into.Type()).Elem()
	switch kind := into.Kind(); {
	case kind == reflect.String && v.Kind == Scalar:
		taken.SetString(v.Text)
	case kind == reflect.Int64 && v.Kind == Scalar:
		size, err := parseBytes(v.Text)
		if err != nil {
			doc.add(v.at, path, "%v, got %s", err, v)
			return
		}
		taken.SetInt(size)
	case v.Kind != Scalar || v.quoted || !setPlain(v.Text, taken):
		doc.wants(v, path, wanted(kind))
		return
	}
	doc.take(v, taken, into, path, r)
}

// take sets a value that keeps the rules, and reports one that does not.
func (doc *File) take(v *Value, taken, into reflect.Value, path string, r Rules) {
	if what := r.Refuses(taken); what != "" {
		doc.wants(v, path, what)
		return
	}
	into.Set(taken)
}

// setPlain takes a text for what a number or bool wants, and tells whether it can.
func setPlain(text string, into reflect.Value) bool {
	switch {
	case into.Kind() == reflect.Bool:
		into.SetBool(text == "true")
		return text == "true" || text == "false"
	case into.CanInt():
		v, err := strconv.ParseInt(text, 10, into.Type().Bits())
		into.SetInt(v)
		return err == nil
	case into.CanUint():
		v, err := strconv.ParseUint(text, 10, into.Type().Bits())
		into.SetUint(v)
		return err == nil
	case into.CanFloat():
		v, err := strconv.ParseFloat(text, into.Type().Bits())
		into.SetFloat(v)
		return err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	return false
}

// wanted names the form of a value in the words of the file's writer.
func wanted(kind reflect.Kind) string {
	switch kind {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false (without quotes)"
	case reflect.Int64:
		return "a size such as 16MiB or a number of bytes"
	case reflect.Float64, reflect.Float32:
		return "a number such as 0.5"
	}
	return "a whole number that is not too large"
}

// decodeDuration wants a unit: 30 alone could be seconds or milliseconds.
func (doc *File) decodeDuration(v *Value, into reflect.Value, path string, r Rules) {
	d, err := time.ParseDuration(v.Text)
	switch {
	case v.Kind != Scalar:
		doc.wants(v, path, "a duration such as 30s")
	case err != nil && v.number():
		doc.add(v.at, path, "wants a duration such as 30s, got %s; add a unit (ms, s, m, h)", v)
	case err != nil:
		doc.wants(v, path, "a duration such as 30s or 1h30m (units ms, s, m, h)")
	case d < 0:
		doc.wants(v, path, "a duration of 0s or more")
	default:
		doc.take(v, reflect.ValueOf(d), into, path, r)
	}
}
