package mapping

import (
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
)

// RequestConfig is one request to the legacy system.
type RequestConfig struct {
	// Path is added to base_url. It may have {account}; for responses and details also {id} or the names of ids.
	Path string `yaml:"path"`
	// Query are the parameters. Their values may have {account}, {status} and {inquiry_type}; for responses and details
	// {account}, and {id}, the names of ids or {ids}. A parameter whose placeholder has no value is left out. Filters that
	// neither query nor body has are applied by the gateway.
	Query           map[string]string `yaml:"query"`
	address.Sending `yaml:",inline"`
	// Expect are conditions that each reply must meet as a whole, such as a result code of 0. Another reply is refused: 502
	// upstream_invalid_response. Those of a list do not apply to its responses and details.
	Expect []Condition `yaml:"expect"`
}

// RepliesConfig is how the replies to a request are read, one after the other.
type RepliesConfig struct {
	// Reply is the format of replies. Default for responses and details: that of the list.
	Reply ReplyConfig `yaml:"reply"`
	// Paging is how a list in several replies is requested.
	Paging PagingConfig `yaml:"paging"`
}

// ItemsConfig is an array of records, or of the responses to one.
type ItemsConfig struct {
	// Items is the GJSON path of the array of records; "@this" if the reply is the array. For responses it is a path within
	// the record, or within the reply to fetch.
	Items string `yaml:"items" form:"gjson"`
	// ID is the GJSON path, within a record or response, of a unique value; "@key": its key under @values; none: there is
	// none. Styles page and offset need it to notice that a list changes while it is read.
	ID string `yaml:"id"`
	// ItemsOptional accepts a reply, or a record, with nothing or null at items as an empty list, or as the end of one in
	// pages.
	ItemsOptional bool `yaml:"items_optional"`
	// InternalIDs are GJSON paths, within a record or a response, of values that are removed from all texts.
	InternalIDs []string `yaml:"internal_ids" form:"gjson"`
	// Where are conditions that a record or a response must meet to be shown, such as that it is public. With nothing at the
	// path a condition fails unless is has null. The internal ids of hidden ones are removed from all texts, too.
	Where []Condition `yaml:"where"`
}

// EndpointConfig is how one of the two lists is asked for and read.
type EndpointConfig struct {
	RequestConfig `yaml:",inline"`
	RepliesConfig `yaml:",inline"`
	ItemsConfig   `yaml:",inline"`
	// InternalIDPatterns are regular expressions (RE2), such as TCK-\d+. Matches are removed from all texts, like internal
	// ids; at most 20, of at most 200 bytes each.
	InternalIDPatterns []string `yaml:"internal_id_patterns" form:"re2"`
	// Owner is where a record names its account. A record of another account is never served.
	Owner OwnerConfig `yaml:"owner" short:"path"`
	// Group is the GJSON path, within an item, of the value that rows of one record share. The first row is the record, and
	// has the others as its member rows.
	Group string `yaml:"group" form:"gjson"`
	// Details is a second request for what the list lacks of a record.
	Details DetailsConfig `yaml:"details"`
	// OnInvalidRecord is what happens to a list with an invalid record: fail refuses the list, skip leaves the record out and
	// counts it.
	OnInvalidRecord string `yaml:"on_invalid_record" enum:",fail,skip"`
	// OnOwnerMismatch is what happens to a list with a record of another account: fail refuses the list, drop leaves the
	// record out and counts it.
	OnOwnerMismatch string `yaml:"on_owner_mismatch" enum:",fail,drop"`
	// Fields are the public fields.
	Fields FieldsConfig `yaml:"fields"`
}

// OwnerConfig is where a record says which account it belongs to. In YAML it is a GJSON path alone, or a mapping.
type OwnerConfig struct {
	// Path is the GJSON path, within a record, of the account; of several the first present one. An array means several
	// owners.
	Path          Paths `yaml:"path" short:"list" form:"gjson"`
	LookupSection `yaml:",inline"`
	// Is is the text there, if it is more than the account, such as "vendor/{account}".
	Is string `yaml:"is"`
}

