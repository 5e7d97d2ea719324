package v1

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v4"

	"inquiry-gateway/internal/theme"
)

// both are the two lists, of whose words nothing is known.
func both() map[string]Words { return map[string]Words{"buyer": {}, "seller": {}} }

// serveFiles answers with files by their path, as the gateway does.
func serveFiles(files map[string]theme.Asset) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		theme.Secure(w.Header())
		files[r.URL.Path].ServeHTTP(w, r)
	})
}

// get gives a file with its header.
func get(t *testing.T, files map[string]theme.Asset, path string) (text string, h http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	serveFiles(files).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	b, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(path, w.Code, err)
	}
	return string(b), w.Header()
}

// A browser asks each time whether the page and its files have changed.
func TestFilesOfThePage(t *testing.T) {
	_, files := Pages(both())
	page, header := get(t, files, "/docs/")
	if header.Get("Cache-Control") != "no-cache" || header.Get("Content-Security-Policy") != theme.Policy {
		t.Errorf("the page comes with %v", header)
	}
	loaded := regexp.MustCompile(`(?:src|href)="([a-z]+\.[a-z]+)"`).FindAllStringSubmatch(page, -1)
	for _, m := range loaded {
		if text, h := get(t, files, "/docs/"+m[1]); text == "" || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s comes with %v", m[1], h)
		}
	}
	if len(loaded) != 4 || len(files) != 5 {
		t.Errorf("of %d files the page names %q", len(files), loaded)
	}
}

// same compares two values of YAML, in the order of their keys.
func same(a, b *yaml.Node) bool {
	for _, n := range []**yaml.Node{&a, &b} {
		if (*n).Kind == yaml.AliasNode {
			*n = (*n).Alias
		}
	}
	return a.Kind == b.Kind && a.Value == b.Value && a.Tag == b.Tag && slices.EqualFunc(a.Content, b.Content, same)
}

// Both forms of the document say the same, in the same order.
func TestOpenAPIJSONIsTheYAML(t *testing.T) {
	document, _ := Pages(both())
	inYAML, yamlHeader := get(t, document, "/openapi.yaml")
	inJSON, jsonHeader := get(t, document, "/openapi.json")
	var fromYAML, fromJSON yaml.Node // JSON is YAML, too
	if err := yaml.Unmarshal([]byte(inYAML), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(inJSON), &fromJSON); err != nil {
		t.Fatal(err)
	}
	if !same(fromJSON.Content[0], fromYAML.Content[0]) || inYAML != string(OpenAPIYAML()) {
		t.Error("the documents differ")
	}
	if yamlHeader.Get("Content-Type") != "application/yaml" || jsonHeader.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("they come with %v and %v", yamlHeader, jsonHeader)
	}
}

// Whichever lists are served, and whether or not their words are known, no component is unused:
// linters report those.
func TestEveryComponentIsUsed(t *testing.T) {
	words := Words{Status: []string{"pending"}, InquiryType: []string{"delivery"}}
	for _, lists := range []map[string]Words{both(), {"buyer": {}}, {"seller": words}, {"buyer": words, "seller": words}} {
		text := openAPI(lists)
		var document struct {
			Components map[string]map[string]any
		}
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			t.Fatal(err)
		}
		if len(document.Components["schemas"]) == 0 {
			t.Fatal("there are no components")
		}
		delete(document.Components, "securitySchemes") // which are not used by $ref
		for sort, components := range document.Components {
			for name := range components {
				if !strings.Contains(text, fmt.Sprintf(`"#/components/%s/%s"`, sort, name)) {
					t.Errorf("%v: nothing uses %s/%s", lists, sort, name)
				}
			}
		}
	}
}

// Of a gateway with one list the documents show that one alone, with all that they refer to,
// and the words of its filters where they are known.
func TestOpenAPIOfOneList(t *testing.T) {
	for kind, other := range map[string]string{"buyer": "seller", "seller": "buyer"} {
		document, files := Pages(map[string]Words{kind: {Status: []string{"answered", "pending"}}})
		inYAML, _ := get(t, document, "/openapi.yaml")
		inJSON, _ := get(t, document, "/openapi.json")
		page, _ := get(t, files, "/docs/")
		for _, sort := range []string{"/api/v1/%s/inquiries:", "name: %s", "%s_inquiries:"} {
			if strings.Contains(inYAML, fmt.Sprintf("  "+sort, other)) {
				t.Errorf("the document of the %s's list has %s", kind, fmt.Sprintf(sort, other))
			}
		}
		if strings.Contains(page, `value="/api/v1/`+other) || !strings.Contains(page, `value="/api/v1/`+kind) {
			t.Error("the page does not offer the one list that there is")
		}
		for _, reference := range regexp.MustCompile(`"\$ref":"#/components/([^/"]+)/([^"]+)"`).FindAllStringSubmatch(inJSON, -1) {
			if !strings.Contains(inJSON, `"`+reference[2]+`":{`) {
				t.Errorf("the %s's document has no %s", kind, reference[2])
			}
		}
		named := strings.Count(inJSON, `"enum":["answered","pending"]`)
		if named != 1 || !strings.Contains(page, "One of <code>answered</code>, <code>pending</code>.") {
			t.Errorf("the words of status are named %d times in the document of the %s's list", named, kind)
		}
	}
}

// The document's example of each error is what the catalogue makes of it, and
// there is one for each.
func TestErrorExamplesAreTheCatalogue(t *testing.T) {
	var doc struct {
		Components struct {
			Schemas struct {
				Error struct {
					Properties struct{ Code struct{ Enum []string } }
				}
			}
			Examples map[string]struct{ Value wireList[wireError] }
		}
	}
	if err := json.Unmarshal([]byte(openAPIJSON(openAPIYAML)), &doc, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, p := range Problems() {
		codes = append(codes, p.Code)
		shown := doc.Components.Examples[p.Code].Value.Errors
		if len(shown) != 1 {
			t.Fatalf("%s: the document shows %+v", p.Code, shown)
		}
		want := wireError{shown[0].ID, strconv.Itoa(p.Status), p.Code, p.Title, p.Detail, shown[0].Source}
		if shown[0] != want {
			t.Errorf("%s: the document shows %+v, the catalogue has %+v", p.Code, shown, p)
		}
	}
	if enum := doc.Components.Schemas.Error.Properties.Code.Enum; !slices.Equal(enum, codes) {
		t.Errorf("the document lists the codes\n%v, the catalogue has\n%v", enum, codes)
	}
}
