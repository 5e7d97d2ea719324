package mapping

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlText returns the text that a browser would show: without tags, scripts and
// comments, entities resolved. What a browser shows apart is apart: blocks have lines of
// their own and cells a blank between them, so that an internal id ends where its element
// does. It never fails; broken markup gives the text that is left.
func htmlText(s string) string {
	if !strings.ContainsAny(s, "<&") {
		return s
	}
	var out strings.Builder
	z := html.NewTokenizer(strings.NewReader(s))
	hidden, deep := atom.Atom(0), 0 // the element whose text is not shown, and how many of them are open
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return tidy(out.String())
		case html.TextToken:
			if deep == 0 {
				out.Write(z.Text())
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			tag := atom.Lookup(name)
			switch {
			case kind == html.SelfClosingTagToken:
				z.NextIsNotRawText() // XHTML's <title/> is empty
			case deep > 0 && tag == hidden && kind == html.EndTagToken:
				deep--
			case deep > 0 && tag == hidden, deep == 0 && kind == html.StartTagToken && isHidden(tag):
				hidden = tag
				deep++
			}
			out.WriteString(gapAt(tag))
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

// isHidden reports whether a browser shows nothing of an element. All of a head is in such
// elements, so that the head itself, whose tags may be left out, says nothing.
func isHidden(tag atom.Atom) bool {
	switch tag {
	case atom.Script, atom.Style, atom.Title, atom.Template, atom.Iframe, atom.Noembed, atom.Noframes:
		return true
	}
	return false
}

// gapAt is what stands in the place of a tag: nothing within a text, a new line at a block, and a
// blank at all else, such as cells, pictures, and 10<sup>3</sup>, which is not 103.
func gapAt(tag atom.Atom) string {
	switch tag {
	case atom.A, atom.Abbr, atom.Acronym, atom.B, atom.Bdi, atom.Bdo, atom.Big, atom.Cite, atom.Code, atom.Data, atom.Del, atom.Dfn, atom.Em,
		atom.Font, atom.I, atom.Ins, atom.Kbd, atom.Label, atom.Mark, atom.Nobr, atom.Q, atom.S, atom.Samp, atom.Small, atom.Span,
		atom.Strike, atom.Strong, atom.Time, atom.Tt, atom.U, atom.Var, atom.Wbr:
		return ""
	case atom.Address, atom.Article, atom.Aside, atom.Blockquote, atom.Body, atom.Br, atom.Caption, atom.Center, atom.Dd, atom.Details, atom.Dir, atom.Div, atom.Dl, atom.Dt,
		atom.Fieldset, atom.Figcaption, atom.Figure, atom.Footer, atom.Form, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Head, atom.Header, atom.Hgroup,
		atom.Hr, atom.Html, atom.Legend, atom.Li, atom.Main, atom.Menu, atom.Nav, atom.Ol, atom.Optgroup, atom.Option, atom.P, atom.Pre, atom.Section, atom.Select,
		atom.Summary, atom.Table, atom.Tbody, atom.Textarea, atom.Tfoot, atom.Thead, atom.Tr, atom.Ul:
		return "\n"
	}
	return " "
}

// tidy trims each line and leaves out empty ones. Several blanks become one.
func tidy(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\u00a0", " "), "\n")
	kept := lines[:0]
	for _, line := range lines {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
