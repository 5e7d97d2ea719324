package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/yamlfile"
)

// eachKey calls yield for each key of a section and of those below it.
func eachKey(t reflect.Type, path string, yield func(key string, t reflect.Type, r yamlfile.Rules)) {
	for _, f := range yamlfile.FieldsOf(t) {
		inner, key := t.FieldByIndex(f.Index).Type, yamlfile.Join(path, f.Key)
		yield(key, inner, f.Rules)
		if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if yamlfile.HasKeys(inner) {
			eachKey(inner, key, yield)
		}
	}
}

// at writes a value at a key, within sections and lists.
func at(key, value string) string {
	t := reflect.TypeFor[Config]()
	var open, closed string
	for name := range strings.SplitSeq(key, ".") {
		i := slices.IndexFunc(yamlfile.FieldsOf(t), func(f yamlfile.Field) bool { return f.Key == name })
		t = t.FieldByIndex(yamlfile.FieldsOf(t)[i].Index).Type
		open, closed = open+"{"+name+": ", "}"+closed
		if t.Kind() == reflect.Slice {
			open, closed = open+"[", "]"+closed
			t = t.Elem()
		} else if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	return open + value + closed + "\n"
}

// problemsAt are those of a file with one value that say what the value should be.
func problemsAt(t *testing.T, key, value string) (found []string) {
	t.Helper()
	doc := documentOf(at(key, value))
	c := Default()
	doc.Decode(&c)
	for _, line := range lines(doc.Err()) {
		if strings.Contains(line, ": wants ") {
			found = append(found, line)
		}
	}
	return found
}

// beside gives texts of the values next to a bound: within it and beyond it.
func beside(bound float64, t reflect.Type, step float64) (inside, outside string) {
	text := func(n float64) string {
		switch {
		case t == reflect.TypeFor[time.Duration]():
			return time.Duration(n).String()
		case t.Kind() == reflect.Float64:
			return fmt.Sprintf("%.6f", n)
		}
		return fmt.Sprintf("%.0f", n)
	}
	if t.Kind() == reflect.Float64 {
		step /= 1000
	}
	return text(bound), text(bound + step)
}

// Every rule that a tag has is kept, of every key.
func TestEveryRuleIsKept(t *testing.T) {
	count := 0
	eachKey(reflect.TypeFor[Config](), "", func(key string, of reflect.Type, r yamlfile.Rules) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		refused := func(value string) {
			count++
			if got := problemsAt(t, key, value); len(got) != 1 || !strings.Contains(got[0], "gateway.yaml:1:") {
				t.Errorf("%s: %s: got %q", key, value, got)
			}
		}
		taken := func(value string) {
			if got := problemsAt(t, key, value); len(got) > 0 {
				t.Errorf("%s: %s: got %q", key, value, got)
			}
		}
		for _, value := range r.Enum() {
			taken(`"` + value + `"`)
		}
		if r.Enum() != nil {
			refused("nonsense")
		}
		for tag, step := range map[string]float64{"min": -1, "max": 1} {
			if bound := r.Bound(tag, of); !math.IsNaN(bound) {
				inside, outside := beside(bound, of, step)
				taken(inside)
				if _, zero := r.Tags.Lookup("zero"); !zero || strings.Trim(outside, "0.") != "" {
					refused(outside)
				}
			} else if r.Tags.Get(tag) != "" {
				t.Errorf("%s: the tag %s cannot be read", key, tag)
			}
		}
		if above := r.Bound("above", of); !math.IsNaN(above) {
			inside, _ := beside(above, of, 0)
			refused(inside)
		}
		if _, zero := r.Tags.Lookup("zero"); zero {
			taken("0")
		}
		if _, ok := r.Form(); !ok && r.Tags.Get("form") != "" {
			t.Errorf("%s: there is no form %s", key, r.Tags.Get("form"))
		}
	})
	if count < 60 {
		t.Errorf("only %d mistakes were tried", count)
	}
}

// The defaults keep the rules.
func TestDefaultsKeepTheRules(t *testing.T) {
	var look func(v reflect.Value, path string)
	look = func(v reflect.Value, path string) {
		for _, f := range yamlfile.FieldsOf(v.Type()) {
			value := v.FieldByIndex(f.Index)
			if yamlfile.HasKeys(value.Type()) {
				look(value, yamlfile.Join(path, f.Key))
			} else if what := f.Refuses(value); what != "" && !value.IsZero() {
				t.Errorf("%s: the default %v: wants %s", yamlfile.Join(path, f.Key), value, what)
			}
			if inner := yamlfile.InnerSection(value); inner.IsValid() && value.Kind() == reflect.Pointer {
				look(inner, yamlfile.Join(path, f.Key))
			}
		}
	}
	look(reflect.ValueOf(Default()), "")
}
