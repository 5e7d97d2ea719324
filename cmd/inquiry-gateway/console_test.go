package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// consoleState is what these tests read of /console/state.
type consoleState struct {
	Incident struct{ Name, Text, Press, Hit, Get string }
	Marks    []struct{ Kind, Text string }
	Canary   []struct {
		Check, Kind string
		Reasons     []string
	}
}

func (p *program) console() (s consoleState) {
	p.t.Helper()
	if a := p.ops("/console/state"); a.status != http.StatusOK || json.Unmarshal(a.body, &s) != nil {
		p.t.Fatalf("%d %s", a.status, a.body)
	}
	return s
}

// A node that starts with another version than the one before it is a deploy, and
// the nodes that share its Redis mark it.
func TestDeploysAreMarked(t *testing.T) {
	t.Parallel() // it waits for samples of the console
	server := redistest.Start(t)
	section := "redis: {addrs: [\"" + server.Addr + "\"]}"
	first := start(t, setup{yaml: section, version: "v1.4.0"})
	first.eventually("the start is written down", func() bool { return strings.HasPrefix(server.Do("EXISTS", "iq:2:starts"), ":1") })
	second := start(t, setup{yaml: section, version: "v1.5.0", joins: first})
	second.eventually("both starts are marked", func() bool { return len(second.console().Marks) == 2 })
	marks := second.console().Marks
	if marks[0].Kind != "start" || !strings.HasSuffix(marks[0].Text, " started, version v1.4.0") ||
		marks[1].Kind != "deploy" || !strings.HasSuffix(marks[1].Text, " started, version v1.5.0 after v1.4.0") {
		t.Errorf("%+v", marks)
	}
	first.eventually("a node alone knows its own start", func() bool { return len(first.console().Marks) > 0 })
}

// The incident line says which key the canary asked with and which record it was
// given, and neither a key nor an internal id.
func TestTheConsoleTellsWhatTheCanaryFound(t *testing.T) {
	t.Parallel() // it waits for the canary
	owner := regexp.MustCompile(`(?m)^ *owner: customer.*\n`).FindString(string(legacy.Mapping()))
	p := start(t, setup{legacy: legacy.Options{Inquiries: 300}, yaml: canarySection, prepare: canaryKeys,
		backend: mixedUp(legacy.New(legacy.Options{Inquiries: 300})), upstream: []string{owner, ""}})
	p.eventually("the cross-read is the incident", func() bool { return p.console().Incident.Name == "Cross-read" })
	i := p.console().Incident
	said := regexp.MustCompile(`records that are in the lists of both canary\.buyer_keys\[0\] \(key buyer of account ` + legacy.BuyerTypical + `\) and canary\.buyer_keys\[1\] \(key other-buyer of account ` + legacy.BuyerOther +
		`\): \d+; the first is record 1 \(created_at \d{4}-[0-9T:.-]+Z\) of the one list`)
	if !said.MatchString(i.Text) || !strings.Contains(i.Press, "[purge](#purge)") {
		t.Errorf("%+v", i)
	}
	for _, key := range p.keys {
		if strings.Contains(i.Text, key) {
			t.Error("the text holds a key")
		}
	}
	for _, row := range p.console().Canary {
		if (row.Check == "cross_read" && row.Kind == "buyer") != (len(row.Reasons) > 0) {
			t.Errorf("%+v", row)
		}
	}
}

// The commands that the console tells people to enter are there, with their flags.
func TestCommandsOfTheConsole(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "gateway", "ops", "console", "rules.go"))
	if err != nil {
		t.Fatal(err)
	}
	told := regexp.MustCompile("`inquiry-gateway ([^`>]+)").FindAllStringSubmatch(string(source), -1)
	if len(told) < 10 {
		t.Errorf("%d commands", len(told))
	}
	for _, c := range told {
		commandSays(t, 0, "USAGE", append(strings.Fields(strings.Replace(c[1], "set ID", "set", 1)), "--help")...)
	}
}
