package mapping

import "inquiry-gateway/upstream/address"

// The values of filtering.
const (
	FilterUpstream = "upstream"
	FilterGateway  = "gateway"
)

// repeatValues is the join of several values that repeats the parameter.
const repeatValues = "repeat"

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
	ItemsOptional bool        `yaml:"items_optional"`                     // a reply with nothing at items is an empty list
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
	Path            string            `yaml:"path"`  // may hold {id} and {account}
	Query           map[string]string `yaml:"query"` // values may hold {id} or {ids}, and {account}
	address.Sending `yaml:",inline"`
	ID              string       `yaml:"id"`          // GJSON path, within a record, of what {id} stands for
	Concurrency     int          `yaml:"concurrency"` // requests at a time; default 8
	Paging          PagingConfig `yaml:"paging"`
	Reply           ReplyConfig  `yaml:"reply"`  // left out: as for the list
	Expect          []Condition  `yaml:"expect"` // conditions that each of these replies must meet; those of the list are not meant

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
