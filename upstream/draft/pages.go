package draft

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"inquiry-gateway/upstream/jsontree"
)

// Paging is what the samples say about further pages.
type Paging struct {
	Style  string
	Keys   []string // further keys with their values, as YAML
	Doubts []string
}

func (p *Paging) doubt(format string, args ...any) {
	p.Doubts = append(p.Doubts, fmt.Sprintf(format, args...))
}

func (p *Paging) add(key, value string) { p.Keys = append(p.Keys, key+": "+value) }

// queryForm is a link without a host.
var queryForm = regexp.MustCompile(`^[^\s?]*\?[^\s=]+=`)

func isURL(s string) bool { return addrForm.MatchString(s) || queryForm.MatchString(s) }

func isToken(s string) bool { return !isURL(s) && !isNumber(s) && s != "true" && s != "false" }

// maxBeside bounds what is shown of what stands beside the list.
const maxBeside = 8

// paging looks for what tells of further pages in headers and among the values around the records.
// records is how many one sample has.
func paging(trees []jsontree.Value, header http.Header, list *list, records int) (p Paging) {
	var beside []*column
	items := strings.TrimSuffix(strings.TrimSuffix(list.path, "@values"), ".")
	for _, c := range tableOf(trees).columns {
		if items != "" && items != "@this" && !strings.HasPrefix(c.path, items+".") && !c.called("prev previous before csrf access") {
			beside = append(beside, c)
		}
	}
	find := func(words string, fits func(string) bool) (path, text string) {
		for _, c := range beside {
			if text = c.texts[0]; text != "" && c.called(words) && fits(text) {
				return c.path, text
			}
		}
		return "", ""
	}
	counts := func(text string) bool { n, err := strconv.Atoi(text); return err == nil && n > records }
	inHeader := ""
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if strings.HasSuffix(name, "Total") || name == "X-Total-Count" {
			inHeader = name
		}
	}
	next, link := find("next nextlink more following continuation", isURL)
	cursor, _ := find("cursor token after marker continue continuation scroll bookmark next", isToken)
	total, _ := find("total count totalcount totalsize hits totalelements cnt totcnt tot size", counts)
	switch {
	case strings.Contains(header.Get("Link"), `rel="next"`):
		p.Style = "link_header"
	case cursor != "":
		p.Style = "cursor"
		p.add("param", ToComplete)
		p.add("next", quote(cursor))
		p.doubt("the name of the parameter that takes the cursor")
		if next != "" {
			p.doubt("or style next_url by %s?", next)
		}
	case next != "":
		p.Style = "next_url"
		p.add("next", quote(next))
		if u, err := url.Parse(link); err == nil && u.Host != "" {
			p.doubt("its URL names the host %s: base_url must be that, or add rewrite_host: true", u.Host)
		}
	case inHeader != "" || total != "":
		p.Style = "page"
		p.add("param", ToComplete)
		p.add("first", "1")
		p.doubt("is it style page or offset, which are its parameters, and is the first page 0 or 1?")
	default:
		p.Style = "none"
		p.doubt("no mark of further pages is in these samples; a list that comes in pages would be cut short")
	}
	if inHeader != "" {
		p.add("total_header", inHeader)
	} else if p.Style == "page" {
		p.add("total", quote(total))
	}
	var shown []string
	for _, c := range beside {
		if c.path != total && (isNumber(c.texts[0]) || c.bools) && len(shown) < maxBeside {
			shown = append(shown, c.path+" = "+c.texts[0])
		}
	}
	if len(shown) > 0 && (p.Style == "none" || p.Style == "page") {
		p.doubt("does one of these count records or pages, or tell whether another page follows: %s?", strings.Join(shown, ", "))
	}
	return p
}
