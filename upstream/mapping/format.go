package mapping

import (
	"cmp"
	"slices"
	"strings"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsonwalk"
)

// Format is how the replies of one address are written. It is read-only and safe for
// concurrent use.
type Format struct {
	decode.Format
	Accept        string // the value of the request's header of that name
	mediaTypes    []string
	emptyStatuses []int
}

// noMediaType stands among media types for a reply that names none.
const noMediaType = "none"

// Accepts tells whether a reply of a media type is read. It is in lower case and
// without parameters; empty: the reply names none.
func (f *Format) Accepts(media string) bool {
	media = cmp.Or(media, noMediaType)
	own := media == "application/json" || strings.HasSuffix(media, "+json")
	if f.XML {
		own = media == "text/xml" || media == "application/xml" || strings.HasSuffix(media, "+xml")
	}
	return own || slices.Contains(f.mediaTypes, media)
}

// Empty tells whether a status means that there is nothing.
func (f *Format) Empty(status int) bool { return slices.Contains(f.emptyStatuses, status) }

// AcceptJSON is what requests accept by default.
const AcceptJSON = "application/json"

// format compiles how replies are written, but for the lists in XML, which the paths of
// the mapping tell.
func (c *compiler) format(field string, cfg ReplyConfig) (f Format) {
	f.XML, f.Accept, f.emptyStatuses = cfg.Format == "xml", AcceptJSON, cfg.EmptyStatuses
	if f.XML {
		f.Accept = "application/xml, text/xml"
	}
	for i, media := range cfg.MediaTypes {
		c.AddIf(media != noMediaType && !strings.Contains(media, "/") || strings.ContainsAny(media, "; *"), index(field+".media_types", i),
			"not a media type such as text/html without parameters, nor none for a reply without one")
		media = strings.ToLower(media)
		f.mediaTypes = append(f.mediaTypes, media)
		if media != noMediaType {
			f.Accept += ", " + media
		}
	}
	if cfg.Charset != "" {
		var err error
		f.Charset, err = decode.Charset(cfg.Charset)
		c.AddIf(err != nil, field+".charset", "%v", err)
	}
	for i, status := range cfg.EmptyStatuses {
		c.AddIf(!slices.Contains([]int{204, 205, 404, 410}, status), index(field+".empty_statuses", i),
			"only 204, 205, 404 and 410 can mean that there is nothing; %d is a failure or a reply to read", status)
	}
	return f
}

// place is where in XML replies an element of a list stands: the names on the way
// to it. Paths that use elements as a list are told to lists.
type place struct {
	lists *decode.Lists // nil: the replies are not XML
	names []string
	lost  bool // a path is more than names, so what is below it is not known

	as     string // name of a member that is of another reply
	detail *place // where it is there
}

// place is the one of whole replies.
func (f *Format) place() (p place) {
	if f.XML {
		p.lists = &f.Lists
	}
	return p
}

// xml tells whether an element stands in XML, or has a detail that does.
func (p place) xml() bool { return p.lists != nil || p.detail != nil && p.detail.lists != nil }

// inside gives the place of the elements of a list whose path is known, and
// notes that it is one.
func (p place) inside(path string) place {
	p = p.note(path)
	if p.lists != nil && !p.lost {
		p.lists.Add(p.names)
	}
	return p
}

// note marks the elements that a path uses as lists: those before a # or an index. It
// gives the place at the end of the path. XML does not tell a list of one from a single
// element, so that only the paths can say which elements are lists.
func (p place) note(path string) place {
	if p.detail != nil {
		if first, rest, _ := strings.Cut(path, "."); first == p.as {
			return p.detail.note(rest)
		}
	}
	if p.lists == nil || p.lost {
		return p
	}
	p.names, p.detail = slices.Clone(p.names), nil
	for _, part := range jsonwalk.Segments(path) {
		switch {
		case part == "@this":
		case strings.HasPrefix(part, "#") || strings.Trim(part, "0123456789") == "":
			p.lists.Add(p.names)
		case strings.ContainsAny(part, "@({[*?!"):
			p.lost = true
			return p
		default:
			p.names = append(p.names, strings.ReplaceAll(part, `\`, ""))
		}
	}
	return p
}
