package config

import "os"

// Options of Load; the zero value is what serve uses.
type Options struct {
	// Env looks up the variables of ${NAME}; nil is os.LookupEnv.
	Env func(name string) (value string, set bool)
	// MayMiss lists keys ending in _file, such as auth.keys_file, whose files
	// need not exist yet, for the commands that make them.
	MayMiss []string
}

// Loaded is a valid configuration with what was doubtful on the way.
type Loaded struct {
	Config   Config
	Warnings Problems // may be empty; nothing here keeps the gateway from working
}

// Load reads and checks the file at path. Variables are put in, paths made
// absolute from the file's folder, and the files they name looked at. The
// error is a Problems with everything found; the Loaded is then of no use.
func Load(path string, o Options) (Loaded, error) {
	return load(readDocument(path, o.env()), o)
}

func (o Options) env() func(string) (string, bool) {
	if o.Env == nil {
		return os.LookupEnv
	}
	return o.Env
}

func load(doc *document, o Options) (Loaded, error) {
	c := Default()
	c.path, c.written = doc.path, doc.written
	if doc.root != nil {
		if !doc.has("auth.keys_file") && (doc.has("auth.redis") || doc.has("auth.introspection")) {
			c.Auth.KeysFile = "" // the default gives way to the source that was chosen
		}
		doc.decode(&c)
		doc.refuseKeys(c.Canary)
		doc.resolveFiles(&c, o.MayMiss)
		doc.check(c)
	}
	if err := doc.err(); err != nil {
		return Loaded{Warnings: doc.warnings}, err
	}
	return Loaded{Config: c, Warnings: doc.warnings}, nil
}
