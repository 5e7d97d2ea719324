package v1

import (
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
