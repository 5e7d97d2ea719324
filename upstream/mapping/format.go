package mapping

import (
	"cmp"
	"slices"
	"strings"

	"inquiry-gateway/upstream/decode"
	"inquiry-gateway/upstream/jsontree"
)

// Format is how the replies to one sort of request are written. It is read-only and safe for
// concurrent use.
type Format struct {
	decode.Format
	Pages   bool       // the list comes in pages: a 206 is a reply like a 200
	Accept  string     // the value of the request's header of that name
	EmptyIf Conditions // one of which a reply meets that says that there is nothing
	// MayBeMissing: a 403, 404 or 410 is about the one record that the request is for, and says nothing of the credential.
	MayBeMissing  bool
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

// format compiles how replies are written, but for the lists in XML, which paths tell.
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

// markLists marks the elements of XML that a path uses as lists: those before a # or an index. It
// gives the outline of what is at the end of the path. XML does not tell a list of one from a
// single element, so that only the paths can say which elements are lists.
func markLists(at *decode.Outline, path jsontree.Path) *decode.Outline {
	if known := path.Outline(func(name string) { at = at.Below(name) }, func() { at.List = true }); !known {
		return &decode.Outline{}
	}
	return at
}
