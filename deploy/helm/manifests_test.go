//go:build helm

package helm_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/testkit"
)

type manifests []object

// object is what the tests look at of any Kubernetes object.
type object struct {
	Kind     string
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	Immutable bool
	Data      map[string]string
	Spec      struct {
		Replicas *int
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
		Selector    selector
		PodSelector selector `yaml:"podSelector"`
		Ports       []port
		Ingress     []struct{ Ports []struct{ Port string } }
		Endpoints   []struct {
			Port          string
			Authorization struct{ Credentials struct{ Name, Key string } }
		}
		ScaleTargetRef struct{ Kind, Name string } `yaml:"scaleTargetRef"`
		Groups         []any
	}
}

// selector is a Service's map, or the matchLabels of the others.
type selector map[string]any

func (s selector) labels() map[string]any {
	if inner, ok := s["matchLabels"].(selector); ok { // yaml decodes nested mappings as what they are in
		return inner
	}
	return s
}

type port struct {
	Name       string
	TargetPort string `yaml:"targetPort"`
}

type pod struct {
	AutomountServiceAccountToken  *bool          `yaml:"automountServiceAccountToken"`
	TerminationGracePeriodSeconds int            `yaml:"terminationGracePeriodSeconds"`
	SecurityContext               map[string]any `yaml:"securityContext"`
	Containers                    []container
	Volumes                       []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
	}
}

type container struct {
	Image, Name     string
	Args            []string
	Env             []struct{ Name, Value string }
	Ports           []struct{ Name string }
	LivenessProbe   probe          `yaml:"livenessProbe"`
	ReadinessProbe  probe          `yaml:"readinessProbe"`
	StartupProbe    probe          `yaml:"startupProbe"`
	SecurityContext map[string]any `yaml:"securityContext"`
	VolumeMounts    []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func (m manifests) one(t *testing.T, kind, name string) object {
	t.Helper()
	for _, o := range m {
		if o.Kind == kind && o.Metadata.Name == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return object{}
}

func (m manifests) pod(t *testing.T) pod {
	t.Helper()
	p := m.one(t, "Deployment", "acme-inquiry-gateway").Spec.Template.Spec
	if len(p.Containers) != 1 {
		t.Fatalf("%d containers", len(p.Containers))
	}
	return p
}

// check is the Job before an install and an upgrade: it sees the files and the environment that the
// gateway will see, and no Service takes its pod for a gateway.
func (m manifests) check(t *testing.T) container {
	t.Helper()
	job, deployment := m.one(t, "Job", "acme-inquiry-gateway-check"), m.pod(t)
	p := job.Spec.Template.Spec
	c := p.Containers[0]
	if a := job.Metadata.Annotations; a["helm.sh/hook"] != "pre-install,pre-upgrade" || a["helm.sh/hook-weight"] != "1" {
		t.Errorf("not after the ConfigMap and before all else: %v", a)
	}
	if len(job.Spec.Template.Metadata.Labels) > 0 {
		t.Errorf("the pod has labels: %v", job.Spec.Template.Metadata.Labels)
	}
	gateway := deployment.Containers[0]
	if !reflect.DeepEqual(p.Volumes, deployment.Volumes) || !reflect.DeepEqual(c.VolumeMounts, gateway.VolumeMounts) ||
		c.Image != gateway.Image || !reflect.DeepEqual(c.SecurityContext, gateway.SecurityContext) || !reflect.DeepEqual(p.SecurityContext, deployment.SecurityContext) {
		t.Errorf("the check is not as the gateway: %+v", p)
	}
	for _, e := range c.Env {
		if !slices.Contains(gateway.Env, e) {
			t.Errorf("the gateway does not have %v", e)
		}
	}
	return c
}

func (m manifests) kinds() string {
	count := map[string]bool{}
	for _, o := range m {
		count[o.Kind] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(count)), " ")
}

func checkMinimal(t *testing.T, m manifests) {
	if got, want := m.kinds(), "ConfigMap Deployment Job Pod PodDisruptionBudget Service ServiceAccount"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	checkPod(t, m)
	checkReferences(t, m)
	if d := m.one(t, "Deployment", "acme-inquiry-gateway"); d.Spec.Replicas == nil || *d.Spec.Replicas != 2 {
		t.Error("without an autoscaler the Deployment says how many")
	}
}

func checkFull(t *testing.T, m manifests) {
	want := "ConfigMap CronJob Deployment HTTPRoute HorizontalPodAutoscaler Ingress Job NetworkPolicy Pod PodDisruptionBudget PrometheusRule Service ServiceAccount ServiceMonitor"
	if got := m.kinds(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	checkPod(t, m)
	checkReferences(t, m)
	if m.one(t, "Deployment", "acme-inquiry-gateway").Spec.Replicas != nil {
		t.Error("the Deployment and the autoscaler both say how many")
	}
	if image := m.pod(t).Containers[0].Image; !strings.Contains(image, "gateway@sha256:") {
		t.Errorf("the digest is not in %s", image)
	}
	for _, name := range []string{"recording", "alerts"} {
		if !reflect.DeepEqual(groups(t, "../prometheus/"+name+".yaml", "http://127.0.0.1:9090/console/runbook", "https://wiki.example/gateway"), m.one(t, "PrometheusRule", "acme-inquiry-gateway-"+name).Spec.Groups) {
			t.Errorf("the rules %s are not those of the file", name)
		}
	}
	dashboard := testkit.Read(t, "../grafana/inquiry-gateway.json")
	got := m.one(t, "ConfigMap", "acme-inquiry-gateway-dashboard").Data["inquiry-gateway.json"]
	if strings.TrimSpace(got) != strings.TrimSpace(dashboard) {
		t.Error("the dashboard is not that of the file")
	}
}

// groups are those of a file of rules, with texts replaced.
func groups(t *testing.T, file string, replace ...string) []any {
	t.Helper()
	text := testkit.Read(t, file)
	var content struct{ Groups []any }
	if err := yaml.Unmarshal([]byte(strings.NewReplacer(replace...).Replace(text)), &content); err != nil {
		t.Fatal(err)
	}
	return content.Groups
}

// checkPod asks that nothing can be written and nothing gained.
func checkPod(t *testing.T, m manifests) {
	p := m.pod(t)
	c := p.Containers[0]
	if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
		t.Error("the pod gets a token of Kubernetes")
	}
	if p.SecurityContext["runAsNonRoot"] != true || !reflect.DeepEqual(p.SecurityContext["seccompProfile"], map[string]any{"type": "RuntimeDefault"}) {
		t.Errorf("pod: %v", p.SecurityContext)
	}
	if c.SecurityContext["readOnlyRootFilesystem"] != true || c.SecurityContext["allowPrivilegeEscalation"] != false ||
		!reflect.DeepEqual(c.SecurityContext["capabilities"], map[string]any{"drop": []any{"ALL"}}) {
		t.Errorf("container: %v", c.SecurityContext)
	}
	if got := []probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe}; got[0].HTTPGet.Path != "/livez" || got[1].HTTPGet.Path != "/readyz" ||
		got[2].HTTPGet.Path != "/livez" || got[0].HTTPGet.Port != "ops" || got[1].HTTPGet.Port != "ops" || got[2].HTTPGet.Port != "ops" {
		t.Errorf("probes: %+v", got)
	}
	if !slices.Equal(c.Args, []string{"serve", "-c", mountPoint + "/config/gateway.yaml"}) {
		t.Errorf("runs %v", c.Args)
	}
	defaults := config.Default()
	if grace := time.Duration(p.TerminationGracePeriodSeconds) * time.Second; grace <= defaults.ShutdownDelay+defaults.ShutdownGrace {
		t.Errorf("the pod is killed after %s, before shutdown_delay and shutdown_grace are over", grace)
	}
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v.Name] = true
	}
	for _, v := range c.VolumeMounts {
		if !v.ReadOnly || !volumes[v.Name] {
			t.Errorf("%s: read-only: %t, there is such a volume: %t", v.MountPath, v.ReadOnly, volumes[v.Name])
		}
	}
}

