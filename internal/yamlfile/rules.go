package yamlfile

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"inquiry-gateway/internal/setting"
)

// Field is one key that a struct knows.
type Field struct {
	Key   string
	Index []int // for reflect's FieldByIndex
	Rules
}

// FieldsOf lists a struct's keys by their yaml tags, those of embedded and inline
// structs included, for which a tag with of the embedded field counts. What has no tag is no key.
// The list is not to be changed.
func FieldsOf(t reflect.Type) []Field {
	if known, ok := fieldsOf.Load(t); ok { // a keys file has one type thousands of times
		return known.([]Field)
	}
	fields := make([]Field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.Type.Kind() == reflect.Struct && name == "" && (f.Anonymous || options == "inline") {
			with, given := f.Tag.Lookup("with")
			for _, inner := range FieldsOf(f.Type) {
				if given {
					inner.Tags += reflect.StructTag(` with:"` + with + `"`)
				}
				fields = append(fields, Field{inner.Key, append([]int{i}, inner.Index...), inner.Rules})
			}
		} else if name != "" && name != "-" {
			fields = append(fields, Field{name, []int{i}, Rules{f.Tag}})
		}
	}
	fieldsOf.Store(t, fields)
	return fields
}

var fieldsOf sync.Map // of reflect.Type to []Field

// HasKeys reports whether a type is a section, which may have no keys.
func HasKeys(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && (len(FieldsOf(t)) > 0 || t.NumField() == 0)
}

// InnerSection returns the section that a value is or whose instances it holds, with its defaults; the zero Value if there is none.
func InnerSection(v reflect.Value) reflect.Value {
	if HasKeys(v.Type()) {
		return v
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if inner := v.Type().Elem(); HasKeys(inner) {
			return newWithDefaults(inner)
		}
	}
	return reflect.Value{}
}

// Rules are the tags of a field that restrict its value. The decoder, the schema and the reference page
// follow them.
//
//	enum:",a,b"        one of these texts; of a list, each element. The empty text means the first that has a name.
//	min:"1" max:"10"   bounds, in the form of the value: 1, 1s, 1KiB; of a list, of each element
//	above:"0"          a lower bound that is not allowed itself
//	zero:"no limit"    0 is allowed too, and means this
//	form:"re2"         one of forms; of a list, each element
//	required:"a name"  must be set if its section is; the tag says what it is
//	with:"type=a,b!"   allowed only if the key type of the same section is a or b; required with b
//	short:"path"       for a section: a value alone stands for the key path; short:"list": a value alone stands for a list of one
type Rules struct{ Tags reflect.StructTag }

// ShortList is the value of the tag short for a list.
const ShortList = "list"

// Short is the tag of that name.
func (r Rules) Short() string { return r.Tags.Get("short") }

// Required is the tag of that name.
func (r Rules) Required() string { return r.Tags.Get("required") }

// Form is that of the tag form.
func (r Rules) Form() (form Form, ok bool) {
	form, ok = forms[r.Tags.Get("form")]
	return form, ok
}

// Enum lists the texts that are allowed; nil: all.
func (r Rules) Enum() []string {
	if text, ok := r.Tags.Lookup("enum"); ok {
		return strings.Split(text, ",")
	}
	return nil
}

// Refuses returns what a single value should be that breaks a rule, or "" if it breaks none.
func (r Rules) Refuses(v reflect.Value) string {
	if v.Kind() == reflect.String {
		if known := r.Enum(); known != nil && !slices.Contains(known, v.String()) {
			return Either(slices.DeleteFunc(known, func(s string) bool { return s == "" }))
		}
		if form, _ := r.Form(); form.check != nil {
			return form.check(v.String())
		}
		return ""
	}
	n := math.NaN()
	switch {
	case v.CanInt():
		n = float64(v.Int())
	case v.CanUint():
		n = float64(v.Uint())
	case v.CanFloat():
		n = v.Float()
	}
	least, most := r.Bound("min", v.Type()), r.Bound("max", v.Type())
	above := r.Bound("above", v.Type())
	_, zero := r.Tags.Lookup("zero")
	if zero && n == 0 || !(n < least) && !(n > most) && !(n <= above) { // what there is not is NaN
		return ""
	}
	return r.Bounds()
}

