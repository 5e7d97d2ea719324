package mapping

import (
	"strings"

	"inquiry-gateway/internal/setting"
	"inquiry-gateway/upstream/address"
)

// RequestConfig is one request to the legacy system.
type RequestConfig struct {
	// Path is added to base_url. It may hold {account}; for responses and details {id} or the names of ids, too.
	Path string `yaml:"path"`
	// Query has the parameters. Their values may hold {account}, {status} and {inquiry_type}; for responses and details {id}, the names of ids or {ids}, and {account}. A parameter whose value is empty is left out.
	// What neither query nor body asks for is filtered by the gateway.
	Query           map[string]string `yaml:"query"`
	address.Sending `yaml:",inline"`
	// Expect are conditions that each reply must meet as a whole, such as a result code of
	// 0. One that does not is refused before anything else is read of it: 502
	// upstream_invalid_response. Those of a list do not count for its responses and details.
	Expect []Condition `yaml:"expect"`
}

// RepliesConfig is how the replies to a request are read, one after the other.
type RepliesConfig struct {
	// Reply is how replies are written. Left out for responses and details, it is as for the list.
	Reply ReplyConfig `yaml:"reply"`
	// Paging is how a list that comes in several replies is put together.
	Paging PagingConfig `yaml:"paging"`
}

// ItemsConfig is an array of records, or of the responses to one.
type ItemsConfig struct {
	// Items is the GJSON path of the array of records, "@this" where the reply is the array; of responses the path within the record, or within the reply to fetch.
	Items string `yaml:"items" form:"gjson"`
	// ID is the GJSON path, within a record or response, of what no two of them share; "@key": their names. Pages that are asked for by number or offset need it, so that a list that
	// changes meanwhile is noticed; none: records have none.
	ID string `yaml:"id"`
	// ItemsOptional takes a reply, or a record, with nothing or null at items for an empty list, or for the end of one in pages.
	ItemsOptional bool `yaml:"items_optional"`
	// InternalIDs are GJSON paths, within a record or a response, of what is removed from all texts.
	InternalIDs []string `yaml:"internal_ids" form:"gjson"`
	// Where are conditions that a record or a response must meet to be shown, such as that it is public. Nothing at a path means that it is not, unless missing says otherwise. The others are no
	// mistakes, and their internal ids are removed from all texts.
	Where []Condition `yaml:"where"`
}

// EndpointConfig is how one of the two lists is asked for and read.
type EndpointConfig struct {
	RequestConfig `yaml:",inline"`
	RepliesConfig `yaml:",inline"`
	ItemsConfig   `yaml:",inline"`
	// InternalIDPatterns are regular expressions (RE2), such as TCK-\d+: what they match is
	// removed from all texts, as internal ids are, whatever record it is of; at most 20, of at most 200 bytes each.
	InternalIDPatterns []string `yaml:"internal_id_patterns" form:"re2"`
	// Owner is where a record says which account it belongs to. A record of another account is never served.
	Owner OwnerConfig `yaml:"owner" short:"path"`
	// Group is the GJSON path, within an item, of what tells which record it is of, where a record comes as several rows: the first is
	// the record, and has the others as its member rows.
	Group string `yaml:"group" form:"gjson"`
	// Details is a second request for what the list does not tell of a record.
	Details DetailsConfig `yaml:"details"`
	// OnInvalidRecord says what becomes of a list with a record that cannot be mapped: fail (default) refuses the list, skip leaves the record out and counts it.
	OnInvalidRecord string `yaml:"on_invalid_record" enum:",fail,skip"`
	// OnOwnerMismatch says what becomes of a list with a record of another account: fail (default) refuses the list, drop leaves the record out and counts it.
	OnOwnerMismatch string `yaml:"on_owner_mismatch" enum:",fail,drop"`
	// Fields says where the public fields come from.
	Fields FieldsConfig `yaml:"fields"`
}

