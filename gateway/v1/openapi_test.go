package v1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestOpenAPIJSONIsTheYAML(t *testing.T) {
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal(OpenAPIYAML(), &fromYAML); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(openAPIJSON(openAPIYAML), &fromJSON); err != nil {
		t.Fatal(err)
	}
	// Through encoding/json once more, so that numbers have one type.
	viaJSON, err := json.Marshal(fromYAML)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(viaJSON, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(fromJSON, want) {
		t.Error("the JSON document says something else than the YAML document")
	}
	if !strings.HasPrefix(string(openAPIJSON(openAPIYAML)), `{"openapi":"3.1.0","info":{"title":`) {
		t.Errorf("keys are not in the order of the document: %.60s", openAPIJSON(openAPIYAML))
	}
}

// Of a gateway with one list the documents show that one alone, with all that they refer to,
// and the words of its filters where they are known.
func TestOpenAPIOfOneList(t *testing.T) {
	for kind, other := range map[string]string{"buyer": "seller", "seller": "buyer"} {
		document, page := Pages(map[string]Words{kind: {Status: []string{"answered", "pending"}}})
		text := string(body(t, get(served(document), "GET", "/openapi.yaml")))
		inJSON := string(body(t, get(served(document), "GET", "/openapi.json")))
		shown := string(body(t, get(served(page), "GET", "/docs/")))
		for _, sort := range []string{"/api/v1/%s/inquiries:", "name: %s", "%s_inquiries:"} {
			if strings.Contains(text, fmt.Sprintf("  "+sort, other)) {
				t.Errorf("the document of the %s's list has %s", kind, fmt.Sprintf(sort, other))
			}
		}
		if strings.Contains(shown, `value="/api/v1/`+other) || !strings.Contains(shown, `value="/api/v1/`+kind) {
			t.Error("the page does not offer the one list that there is")
		}
		for _, reference := range regexp.MustCompile(`"\$ref":"#/components/([^/"]+)/([^"]+)"`).FindAllStringSubmatch(inJSON, -1) {
			if !strings.Contains(inJSON, `"`+reference[2]+`":{`) {
				t.Errorf("the %s's document has no %s", kind, reference[2])
			}
		}
		if n := strings.Count(inJSON, `"enum":["answered","pending"]`); n != 1 || !strings.Contains(shown, "One of <code>answered</code>, <code>pending</code>.") {
			t.Errorf("the words of status are named %d times in the document of the %s's list", n, kind)
		}
	}
}

func TestOpenAPIIsNotShared(t *testing.T) {
	want := OpenAPIYAML()
	clear(OpenAPIYAML())
	if !bytes.Equal(OpenAPIYAML(), want) {
		t.Error("a caller could change the document")
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
	if err := json.Unmarshal(openAPIJSON(openAPIYAML), &doc); err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, p := range Problems() {
		codes = append(codes, p.Code)
		shown := doc.Components.Examples[p.Code].Value.Errors
		if len(shown) != 1 || shown[0].Status != strconv.Itoa(p.Status) || shown[0].Code != p.Code || shown[0].Title != p.Title || shown[0].Detail != p.Detail {
			t.Errorf("%s: the document shows %+v, the catalogue has %+v", p.Code, shown, p)
		}
	}
	if enum := doc.Components.Schemas.Error.Properties.Code.Enum; !reflect.DeepEqual(enum, codes) {
		t.Errorf("the document lists the codes\n%v, the catalogue has\n%v", enum, codes)
	}
}
