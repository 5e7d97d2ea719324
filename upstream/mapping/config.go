package mapping

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/upstream/address"
)

// The values of filtering.
const (
	FilterUpstream = "upstream"
	FilterGateway  = "gateway"
)

// EndpointConfig is how one of the two lists is asked for and read.
type EndpointConfig struct {
	Path            string            `yaml:"path"`  // may hold {account}
	Query           map[string]string `yaml:"query"` // values may hold {account}, {status}, {inquiry_type}
	address.Sending `yaml:",inline"`
	Reply           ReplyConfig `yaml:"reply"`
	// Expect are conditions that each reply must meet as a whole, such as a result code of
	// 0. One that does not is refused before its records are read: 502
	// upstream_invalid_response.
	Expect        []Condition `yaml:"expect"`
	Filtering     string      `yaml:"filtering" enum:",upstream,gateway"` // upstream (default) or gateway
	Items         string      `yaml:"items"`                              // GJSON path of the array of records
	ItemsOptional bool        `yaml:"items_optional"`                     // a reply with nothing at items is an empty list, or the end of one in pages
	InternalIDs   []string    `yaml:"internal_ids"`                       // GJSON paths, within a record, of what is removed from all texts
	// InternalIDPatterns are regular expressions (RE2), such as TCK-\d+: what they match is
	// removed from all texts, as internal ids are, whatever record it is of; at most 20, of at most 200 bytes each.
	InternalIDPatterns []string      `yaml:"internal_id_patterns"`
	Owner              Paths         `yaml:"owner"`        // GJSON path, within a record, of the account it belongs to; of several the first present one
	OwnerLookup        LookupConfig  `yaml:"owner_lookup"` // of an owner that stands in a table of the reply
	Paging             PagingConfig  `yaml:"paging"`
	Details            DetailsConfig `yaml:"details"`
	// Where are conditions that a record must meet to be shown. The others are no
	// mistakes, and their internal ids are removed from all texts.
	Where           []Condition  `yaml:"where"`
	OnInvalidRecord string       `yaml:"on_invalid_record" enum:",fail,skip"` // fail (default) or skip
	OnForeignRecord string       `yaml:"on_foreign_record" enum:",fail,drop"` // fail (default) or drop
	Fields          FieldsConfig `yaml:"fields"`
}

// ReplyConfig is how replies are written. The default is strict: a 200 with a JSON
// media type, in UTF-8 or in the charset that the media type names.
type ReplyConfig struct {
	Format string `yaml:"format" enum:",json,xml"` // json (default) or xml
	// MediaTypes are accepted besides those of the format, such as text/html; none
	// stands for a reply without a media type.
	MediaTypes []string `yaml:"media_types"`
	// Charset is the charset of all replies, such as euc-kr, whatever they declare.
	// Empty: the one that a reply declares, else UTF-8.
	Charset string `yaml:"charset"`
	// EmptyStatuses mean an empty list: of 204, 205, 404 and 410. For details they
	// mean a missing one.
	EmptyStatuses []int `yaml:"empty_statuses"`
}

// FieldsConfig maps the public fields of a record. A buyer's record has no
// company_name; a seller's has neither content nor responses.
type FieldsConfig struct {
	Title       Field           `yaml:"title"`
	Content     Field           `yaml:"content"`
	Status      Field           `yaml:"status"`
	InquiryType Field           `yaml:"inquiry_type"`
	CompanyName Field           `yaml:"company_name"`
	CreatedAt   Field           `yaml:"created_at"`
	Responses   ResponsesConfig `yaml:"responses"`
}

