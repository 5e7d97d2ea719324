package legacy_test

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/tidwall/gjson"

	"inquiry-gateway/upstream/legacy"
)

func TestMappingIsStrictYAML(t *testing.T) {
	var doc struct {
		Upstream map[string]any `yaml:"upstream"`
	}
	if err := yaml.UnmarshalWithOptions(legacy.Mapping(), &doc, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if doc.Upstream["base_url"] != legacy.MappingBaseURL || strings.Count(string(legacy.Mapping()), legacy.MappingBaseURL) != 1 {
		t.Error("base_url is not the placeholder")
	}
}

// Every path that the mapping names leads somewhere in a real reply.
func TestMappingPathsExist(t *testing.T) {
	_, web := start(t, legacy.Options{})
	for kind, body := range map[string][]byte{
		legacy.KindBuyer:  buyerList(t, web, legacy.BuyerBusy),
		legacy.KindSeller: sellerList(t, web, legacy.SellerTypical),
	} {
		endpoint := section(t, kind)
		items := gjson.GetBytes(body, endpoint["items"].(string)).Array()
		if len(items) < 100 {
			t.Fatalf("%s: %d items", kind, len(items))
		}
		paths := []string{endpoint["owner"].(string)}
		for _, p := range endpoint["internal_ids"].([]any) {
			paths = append(paths, p.(string))
		}
		for _, p := range append(paths, fieldPaths(endpoint["fields"].(map[string]any), "")...) {
			if !inAny(items, p) {
				t.Errorf("%s: no record has %s", kind, p)
			}
		}
	}
}

func section(t *testing.T, kind string) map[string]any {
	t.Helper()
	var doc map[string]map[string]any
	if err := yaml.Unmarshal(legacy.Mapping(), &doc); err != nil {
		t.Fatal(err)
	}
	return doc["upstream"][kind].(map[string]any)
}

func fieldPaths(fields map[string]any, prefix string) (paths []string) {
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			paths = append(paths, prefix+f)
		case map[string]any:
			if inner, ok := f["fields"].(map[string]any); ok {
				paths = append(paths, fieldPaths(inner, prefix+f["items"].(string)+".#.")...)
				continue
			}
			paths = append(paths, prefix+f["path"].(string))
		}
	}
	return paths
}

func inAny(items []gjson.Result, path string) bool {
	for _, i := range items {
		if found := i.Get(path); found.Exists() && found.Raw != "[]" {
			return true
		}
	}
	return false
}
