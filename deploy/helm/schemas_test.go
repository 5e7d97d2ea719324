//go:build helm

package helm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

// The modules that hold the published schemas: of Kubernetes itself, and of the
// custom resources that the chart makes.
const (
	kubernetesModule = "k8s.io/kubernetes@v" + kubernetes
	gatewayModule    = "sigs.k8s.io/gateway-api@v1.3.0"
	operatorModule   = "github.com/prometheus-operator/prometheus-operator@v0.83.0"
)

// schemas gives the schema of each apiVersion and kind.
type schemas map[string]*jsonschema.Schema

func publishedSchemas(t *testing.T) schemas {
	t.Helper()
	dirs := download(t, kubernetesModule, gatewayModule, operatorModule)
	compiler, all := jsonschema.NewCompiler(), schemas{}
	add := func(id string, document map[string]any) {
		if err := compiler.AddResource(id, document); err != nil {
			t.Fatal(err)
		}
	}
	compile := func(name, id string) {
		schema, err := compiler.Compile(id)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = schema
	}

	swagger := readDocument(t, filepath.Join(dirs[0], "api/openapi-spec/swagger.json"))
	definitions := swagger["definitions"].(map[string]any)
	// The API server takes numbers for these, too.
	for _, name := range []string{"util.intstr.IntOrString", "api.resource.Quantity"} {
		definitions["io.k8s.apimachinery.pkg."+name].(map[string]any)["type"] = []any{"string", "number"}
	}
	strict(definitions)
	add("swagger.json", map[string]any{"definitions": definitions})
	for _, of := range []string{
		"core.v1.ConfigMap", "core.v1.Pod", "core.v1.Service", "core.v1.ServiceAccount", "apps.v1.Deployment", "policy.v1.PodDisruptionBudget",
		"autoscaling.v2.HorizontalPodAutoscaler", "networking.v1.Ingress", "networking.v1.NetworkPolicy",
	} {
		part := strings.Split(of, ".")
		compile(part[1]+" "+part[2], "swagger.json#/definitions/io.k8s.api."+of)
	}

	for kind, file := range map[string]string{
		"HTTPRoute":      filepath.Join(dirs[1], "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"),
		"ServiceMonitor": filepath.Join(dirs[2], "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"),
		"PrometheusRule": filepath.Join(dirs[2], "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
	} {
		for _, v := range readDocument(t, file)["spec"].(map[string]any)["versions"].([]any) {
			if version := v.(map[string]any); version["name"] == "v1" {
				schema := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
				strict(schema)
				add(kind, schema)
				compile("v1 "+kind, kind)
			}
		}
	}
	return all
}

// download gives the folders of modules.
func download(t *testing.T, modules ...string) (dirs []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"mod", "download", "-json"}, modules...)...)
	cmd.Dir = t.TempDir() // they are no dependencies of the program
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var module struct{ Dir string }
		if err := decoder.Decode(&module); errors.Is(err, io.EOF) {
			return dirs
		} else if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, module.Dir)
	}
}

func toJSON(text []byte) ([]byte, error) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

func readDocument(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil && strings.HasSuffix(file, ".yaml") {
		text, err = toJSON(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return document.(map[string]any)
}

// strict has objects refuse what their schema does not name, as the API server
// does with --validate=strict.
func strict(schema any) {
	switch s := schema.(type) {
	case map[string]any:
		_, named := s["properties"]
		if _, open := s["additionalProperties"]; named && !open && s["x-kubernetes-preserve-unknown-fields"] == nil {
			s["additionalProperties"] = false
		}
		for _, inner := range s {
			strict(inner)
		}
	case []any:
		for _, inner := range s {
			strict(inner)
		}
	}
}

// check tells what a manifest has that its schema refuses.
func (s schemas) check(manifest string) error {
	text, err := toJSON([]byte(manifest))
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	object, _ := value.(map[string]any)
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	schema := s[version[strings.LastIndex(version, "/")+1:]+" "+kind]
	if schema == nil {
		return errors.New("no schema of " + version + " " + kind)
	}
	return schema.Validate(value)
}

// checkSchemas holds each manifest against the published schemas, and each again
// with a mistake.
func checkSchemas(t *testing.T, rendered string) {
	all := publishedSchemas(t)
	for _, manifest := range split(rendered) {
		if err := all.check(manifest); err != nil {
			t.Errorf("%v\n%s", err, manifest)
		}
		for _, mistake := range []string{strings.Replace(manifest, "\nmetadata:", "\nmetadatum:", 1), strings.Replace(manifest, "\nspec:", "\nspec:\n  unheardOf: 1", 1)} {
			if mistake != manifest && all.check(mistake) == nil {
				t.Errorf("a mistake is not found in\n%s", mistake)
			}
		}
	}
}
