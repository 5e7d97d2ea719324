package config

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/jsonwalk"
)

// field is one key that a struct knows.
type field struct {
	key   string
	index []int
	rules
}

// fieldsOf lists a struct's keys by their yaml tags, those of embedded and inline
// structs included. What has no tag is no key.
func fieldsOf(t reflect.Type) (fields []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if f.Type.Kind() == reflect.Struct && name == "" && (f.Anonymous || options == "inline") {
			for _, inner := range fieldsOf(f.Type) {
				fields = append(fields, field{inner.key, append([]int{i}, inner.index...), inner.rules})
			}
		} else if name != "" && name != "-" {
			fields = append(fields, field{name, []int{i}, rules{f.Tag}})
		}
	}
	return fields
}

// rules are what the tags of a field say of its value. The file's reader, the schema and
// the page of all keys follow them.
//
//	enum:",a,b"        one of these texts; of a list, each element. The empty text means the first that has a name.
//	min:"1" max:"10"   bounds, in the form of the value: 1, 1s, 1KiB; of a list, of each element
//	above:"0"          a lower bound that is not allowed itself
//	zero:"no limit"    0 is allowed besides, and means this
//	form:"re2"         one of forms; of a list, each element
//	required:"a name"  must be there if its section is, and is this
//	with:"type=a,b!"   has a meaning only where the key type beside it is a or b, and is needed with b
//	short:"path"       for a section: a value alone stands for the key path; short:"list": a value alone stands for a list of one
type rules struct{ tags reflect.StructTag }

// shortList is the value of the tag short for a list.
const shortList = "list"

func (r rules) short() string    { return r.tags.Get("short") }
func (r rules) required() string { return r.tags.Get("required") }

// enum lists the texts that are allowed; nil: all.
func (r rules) enum() []string {
	if text, ok := r.tags.Lookup("enum"); ok {
		return strings.Split(text, ",")
	}
	return nil
}

// refuses says what a single value that breaks a rule should be; empty: it is good.
func (r rules) refuses(v reflect.Value) string {
	if v.Kind() == reflect.String {
		if known := r.enum(); known != nil && !slices.Contains(known, v.String()) {
			return either(slices.DeleteFunc(known, func(s string) bool { return s == "" }))
		}
		if f, ok := forms[r.tags.Get("form")]; ok && !f.good(v.String()) {
			return f.wants
		}
		return ""
	}
	n := amount(v)
	least, most := r.bound("min", v.Type()), r.bound("max", v.Type())
	above := r.bound("above", v.Type())
	_, zero := r.tags.Lookup("zero")
	if zero && n == 0 || !(n < least) && !(n > most) && !(n <= above) { // what there is not is NaN
		return ""
	}
	return r.bounds()
}

// amount is a number, a size or a duration as one.
func amount(v reflect.Value) float64 {
	switch {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float()
	}
	return math.NaN()
}

// bound reads a tag in the form of the value; NaN: there is none.
func (r rules) bound(tag string, t reflect.Type) float64 {
	text := r.tags.Get(tag)
	if d, err := time.ParseDuration(text); err == nil && t == reflect.TypeFor[time.Duration]() {
		return float64(d)
	}
	if size, err := parseBytes(text); err == nil && t.Kind() == reflect.Int64 {
		return float64(size)
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n
	}
	return math.NaN()
}

// bounds are the bounds of a number in words; empty: there are none.
func (r rules) bounds() string {
	least, most, above, words := r.tags.Get("min"), r.tags.Get("max"), r.tags.Get("above"), ""
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
	if meaning, ok := r.tags.Lookup("zero"); ok && words != "" {
		return "0 (" + meaning + ") or " + words
	}
	return words
}

// complaint says that the key is missing, or has no meaning beside the others of its
// section; empty: neither.
func (f field) complaint(in reflect.Value, fields []field) string {
	says := invalid.Says(in.FieldByIndex(f.index).Interface())
	if what := f.required(); what != "" && !says {
		return "missing: " + what
	}
	selector, values := f.with()
	if selector == "" {
		return ""
	}
	at := slices.IndexFunc(fields, func(other field) bool { return other.key == selector })
	chosen := in.FieldByIndex(fields[at].index).String()
	known := fields[at].enum()
	if chosen == "" {
		chosen = slices.DeleteFunc(known, func(s string) bool { return s == "" })[0]
	}
	needed, allowed := slices.Contains(values, chosen+"!"), slices.Contains(values, chosen)
	switch {
	case needed && !says:
		return fmt.Sprintf("missing: %s %s needs it", selector, chosen)
	case says && !needed && !allowed && slices.Contains(known, chosen):
		return fmt.Sprintf("has no meaning with %s %s; remove it", selector, chosen)
	}
	return ""
}

// with is the key beside this one that decides, and the values with which this one has a
// meaning; those with a "!" need it.
func (r rules) with() (selector string, values []string) {
	selector, text, _ := strings.Cut(r.tags.Get("with"), "=")
	return selector, strings.Split(text, ",")
}

// either writes "a, b or c".
func either(values []string) string {
	last := len(values) - 1
	if last == 0 {
		return values[0]
	}
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

// form is what a text must be.
type form struct {
	wants   string
	good    func(text string) bool
	pattern string // for editors, the same or more; empty: none
}

// forms are those that the tag form names. Where no text is no mistake it is good.
var forms = map[string]form{
	"listen":    {"host:port such as 127.0.0.1:8080 or [::1]:8080, with a port from 0 (any free one) to 65535", func(s string) bool { _, ok := listenAddress(s); return ok }, `^[^ /@]*:[0-9]+$`},
	"host-port": {"host:port such as 127.0.0.1:6379", isHostPort, `^[^ /@]+:[0-9]+$`},
	"network":   {"an address or network such as 10.0.0.1 or 10.0.0.0/8", func(s string) bool { _, ok := parsePrefix(s); return ok }, `^[0-9a-fA-F.:]+(/[0-9]+)?$`},
	"url":       {"a URL such as https://legacy.internal, without a user", func(s string) bool { return s == "" || isURL(s) }, `^(https?://.+)?$`},
	"gjson":     {"a GJSON path such as result.items", func(s string) bool { return s == "" || jsonwalk.CheckPath(s) == nil }, ""},
	"re2":       {"a regular expression (RE2)", func(s string) bool { _, err := regexp.Compile(s); return err == nil }, ""},
	"zone":      {"a time zone such as Asia/Seoul or UTC", isZone, `^[A-Za-z0-9_+/-]*$`},
}

func isHostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	return err == nil && host != "" && port != ""
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil
}

func isZone(text string) bool {
	_, err := time.LoadLocation(text)
	return err == nil && text != "Local"
}

// parsePrefix takes a single address as the network of it alone.
func parsePrefix(text string) (netip.Prefix, bool) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	return p, err == nil
}
