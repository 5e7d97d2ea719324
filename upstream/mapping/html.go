package mapping

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlText gives the text that a browser would show: without tags, scripts and
// comments, entities resolved, a line break where a block ends. It never fails;
// broken markup gives the text that is left.
func htmlText(s string) string {
	if strings.IndexByte(s, '<') < 0 && strings.IndexByte(s, '&') < 0 {
		return s
	}
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(s))
	hidden := atom.Atom(0) // the element whose text is not shown
	for {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			return tidy(b.String())
		case html.TextToken:
			if hidden == 0 {
				b.Write(z.Text())
			}
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			tag := atom.Lookup(name)
			switch {
			case kind == html.StartTagToken && (tag == atom.Script || tag == atom.Style || tag == atom.Head):
				hidden = tag
			case kind == html.EndTagToken && tag == hidden:
				hidden = 0
			}
			if breaks(tag) {
				b.WriteByte('\n')
			}
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

// breaks tells whether a tag starts or ends a line.
func breaks(tag atom.Atom) bool {
	switch tag {
	case atom.Br, atom.P, atom.Div, atom.Li, atom.Ul, atom.Ol, atom.Tr, atom.Table, atom.Blockquote, atom.Pre, atom.Hr,
		atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Section, atom.Article, atom.Header, atom.Footer:
		return true
	}
	return false
}

// tidy trims each line, and leaves at most one empty line in a row. Several blanks
// become one.
func tidy(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\u00a0", " "), "\n")
	kept := lines[:0]
	for _, line := range lines {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" && (len(kept) == 0 || kept[len(kept)-1] == "") {
			continue
		}
		kept = append(kept, line)
	}
	return strings.TrimSpace(strings.Join(kept, "\n"))
}
