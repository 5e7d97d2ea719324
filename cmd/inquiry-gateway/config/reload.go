package config

import (
	"fmt"
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

// effects has every key of the file down to the second level; what is below a
// key has the effect of that key. It is the one place that says so: reloads,
// check --against and the README follow it.
var effects = []struct {
	key    string
	effect Effect
}{
	{"listen", Restart},
	{"ops.listen", Restart},
	{"ops.token_file", Live},
	{"tls.cert_file", toggle},
	{"tls.key_file", toggle},
	{"request_timeout", Live},
	{"shutdown_delay", Live},
	{"shutdown_grace", Live},
	{"max_connections", Live},
	{"max_streams", Restart},
	{"gateway.unknown_parameters", Live},
	{"gateway.docs", Live},
	{"gateway.hit_lane", Live},
	{"gateway.trusted_proxies", Live},
	{"auth.keys_file", Live},
	{"auth.redis", Live},
	{"auth.introspection", Live},
	{"auth.pepper_file", Live},
	{"auth.unknown_keys", Live},
	{"rate_limit.per_second", Live},
	{"rate_limit.burst", Live},
	{"rate_limit.plans", Live},
	{"log.format", Restart},
	{"log.sample_hits", Live},
	{"log.access_keys", Live},
	{"log.refused_keys", Live},
	{"redis.addrs", Restart},
	{"redis.mode", Restart},
	{"redis.master_name", Restart},
	{"redis.username", Restart},
	{"redis.username_file", Restart},
	{"redis.password_file", Restart},
	{"redis.sentinel_username", Restart},
	{"redis.sentinel_password_file", Restart},
	{"redis.tls", Restart},
	{"redis.db", Restart},
	{"redis.prefix", Restart},
	{"redis.timeout", Restart},
	{"redis.min_replicas", Restart},
	{"cache.local", Live},
	{"cache.buyer", Live},
	{"cache.seller", Live},
	{"cache.jitter", Live},
	{"cache.compress_min_bytes", Live},
	{"cache.max_entry_bytes", Live},
	{"cache.sealing_keys_file", Live},
	{"cache.fleet_coalescing", Live},
	{"cache.refresh_ahead", Live},
	{"cache.hints", Live},
	{"cache.recheck", Live},
	{"cache.goals", Live},
	{"upstream.base_url", Live},
	{"upstream.timeout", Live},
	{"upstream.max_response_bytes", Live},
	{"upstream.max_records", Live},
	{"upstream.max_concurrent", Live},
	{"upstream.max_concurrent_per_account", Live},
	{"upstream.full_read_every", Live},
	{"upstream.keep_replies_bytes", Live},
	{"upstream.max_requests_per_second", Live},
	{"upstream.max_nodes", Live},
	{"upstream.headers", Live},
	{"upstream.auth", Live},
	{"upstream.tls", Live},
	{"upstream.retry", Live},
	{"upstream.breaker", Live},
	{"upstream.buyer", Live},
	{"upstream.seller", Live},
	{"canary.every", Live},
	{"canary.buyer_keys", Live},
	{"canary.seller_keys", Live},
}

// Effect is that of a change of its key; a key that this version does not know
// needs a restart, with another version.
func (c Change) Effect() Effect {
	for _, e := range effects {
		if c.Key != e.key && !under(c.Key, e.key) {
			continue
		}
		switch {
		case e.effect != toggle:
			return e.effect
		case c.Old != "" && c.New != "":
			return Live
		}
	}
	return Restart
}

// Reload reads the file of c, which runs, again. What a reload can change is in
// next as the file says it; the keys that need a restart have the values that
// run, and those that differ in the file are in waiting. The error is that of
// Load, or says that the rest of the file cannot work without them.
func (c Config) Reload(o Options) (next Config, waiting []string, err error) {
	doc := readDocument(c.path, o.env())
	loaded, err := load(doc, o)
	if err != nil {
		return Config{}, nil, err
	}
	next, waiting = c.keep(loaded.Config)
	if len(waiting) == 0 {
		return next, nil, nil
	}
	if doc.check(next); doc.err() != nil {
		return Config{}, waiting, fmt.Errorf("%w\nthe running gateway cannot change %s: restart it to take over the file", doc.err(), strings.Join(waiting, ", "))
	}
	return next, waiting, nil
}

// keep gives next with c's values of the keys that need a restart, and the names
// of those that differ.
func (c Config) keep(next Config) (Config, []string) {
	var waiting []string
	for _, e := range effects {
		running, wanted := valueAt(&c, e.key), valueAt(&next, e.key)
		if e.effect == Live || e.effect == toggle && running.IsZero() == wanted.IsZero() || c.Same(next, e.key) {
			continue
		}
		waiting = append(waiting, e.key)
		wanted.Set(running)
	}
	return next, waiting
}

// Same tells whether two configurations have the same values under all of these
// keys, and the files named there the same content. The keys file's content does
// not count: it is read on its own.
func (c Config) Same(o Config, keys ...string) bool {
	for _, key := range keys {
		if !equal(valueAt(&c, key), valueAt(&o, key)) {
			return false
		}
	}
	return true
}

// equal takes an empty list for the same as none.
func equal(a, b reflect.Value) bool {
	return a.Kind() == reflect.Slice && a.Len()+b.Len() == 0 || reflect.DeepEqual(a.Interface(), b.Interface())
}

// valueAt gives the field with that key.
func valueAt(c *Config, key string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		for _, f := range fieldsOf(v.Type()) {
			if f.key == name {
				v = v.FieldByIndex(f.index)
				break
			}
		}
	}
	return v
}
