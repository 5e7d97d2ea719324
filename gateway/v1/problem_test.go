package v1

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestErrorsAreAsDocumented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Problem{rapid.IntRange(400, 599).Draw(t, "status"), texts().Draw(t, "code"), texts().Draw(t, "title"), texts().Draw(t, "detail"), nil}
		id := texts().Draw(t, "id")
		want := wireError{ID: id, Status: strconv.Itoa(p.Status), Code: p.Code, Title: p.Title, Detail: p.Detail}
		switch rapid.IntRange(0, 2).Draw(t, "source") {
		case 0:
			p.Source = &Source{Parameter: "p" + texts().Draw(t, "parameter")}
			want.Source = &wireSource{Parameter: p.Source.Parameter}
		case 1:
			p.Source = &Source{Header: "h" + texts().Draw(t, "header")}
			want.Source = &wireSource{Header: p.Source.Header}
		}
		wantJSON(t, p.Render(id), wireList[wireError]{Errors: []wireError{want}})
	})
	// A query such as "?=x" has a parameter without a name.
	if got := string(Problem{Source: &Source{}}.Render("r")); !strings.Contains(got, `,"source":{"parameter":""}`) {
		t.Errorf("got %s", got)
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
	_, asJSON := document(Kinds())
	if err := json.Unmarshal(asJSON, &doc); err != nil {
		t.Fatal(err)
	}
	var codes []string
	for _, p := range Problems() {
		if http.StatusText(p.Status) == "" || p.Status < 400 || p.Code == "" || p.Title == "" || strings.HasSuffix(p.Title, ".") || p.Detail == "" {
			t.Errorf("%+v is not whole", p)
		}
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

// The document has the paths that are served, its JSON and its YAML say the same, and its
// keys have the order in which it is written.
func TestDocumentOfTheKinds(t *testing.T) {
	for _, served := range [][]Kind{Kinds(), Kinds()[:1], Kinds()[1:]} {
		asYAML, asJSON := document(served)
		var doc struct{ Paths map[string]any }
		if err := json.Unmarshal(asJSON, &doc); err != nil || len(doc.Paths) != len(served) {
			t.Fatalf("%v, %d paths", err, len(doc.Paths))
		}
		for _, k := range Kinds() {
			want := len(served) == 2 || served[0].Name == k.Name
			if (doc.Paths[k.Path] != nil) != want || strings.Contains(string(asYAML), "\n  "+k.Path+":") != want {
				t.Errorf("%v: %s is served: %v", served, k.Path, doc.Paths[k.Path] != nil)
			}
		}
		if !strings.HasPrefix(string(asJSON), `{"openapi":"3.1.0","info":{"title":`) {
			t.Errorf("%.60s", asJSON)
		}
		if page := Docs(served)["/docs/"]; page.Name == "" {
			t.Error("there is no page")
		}
	}
}
