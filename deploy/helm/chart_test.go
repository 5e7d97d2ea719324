//go:build helm

// Package helm_test renders the chart with helm itself. Building helm takes
// minutes where it has not been built before, so these tests have a tag of their
// own: make helm runs them.
package helm_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

const (
	helmModule = "helm.sh/helm/v3/cmd/helm@v3.18.0"
	buildLimit = 10 * time.Minute
	chart      = "inquiry-gateway"
	kubernetes = "1.33.0" // helm built from its module knows no newer version than 1.20 by itself
	mountPoint = "/etc/inquiry-gateway"
)

func TestChart(t *testing.T) {
	h := helm(buildTool(t, helmModule))
	t.Run("lint", func(t *testing.T) {
		for _, values := range []string{"minimal", "full"} {
			if out, err := h.run("lint", "--strict", chart, "--kube-version", kubernetes, "-f", "testdata/"+values+".yaml"); err != nil {
				t.Errorf("%s: %v\n%s", values, err, out)
			}
		}
	})
	rendered := map[string]string{"minimal": h.template(t, "minimal"), "full": h.template(t, "full")}
	t.Run("minimal", func(t *testing.T) { checkMinimal(t, parse(t, rendered["minimal"])) })
	full := parse(t, rendered["full"])
	t.Run("full", func(t *testing.T) { checkFull(t, full) })
	t.Run("every pod", func(t *testing.T) { checkEveryPod(t, rendered["full"]) })
	t.Run("check before an upgrade", func(t *testing.T) { runCheck(t, full) })
	t.Run("another configuration is another ConfigMap", func(t *testing.T) {
		if configMap(t, parse(t, rendered["minimal"])).Metadata.Name == configMap(t, full).Metadata.Name {
			t.Error("two configurations share a ConfigMap")
		}
	})
	t.Run("schemas", func(t *testing.T) { checkSchemas(t, rendered["minimal"]+"\n---\n"+rendered["full"]) })
	t.Run("refusals", func(t *testing.T) { checkRefusals(t, h) })
}

// buildTool builds a program of a module, and keeps it where .ci/packages keeps promtool, so that a
// machine builds it once.
func buildTool(t *testing.T, module string) (path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), buildLimit)
	defer cancel()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "inquiry-gateway", "tools", strings.ReplaceAll(module, "/", "-"))
	name, _, _ := strings.Cut(filepath.Base(module), "@")
	path = filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.CommandContext(ctx, "go", "install", "-gcflags=all=-l -dwarf=false", module) // half the time of a build
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", module, err, out)
	}
	return path
}

// helm is the path of its binary.
type helm string

func (h helm) run(args ...string) (string, error) {
	out, err := exec.Command(string(h), args...).CombinedOutput()
	return string(out), err
}

func (h helm) template(t *testing.T, values string) string {
	t.Helper()
	args := []string{"template", "acme", chart, "--namespace", "inquiries", "-f", "testdata/" + values + ".yaml", "--kube-version", kubernetes}
	cmd := exec.Command(string(h), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// checkRefusals leaves out what the chart needs and reads what it says.
func checkRefusals(t *testing.T, h helm) {
	for set, want := range map[string]string{
		"config=":                    "config is required",
		"ops.existingSecret=":        "ops.existingSecret is required",
		"keys.existingSecret=":       "keys.existingSecret is required",
		"networkPolicy.enabled=true": "networkPolicy.egress is required",
		"replicas=none":              "replicas",
		"image.digest=latest":        "image.digest",
		"keys.secret=x":              "secret",
		"trustedProxies={10.0.0.1},config=gateway: {docs: false}": "config has a section `gateway`",
		"preStopSeconds=5":                              "preStopSeconds", // shutdown_delay of config does it
		"monitorng.enabled=true":                        "monitorng",
		"ingress.enabled=true":                          "ingress.hosts is required",
		"httpRoute.enabled=true":                        "httpRoute.parentRefs is required",
		"autoscaling.minReplica=1":                      "minReplica",
		"podAnnotations.a=true":                         "podAnnotations", // Kubernetes takes texts only
		"config=upstream: {max_requests_per_second: 9}": "upstream.max_nodes of config: set it to 3 or more",
		"config=upstream: {max_requests_per_second: 9\\, max_nodes: 2}":          "set it to 3 or more",
		"autoscaling.enabled=true,config=upstream: {max_requests_per_second: 9}": "set it to 11 or more",
	} {
		out, err := h.run("template", "acme", chart, "-f", "testdata/minimal.yaml", "--kube-version", kubernetes, "--set", set)
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", set, err, out)
		}
	}
}

// configMap is the one that the pods mount: of this configuration alone, and never changed.
func configMap(t *testing.T, m manifests) object {
	t.Helper()
	name := ""
	for _, v := range m.pod(t).Volumes {
		if v.Name == "config" {
			name = v.ConfigMap.Name
		}
	}
	o := m.one(t, "ConfigMap", name)
	if !regexp.MustCompile(`^acme-inquiry-gateway-[0-9a-f]{10}$`).MatchString(name) || !o.Immutable || o.Metadata.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade,pre-rollback" {
		t.Errorf("a later revision can change or delete the configuration of running pods: %+v", o.Metadata)
	}
	return o
}

