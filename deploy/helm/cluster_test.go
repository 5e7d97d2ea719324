//go:build helm

package helm_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// checkRollback has Helm bring configurations to a cluster and back. No revision takes the
// configuration from pods that still run with it: each ConfigMap stays.
func checkRollback(t *testing.T, h helm) {
	c := newCluster(t)
	install := []string{"upgrade", "--install", "acme", chart, "-f", "testdata/minimal.yaml", "--disable-openapi-validation", "--set"}
	old, changed := slices.Concat(install, []string{"trustedProxies={10.0.0.0/8}"}), slices.Concat(install, []string{"trustedProxies={10.9.0.0/16}"})
	for i, step := range [][]string{old, changed, {"rollback", "acme", "1"}, changed, {"rollback", "acme", "2"}, {"rollback", "acme", "1"}, {"uninstall", "acme"}} {
		cmd := exec.Command(string(h), step...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HELM_CACHE_HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(step, " "), err, out)
		}
		if got, want := len(c.names("configmaps")), min(i+1, 2); got != want {
			t.Fatalf("%d ConfigMaps after %s, want %d: %v", got, strings.Join(step, " "), want, c.names("configmaps"))
		}
	}
}

// cluster is as much of the interface of Kubernetes as Helm needs: objects by path, in memory. A
// patch is merged without the strategies for lists.
type cluster struct {
	kubeconfig string

	mu      sync.Mutex
	objects map[string]map[string]any // by path
	version int
}

