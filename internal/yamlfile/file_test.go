package yamlfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// sectionError is an error as the packages' Validate gives it.
type sectionError struct{ field, msg string }

func (e *sectionError) Error() string { return e.msg }
func (e *sectionError) Field() string { return e.field }

func TestErrorsOfSectionsGetTheirPlace(t *testing.T) {
	doc := documentOf(`
up:
  base: x
  keys:
    - a
    - sha: 1
  headers: {X.Y: 1, X.Y.Z: 2}
  empty: {}
`)
	err := errors.Join(
		&sectionError{"base", "bad"},
		fmt.Errorf("wrapped: %w", &sectionError{"keys[1].sha", "bad"}),
		errors.Join(&sectionError{"keys[0]", "bad"}, &sectionError{"keys[7].sha", "bad"}),
		&sectionError{"headers.X.Y", "bad"}, &sectionError{"headers.X.Y.Z", "bad"},
		&sectionError{"empty.title", "missing"},
		&sectionError{"nowhere.at.all", "missing"},
		&sectionError{"", "all of it"},
		errors.New("no field"),
	)
	doc.Invalid("up", err)
	doc.Invalid("absent", errors.Join(&sectionError{"a.b", "missing"}))
	doc.Invalid("fine", nil)
	want := []string{
		"gateway.yaml:1:1: absent.a.b: missing",
		"gateway.yaml:2:1: up.nowhere.at.all: missing",
		"gateway.yaml:2:1: up: all of it",
		"gateway.yaml:2:1: up: no field",
		"gateway.yaml:3:9: up.base: bad",
		"gateway.yaml:4:3: up.keys[7].sha: bad",
		"gateway.yaml:5:7: up.keys[0]: bad",
		"gateway.yaml:6:12: up.keys[1].sha: wrapped: bad",
		"gateway.yaml:7:18: up.headers.X.Y: bad",
		"gateway.yaml:7:28: up.headers.X.Y.Z: bad",
		"gateway.yaml:8:3: up.empty.title: missing",
	}
	if got := lines(doc.Err()); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestProblemStaysOnOneLine(t *testing.T) {
	_, err := decodeSection("\"a\\nb\": 1\ncount: \"x\\ty\\e[31m\"\n")
	for _, line := range lines(err) {
		if !strings.HasPrefix(line, "gateway.yaml:") || strings.ContainsAny(line, "\t\x1b") {
			t.Errorf("got %q", line)
		}
	}
	if err == nil || len(lines(err)) != 2 {
		t.Errorf("got %v, want two lines", err)
	}
}

func TestNearestKey(t *testing.T) {
	known := []string{"listen", "ops", "tls", "request_timeout", "shutdown_grace", "trusted_proxies"}
	for key, want := range map[string]string{
		"lisen": "listen", "listne": "listen", "LISTEN": "listen", "op": "ops", "osp": "ops", "ssl": "tls",
		"requesttimeout": "request_timeout", "request-timeout": "request_timeout", "RequestTimeout": "request_timeout",
		"zzz": "", "": "", "a": "", "proxies": "", strings.Repeat("x", 10_000): "",
	} {
		if got := Nearest(key, known); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", key, got, want)
		}
	}
}
