package config

import (
	_ "embed"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/internal/yamlfile"
)

// Problem is one mistake in a configuration file, or a warning about one.
type Problem = setting.Problem

// Problems is the error of Load: all problems, in the order of the file's lines.
type Problems = setting.Problems

// document is a configuration file that is being decoded.
type document struct {
	*yamlfile.File
	files map[string]fs.FileInfo // what was read, see Config.Files
}

func newDocument(f *yamlfile.File) document {
	return document{f, map[string]fs.FileInfo{f.Path: f.Info}}
}

// Schema is config.schema.json: the JSON Schema (2020-12) of the configuration file, made
// from the structs that the file is read into.
//
//go:embed config.schema.json
var Schema []byte

// Options of Load; the zero value is what serve uses.
type Options struct {
	// Env looks up the variables of ${NAME}; nil is os.LookupEnv.
	Env func(name string) (value string, set bool)
	// KeysMayMiss allows a missing keys file, for commands that create it or need no keys.
	KeysMayMiss bool
	// Sections are those that a command uses, beginning with the one that it is about. Problems in others are not reported.
	// Empty: all.
	Sections []string
}

// Load reads and checks the file at path and the files that it names, relative to its folder. The error is a Problems; the
// Config then has nothing but Warnings.
func Load(path string, o Options) (Config, error) {
	return load(newDocument(yamlfile.Open(path, o.env())), o)
}

// env is Env or its default.
func (o Options) env() func(string) (string, bool) {
	if o.Env == nil {
		return os.LookupEnv
	}
	return o.Env
}

// load continues after each problem, so that one run reports all.
func load(doc document, o Options) (Config, error) {
	c := Default()
	c.path, c.file, c.files = doc.Path, doc.File, doc.files
	if yamlfile.IsNull(doc.Root) {
		doc.FileErrorf("is empty; add at least an upstream section")
	} else if doc.Root != nil {
		if doc.At(keysFile) == nil && (doc.At("auth.redis") != nil || doc.At("auth.introspection") != nil) {
			c.Auth.KeysFile = setting.File{} // no default beside another key store
			doc.refuseEmpty("auth.redis", "write redis: {} if keys are in the Redis of redis.addrs")
			doc.refuseEmpty("auth.introspection", "add at least its url")
		}
		doc.Decode(&c)
		doc.readFiles(&c, o.KeysMayMiss)
		doc.check(c)
		if len(o.Sections) > 0 {
			doc.KeepProblems(func(key string) bool { return o.uses(key) || doc.At(o.Sections[0]) == nil && unknown(key) })
		}
	}
	if err := doc.Err(); err != nil {
		return Config{warnings: doc.Warnings()}, err
	}
	c.warnings = doc.Warnings()
	return c, nil
}

// uses reports whether a key is in one of Sections.
func (o Options) uses(key string) bool {
	return slices.ContainsFunc(o.Sections, func(s string) bool { return key == s || yamlfile.Under(key, s) })
}

// unknown reports whether a key is in no section, and so may be meant for any.
func unknown(key string) bool {
	section, _, _ := strings.Cut(key, ".")
	return !slices.ContainsFunc(yamlfile.FieldsOf(reflect.TypeFor[Config]()), func(f yamlfile.Field) bool { return f.Key == section })
}

// refuseEmpty reports a key store without a value.
func (doc document) refuseEmpty(key, do string) {
	if yamlfile.IsNull(doc.At(key)) {
		doc.Errorf(key, "is empty; %s", do)
		doc.Suppress(keysFile) // missing for that reason
	}
}