// ReplyConfig is how replies are written. The default is strict: a 200 with a JSON
// media type, in UTF-8 or in the charset that the media type names.
type ReplyConfig struct {
	// Format is json (default) or xml.
	Format string `yaml:"format" enum:",json,xml"`
	// MediaTypes are accepted besides those of the format, such as text/html; none means no media type.
	MediaTypes []string `yaml:"media_types"`
	// Charset is the charset of all replies, such as euc-kr, whatever they declare. Default: the declared one, else UTF-8.
	Charset string `yaml:"charset"`
	// EmptyStatuses are statuses that mean an empty list, of 204, 205, 404 and 410. For details they mean a missing one.
	EmptyStatuses []int `yaml:"empty_statuses"`
	// EmptyIf are conditions on the whole reply with status 200, or SOAP fault, one of which means an empty list, such as {path:
	// Envelope.Body.Fault.faultcode, is: "app:NoRecords"}. In a fault null does not count.
	EmptyIf []Condition `yaml:"empty_if"`
}

// TextFields are the public fields that a record and its responses have in common.
type TextFields struct {
	// Content is the text of an inquiry of a buyer, or of a response.
	Content TextField `yaml:"content" short:"path"`
	// CreatedAt is the time of creation.
	CreatedAt TimeField `yaml:"created_at" short:"path"`
}

// FieldsConfig maps the public fields of a record. A buyer's record has no
// company_name; a seller's has neither content nor responses.
type FieldsConfig struct {
	TextFields `yaml:",inline"`
	// Title is the title of the inquiry.
	Title TextField `yaml:"title" short:"path"`
	// Status is the state of the inquiry.
	Status TextField `yaml:"status" short:"path"`
	// InquiryType is the type of the inquiry.
	InquiryType TextField `yaml:"inquiry_type" short:"path"`
	// CompanyName is the name of the buyer; for sellers.
	CompanyName TextField `yaml:"company_name" short:"path"`
	// Responses are the responses to the inquiry; for buyers.
	Responses ResponsesConfig `yaml:"responses"`
}

// ResponsesConfig maps the answers to an inquiry. A record that has no such
// array, or null in its place, is invalid unless items_optional says that it has no answers.
type ResponsesConfig struct {
	ItemsConfig   `yaml:",inline"`
	FetchSection  `yaml:",inline"`
	LookupSection `yaml:",inline"`
	// Total is the GJSON path, within the record, of the number of responses. With any other number the record is invalid.
	Total string `yaml:"total" form:"gjson"`
	// Last is a condition that a record with all of its responses meets, such as {path: replies.pageInfo.hasNextPage, is:
	// false}.
	Last Condition `yaml:"last"`
	// Skip is the number of elements to leave out at the beginning, such as the text of the inquiry itself.
	Skip int `yaml:"skip" min:"0"`
	// Fields are the public fields of a response.
	Fields ResponseFieldsConfig `yaml:"fields"`
}

// FetchSection is what comes by a second request.
type FetchSection struct {
	// Fetch is a request for each record, or for a batch of them. Without it responses are within the record.
	Fetch FetchConfig `yaml:"fetch"`
}

// LookupSection is what may stand in a table of the reply.
type LookupSection struct {
	// Lookup finds an entry of a table in the reply, such as the included objects of JSON:API. The paths beside it lead into
	// that entry.
	Lookup LookupConfig `yaml:"lookup"`
}

// ConcurrencySection is how many requests of a sort are made at the same time.
type ConcurrencySection struct {
	// Concurrency is the maximum of requests in flight: of second requests, default 8; of pages once the end is known,
	// default 4.
	Concurrency int `yaml:"concurrency" min:"0"`
}

// FetchConfig is a second request. All run within the timeout of the list.
type FetchConfig struct {
	RequestConfig      `yaml:",inline"`
	RepliesConfig      `yaml:",inline"`
	ConcurrencySection `yaml:",inline"`
	// ID is the GJSON path, within a record, of {id}; default the id of records.
	ID string `yaml:"id" form:"gjson"`
	// IDs are the paths of several values of a record, instead of id, by the names of their placeholders: {project:
	// project_id, issue: iid} for {project} and {issue}.
	IDs map[string]string `yaml:"ids"`
	// Version is the GJSON path, within a record, of a value that changes whenever the reply to this request would, such as
	// updated_on. While it is the same, and for ttl + stale_if_error at most, the record is not fetched again. A time in
	// whole seconds does not show a second change within its second. Not with batch.
	Version string `yaml:"version" form:"gjson"`
	// IDOptional accepts a record without an id: it has no responses, or no details.
	IDOptional bool `yaml:"id_optional"`
	// Missing is what a 403, 404 or 410 for one record means: fail (default) refuses the list, empty gives the record no
	// responses or details, skip leaves the record out. Not with batch.
	Missing string `yaml:"missing" enum:",fail,empty,skip"`
	// Batch is the number of records per request, whose ids are {ids}. 0: one, whose id is {id}.
	Batch int `yaml:"batch" min:"0"`
	// Join is the text between the ids of a batch; default a comma, in a longer text none. "repeat", the default in a list of
	// a body, makes each a value of its own.
	Join string `yaml:"join"`
	// Key is the GJSON path, within a response, of its record's id; for batches.
	Key string `yaml:"key" form:"gjson"`
}

