package console

import (
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"

	"inquiry-gateway/deploy"
	"inquiry-gateway/internal/theme"
)

// chapter is one of the runbook; all three are HTML.
type chapter struct{ id, name, body string }

// runbook shows the runbook of this version: whoever is on call needs no other
// site for it. "#" and a chapter's name in lower case lead to the chapter.
func (c *Console) runbook(w http.ResponseWriter, _ *http.Request) {
	var contents, all strings.Builder
	for _, c := range chapters(deploy.Runbook) {
		fmt.Fprintf(&contents, `<li><a href="#%s">%s</a></li>`, c.id, c.name)
		fmt.Fprintf(&all, `<section id="%[1]s" class="card" aria-labelledby="title-%[1]s"><h2 id="title-%[1]s">%[2]s</h2><div class="chapter">%[3]s</div></section>`+"\n", c.id, c.name, c.body)
	}
	c.write(w, http.StatusOK, "runbook", "../", "{{contents}}", contents.String(), "{{chapters}}", all.String())
}

var (
	// A line that begins no item of a list goes on with the line before.
	continued = regexp.MustCompile(`([^\n])\n *([^\s\d*-])`)
	link      = regexp.MustCompile(`\[([^\]]+)\]\((#[a-z]+)\)`)
	outside   = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`) // the page does not have those files
)

// chapters reads the little of Markdown that the runbook uses.
func chapters(markdown string) []chapter {
	var list []chapter
	for _, text := range strings.Split(markdown, "\n## ")[1:] {
		name, body, _ := strings.Cut(text, "\n")
		body = theme.Inline(strings.TrimSpace(continued.ReplaceAllString(body, "$1 $2")))
		body = outside.ReplaceAllString(link.ReplaceAllString(body, `<a href="$2">$1</a>`), "$1")
		name = html.EscapeString(name)
		list = append(list, chapter{strings.ToLower(name), name, body})
	}
	return list
}
