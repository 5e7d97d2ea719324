package console

import (
	"html/template"
	"net/http"
	"regexp"
	"strings"

	"inquiry-gateway/deploy"
)

// chapter is one of the runbook, as text with links.
type chapter struct {
	ID, Name string
	Body     template.HTML
}

type runbookView struct {
	page
	Chapters []chapter
}

// runbook shows the runbook of this version: whoever is on call needs no other
// site for it. "#" and a chapter's name in lower case lead to the chapter.
func (c *Console) runbook(w http.ResponseWriter, _ *http.Request) {
	c.write(w, http.StatusOK, "runbook", runbookView{c.page("../"), chapters(deploy.Runbook)})
}

var (
	// A line that begins no item of a list goes on with the line before.
	continued = regexp.MustCompile(`([^\n])\n *([^\s\d*-])`)
	link      = regexp.MustCompile(`\[([^\]]+)\]\((#[a-z]+)\)`)
	outside   = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`) // the page does not have those files
	code      = regexp.MustCompile("`([^`]+)`")
	strong    = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// chapters reads the little of Markdown that the runbook uses.
func chapters(markdown string) []chapter {
	var list []chapter
	for _, text := range strings.Split(markdown, "\n## ")[1:] {
		name, body, _ := strings.Cut(text, "\n")
		body = template.HTMLEscapeString(strings.TrimSpace(continued.ReplaceAllString(body, "$1 $2")))
		body = link.ReplaceAllString(body, `<a href="$2">$1</a>`)
		body = outside.ReplaceAllString(body, "$1")
		body = strong.ReplaceAllString(code.ReplaceAllString(body, "<code>$1</code>"), "<strong>$1</strong>")
		list = append(list, chapter{strings.ToLower(name), name, template.HTML(body)}) // escaped above
	}
	return list
}