// OwnerConfig is where a record says which account it belongs to. In YAML it is a GJSON path alone, or a mapping.
type OwnerConfig struct {
	// Path is the GJSON path, within a record, of the account; of several the first present one. An array is of several owners.
	Path          Paths `yaml:"path" short:"list" form:"gjson"`
	LookupSection `yaml:",inline"`
	// Is is what stands there, where it is more than the account, such as "vendor/{account}".
	Is string `yaml:"is"`
}

// ReplyConfig is how replies are written. The default is strict: a 200 with a JSON
// media type, in UTF-8 or in the charset that the media type names.
type ReplyConfig struct {
	// Format is json (default) or xml.
	Format string `yaml:"format" enum:",json,xml"`
	// MediaTypes are accepted besides those of the format, such as text/html; none
	// stands for a reply without a media type.
	MediaTypes []string `yaml:"media_types"`
	// Charset is the charset of all replies, such as euc-kr, whatever they declare.
	// Empty: the one that a reply declares, else UTF-8.
	Charset string `yaml:"charset"`
	// EmptyStatuses mean an empty list: of 204, 205, 404 and 410. For details they
	// mean a missing one.
	EmptyStatuses []int `yaml:"empty_statuses"`
	// EmptyIf are conditions on the whole reply, also on a SOAP fault, one of which means an empty list, such as
	// {path: Envelope.Body.Fault.faultcode, is: "app:NoRecords"}.
	EmptyIf []Condition `yaml:"empty_if"`
}

// TextFields are the public fields that a record and its responses have in common.
type TextFields struct {
	// Content is the text of an inquiry of a buyer, or of a response.
	Content TextField `yaml:"content" short:"path"`
	// CreatedAt is the time at which it was written.
	CreatedAt TimeField `yaml:"created_at" short:"path"`
}

// FieldsConfig maps the public fields of a record. A buyer's record has no
// company_name; a seller's has neither content nor responses.
type FieldsConfig struct {
	TextFields `yaml:",inline"`
	// Title is the title of the inquiry.
	Title TextField `yaml:"title" short:"path"`
	// Status is the public word for the state of the inquiry.
	Status TextField `yaml:"status" short:"path"`
	// InquiryType is the public word for the sort of the inquiry.
	InquiryType TextField `yaml:"inquiry_type" short:"path"`
	// CompanyName is the name of the buyer, for sellers.
	CompanyName TextField `yaml:"company_name" short:"path"`
	// Responses are the answers to the inquiry, for buyers.
	Responses ResponsesConfig `yaml:"responses"`
}

// ResponsesConfig maps the answers to an inquiry. A record that has no such
// array, or null in its place, is invalid unless items_optional says that it has no answers.
type ResponsesConfig struct {
	ItemsConfig   `yaml:",inline"`
	FetchSection  `yaml:",inline"`
	LookupSection `yaml:",inline"`
	// Total is the GJSON path, within the record, of the number of responses: where it is another one than came, the record is invalid.
	Total string `yaml:"total" form:"gjson"`
	// Last is a condition that a record meets which has all of its responses, such as {path: replies.pageInfo.hasNextPage, is: false}.
	Last Condition `yaml:"last"`
	// Skip is how many elements come before the answers, such as the text of the inquiry itself.
	Skip int `yaml:"skip" min:"0"`
	// Fields says where the public fields of an answer come from.
	Fields ResponseFieldsConfig `yaml:"fields"`
}

// FetchSection is what comes by a second request.
type FetchSection struct {
	// Fetch is the request: one for each record, or one for a batch of them. Responses without it are within the record.
	Fetch FetchConfig `yaml:"fetch"`
}

// LookupSection is what may stand in a table of the reply.
type LookupSection struct {
	// Lookup finds the entry of a table of the reply, such as the included objects of
	// JSON:API, that the paths beside it lead into.
	Lookup LookupConfig `yaml:"lookup"`
}

// ConcurrencySection is how many requests of a sort are made at the same time.
type ConcurrencySection struct {
	// Concurrency is how many requests are made at a time: of second requests, default 8, and of pages once the end is known, default 4.
	Concurrency int `yaml:"concurrency" min:"0"`
}