// ResponseFieldsConfig maps the fields of one answer.
type ResponseFieldsConfig struct {
	TextFields `yaml:",inline"`
	// ResponderType is the role of the author.
	ResponderType TextField `yaml:"responder_type" short:"path"`
}

// DetailsConfig is a second request for what the list does not tell of a record,
// such as its content. What comes is a member of the record called details, so that every path
// within the record may lead into it. Items that are bare ids become records with a
// member id.
type DetailsConfig struct {
	// Items is the GJSON path, within the reply, of the detail, or of the array of details with fetch.batch; default @this.
	// With fetch.paging it is that of an array, and the detail is the array of the items of all pages.
	Items string `yaml:"items" form:"gjson"`
	// ID is the GJSON path, within each item of a detail in pages, of a unique value; none: there is none.
	ID           string `yaml:"id"`
	FetchSection `yaml:",inline"`
}

// LookupConfig is where in a table of the reply a field or an element stands, such as in the
// included objects of JSON:API or sideloaded users: the paths beside it lead into the entry. A
// field without an entry is a missing one. An element without one makes its record invalid: a
// part must not be shown as the whole.
type LookupConfig struct {
	// In is the GJSON path of the table, an array, within the reply.
	In string `yaml:"in" form:"gjson"`
	// Key are GJSON paths within an entry that identify it.
	Key Paths `yaml:"key" short:"list" form:"gjson"`
	// By are GJSON paths, within the record or response, of the values to find at key, in the same order.
	By Paths `yaml:"by" short:"list" form:"gjson"`
}

// to describes the look-up of paths for Explain.
func (l LookupConfig) to(paths Paths) string {
	return l.In + "[" + strings.Join(l.By, ", ") + "]." + strings.Join(paths, ", ")
}

// Condition compares what is at a path. One of is and not is set. Truth values and texts are equal if they are
// written the same; 0.0 is 0. Where nothing or null is at the path only a condition holds whose is has null.
type Condition struct {
	// Path is the GJSON path within the reply, record or response.
	Path string `yaml:"path" form:"gjson"`
	// Is is the value, or a list of values, that the condition accepts; null means nothing at the path.
	Is Accepted `yaml:"is" short:"list"`
	// Not is the value, or a list of values, that the condition does not accept; null: it accepts any value.
	Not Accepted `yaml:"not" short:"list"`
}

// Accepted are values that a condition compares with. Its zero value is not set.
type Accepted []OptionalString

// SetNull takes null, which is a value.
func (a *Accepted) SetNull() { *a = Accepted{{Set: true, Null: true}} }

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
	// Style is how the next reply is requested: by page number, offset, cursor, URL in the reply, or Link header. none is a
	// list in one reply.
	Style string `yaml:"style" enum:",none,page,offset,cursor,next_url,link_header"`

	// Size is the number of records to request per page, by size_param or {size} in query or body. The legacy system may send
	// fewer.
	Size int `yaml:"size" min:"0" with:"style=page,offset,cursor,next_url,link_header"`
	// SizeParam is the query parameter of the size, instead of {size}.
	SizeParam string `yaml:"size_param" with:"style=page,offset,cursor,next_url,link_header"`
	// Param is the query parameter of the page number, offset or cursor, instead of {page}, {offset} or {cursor}.
	Param string `yaml:"param" with:"style=page,offset,cursor"`
	// First is the number of the first page: 0 or 1.
	First int `yaml:"first" min:"0" with:"style=page"`
	// Next is the GJSON path of the next cursor or URL, or several, of which the first present one counts. Nothing there: the
	// end.
	Next Paths `yaml:"next" short:"list" form:"gjson" with:"style=cursor!,next_url!"`

	// Total is the GJSON path of the number of records. Exactly so many must come, and the number must not fall from page to
	// page.
	Total string `yaml:"total" form:"gjson"`
	// TotalHeader is the response header with the number of records.
	TotalHeader string `yaml:"total_header"`
	// TotalPages is the GJSON path of the number of pages.
	TotalPages string `yaml:"total_pages" form:"gjson" with:"style=page"`
	// Last is a condition that only the last page meets, such as {path: has_more, is: false}. 1 and 0, Y and N, yes and no
	// are truth values, too.
	Last Condition `yaml:"last"`
	// UntilEmpty requests pages one by one until an empty one.
	UntilEmpty bool `yaml:"until_empty" with:"style=page,offset"`

	// IgnoreMarks are paths in a reply, such as meta.next, or names of response headers that do not mean a next page,
	// although their names say so: the list is not refused for them.
	IgnoreMarks []string `yaml:"ignore_marks"`

	// RewriteHost requests the next page from base_url's host, whatever host its URL names. It is for a legacy system that
	// does not know its public name.
	RewriteHost bool `yaml:"rewrite_host" with:"style=next_url,link_header"`

	ConcurrencySection `yaml:",inline" with:"style=page,offset"`
}

