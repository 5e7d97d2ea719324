package v1

import (
	"bytes"
	"encoding/json"
	"reflect"
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
	if err := json.Unmarshal(openAPIJSON(), &fromJSON); err != nil {
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
	if !strings.HasPrefix(string(openAPIJSON()), `{"openapi":"3.1.0","info":{"title":`) {
		t.Errorf("keys are not in the order of the document: %.60s", openAPIJSON())
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
	if err := json.Unmarshal(openAPIJSON(), &doc); err != nil {
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
