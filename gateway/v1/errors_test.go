package v1

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestErrorsEqualEncodingJSON(t *testing.T) {
	source := rapid.Custom(func(t *rapid.T) *Source {
		switch rapid.IntRange(0, 2).Draw(t, "source") {
		case 0:
			return nil
		case 1:
			return &Source{Parameter: "p" + texts().Draw(t, "parameter")}
		}
		return &Source{Header: "h" + texts().Draw(t, "header")}
	})
	one := rapid.Custom(func(t *rapid.T) Error {
		return Error{texts().Draw(t, "id"), texts().Draw(t, "status"), texts().Draw(t, "code"), texts().Draw(t, "title"), texts().Draw(t, "detail"), source.Draw(t, "source")}
	})
	rapid.Check(t, func(t *rapid.T) {
		e := one.Draw(t, "error")
		wantJSON(t, AppendErrors(nil, e), errorToWire(e))
	})
}

// A query such as "?=x" has a parameter without a name.
func TestSourceWithoutAName(t *testing.T) {
	e := InvalidParameter.Problem().Occurrence("r1")
	e.Source = &Source{}
	if got := string(AppendErrors(nil, e)); !strings.Contains(got, `,"source":{"parameter":""}`) {
		t.Errorf("got %s", got)
	}
}

func TestProblemsAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Problems() {
		if seen[p.Code] {
			t.Errorf("%s is there twice", p.Code)
		}
		seen[p.Code] = true
		if http.StatusText(p.Status) == "" || p.Status < 400 || p.Code == "" || p.Title == "" || strings.HasSuffix(p.Title, ".") || p.Detail == "" {
			t.Errorf("%+v is not whole", p)
		}
		e := p.Occurrence("r1")
		if e.ID != "r1" || e.Status != strconv.Itoa(p.Status) || e.Code != p.Code || e.Title != p.Title || e.Detail != p.Detail || e.Source != nil {
			t.Errorf("%+v became %+v", p, e)
		}
	}
	if len(seen) != 16 {
		t.Errorf("%d problems, want 16", len(seen))
	}
}

func TestProblemsCannotBeChanged(t *testing.T) {
	Problems()[0].Code = "changed"
	if got := Problems()[0]; got != InvalidRequest.Problem() {
		t.Errorf("got %+v", got)
	}
	if p := NotFound.Problem().WithDetail("Look elsewhere."); p.Detail != "Look elsewhere." || p.Code != NotFound.Problem().Code || NotFound.Problem().Detail == p.Detail {
		t.Errorf("got %+v", p)
	}
}