// runCheck runs the Job's command on the rendered configuration, with the Secrets where they are mounted:
// the configuration is right, and with a mistake the Job fails.
func runCheck(t *testing.T, m manifests) {
	files := map[string]string{
		"ops/token": "0123456789abcdef\n", "ops/read-token": "fedcba9876543210\n", "secrets/redis/password": "p\n", "secrets/pepper/pepper": strings.Repeat("0123456789abcdef", 4) + "\n",
		"keys/keys.yaml": "accounts: []\nkeys: []\n",
	}
	config := configMap(t, m).Data["gateway.yaml"]
	if !strings.Contains(config, `gateway: {trusted_proxies: ["10.0.0.0/8","fd00::/8"]}`) {
		t.Errorf("the configuration does not trust the proxies:\n%s", config)
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		testkit.Write(t, path, text)
		if !strings.Contains(config, mountPoint+"/"+name) {
			t.Errorf("the configuration does not name %s", name)
		}
	}
	job := m.check(t)
	good := strings.ReplaceAll(config, mountPoint, dir) + "\n" + string(legacy.Mapping())
	run := func(config string) (string, error) {
		file := filepath.Join(dir, "config/gateway.yaml")
		testkit.Write(t, file, config)
		cmd := exec.Command(testkit.BuildGateway(t), strings.Split(strings.ReplaceAll(strings.Join(job.Args, " "), mountPoint, dir), " ")...)
		for _, e := range job.Env {
			cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(good); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, good)
	}
	if out, err := run(strings.Replace(good, "ttl: 1m", "ttl: soon", 1)); err == nil || !strings.Contains(out, "cache.buyer.ttl") {
		t.Errorf("the Job lets a mistake through: %v\n%s", err, out)
	}
	mounted := map[string]bool{}
	for _, v := range job.VolumeMounts {
		mounted[v.MountPath] = true
	}
	for _, path := range regexp.MustCompile(mountPoint+`/[a-z/]+/`).FindAllString(configMap(t, m).Data["gateway.yaml"], -1) {
		if !mounted[strings.TrimSuffix(path, "/")] {
			t.Errorf("nothing is mounted at %s: %v", path, slices.Sorted(maps.Keys(mounted)))
		}
	}
}

// parse reads the documents that helm prints.
func parse(t *testing.T, text string) manifests {
	t.Helper()
	var m manifests
	for _, part := range split(text) {
		var o object
		if err := yaml.Unmarshal([]byte(part), &o); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		m = append(m, o)
	}
	return m
}

// split gives the documents of a rendered chart.
func split(text string) (documents []string) {
	for _, part := range regexp.MustCompile(`(?m)^---\n`).Split(text, -1) {
		if strings.Contains(part, "\nkind: ") {
			documents = append(documents, part)
		}
	}
	return documents
}
