package config

import (
	"encoding"
	"errors"
	"reflect"
	"time"
)

// unmarshaler is what types with a shape of their own implement; it is the
// interface of the YAML library, called here with our own decoder.
type unmarshaler interface {
	UnmarshalYAML(unmarshal func(any) error) error
}

// decoder puts a tree into Go values. The library's own decoder stops at the
// first error and names Go types; this one goes on, names keys and speaks of
// durations and sizes. Values that are not in the tree keep their defaults;
// maps and lists are replaced whole.
type decoder struct{ *report }

func (d *decoder) decode(n *node, into reflect.Value, path string) {
	switch n.kind {
	case broken:
		return
	case null:
		d.decodeNull(n, into, path)
		return
	}
	if d.decodeCustom(n, into, path) {
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		value := reflect.New(into.Type().Elem())
		d.decode(n, value.Elem(), path)
		into.Set(value)
	case reflect.Struct:
		d.decodeStruct(n, into, path)
	case reflect.Map:
		d.decodeMap(n, into, path)
	case reflect.Slice:
		d.decodeList(n, into, path)
	case reflect.Interface:
		if value := n.plain(); value != nil {
			into.Set(reflect.ValueOf(value))
		}
	default:
		d.decodeScalar(n, into, path)
	}
}

// decodeNull handles a key without a value. For a section it is the same as
// leaving the key out, because all its keys may be commented out; for a
// single value it is more likely a mistake.
func (d *decoder) decodeNull(n *node, into reflect.Value, path string) {
	switch into.Kind() {
	case reflect.Pointer, reflect.Interface:
		into.SetZero()
	case reflect.Struct, reflect.Map, reflect.Slice:
	default:
		if _, custom := into.Addr().Interface().(unmarshaler); !custom {
			d.add(n.at, path, "has no value; write one, or remove the key")
		}
	}
}

// decodeCustom lets types decode themselves. What they report through unmarshal
// keeps its places; any other error of theirs is one at the value.
func (d *decoder) decodeCustom(n *node, into reflect.Value, path string) bool {
	switch v := into.Addr().Interface().(type) {
	case *time.Duration:
		d.decodeDuration(n, into, path)
	case unmarshaler:
		err := v.UnmarshalYAML(func(target any) error { return d.nested(n, target, path) })
		d.addCustom(n, path, err)
	case encoding.TextUnmarshaler:
		if n.kind != scalar {
			d.wants(n, path, "a text")
			return true
		}
		if err := v.UnmarshalText([]byte(n.text)); err != nil {
			d.add(n.at, path, "wants %s, got %s", textForm(v), n.describe())
		}
	default:
		return false
	}
	return true
}

// nested decodes for a custom type into a report of its own, because the type
// may try one form after another and fail only if all do.
func (d *decoder) nested(n *node, target any, path string) error {
	into := reflect.ValueOf(target)
	if into.Kind() != reflect.Pointer || into.IsNil() {
		return errors.New("the decoder was given no pointer")
	}
	inner := &decoder{&report{file: d.file}}
	inner.decode(n, into.Elem(), path)
	if len(inner.problems) == 0 {
		return nil
	}
	return inner.problems
}

func (d *decoder) addCustom(n *node, path string, err error) {
	if err == nil {
		return
	}
	if problems, ok := errors.AsType[Problems](err); ok {
		for _, p := range problems {
			d.add(position{p.Line, p.Column}, p.Key, "%s", p.Message)
		}
		return
	}
	d.add(n.at, path, "%v", err)
}

func (d *decoder) wants(n *node, path, what string) {
	d.add(n.at, path, "wants %s, got %s", what, n.describe())
}

func textForm(v encoding.TextUnmarshaler) string {
	if _, ok := v.(*time.Time); ok {
		return "a time such as 2027-01-01T00:00:00Z"
	}
	return "another text"
}

func (d *decoder) decodeList(n *node, into reflect.Value, path string) {
	if n.kind != list && into.Type().Elem() == reflect.TypeFor[File]() {
		d.add(n.at, path, "wants a list of files such as [a, b]") // what stands there may be the secret itself
		return
	}
	if n.kind != list {
		d.wants(n, path, "a list such as [a, b]")
		return
	}
	out := reflect.MakeSlice(into.Type(), len(n.items), len(n.items))
	for i, child := range n.items {
		d.decode(child, out.Index(i), item(path, i))
	}
	into.Set(out)
}

func (d *decoder) decodeMap(n *node, into reflect.Value, path string) {
	if n.kind != mapping {
		d.wants(n, path, "a mapping such as {key: value}")
		return
	}
	out := reflect.MakeMapWithSize(into.Type(), len(n.entries))
	for _, e := range n.entries {
		value := reflect.New(into.Type().Elem()).Elem()
		d.decode(e.valueAtKey(), value, join(path, e.key))
		out.SetMapIndex(reflect.ValueOf(e.key).Convert(into.Type().Key()), value)
	}
	into.Set(out)
}
