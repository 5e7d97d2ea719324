package config

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"inquiry-gateway/internal/yamlfile"
	"inquiry-gateway/upstream/legacy"
)

const repository = "../../.."

// schemaFile is where every shipped configuration says that its schema is.
const schemaFile = "cmd/inquiry-gateway/config/config.schema.json"

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(repository, schemaFile))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// plain gives a document as an editor sees it: variables are texts.
func plain(t *testing.T, text string) any {
	t.Helper()
	doc := yamlfile.Parse("gateway.yaml", text, nil)
	if doc.Root == nil {
		t.Fatalf("%v in\n%s", doc.Err(), text)
	}
	return doc.Root.Plain()
}

// shipped are the configurations in this repository, by file. Those that are
// templates are filled in.
func shipped(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	add := func(pattern string) {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(file, "keys") {
				files[strings.TrimPrefix(file, repository+"/")] = filled(t, string(text))
			}
		}
	}
	for _, pattern := range []string{
		"examples/*.yaml", "deploy/compose/*.yaml", "upstream/legacy/mapping.yaml", "cmd/inquiry-gateway/demo.yaml",
		"cmd/inquiry-gateway/config/testdata/example.yaml",
	} {
		add(pattern)
	}
	return files
}

func filled(t *testing.T, text string) string {
	t.Helper()
	mapping := string(legacy.Mapping())
	text = strings.NewReplacer("{{listen}}", "127.0.0.1:0", "{{ops}}", "127.0.0.1:0", "{{redis}}", "", "{{upstream}}", mapping).Replace(text) // the demo's
	page, err := template.New("").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := page.Execute(&b, map[string]any{
		"Listen": "127.0.0.1:0", "Ops": "127.0.0.1:0", "Upstream": mapping, "Mapping": mapping, "Small": true, "TLS": true,
	}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestShippedFilesNameTheirSchema(t *testing.T) {
	for file, text := range shipped(t) {
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
}

func TestSchemaTakesWhatIsShipped(t *testing.T) {
	schema, texts := compileSchema(t), shipped(t)
	for _, page := range []string{"README.md", "docs/guide.md"} {
		text, err := os.ReadFile(filepath.Join(repository, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(block[1], "\nupstream:") || strings.HasPrefix(block[1], "upstream:") {
				texts[page+": "+block[1][:20]] = block[1]
			}
		}
	}
	for _, name := range []string{"minimal", "full"} {
		var values struct{ Config string }
		text, err := os.ReadFile(filepath.Join(repository, "deploy/helm/testdata", name+".yaml"))
		if err == nil {
			err = yaml.Unmarshal(text, &values)
		}
		if err != nil {
			t.Fatal(err)
		}
		texts["helm "+name] = values.Config
	}
	loaded, problems := loadText(t, example(t))
	if problems != nil {
		t.Fatal(problems)
	}
	texts["what check --print shows"] = loaded.Config.Redacted()
	for name, text := range texts {
		if err := schema.Validate(plain(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema and the program agree on what a key may hold.
func TestSchemaAgreesWithTheProgram(t *testing.T) {
	schema := compileSchema(t)
	for text, good := range map[string]bool{
		"listen: 5":                                       true, // a text need not be quoted
		"listen: [a]":                                     false,
		"listn: a":                                        false,
		"request_timeout: 1h30m":                          true,
		"request_timeout: 1.5s":                           true,
		"request_timeout: ${TTL}":                         true,
		"request_timeout: 30":                             false,
		"request_timeout: -3s":                            false,
		"request_timeout: soon":                           false,
		"shutdown_delay: 0":                               true,
		"max_connections: ${PORT}":                        true,
		"max_connections: 1.5":                            false,
		"max_connections: many":                           false,
		"gateway: {docs: yes}":                            false,
		"gateway: {docs: false}":                          true,
		"gateway: {unknown_parameters: drop}":             false,
		"gateway: {unknown_parameters: ignore}":           true,
		"gateway: {trusted_proxies: 10.0.0.0/8}":          false,
		"log: {access_keys: plain}":                       false,
		"cache: {max_bytes: 64 MiB}":                      true,
		"cache: {max_bytes: 64 Mib}":                      false,
		"cache: {max_bytes: -1}":                          false,
		"cache: {jitter: half}":                           false,
		"cache: {buyer: {by_status: {x: {tt: 1s}}}}":      false,
		"cache: {buyer: }":                                true,
		"cache: {buyer: {ttl: }}":                         false,
		"redis: {mode: clusters}":                         false,
		"auth: {introspection: {client_auth: none}}":      false,
		"canary: {buyer_keys: a}":                         false,
		"upstream: {headers: {X-A: 1}}":                   true,
		"upstream: {headers: [X-A]}":                      false,
		"upstream: {auth: {type: digest}}":                false,
		"upstream: {buyer: {paging: {style: pages}}}":     false,
		"upstream: {buyer: {paging: {size: -x}}}":         false,
		"upstream: {buyer: {owner: a}}":                   true,
		"upstream: {buyer: {owner: [a, 1]}}":              true,
		"upstream: {buyer: {owner: {path: a}}}":           false,
		"upstream: {seller: {fields: {title: a}}}":        true,
		"upstream: {seller: {fields: {title: [a, b]}}}":   true,
		"upstream: {seller: {fields: {title: [[a], b]}}}": false,
		"upstream: {buyer: {fields: {inquiry_type: {path: a, default: null, values: {1: x, true: y}}}}}": true,
		"upstream: {buyer: {fields: {status: {path: a, unknown_values: maybe}}}}":                        false,
		"upstream: {buyer: {fields: {status: {path: a, vals: {}}}}}":                                     false,
		"upstream: {buyer: {fields: {responses: {fetch: {paging: {style: all}}}}}}":                      false,
	} {
		text = strings.Replace(text, "upstream: {", "upstream: {base_url: 'http://a', ", 1) // which is required
		err := schema.Validate(plain(t, text))
		if (err == nil) != good {
			t.Errorf("%s: the schema says %v", text, err)
		}
		key, _, _ := strings.Cut(text, ":")
		if _, problems := loadText(t, text); (len(atKey(problems, key)) == 0) != good {
			t.Errorf("%s: the program says %q", text, problems)
		}
	}
}

// atKey leaves the problems in the values of one key, without those that say what
// more it needs.
func atKey(problems []string, key string) (found []string) {
	for _, p := range problems {
		if strings.Contains(p, ": "+key) && regexp.MustCompile(`wants|unknown key|has no value|where a string is expected`).MatchString(p) && !strings.Contains(p, "host:port") {
			found = append(found, p)
		}
	}
	return found
}