// FetchConfig is a second request. All run within the timeout of the list.
type FetchConfig struct {
	RequestConfig      `yaml:",inline"`
	RepliesConfig      `yaml:",inline"`
	ConcurrencySection `yaml:",inline"`
	// ID is the GJSON path, within a record, of what {id} stands for; default the id of records.
	ID string `yaml:"id" form:"gjson"`
	// IDs are the paths of several values of a record, in the place of id, by the names of
	// their placeholders: {project: project_id, issue: iid} for {project} and {issue}.
	IDs map[string]string `yaml:"ids"`
	// Version is the GJSON path, within a record, of what changes with all that this request tells of it, such as updated_on. While it is
	// the same, and for ttl + stale_if_error at most, a record is not asked for again. One in whole seconds does not show a second change within its second. Not with batch.
	Version string `yaml:"version" form:"gjson"`
	// IDOptional takes a record without an id for one without responses, or one that the list tells all of.
	IDOptional bool `yaml:"id_optional"`
	// Missing is what a 403, 404 or 410 for one record means: fail (default) the list, take the record as empty of what was asked for, or skip the record. Not with batch.
	Missing string `yaml:"missing" enum:",fail,empty,skip"`
	// Batch is how many inquiries one request asks for, named by {ids}. 0: one, named by {id}.
	Batch int `yaml:"batch" min:"0"`
	// Join stands between the ids of a batch; default a comma, in a longer text none. "repeat", which is the default in a list of a body, makes each a value of its own.
	Join string `yaml:"join"`
	// Key is the GJSON path, within an answer, of the id of its inquiry; for batches.
	Key string `yaml:"key" form:"gjson"`
}

// ResponseFieldsConfig maps the fields of one answer.
type ResponseFieldsConfig struct {
	TextFields `yaml:",inline"`
	// ResponderType is the public word for who has written the answer.
	ResponderType TextField `yaml:"responder_type" short:"path"`
}

// DetailsConfig is a second request for what the list does not tell of a record,
// such as its content. What comes is a member of the record called details, so that every path
// within the record may lead into it. Items that are bare ids become records with a
// member id.
type DetailsConfig struct {
	// Items is the GJSON path, within the reply, of the detail, or of the array of
	// details with fetch.batch; default @this. With fetch.paging it is that of an array, and the detail is what all pages have of it.
	Items string `yaml:"items" form:"gjson"`
	// ID is the GJSON path, within each item of a detail in pages, of what no two of them share; none: they have none.
	ID           string `yaml:"id"`
	FetchSection `yaml:",inline"`
}

