package upstream

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"
)

// nextURL resolves the address of a next page.
func (p paging) nextURL(current, next string) (string, error) {
	if u, err := url.Parse(next); p.RewriteHost && err == nil && u.Host != "" && (u.Scheme == "" || u.Scheme == "http" || u.Scheme == "https") && u.User == nil {
		next = (&url.URL{Path: cmp.Or(u.Path, "/"), RawPath: u.RawPath, RawQuery: u.RawQuery}).String() // no path at all would be the end
	}
	return sameHost(current, next)
}

// sameHost resolves the address of a next page. Another host would get the
// gateway's credentials, and could say anything in the legacy's name.
func sameHost(current, next string) (string, error) {
	if next == "" {
		return "", nil
	}
	base, err := url.Parse(current)
	if err != nil {
		return "", pagingError("the page's own address cannot be read")
	}
	u, err := base.Parse(next)
	if err != nil {
		return "", pagingError("the next page's URL cannot be read")
	}
	if !strings.EqualFold(u.Scheme, base.Scheme) || !strings.EqualFold(hostPort(u), hostPort(base)) || u.User != nil {
		return "", pagingError("the next page's URL leads to another host")
	}
	u.Fragment = ""
	return u.String(), nil
}

// hostPort adds the port that a scheme implies, so that the same host in two
// notations is the same.
func hostPort(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	if strings.EqualFold(u.Scheme, "https") {
		return u.Host + ":443"
	}
	return u.Host + ":80"
}

// links matches one link of a header: its target and its parameters, in which
// commas within quotation marks belong to a value.
var links = regexp.MustCompile(`<([^>]*)>((?:[^,"]|"[^"]*")*)`)

// linkNext finds the target of the link with relation next (RFC 8288).
func linkNext(headers []string) string {
	for _, h := range headers {
		for _, link := range links.FindAllStringSubmatch(h, -1) {
			if isNext(link[2]) {
				return link[1]
			}
		}
	}
	return ""
}

// isNext tells whether one of a link's relations is next. Relations are
// case-insensitive, and several share one parameter.
func isNext(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "rel") {
			continue
		}
		for rel := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(value), `"`)) {
			if strings.EqualFold(rel, "next") {
				return true
			}
		}
	}
	return false
}
