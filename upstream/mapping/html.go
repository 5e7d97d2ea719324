package mapping

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// htmlText gives the text that a browser would show: without tags, scripts and
// comments, entities resolved. What a browser shows apart is apart: blocks have lines of
// their own and cells a blank between them, so that an internal id ends where its element
// does. It never fails; broken markup gives the text that is left.
func htmlText(s string) string {
	if strings.IndexByte(s, '<') < 0 && strings.IndexByte(s, '&') < 0 {
		return s
	}
	var out textOut
	z := html.NewTokenizer(strings.NewReader(s))
	hidden, deep := atom.Atom(0), 0 // the element whose text is not shown, and how many of them are open
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return tidy(out.String())
		case html.TextToken:
			if deep == 0 {
				out.text(z.Text())
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
			out.separate(gapAt(tag))
		case html.CommentToken, html.DoctypeToken:
		}
	}
}

// isHidden tells whether a browser shows nothing of an element. All of a head is in such
// elements, so that the head itself, whose tags may be left out, says nothing.
func isHidden(tag atom.Atom) bool {
	switch tag {
	case atom.Script, atom.Style, atom.Title, atom.Template, atom.Iframe, atom.Noembed, atom.Noframes:
		return true
	}
	return false
}

// gap is what stands between an element's text and that beside it.
type gap uint8

const (
	gapBlank  gap = iota // cells, pictures, and what is not known
	gapNone              // the element is a part of the text
	gapDigits            // the same, but for digits: 10<sup>3</sup> is not 103
	gapBreak             // a new line
	gapLine              // a line of its own
	gapBlock             // an empty line before and after it
)

// gapAt is the gap of a tag, where an element starts or ends.
func gapAt(tag atom.Atom) gap {
	switch tag {
	case atom.A, atom.Abbr, atom.Acronym, atom.B, atom.Bdi, atom.Bdo, atom.Big, atom.Cite, atom.Code, atom.Data, atom.Del, atom.Dfn, atom.Em,
		atom.Font, atom.I, atom.Ins, atom.Kbd, atom.Label, atom.Mark, atom.Nobr, atom.Q, atom.S, atom.Samp, atom.Small, atom.Span,
		atom.Strike, atom.Strong, atom.Time, atom.Tt, atom.U, atom.Var, atom.Wbr:
		return gapNone
	case atom.Sub, atom.Sup:
		return gapDigits
	case atom.Br:
		return gapBreak
	case atom.Address, atom.Article, atom.Aside, atom.Body, atom.Caption, atom.Center, atom.Dd, atom.Details, atom.Div, atom.Dt, atom.Fieldset,
		atom.Figcaption, atom.Figure, atom.Footer, atom.Form, atom.Head, atom.Header, atom.Hgroup, atom.Html, atom.Legend, atom.Li, atom.Main,
		atom.Nav, atom.Optgroup, atom.Option, atom.Section, atom.Select, atom.Summary, atom.Tbody, atom.Textarea, atom.Tfoot, atom.Thead, atom.Tr:
		return gapLine
	case atom.Blockquote, atom.Dir, atom.Dl, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Hr, atom.Menu, atom.Ol, atom.P,
		atom.Pre, atom.Table, atom.Ul:
		return gapBlock
	}
	return gapBlank
}

// textOut is the text of an HTML document as far as it was read.
type textOut struct {
	bytes.Buffer
	edge   bool // the edge of a block was last
	digits bool // digits are not to join
}

// text writes the text between two tags. A line break of the source after the edge of a
// block stands for nothing.
func (o *textOut) text(s []byte) {
	if len(s) == 0 {
		return
	}
	if rest := bytes.TrimLeft(s, " \t\r"); o.edge && len(rest) > 0 && rest[0] == '\n' {
		s = rest[1:]
	}
	isDigit := func(c byte) bool { return c >= '0' && c <= '9' }
	if n := o.Len(); o.digits && n > 0 && len(s) > 0 && isDigit(o.Bytes()[n-1]) && isDigit(s[0]) {
		o.WriteByte(' ')
	}
	o.Write(s)
	o.edge, o.digits = false, false
}

// separate writes the gap at a tag.
func (o *textOut) separate(g gap) {
	switch g {
	case gapNone:
	case gapDigits:
		o.digits = true
	case gapBlank:
		o.WriteByte(' ')
	case gapBreak:
		o.WriteByte('\n')
	case gapLine:
		if !bytes.HasSuffix(o.Bytes(), []byte("\n")) {
			o.WriteByte('\n')
		}
	case gapBlock:
		o.WriteString("\n\n")
	}
	o.edge = o.edge || g >= gapBreak
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
