package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"inquiry-gateway/internal/yamlfile"
)

// Effect is after what a changed key of the file counts in a running gateway.
type Effect string

// The effects of a changed value, or of a changed content of the files it names.
const (
	AfterReload  Effect = "reload"                  // a reload takes it over
	AfterRestart Effect = "restart"                 // a reload keeps what runs
	toggle       Effect = "restart to set or empty" // a reload takes over another value
)

// needRestart has the keys and sections of which a reload does not take over every change.
// It is the one place that says so: reloads, check --against and the docs follow it.
var needRestart = map[string]Effect{
	"listen": AfterRestart, "ops.listen": AfterRestart, "redis": AfterRestart,
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

// EffectOf is the effect of a key.
func EffectOf(key string) Effect {
	section, _, _ := strings.Cut(key, ".")
	return cmp.Or(needRestart[key], needRestart[section], AfterReload)
}

// Effect is after what the change counts. A key that this version does not know needs a restart,
// with another version.
func (c Change) Effect() Effect {
	for _, key := range keysOf() {
		if c.Key != key && !yamlfile.Under(c.Key, key) {
			continue
		}
		if effect := EffectOf(key); effect != toggle {
			return effect
		} else if c.Old != "" && c.New != "" {
			return AfterReload
		}
	}
	return AfterRestart
}

// Reload reads the file of c, which runs, again. next has what the file says, but for the keys
// that need a restart: they keep the values that run, and waiting has those that differ in the
// file. The error is that of Load, or says that the rest of the file cannot work without
// them. A missing keys file is no error: the old keys stay in force.
func (c Config) Reload(o Options) (next Config, waiting []string, err error) {
	o.KeysMayMiss = true
	doc := newDocument(yamlfile.Open(c.path, o.env()))
	if next, err = load(doc, o); err != nil {
		return Config{}, nil, err
	}
	if next, waiting = c.keep(next); len(waiting) == 0 {
		return next, nil, nil
	}
	if doc.check(next); doc.Err() != nil {
		return Config{}, waiting, fmt.Errorf("%w\nthe running gateway cannot change %s: restart it to take over the file", doc.Err(), strings.Join(waiting, ", "))
	}
	return next, waiting, nil
}

// keep gives next with c's values of the keys that need a restart, and the names
// of those that differ.
func (c Config) keep(next Config) (Config, []string) {
	var waiting []string
	for _, key := range keysOf() {
		effect, running, wanted := EffectOf(key), valueAt(&c, key), valueAt(&next, key)
		if effect == AfterReload || effect == toggle && running.IsZero() == wanted.IsZero() || c.Same(next, key) {
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
