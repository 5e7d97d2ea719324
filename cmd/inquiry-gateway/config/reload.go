package config

import (
	"cmp"
	"fmt"
	"inquiry-gateway/internal/yamlfile"
	"reflect"
	"strings"
)

// Effect is how a changed key of the file reaches a running gateway.
type Effect string

// The effects of a changed value, or of a changed content of the files it names.
const (
	Live    Effect = "reload"                  // taken over by a reload
	Restart Effect = "restart"                 // a reload keeps what runs
	toggle  Effect = "restart to set or empty" // another value is taken over by a reload
)

// notLive has the keys and sections of which a reload does not take over every change.
// It is the one place that says so: reloads, check --against and the docs follow it.
var notLive = map[string]Effect{
	"listen": Restart, "ops.listen": Restart, "redis": Restart,
	"tls": toggle,
}

// keysOf lists the keys of the file down to the second level; what is below a key has
// the effect of that key.
func keysOf() (keys []string) {
	for _, f := range yamlfile.FieldsOf(reflect.TypeFor[Config]()) {
		t := reflect.TypeFor[Config]().FieldByIndex(f.Index).Type
		if t.Kind() != reflect.Struct {
			keys = append(keys, f.Key)
			continue
		}
		for _, inner := range yamlfile.FieldsOf(t) {
			keys = append(keys, yamlfile.Join(f.Key, inner.Key))
		}
	}
	return keys
}

// effectOf is the effect of one of them.
func effectOf(key string) Effect {
	section, _, _ := strings.Cut(key, ".")
	return cmp.Or(notLive[key], notLive[section], Live)
}

// Effect is that of a change of its key; a key that this version does not know
// needs a restart, with another version.
func (c Change) Effect() Effect {
	for _, key := range keysOf() {
		if c.Key != key && !yamlfile.Under(c.Key, key) {
			continue
		}
		if effect := effectOf(key); effect != toggle {
			return effect
		} else if c.Old != "" && c.New != "" {
			return Live
		}
	}
	return Restart
}

// Reload reads the file of c, which runs, again. What a reload can change is in
// next as the file says it; the keys that need a restart have the values that
// run, and those that differ in the file are in waiting. The error is that of
// Load, or says that the rest of the file cannot work without them. That the keys file is
// missing is none: the old keys stay in force, and a change elsewhere counts.
func (c Config) Reload(o Options) (next Loaded, waiting []string, err error) {
	o.MayMiss = append(o.MayMiss, keysFile)
	doc := newDocument(yamlfile.Open(c.path, o.env()))
	if next, err = load(doc, o); err != nil {
		return Loaded{}, nil, err
	}
	if next.Config, waiting = c.keep(next.Config); len(waiting) == 0 {
		return next, nil, nil
	}
	if doc.check(next.Config); doc.Err() != nil {
		return Loaded{}, waiting, fmt.Errorf("%w\nthe running gateway cannot change %s: restart it to take over the file", doc.Err(), strings.Join(waiting, ", "))
	}
	return next, waiting, nil
}

// keep gives next with c's values of the keys that need a restart, and the names
// of those that differ.
func (c Config) keep(next Config) (Config, []string) {
	var waiting []string
	for _, key := range keysOf() {
		effect, running, wanted := effectOf(key), valueAt(&c, key), valueAt(&next, key)
		if effect == Live || effect == toggle && running.IsZero() == wanted.IsZero() || c.Same(next, key) {
			continue
		}
		waiting = append(waiting, key)
		wanted.Set(running)
	}
	return next, waiting
}

// Same tells whether two configurations have the same values under all of these
// keys, and the files named there the same content. The keys file's content does
// not count: it is read on its own.
func (c Config) Same(o Config, keys ...string) bool {
	for _, key := range keys {
		a, b := valueAt(&c, key), valueAt(&o, key)
		empty := a.Kind() == reflect.Slice && a.Len()+b.Len() == 0 // the same as none
		if !empty && !reflect.DeepEqual(a.Interface(), b.Interface()) {
			return false
		}
	}
	return true
}

// valueAt is the field that a key of keysOf stands for. It can be set.
func valueAt(c *Config, key string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		for _, f := range yamlfile.FieldsOf(v.Type()) {
			if f.Key == name {
				v = v.FieldByIndex(f.Index)
				break
			}
		}
	}
	return v
}