// ResponsesConfig maps the answers to an inquiry. A record that has no such
// array, or null in its place, has no answers.
type ResponsesConfig struct {
	Items         string      `yaml:"items"`          // GJSON path of the array, within a record, or within the reply to fetch
	ItemsOptional bool        `yaml:"items_optional"` // likewise, for the reply to fetch
	Fetch         FetchConfig `yaml:"fetch"`          // without a path: the answers are within the record
	// Lookup replaces each element at items by its entry in a table of the reply, such as
	// the included objects of JSON:API: all paths below lead into the entry then.
	Lookup      ElementLookup `yaml:"lookup"`
	InternalIDs []string      `yaml:"internal_ids"` // GJSON paths within an answer
	// Where are conditions that an answer must meet to be shown, such as that it is
	// public. Nothing at a path means that it is not, unless missing says otherwise.
	Where  []Condition          `yaml:"where"`
	Fields ResponseFieldsConfig `yaml:"fields"`
}

// FetchConfig is a second request for the answers: one for each inquiry, or one
// for a batch of them. All run within the timeout of the list.
type FetchConfig struct {
	Path            string            `yaml:"path"`  // may hold {id}, or the names of ids, and {account}
	Query           map[string]string `yaml:"query"` // values may hold {id}, the names of ids, or {ids}, and {account}
	address.Sending `yaml:",inline"`
	ID              string `yaml:"id"` // GJSON path, within a record, of what {id} stands for
	// IDs are the paths of several values of a record, in the place of id, by the names of
	// their placeholders: {project: project_id, issue: iid} for {project} and {issue}.
	IDs         map[string]string `yaml:"ids"`
	Concurrency int               `yaml:"concurrency"` // requests at a time; default 8
	Paging      PagingConfig      `yaml:"paging"`
	Reply       ReplyConfig       `yaml:"reply"`  // left out: as for the list
	Expect      []Condition       `yaml:"expect"` // conditions that each of these replies must meet; those of the list are not meant

	Batch int    `yaml:"batch"` // inquiries per request, named by {ids}; 0: one, named by {id}
	Join  string `yaml:"join"`  // between the ids; default a comma; "repeat", which is the default in a list of a body: each is a value of its own
	Key   string `yaml:"key"`   // GJSON path, within an answer, of the id of its inquiry; for batches
}

// ResponseFieldsConfig maps the fields of one answer.
type ResponseFieldsConfig struct {
	Content       Field `yaml:"content"`
	ResponderType Field `yaml:"responder_type"`
	CreatedAt     Field `yaml:"created_at"`
}

// DetailsConfig is a second request for what the list does not tell of a record,
// such as its content. What comes is a member of the record, so that every path
// within the record may lead into it. Items that are bare ids become records with a
// member id.
type DetailsConfig struct {
	As string `yaml:"as"` // name of that member; default details
	// Items is the GJSON path, within the reply, of the detail, or of the array of
	// details with fetch.batch; default @this.
	Items string      `yaml:"items"`
	Fetch FetchConfig `yaml:"fetch"`
}

// LookupConfig is a field that stands in a table of the same reply, such as the
// included objects of JSON:API or sideloaded users. A value without an entry in the
// table is a missing one.
type LookupConfig struct {
	In   string `yaml:"in"`   // GJSON path of the table, within the reply: an array
	Key  Paths  `yaml:"key"`  // GJSON paths within an entry that together tell it from the others
	By   Paths  `yaml:"by"`   // GJSON paths, within the record or response, of the values to find at key, in the same order
	Take Paths  `yaml:"take"` // GJSON path of the field, within the entry; of several the first present one
}

// ElementLookup is where in a table of the reply the whole of an element stands. One
// without an entry makes its record invalid: a part must not be shown as the whole.
type ElementLookup struct {
	In  string `yaml:"in"`  // GJSON path of the table, within the reply: an array
	Key Paths  `yaml:"key"` // GJSON paths within an entry that together tell it from the others
	By  Paths  `yaml:"by"`  // GJSON paths, within the element, of the values to find at key, in the same order
}

// String describes the look-up for Explain.
func (l LookupConfig) String() string {
	return l.In + "[" + strings.Join(l.By, ", ") + "]." + strings.Join(l.Take, ", ")
}

