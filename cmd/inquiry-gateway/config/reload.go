package config

import (
	"reflect"
	"strings"

	"inquiry-gateway/internal/yamlfile"
)

// Effect says when a changed key of the file takes effect in a running gateway.
type Effect string

// The effects of a change. Files that a key names count with their content.
const (
	AfterReload     Effect = "reload"
	AfterRestart    Effect = "restart"
	RestartToToggle Effect = "restart to set or empty" // a reload takes over another value
)

// EffectOf returns when a change of a key takes effect. The keys of a section share the effect of the section.
func EffectOf(key string) Effect {
	switch section, _, _ := strings.Cut(key, "."); {
	case key == "listen" || key == "ops.listen" || section == "redis":
		return AfterRestart
	case section == "tls":
		return RestartToToggle
	}
	return AfterReload
}

// Reload reads the file of c again. Its error is that of Load, or names the keys that a running gateway cannot change. A missing
// keys file is no error: its last keys stay in force.
func (c Config) Reload() (Config, error) {
	next, err := Load(c.path, Options{KeysMayMiss: true})
	if err != nil {
		return Config{}, err
	}
	for _, key := range restartRequired("", reflect.ValueOf(c), reflect.ValueOf(next)) {
		next.file.Errorf(key, "cannot change while the gateway runs; restart the gateway, or undo this change. Until then no change of the file is applied")
	}
	if err := next.file.Err(); err != nil {
		return Config{}, err
	}
	return next, nil
}

// restartRequired returns the keys below key in which two sections differ and which need a restart.
func restartRequired(key string, running, next reflect.Value) (keys []string) {
	for _, f := range yamlfile.FieldsOf(running.Type()) {
		at, a, b := yamlfile.Join(key, f.Key), running.FieldByIndex(f.Index), next.FieldByIndex(f.Index)
		effect := EffectOf(at)
		switch {
		case yamlfile.HasKeys(a.Type()):
			keys = append(keys, restartRequired(at, a, b)...)
		case effect == AfterReload:
		case effect == RestartToToggle && a.IsZero() == b.IsZero():
		case a.Kind() == reflect.Slice && a.Len()+b.Len() == 0: // an empty list is the same as none
		case !reflect.DeepEqual(a.Interface(), b.Interface()):
			keys = append(keys, at)
		}
	}
	return keys
}