// checkEveryPod asks that the pods of all templates can be pulled, scheduled and started wherever the gateway's can.
func checkEveryPod(t *testing.T, text string) {
	var pods []map[string]any
	var find func(any)
	find = func(v any) {
		if object, ok := v.(map[string]any); ok {
			if object["containers"] != nil {
				pods = append(pods, object)
			}
			for _, inner := range object {
				find(inner)
			}
		}
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(document), &tree); err != nil {
			t.Fatal(err)
		}
		find(tree)
	}
	for _, pod := range pods {
		c := pod["containers"].([]any)[0].(map[string]any)
		for _, key := range []string{"imagePullSecrets", "priorityClassName", "nodeSelector", "tolerations", "affinity"} {
			if !reflect.DeepEqual(pod[key], pods[0][key]) || pod[key] == nil {
				t.Errorf("%v: %s is %v", c["args"], key, pod[key])
			}
		}
		if c["resources"] == nil {
			t.Errorf("%v has no resources", c["args"])
		}
	}
	if len(pods) != 4 { // Deployment, check, canary and helm test
		t.Errorf("%d pods", len(pods))
	}
}

// checkReferences follows every selector and every name of a port.
func checkReferences(t *testing.T, m manifests) {
	deployment := m.one(t, "Deployment", "acme-inquiry-gateway")
	labels := deployment.Spec.Template.Metadata.Labels
	ports := map[string]bool{}
	for _, p := range m.pod(t).Containers[0].Ports {
		ports[p.Name] = true
	}
	for _, o := range m {
		switch o.Kind {
		case "Deployment", "Service", "PodDisruptionBudget":
			selects(t, o, o.Spec.Selector, labels)
		case "NetworkPolicy":
			selects(t, o, o.Spec.PodSelector, labels)
		case "ServiceMonitor":
			ops := m.one(t, "Service", "acme-inquiry-gateway-ops")
			selects(t, o, o.Spec.Selector, ops.Metadata.Labels)
			if e := o.Spec.Endpoints[0]; e.Port != ops.Spec.Ports[0].Name || e.Authorization.Credentials.Name != "inquiry-ops" || e.Authorization.Credentials.Key != "read-token" {
				t.Errorf("ServiceMonitor: %+v", e)
			}
		case "HorizontalPodAutoscaler":
			if o.Spec.ScaleTargetRef.Name != deployment.Metadata.Name || o.Spec.ScaleTargetRef.Kind != deployment.Kind {
				t.Errorf("the autoscaler scales %+v", o.Spec.ScaleTargetRef)
			}
		}
		for _, p := range o.Spec.Ports {
			if !ports[p.TargetPort] {
				t.Errorf("%s %s leads to the port %q", o.Kind, o.Metadata.Name, p.TargetPort)
			}
		}
		for _, i := range o.Spec.Ingress {
			if !ports[i.Ports[0].Port] {
				t.Errorf("%s lets callers through to the port %q", o.Kind, i.Ports[0].Port)
			}
		}
	}
}

func selects(t *testing.T, o object, s selector, labels map[string]string) {
	t.Helper()
	if len(s.labels()) < 2 {
		t.Errorf("%s %s selects by %v", o.Kind, o.Metadata.Name, s)
	}
	for key, want := range s.labels() {
		if labels[key] != want {
			t.Errorf("%s %s wants %s=%v, there is %q", o.Kind, o.Metadata.Name, key, want, labels[key])
		}
	}
}
