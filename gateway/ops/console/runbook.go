package console

import (
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
)

var (
	// elsewhere is a link to a file that the page does not have.
	elsewhere = regexp.MustCompile(`<a href="[^#"][^"]*">(.*?)</a>`)
	title     = regexp.MustCompile(`<h2 id="([^"]+)">(.*?)</h2>`)
	table     = regexp.MustCompile(`(?s)<table>.*?</table>`)
)

// renderRunbook makes HTML of the runbook of this version, with a list of its chapters
// first: whoever is on call needs no other site for it. "#" and a chapter's name in lower
// case lead to the chapter.
func renderRunbook(markdown string) (string, error) {
	md := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	var text strings.Builder
	if err := md.Convert([]byte(markdown), &text); err != nil {
		return "", err
	}
	body := elsewhere.ReplaceAllString(text.String(), "$1")
	body = table.ReplaceAllString(body, `<div class="scroll" tabindex="0" role="group" aria-label="Table">$0</div>`)
	var chapters strings.Builder
	for _, t := range title.FindAllStringSubmatch(body, -1) {
		chapters.WriteString(`<li><a href="#` + t[1] + `">` + t[2] + `</a></li>`)
	}
	body = title.ReplaceAllString(body, `$0<p class="back"><a href="{{root}}">Back to the console</a> · <a href="#chapters">All chapters</a></p>`)
	return strings.Replace(body, "</h1>", `</h1><details id="chapters" open><summary>All chapters</summary><ul>`+chapters.String()+`</ul></details>`, 1), nil
}
