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

	"go.yaml.in/yaml/v4"
)

const kubeconformModule = "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0"

// The modules that hold the published schemas: of Kubernetes itself, and of the
// custom resources that the chart makes.
const (
	kubernetesModule = "k8s.io/kubernetes@v" + kubernetes
	gatewayModule    = "sigs.k8s.io/gateway-api@v1.3.0"
	operatorModule   = "github.com/prometheus-operator/prometheus-operator@v0.83.0"
)

// checkSchemas has kubeconform validate each manifest, and each again with a mistake.
func checkSchemas(t *testing.T, rendered string) {
	kubeconform, dir := buildTool(t, kubeconformModule), t.TempDir()
	writeSchemas(t, dir)
	validate := func(manifests []string) (valid int, report string) {
		cmd := exec.CommandContext(t.Context(), kubeconform, "-schema-location", dir+"/{{.ResourceKind}}.json", "-output", "json", "-summary")
		cmd.Stdin = strings.NewReader(strings.Join(manifests, "\n---\n"))
		out, err := cmd.Output() // exit code 1 if any is invalid
		var result struct {
			Summary struct{ Valid, Invalid, Errors int }
		}
		if json.Unmarshal(out, &result) != nil || result.Summary.Valid+result.Summary.Invalid+result.Summary.Errors != len(manifests) {
			t.Fatalf("kubeconform of %d manifests: %v\n%s", len(manifests), err, out)
		}
		return result.Summary.Valid, string(out)
	}
	manifests := split(rendered)
	if n, report := validate(manifests); n != len(manifests) {
		t.Error(report)
	}
	var mistakes []string
	for _, m := range manifests {
		for _, mistake := range []string{strings.Replace(m, "\nmetadata:", "\nmetadatum:", 1), strings.Replace(m, "\nspec:", "\nspec:\n  unheardOf: 1", 1)} {
			if mistake != m {
				mistakes = append(mistakes, mistake)
			}
		}
	}
	if n, report := validate(mistakes); n > 0 {
		t.Errorf("%d of %d mistakes are not found:\n%s", n, len(mistakes), report)
	}
}

// writeSchemas writes a file for each kind, KIND.json, from the published schemas.
func writeSchemas(t *testing.T, dir string) {
	t.Helper()
	dirs := download(t, kubernetesModule, gatewayModule, operatorModule)
	write := func(name string, schema any) {
		text, err := json.Marshal(strict(schema))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, strings.ToLower(name)+".json"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	swagger := readDocument(t, filepath.Join(dirs[0], "api/openapi-spec/swagger.json"))
	definitions := swagger["definitions"].(map[string]any)
	for _, name := range []string{"util.intstr.IntOrString", "api.resource.Quantity"} { // the API server takes numbers, too
		definitions["io.k8s.apimachinery.pkg."+name].(map[string]any)["type"] = []any{"string", "number"}
	}
	write("definitions", map[string]any{"definitions": definitions})
	for _, name := range []string{
		"core.v1.ConfigMap", "core.v1.Pod", "core.v1.Service", "core.v1.ServiceAccount", "apps.v1.Deployment", "policy.v1.PodDisruptionBudget",
		"autoscaling.v2.HorizontalPodAutoscaler", "batch.v1.CronJob", "batch.v1.Job", "networking.v1.Ingress", "networking.v1.NetworkPolicy",
	} {
		write(name[strings.LastIndex(name, ".")+1:], map[string]any{"$ref": "definitions.json#/definitions/io.k8s.api." + name})
	}
	for kind, file := range map[string]string{
		"HTTPRoute":      filepath.Join(dirs[1], "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"),
		"ServiceMonitor": filepath.Join(dirs[2], "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"),
		"PrometheusRule": filepath.Join(dirs[2], "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
	} {
		for _, v := range readDocument(t, file)["spec"].(map[string]any)["versions"].([]any) {
			if version := v.(map[string]any); version["name"] == "v1" {
				write(kind, version["schema"].(map[string]any)["openAPIV3Schema"])
			}
		}
	}
}

// download returns the folders of modules.
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

func readDocument(t *testing.T, file string) (document map[string]any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil && strings.HasSuffix(file, ".json") {
		err = json.Unmarshal(text, &document)
	} else if err == nil {
		err = yaml.Unmarshal(text, &document)
	}
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// strict makes objects refuse what their schema does not name, as the API server
// does with --validate=strict. It returns the schema.
func strict(schema any) any {
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
	return schema
}