// FieldPath says where a public field comes from. In YAML it is a GJSON path alone
// (`title: subject`) or a mapping with any of the keys of its field.
type FieldPath struct {
	// Path is the GJSON path of the value, within the record or response; of several the first present one counts.
	Path          Paths `yaml:"path" short:"list" form:"gjson"`
	LookupSection `yaml:",inline"`
	// Join is the text between the values of all paths, and the elements of arrays, which become one text. Without it the
	// first present path counts. A time needs all of them.
	Join OptionalString `yaml:"join"`
}

// TextField is a public field that is a text.
type TextField struct {
	FieldPath `yaml:",inline"`
	// Values are the public values by those of the legacy system. A value that is mapped to null counts as missing: the next
	// path or the default is used. A path in braces, such as "{author}", stands for the value there in the record. "*" stands
	// for all other values, and "*": keep serves them unchanged; without "*" they make the record invalid. A filter by a
	// public value requests all legacy values that are mapped to it.
	Values Values `yaml:"values"`
	// Default is used for a missing or null value; without a path it is the value of every record. Unset is different from
	// null.
	Default OptionalString `yaml:"default"`
	// TrimHTML turns HTML into its text.
	TrimHTML bool `yaml:"trim_html"`
	// ValuesJoin is how a filter sends several legacy values of one public value: joined by this text, or, if it is "repeat",
	// each as a parameter, list element or part of XML in brackets of its own. Empty: "repeat" if a body has the placeholder
	// in a list; otherwise the gateway filters.
	ValuesJoin string `yaml:"values_join"`
}

// TimeField is a public field that is a time.
type TimeField struct {
	FieldPath `yaml:",inline"`
	// Format is the format of the time: rfc3339 (default), unix, unix_ms, odata, or a layout such as "2006-01-02 15:04:05".
	Format string `yaml:"format"`
	// Zone is the zone of times without an offset: an IANA name; default UTC.
	Zone string `yaml:"zone" form:"zone"`
}

// isSet tells whether the field is mapped at all. A kind whose records lack it must not
// have it.
func (f TextField) isSet() bool {
	return len(f.Path) > 0 || f.Default.Set || setting.IsSet(f.Lookup)
}

// otherValues stands among values for all that have no entry.
const otherValues = "*"

// keepValue is the public value of these that means what the legacy has.
const keepValue = "keep"

// bracedPath gives the path that a key of values is in braces.
func bracedPath(key string) (path string, is bool) {
	if len(key) < 2 || key[0] != '{' || key[len(key)-1] != '}' {
		return "", false
	}
	return key[1 : len(key)-1], true
}

// Values are public values by those of the legacy. One that is not set is null.
type Values map[string]OptionalString

// Paths is one GJSON path, or several of which the first present one counts.
type Paths []string

// OptionalString is a string that may be absent or null. Its zero value is absent.
type OptionalString struct {
	Set   bool
	Null  bool // Value is empty
	Value string
}

// UnmarshalText takes any single value as it is written.
func (d *OptionalString) UnmarshalText(text []byte) error {
	*d = OptionalString{Set: true, Value: string(text)}
	return nil
}

// SetNull takes null, which is a value.
func (d *OptionalString) SetNull() { *d = OptionalString{Set: true, Null: true} }
