package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream/legacy"
)

const repository = "../../.."

// schemaFile is where every shipped configuration says that its schema is.
const schemaFile = "cmd/inquiry-gateway/config/config.schema.json"

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(repository, schemaFile))
	must(t, err)
	return schema
}

// plain gives a document as an editor sees it: variables are texts.
func plain(t *testing.T, text string) any {
	t.Helper()
	doc := yamlfile.Parse("gateway.yaml", []byte(text), nil)
	if doc.Root == nil {
		t.Fatalf("%v in\n%s", doc.Err(), text)
	}
	var tree any
	doc.Decode(&tree)
	return tree
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, file))
	must(t, err)
	return string(text)
}

// shipped are the configurations in this repository, by file. Those that are templates are
// filled in.
func shipped(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	demo := strings.NewReplacer("{{listen}}", "127.0.0.1:0", "{{ops}}", "127.0.0.1:0", "{{redis}}", "", "{{upstream}}", string(legacy.Mapping()))
	for _, pattern := range []string{
		"examples/*.yaml", "deploy/compose/*.yaml", "upstream/legacy/mapping.yaml", "cmd/inquiry-gateway/demo.yaml",
		"cmd/inquiry-gateway/config/testdata/example.yaml",
	} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, file := range found {
			name := strings.TrimPrefix(file, repository+"/")
			if strings.Contains(name, "keys") {
				continue
			}
			files[name] = demo.Replace(read(t, name))
		}
	}
	return files
}

// What is shipped names its schema, which takes it, and so do the pages' and the chart's
// examples and what check --print shows.
func TestTheSchemaTakesWhatIsShipped(t *testing.T) {
	texts := shipped(t)
	for file, text := range texts {
		first, _, _ := strings.Cut(text, "\n")
		named, ok := strings.CutPrefix(first, "# yaml-language-server: $schema=")
		want, _ := filepath.Rel(filepath.Dir(file), schemaFile)
		if file == "cmd/inquiry-gateway/demo.yaml" {
			want = filepath.Base(schemaFile) // the demo writes both into one folder
		}
		if !ok || named != want {
			t.Errorf("%s: the first line is %q, and should name %s", file, first, want)
		}
	}
	for _, page := range []string{"README.md", "docs/guide.md"} {
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains("\n"+block[1], "\nupstream:") {
				texts[page+": "+block[1][:20]] = block[1]
			}
		}
	}
	for _, name := range []string{"minimal", "full"} {
		var values struct{ Config string }
		must(t, yaml.Unmarshal([]byte(read(t, "deploy/helm/testdata/"+name+".yaml")), &values))
		texts["helm "+name] = values.Config
	}
	texts["what check --print shows"] = good(t, example(t)).Redacted()
	schema := compileSchema(t)
	for name, text := range texts {
		if err := schema.Validate(plain(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema and the program agree on the form of what a key may hold.
func TestTheSchemaAgreesWithTheProgram(t *testing.T) {
	schema := compileSchema(t)
	for text, good := range map[string]bool{
		"tls: {certfile: x}":                                     false,
		"redis: {tls: {certfile: x}}":                            false,
		"rate_limit: {plans: {pro: {per_scond: 5}}}":             false,
		"upstream: {tls: {cafile: x}}":                           false,
		"tls: {cert_file: }":                                     false,
		"auth: {cache_ttl: }":                                    false,
		"rate_limit: {per_second: '${RATE}', burst: 4}":          true,
		"redis: {prefix: 5}":                                     true, // a text need not be quoted
		"listen: [a]":                                            false,
		"listn: a":                                               false,
		"request_timeout: 1h30m":                                 true,
		"request_timeout: ${TTL}":                                true,
		"request_timeout: 30":                                    false,
		"request_timeout: -3s":                                   false,
		"shutdown_delay: 0":                                      true,
		"max_connections: ${PORT}":                               true,
		"max_connections: 1.5":                                   false,
		"gateway: {docs: yes}":                                   false,
		"gateway: {docs: false}":                                 true,
		"gateway: {trusted_proxies: 10.0.0.0/8}":                 false,
		"log: {access_keys: plain}":                              false,
		"cache: {max_bytes: 64 MiB}":                             true,
		"cache: {max_bytes: 64 Mib}":                             false,
		"cache: {jitter: half}":                                  false,
		"cache: {buyer: {by_status: {x: {tt: 1s}}}}":             false,
		"cache: {buyer: }":                                       true,
		"cache: {buyer: {ttl: }}":                                false,
		"upstream: {headers: {X-A: 1}}":                          true,
		"upstream: {headers: [X-A]}":                             false,
		"upstream: {auth: {type: header, token_file: f}}":        false,
		"upstream: {buyer: {owner: a}}":                          true,
		"upstream: {buyer: {owner: [a, 1]}}":                     true,
		"upstream: {buyer: {owner: {nosuch: a}}}":                false,
		"upstream: {buyer: {where: [{path: a, is: [b, null]}]}}": true,
		"upstream: {seller: {fields: {title: [a, b]}}}":          true,
		"upstream: {seller: {fields: {title: [[a], b]}}}":        false,
		"upstream: {buyer: {fields: {inquiry_type: {path: a, default: null, values: {1: x, true: y}}}}}": true,
		"upstream: {buyer: {fields: {status: {path: a, vals: {}}}}}":                                     false,
		"upstream: {buyer: {fields: {responses: {fetch: {paging: {style: all}}}}}}":                      false,
	} {
		text = strings.Replace(text, "upstream: {", "upstream: {base_url: 'http://a', ", 1) // which is required
		if err := schema.Validate(plain(t, text)); (err == nil) != good {
			t.Errorf("%s: the schema says %v", text, err)
		}
		key, _, _ := strings.Cut(text, ":")
		_, problems := loadText(t, text)
		refused := regexp.MustCompile(": " + key + `.*(wants|unknown key|has no value|needs it)`).MatchString(strings.Join(problems, "\n"))
		if refused == good {
			t.Errorf("%s: the program says %q", text, problems)
		}
	}
}
