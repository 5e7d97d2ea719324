package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// eachKey calls yield for each key of a section and of those below it.
func eachKey(t reflect.Type, path string, yield func(key string, t reflect.Type, r rules)) {
	for _, f := range fieldsOf(t) {
		inner, key := t.FieldByIndex(f.index).Type, join(path, f.key)
		yield(key, inner, f.rules)
		if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if hasKeys(inner) {
			eachKey(inner, key, yield)
		}
	}
}

// at writes a value at a key, within sections and lists.
func at(key, value string) string {
	t := reflect.TypeFor[Config]()
	var open, closed string
	for name := range strings.SplitSeq(key, ".") {
		i := slices.IndexFunc(fieldsOf(t), func(f field) bool { return f.key == name })
		t = t.FieldByIndex(fieldsOf(t)[i].index).Type
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
	doc.into(&c)
	for _, p := range doc.problems {
		if strings.HasPrefix(p.Message, "wants ") {
			found = append(found, p.Error())
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
	eachKey(reflect.TypeFor[Config](), "", func(key string, of reflect.Type, r rules) {
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
		for _, value := range r.enum() {
			taken(`"` + value + `"`)
		}
		if r.enum() != nil {
			refused("nonsense")
		}
		for tag, step := range map[string]float64{"min": -1, "max": 1} {
			if bound := r.bound(tag, of); !math.IsNaN(bound) {
				inside, outside := beside(bound, of, step)
				taken(inside)
				if _, zero := r.tags.Lookup("zero"); !zero || outside != "0" {
					refused(outside)
				}
			} else if r.tags.Get(tag) != "" {
				t.Errorf("%s: the tag %s cannot be read", key, tag)
			}
		}
		if above := r.bound("above", of); !math.IsNaN(above) {
			inside, _ := beside(above, of, 0)
			refused(inside)
		}
		if _, zero := r.tags.Lookup("zero"); zero {
			taken("0")
		}
		if form := r.tags.Get("form"); form != "" {
			if _, ok := forms[form]; !ok {
				t.Errorf("%s: there is no form %s", key, form)
			}
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
		for _, f := range fieldsOf(v.Type()) {
			value := v.FieldByIndex(f.index)
			if hasKeys(value.Type()) {
				look(value, join(path, f.key))
			} else if what := f.refuses(value); what != "" && !value.IsZero() {
				t.Errorf("%s: the default %v: wants %s", join(path, f.key), value, what)
			}
			if inner := below(value); inner.IsValid() && value.Kind() == reflect.Pointer {
				look(inner, join(path, f.key))
			}
		}
	}
	look(reflect.ValueOf(Default()), "")
}