// LookupConfig is where in a table of the reply a field or an element stands, such as in the
// included objects of JSON:API or sideloaded users: the paths beside it lead into the entry. A
// field without an entry is a missing one. An element without one makes its record invalid: a
// part must not be shown as the whole.
type LookupConfig struct {
	// In is the GJSON path of the table, within the reply: an array.
	In string `yaml:"in" form:"gjson"`
	// Key are GJSON paths within an entry that together tell it from the others.
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
	// Path is the GJSON path, within the reply, record or response that the condition is about.
	Path string `yaml:"path" form:"gjson"`
	// Is holds for this value, or each of a list; null stands for nothing at the path.
	Is Accepted `yaml:"is" short:"list"`
	// Not holds for a single value other than this, or than each of a list; null: for any value.
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
	// Style is how the next reply is asked for: by its page's number, by an offset, by a cursor or a URL that the reply holds, or by its Link header. none is a list in one reply.
	Style string `yaml:"style" enum:",none,page,offset,cursor,next_url,link_header"`

	// Size is how many records are asked for at a time, by size_param or where query or
	// body hold {size}. A legacy may send fewer.
	Size int `yaml:"size" min:"0" with:"style=page,offset,cursor,next_url,link_header"`
	// SizeParam is the parameter of the query with the size, instead of {size} in query or body.
	SizeParam string `yaml:"size_param" with:"style=page,offset,cursor,next_url,link_header"`
	// Param is the parameter of the query for the page's number, the offset or the cursor, instead of {page}, {offset} or {cursor} in query or body.
	Param string `yaml:"param" with:"style=page,offset,cursor"`
	// First is the number of the first page: 0 or 1.
	First int `yaml:"first" min:"0" with:"style=page"`
	// Next is the GJSON path of the next page's cursor or URL, or several of which the first present one counts; nothing there: the end.
	Next Paths `yaml:"next" short:"list" form:"gjson" with:"style=cursor!,next_url!"`

	// Total is the GJSON path of the number of records. So many must come, and no page may tell fewer than one before. Of the keys that tell the end
	// style page and offset need one; the others may have one, too.
	Total string `yaml:"total" form:"gjson"`
	// TotalHeader is the response header with the number of records.
	TotalHeader string `yaml:"total_header"`
	// TotalPages is the GJSON path of the number of pages.
	TotalPages string `yaml:"total_pages" form:"gjson" with:"style=page"`
	// Last is a condition that only the last page meets, such as {path: has_more, is: false}. 1 and 0, Y and N, yes and no are truth values, too.
	Last Condition `yaml:"last"`
	// UntilEmpty asks for pages one by one until an empty one: nothing tells the end.
	UntilEmpty bool `yaml:"until_empty" with:"style=page,offset"`

	// IgnoreMarks are paths in a reply, or names of response headers, that say by their name that the list goes on, such as meta.next, and mean
	// something else: without paging that reads them they refuse the list.
	IgnoreMarks []string `yaml:"ignore_marks"`

	// RewriteHost asks base_url's host for the next page, whatever host its URL names. It
	// is for a legacy system that does not know the name that it is asked by.
	RewriteHost bool `yaml:"rewrite_host" with:"style=next_url,link_header"`

	ConcurrencySection `yaml:",inline" with:"style=page,offset"`
}

// FieldPath says where a public field comes from. In YAML it is a GJSON path alone
// (`title: subject`) or a mapping with any of the keys of its field.
type FieldPath struct {
	// Path is the GJSON path of the value, within the record or response; of several the first present one counts.
	Path          Paths `yaml:"path" short:"list" form:"gjson"`
	LookupSection `yaml:",inline"`
	// Join puts the values of all paths, and the elements of arrays, into one
	// text with this between them. Without it the first present path counts. A time needs all of them.
	Join OptionalString `yaml:"join"`
}

// TextField is a public field that is a text.
type TextField struct {
	FieldPath `yaml:",inline"`
	// Values maps each value of the legacy system to its public value. A value that is mapped to null counts as missing: the
	// next path or the default is used. A path in braces, such as "{author}", stands for the value there in the record. "*"
	// stands for all other values, and "*": keep serves them as they are; without "*" they make the record invalid. A filter by
	// a public value asks for all legacy values that are mapped to it.
	Values Values `yaml:"values"`
	// Default is used for a missing or null value; without a path it is the value of every record. Not set is different from
	// set to null.
	Default OptionalString `yaml:"default"`
	// TrimHTML keeps the text of what the legacy system stores as HTML.
	TrimHTML bool `yaml:"trim_html"`
	// ValuesJoin says how a filter names several legacy values of one public
	// value: joined by this text, or, if it is "repeat", each as a parameter, list element
	// or part of XML in brackets of its own. Empty: "repeat" where a body has the placeholder in a list;
	// else it does not, and the gateway filters.
	ValuesJoin string `yaml:"values_join"`
}

// TimeField is a public field that is a time.
type TimeField struct {
	FieldPath `yaml:",inline"`
	// Format is how it is written: rfc3339 (default), unix, unix_ms, odata, or a layout such as "2006-01-02 15:04:05".
	Format string `yaml:"format"`
	// Zone is that of times that name none: an IANA name; UTC when empty.
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