// resources are those of the chart and of Helm, by API group.
var resources = map[string]string{
	"/api/v1":         `configmaps ConfigMap, services Service, serviceaccounts ServiceAccount, secrets Secret, pods Pod`,
	"/apis/apps/v1":   `deployments Deployment`,
	"/apis/policy/v1": `poddisruptionbudgets PodDisruptionBudget`,
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{objects: map[string]map[string]any{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": %q}}], "users": [{"name": "c"}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}`, server.URL)
	if err := os.WriteFile(c.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

// names are the paths of all objects of a resource.
func (c *cluster) names(resource string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.objects)), func(path string) bool { return !strings.Contains(path, "/"+resource+"/") })
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, answer := c.answer(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

func (c *cluster) answer(r *http.Request) (int, map[string]any) {
	if known := discover(r.URL.Path); known != nil {
		return http.StatusOK, known
	}
	path := r.URL.Path
	body, err := decode(r)
	if err != nil {
		return refusal(http.StatusBadRequest, err.Error())
	}
	object, exists := c.objects[path]
	switch metadata, _ := body["metadata"].(map[string]any); {
	case r.Method == http.MethodPost:
		path += "/" + metadata["name"].(string)
		if _, exists = c.objects[path]; exists {
			return refusal(http.StatusConflict, "AlreadyExists")
		}
		return c.store(path, body)
	case r.Method == http.MethodGet && strings.Contains(path, "/namespaces/") && len(strings.Split(path[strings.Index(path, "/namespaces/"):], "/")) == 4:
		return http.StatusOK, c.list(path, r.URL.Query().Get("labelSelector"))
	case !exists:
		return refusal(http.StatusNotFound, "NotFound")
	case r.Method == http.MethodDelete:
		delete(c.objects, path)
	case object["immutable"] == true && r.Method != http.MethodGet:
		return refusal(http.StatusUnprocessableEntity, "Invalid")
	case r.Method == http.MethodPut:
		return c.store(path, body)
	case r.Method == http.MethodPatch:
		merge(object, body)
		return c.store(path, object)
	}
	return http.StatusOK, object
}

// decode reads JSON, and the Secrets that Helm keeps its releases in, which it sends as protobuf.
func decode(r *http.Request) (body map[string]any, err error) {
	text, err := io.ReadAll(r.Body)
	if err != nil || len(text) == 0 || r.Method == http.MethodDelete {
		return nil, err
	}
	envelope, isProto := bytes.CutPrefix(text, []byte("k8s\x00"))
	if !isProto {
		return body, json.Unmarshal(text, &body)
	}
	secret := fields(fields(envelope)[2][0]) // the object in k8s.io's runtime.Unknown
	metadata, labels, data := fields(secret[1][0]), map[string]any{}, map[string]any{}
	for _, entry := range metadata[11] {
		labels[string(fields(entry)[1][0])] = string(fields(entry)[2][0])
	}
	for _, entry := range secret[2] {
		data[string(fields(entry)[1][0])] = fields(entry)[2][0] // bytes, so base64 in JSON
	}
	return map[string]any{
		"kind": "Secret", "apiVersion": "v1", "type": string(secret[3][0]), "data": data,
		"metadata": map[string]any{"name": string(metadata[1][0]), "labels": labels},
	}, nil
}

// fields are the texts and messages of a protobuf message by number; the numbers between them
// are left out.
func fields(message []byte) map[uint64][][]byte {
	all := map[uint64][][]byte{}
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		value, m := binary.Uvarint(message[n:])
		if message = message[n+m:]; tag&7 == 2 { // its length stood before it
			all[tag>>3] = append(all[tag>>3], message[:value])
			message = message[value:]
		}
	}
	return all
}

func (c *cluster) store(path string, object map[string]any) (int, map[string]any) {
	c.version++
	object["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(c.version)
	c.objects[path] = object
	return http.StatusOK, object
}

// list has the objects of a folder whose labels are those of selector: k=v,...
func (c *cluster) list(folder, selector string) map[string]any {
	items, kind := []any{}, "List"
	for path, object := range c.objects {
		labels, _ := object["metadata"].(map[string]any)["labels"].(map[string]any)
		fits := strings.HasPrefix(path, folder+"/")
		for term := range strings.SplitSeq(selector, ",") {
			key, value, _ := strings.Cut(term, "=")
			fits = fits && (key == "" || labels[key] == value)
		}
		if fits {
			items, kind = append(items, object), fmt.Sprint(object["kind"], "List")
		}
	}
	return map[string]any{"kind": kind, "apiVersion": "v1", "metadata": map[string]any{}, "items": items}
}

// discover answers what there is; nil: that is not the question.
func discover(path string) map[string]any {
	switch path {
	case "/version":
		return map[string]any{"major": "1", "minor": "33", "gitVersion": "v" + kubernetes}
	case "/openapi/v3":
		return map[string]any{"paths": map[string]any{"api/v1": map[string]any{"serverRelativeURL": "/openapi/v3/api/v1"}}}
	case "/openapi/v3/api/v1": // the server validates what it gets, so that Helm need not
		gvk := map[string]any{"group": "", "version": "v1", "kind": "ConfigMap"}
		patch := map[string]any{"parameters": []any{map[string]any{"name": "fieldValidation", "in": "query"}}, "x-kubernetes-group-version-kind": gvk, "responses": map[string]any{}}
		paths := map[string]any{"/api/v1/namespaces/{namespace}/configmaps/{name}": map[string]any{"patch": patch}}
		return map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": "Kubernetes", "version": "v1"}, "paths": paths}
	case "/api":
		return map[string]any{"kind": "APIVersions", "versions": []string{"v1"}}
	case "/apis":
		var groups []any
		for group := range resources {
			if name, found := strings.CutPrefix(group, "/apis/"); found {
				version := map[string]any{"groupVersion": name, "version": "v1"}
				groups = append(groups, map[string]any{"name": strings.TrimSuffix(name, "/v1"), "versions": []any{version}, "preferredVersion": version})
			}
		}
		return map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
	}
	known, found := resources[path]
	if !found {
		return nil
	}
	var list []any
	for resource := range strings.SplitSeq(known, ", ") {
		name, kind, _ := strings.Cut(resource, " ")
		list = append(list, map[string]any{"name": name, "kind": kind, "namespaced": true, "verbs": []string{"create", "delete", "get", "list", "patch", "update"}})
	}
	return map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/"), "resources": list}
}

func refusal(status int, reason string) (int, map[string]any) {
	return status, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status, "message": reason}
}

// merge changes object as RFC 7396 says.
func merge(object, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		old, wasMap := object[key].(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case isMap && wasMap:
			merge(old, inner)
		default:
			object[key] = value
		}
	}
}