// Condition compares what is at a path. One of equals, not_equals, in and absent is
// set. Numbers, truth values and texts are equal if they are written the same.
type Condition struct {
	Path      string   `yaml:"path"`       // GJSON path, within the element that the condition is about
	Equals    Default  `yaml:"equals"`     // holds for this value
	NotEquals Default  `yaml:"not_equals"` // holds for every other single value
	In        []string `yaml:"in"`         // holds for each of these values
	Absent    bool     `yaml:"absent"`     // holds where nothing or null is at the path
	// Missing says what comes of an element that has nothing, or null, at the path:
	// exclude (default) or include. With include such a reply is as expected.
	Missing string `yaml:"missing" enum:",exclude,include"`
}

// Values of paging.style.
const (
	PageNone   = "none"
	PageNumber = "page"
	PageOffset = "offset"
	PageCursor = "cursor"
	PageNext   = "next_url"
	PageLink   = "link_header"
)

// PagingConfig is how a list that comes in several replies is put together. A
// list that cannot be read whole is an error, never a part shown as the whole.
type PagingConfig struct {
	Style string `yaml:"style" enum:",none,page,offset,cursor,next_url,link_header"` // none, page, offset, cursor, next_url or link_header

	// Size is how many records are asked for at a time, by size_param or where query or
	// body hold {size}. A legacy may send fewer.
	Size      int    `yaml:"size"`
	SizeParam string `yaml:"size_param"` // of the query; instead of {size} in query or body
	Param     string `yaml:"param"`      // of the query, for the page's number, the offset or the cursor; instead of {page}, {offset} or {cursor} in query or body
	First     int    `yaml:"first"`      // number of the first page: 0 or 1
	Cursor    string `yaml:"cursor"`     // GJSON path of the next page's cursor; nothing there: the end
	Next      string `yaml:"next"`       // GJSON path of the next page's URL; nothing there: the end

	// Where the end is told, for page and offset; the first that is set counts.
	// If none is, pages are asked for one by one until an empty one.
	Total       string `yaml:"total"`        // GJSON path of the number of records
	TotalHeader string `yaml:"total_header"` // response header with the number of records
	TotalPages  string `yaml:"total_pages"`  // GJSON path of the number of pages
	More        string `yaml:"more"`         // GJSON path of a truth value: another page follows
	Last        string `yaml:"last"`         // GJSON path of a truth value: this page is the last
	EndsShort   bool   `yaml:"ends_short"`   // a page with fewer than size records is the last

	// IgnoreMarks are paths in a reply, names of response headers, or paths in a record
	// beside its responses, that look as if the list went on and mean something else:
	// without paging that reads them they refuse the list.
	IgnoreMarks []string `yaml:"ignore_marks"`

	// RewriteHost asks base_url's host for the next page, whatever host its URL names. It
	// is for a legacy system that does not know the name that it is asked by.
	RewriteHost bool `yaml:"rewrite_host"`

	MaxPages    int `yaml:"max_pages"`   // default 500; more is an error
	Concurrency int `yaml:"concurrency"` // pages at a time once the end is known; default 4
}

// Field says where a public field comes from. In YAML it is a GJSON path alone
// (`title: subject`) or a mapping with any of the keys below.
type Field struct {
	Path   Paths  `yaml:"path"`
	Values Values `yaml:"values"` // legacy value -> public value; filters look up the legacy values of a public one
	// Default is used for a missing or null value. Not set is different from
	// set to null.
	Default Default `yaml:"default"`
	Format  string  `yaml:"format"` // of a time: rfc3339 (default), unix, unix_ms, odata or a Go layout
	// NullValues are values of the legacy that mean null: the field is missing then. A
	// null under values says the same.
	NullValues []string `yaml:"null_values"`
	// Zone is that of a time whose layout holds none: an IANA name; UTC when empty. Where
	// clocks are put back and show a time twice, the earlier one is meant.
	Zone string `yaml:"zone"`

	// Lookup finds the field in a table of the reply, such as the included objects of
	// JSON:API; instead of a path.
	Lookup LookupConfig `yaml:"lookup"`

	Const Default `yaml:"const"` // the field's value in every record; instead of a path
	// Join puts the values of all paths, and the elements of arrays, into one
	// text with this between them. Without it the first present path counts.
	Join Default `yaml:"join"`
	// Cut are regular expressions (RE2) of what is no part of the text, such as \[/?code\];
	// it is cut out before trim_html.
	Cut           []string `yaml:"cut"`
	TrimHTML      bool     `yaml:"trim_html"`                        // the legacy stores HTML: keep its text
	Empty         string   `yaml:"empty" enum:",keep,missing"`       // keep (default) or missing: an empty string counts as missing
	UnknownValues string   `yaml:"unknown_values" enum:",fail,keep"` // of a field with values: fail (default) or keep
	// ValuesJoin says how a filter names several legacy values of one public
	// value: joined by this text, or each as a parameter or list element of its own
	// if it is "repeat". Empty: "repeat" where a body has the placeholder in a list;
	// else it does not, and the gateway filters.
	ValuesJoin string `yaml:"values_join"`
}