// Bound returns the tag min, max or above for a value of type t, or NaN if there is none.
func (r Rules) Bound(tag string, t reflect.Type) float64 {
	text := r.Tags.Get(tag)
	if text == "" {
		return math.NaN()
	}
	if d, err := time.ParseDuration(text); err == nil && t == reflect.TypeFor[time.Duration]() {
		return float64(d)
	}
	if size, err := setting.ParseBytes(text); err == nil && t.Kind() == reflect.Int64 {
		return float64(size)
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	return math.NaN()
}

// Bounds describes the bounds of a number; "" if there are none.
func (r Rules) Bounds() string {
	least, most, above, words := r.Tags.Get("min"), r.Tags.Get("max"), r.Tags.Get("above"), ""
	switch {
	case above != "" && most != "":
		words = "more than " + above + " and at most " + most
	case above != "":
		words = "more than " + above
	case least != "" && most != "":
		words = least + " to " + most
	case least != "":
		words = least + " or more"
	case most != "":
		words = "at most " + most
	}
	if meaning, ok := r.Tags.Lookup("zero"); ok && words != "" {
		return "0 (" + meaning + ") or " + words
	}
	return words
}

// complaint reports that a required key is missing, or that the key is not allowed beside the others of its
// section; "" if neither is so.
func (f Field) complaint(in reflect.Value, fields []Field) string {
	what := f.Required()
	selector, values := f.With()
	if what == "" && selector == "" {
		return ""
	}
	set := setting.IsSet(in.FieldByIndex(f.Index).Interface())
	if what != "" && !set {
		return "missing: " + what
	}
	if selector == "" {
		return ""
	}
	at := slices.IndexFunc(fields, func(other Field) bool { return other.Key == selector })
	chosen := in.FieldByIndex(fields[at].Index).String()
	known := fields[at].Enum()
	if chosen == "" {
		chosen = slices.DeleteFunc(known, func(s string) bool { return s == "" })[0]
	}
	needed, allowed := slices.Contains(values, chosen+"!"), slices.Contains(values, chosen)
	switch {
	case needed && !set:
		return fmt.Sprintf("missing: %s %s needs it", selector, chosen)
	case set && !needed && !allowed && slices.Contains(known, chosen):
		return fmt.Sprintf("has no meaning with %s %s; remove it", selector, chosen)
	}
	return ""
}

// With returns the tag with: the key of the same section that decides, and its values with which this key is allowed;
// with those that end in "!" it is required.
func (r Rules) With() (selector string, values []string) {
	selector, text, ok := strings.Cut(r.Tags.Get("with"), "=")
	if !ok {
		return "", nil
	}
	return selector, strings.Split(text, ",")
}

// Either writes "a, b or c".
func Either(values []string) string {
	last := len(values) - 1
	if last == 0 {
		return values[0]
	}
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

// Form is what a text must be.
type Form struct {
	Name    string // in the page of all keys
	Pattern string // for editors, the same or more; empty: none
	// check returns what an invalid text should be, or "" for a valid one. If it is nil, the package that uses the text checks it.
	check func(text string) string
}

// forms has the values of the tag form. It is not changed.
var forms = map[string]Form{
	"listen": {"host:port", `^[^ /@]*:[0-9]+$`, checkWith("host:port such as 127.0.0.1:8080 or [::1]:8080, with a port from 0 (any free one) to 65535", func(text string) bool {
		host, port, err := net.SplitHostPort(text)
		n, portErr := strconv.Atoi(port)
		return err == nil && portErr == nil && n >= 0 && n <= 65535 && !strings.ContainsAny(host, " /@")
	})},
	"host-port": {"host:port", `^[^ /@]+:[0-9]+$`, checkWith("host:port such as 127.0.0.1:6379", func(text string) bool {
		host, port, err := net.SplitHostPort(text)
		return err == nil && host != "" && port != ""
	})},
	"network": {"network", `^[0-9a-fA-F.:]+(/[0-9]+)?$`, checkWith("an address or network such as 10.0.0.1 or 10.0.0.0/8", func(text string) bool {
		return ParseNetwork(text).IsValid()
	})},
	// An empty text is allowed: keys that need one have the tag required.
	"url": {"URL", `^(https?://.+)?$`, checkWith("a URL such as https://legacy.internal, without a user", func(text string) bool {
		u, err := url.Parse(text)
		return text == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
	})},
	"zone": {"time zone", `^[A-Za-z0-9_+/-]*$`, checkWith("a time zone such as Asia/Seoul or UTC", func(text string) bool {
		_, err := time.LoadLocation(text)
		return err == nil && text != "Local"
	})},
	"re2": {"regular expression", "", func(text string) string {
		_, err := regexp.Compile(text)
		if wrong, ok := errors.AsType[*syntax.Error](err); ok {
			return "a regular expression (RE2), " + wrong.Code.String()
		}
		return ""
	}},
	"gjson": {"GJSON path", "", nil},
}

// checkWith makes the check of a Form from a condition.
func checkWith(what string, valid func(text string) bool) func(string) string {
	return func(text string) string {
		if valid(text) {
			return ""
		}
		return what
	}
}

// ParseNetwork parses a network, or a single address as the network of that address; the zero value if the text is neither.
func ParseNetwork(text string) netip.Prefix {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen())
	}
	p, _ := netip.ParsePrefix(text)
	return p
}
