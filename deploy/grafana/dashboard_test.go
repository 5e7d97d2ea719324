package grafana_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const file = "inquiry-gateway.json"

type dashboard struct {
	UID, Title  string
	Panels      []panel
	Templating  struct{ List []variable }
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               source
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                source
}

type source struct{ Type, UID string }

type variable struct {
	Name, Type string
	Query      any // text, or an object with the text in query
}

func load(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 20 {
		t.Fatalf("%d panels", len(d.Panels))
	}
	return d
}

// question is one query with the place it comes from.
type question struct{ place, expr string }

// questions are all queries, with the variables' values put in.
func (d dashboard) questions(values *strings.Replacer) []question {
	var all []question
	add := func(place, expr string) { all = append(all, question{place, values.Replace(expr)}) }
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			add(p.Title+" "+q.RefID, q.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		add(a.Name, a.Expr)
	}
	for _, v := range d.Templating.List {
		if query, ok := v.Query.(map[string]any); ok {
			text, _ := query["query"].(string)
			text = strings.TrimSuffix(strings.TrimPrefix(text, "label_values("), ")")
			metric, label, _ := cutLast(text, ", ")
			add("variable "+v.Name, "count by ("+label+") ("+metric+")")
		}
	}
	return all
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func TestPanelsSayWhatTheyShow(t *testing.T) {
	variables := map[string]bool{}
	d := load(t)
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	for _, name := range []string{"datasource", "job", "instance"} {
		if !variables[name] {
			t.Errorf("there is no variable %s", name)
		}
	}
	for _, p := range d.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d %q has no title, description, unit or query", p.ID, p.Title)
		}
		for _, q := range p.Targets {
			if q.Datasource.UID != "${datasource}" || p.Datasource.UID != "${datasource}" {
				t.Errorf("%s asks a fixed datasource", p.Title)
			}
			if !strings.Contains(q.Expr, `job="$job"`) {
				t.Errorf("%s mixes installations: %s", p.Title, q.Expr)
			}
		}
	}
}

func TestPanelsDoNotOverlap(t *testing.T) {
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range load(t).Panels {
		if ids[p.ID] {
			t.Errorf("%s has the id %d of another", p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.X < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%s is outside of the grid: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