// set tells whether the field is mapped at all. A kind whose records lack it must not
// have it.
func (f Field) set() bool {
	return len(f.Path) > 0 || f.Const.Set || f.Default.Set || invalid.Says(f.Lookup)
}

// translations are the public values that are texts, nil if there are none, and the
// values of the legacy that mean null.
func (f Field) translations() (texts map[string]string, nulls []string) {
	nulls = slices.Clone(f.NullValues)
	for legacy, public := range f.Values {
		if !public.Set || public.Null {
			nulls = append(nulls, legacy)
			continue
		}
		if texts == nil {
			texts = make(map[string]string, len(f.Values))
		}
		texts[legacy] = public.Value
	}
	return texts, nulls
}

// Values are public values by those of the legacy. One that is not set is null.
type Values map[string]Default

// UnmarshalYAML accepts the short form. The default key is looked up by hand
// because decoders do not call back for null, and null is a value here.
func (f *Field) UnmarshalYAML(unmarshal func(any) error) error {
	var raw any
	if err := unmarshal(&raw); err != nil {
		return err
	}
	keys, isMap := raw.(map[string]any)
	if !isMap {
		*f = Field{}
		return f.Path.from(raw)
	}
	type plain Field
	if err := unmarshal((*plain)(f)); err != nil {
		return err
	}
	for key, at := range map[string]*Default{"default": &f.Default, "const": &f.Const} {
		if v, ok := keys[key]; ok && v == nil {
			*at = Default{Set: true, Null: true}
		}
	}
	return nil
}

// Paths is one GJSON path, or several of which the first present one counts.
type Paths []string

// UnmarshalYAML accepts a single path for a list of one.
func (p *Paths) UnmarshalYAML(unmarshal func(any) error) error {
	var raw any
	if err := unmarshal(&raw); err != nil {
		return err
	}
	return p.from(raw)
}

// from takes one path or a list of them as YAML gave it.
func (p *Paths) from(raw any) error {
	list, ok := raw.([]any)
	if !ok {
		list = []any{raw}
	}
	out := make(Paths, 0, len(list))
	for _, v := range list {
		s, err := scalar(v)
		if err != nil {
			return fmt.Errorf("expected a GJSON path: %w", err)
		}
		out = append(out, s)
	}
	*p = out
	return nil
}

// Default is a string that may be absent or null. Its zero value is absent.
type Default struct {
	Set   bool
	Null  bool // Value is empty
	Value string
}

// UnmarshalYAML accepts any scalar; null is seen by Field.
func (d *Default) UnmarshalYAML(unmarshal func(any) error) error {
	var raw any
	if err := unmarshal(&raw); err != nil {
		return err
	}
	if raw == nil {
		*d = Default{Set: true, Null: true}
		return nil
	}
	s, err := scalar(raw)
	if err != nil {
		return err
	}
	*d = Default{Set: true, Value: s}
	return nil
}

// scalar writes a YAML scalar as the text that it stands for, because paths, defaults
// and values are often numbers. It refuses null.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case int64, uint64, float64, int:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("a %T was used where a string is expected", v)
}
