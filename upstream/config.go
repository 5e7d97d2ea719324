package upstream

import "time"

// Config is the upstream section of the configuration file: where the legacy
// system is, how hard it may be asked, and how its JSON becomes inquiries.
type Config struct {
	BaseURL          string            `yaml:"base_url"`           // http or https, no query
	Timeout          time.Duration     `yaml:"timeout"`            // of one whole fetch, retries and pages included
	MaxResponseBytes int64             `yaml:"max_response_bytes"` // of one reply, after decompression
	MaxRecords       int               `yaml:"max_records"`        // of one list
	MaxConcurrent    int               `yaml:"max_concurrent"`     // fetches at a time; one more is refused, never queued
	Headers          map[string]string `yaml:"headers"`            // sent with every request; no secrets, those go into auth
	Auth             AuthConfig        `yaml:"auth"`
	TLS              TLSConfig         `yaml:"tls"`
	Retry            RetryConfig       `yaml:"retry"`
	Breaker          BreakerConfig     `yaml:"breaker"`
	Buyer            EndpointConfig    `yaml:"buyer"`
	Seller           EndpointConfig    `yaml:"seller"`

	// MaxConcurrentPerAccount is how many of max_concurrent one account may take,
	// so that none can keep the others from the legacy. 0: a quarter, at least 1.
	MaxConcurrentPerAccount int `yaml:"max_concurrent_per_account"`
}

// perAccount is the bound in force for one account.
func (c Config) perAccount() int {
	if c.MaxConcurrentPerAccount > 0 {
		return c.MaxConcurrentPerAccount
	}
	return max(1, c.MaxConcurrent/4)
}

// RetryConfig bounds the repeats of a request that was refused or answered
// with 502 or 503. Nothing else is ever repeated.
type RetryConfig struct {
	Attempts int     `yaml:"attempts"` // in all, the first included; 1 means no repeat
	Budget   float64 `yaml:"budget"`   // repeats per request, 0 to 1; 3 more may come at once, none with 0
}

// BreakerConfig is when to stop asking a legacy system that does not answer.
type BreakerConfig struct {
	Window       time.Duration `yaml:"window"`        // over which the ratio is taken
	MinRequests  int           `yaml:"min_requests"`  // below it the ratio says nothing
	FailureRatio float64       `yaml:"failure_ratio"` // above 0, at most 1
	OpenFor      time.Duration `yaml:"open_for"`      // then one request is let through as a probe
}

// EndpointConfig is how one of the two lists is asked for and read.
type EndpointConfig struct {
	Path            string            `yaml:"path"`           // may hold {account}
	Query           map[string]string `yaml:"query"`          // values may hold {account}, {status}, {inquiry_type}
	Filtering       string            `yaml:"filtering"`      // upstream (default) or gateway
	Items           string            `yaml:"items"`          // GJSON path of the array of records
	ItemsOptional   bool              `yaml:"items_optional"` // a reply with nothing at items is an empty list
	InternalIDs     []string          `yaml:"internal_ids"`
	Owner           Paths             `yaml:"owner"` // GJSON path, within a record, of the account it belongs to; of several the first present one
	Paging          PagingConfig      `yaml:"paging"`
	OnInvalidRecord string            `yaml:"on_invalid_record"` // fail (default) or skip
	OnForeignRecord string            `yaml:"on_foreign_record"` // fail (default) or drop
	Fields          FieldsConfig      `yaml:"fields"`
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
	Items         string               `yaml:"items"`          // GJSON path of the array, within a record, or within the reply to fetch
	ItemsOptional bool                 `yaml:"items_optional"` // likewise, for the reply to fetch
	Fetch         FetchConfig          `yaml:"fetch"`          // without a path: the answers are within the record
	InternalIDs   []string             `yaml:"internal_ids"`   // GJSON paths within an answer
	Fields        ResponseFieldsConfig `yaml:"fields"`
}

// FetchConfig is a second request for the answers: one for each inquiry, or one
// for a batch of them. All run within the timeout of the list.
type FetchConfig struct {
	Path        string            `yaml:"path"`        // may hold {id} and {account}
	Query       map[string]string `yaml:"query"`       // values may hold {id} or {ids}, and {account}
	ID          string            `yaml:"id"`          // GJSON path, within a record, of what {id} stands for
	Concurrency int               `yaml:"concurrency"` // requests at a time; default 8
	Paging      PagingConfig      `yaml:"paging"`

	Batch int    `yaml:"batch"` // inquiries per request, named by {ids}; 0: one, named by {id}
	Join  string `yaml:"join"`  // between the ids; default a comma; "repeat": the parameter is repeated
	Key   string `yaml:"key"`   // GJSON path, within an answer, of the id of its inquiry; for batches
}

// ResponseFieldsConfig maps the fields of one answer.
type ResponseFieldsConfig struct {
	Content       Field `yaml:"content"`
	ResponderType Field `yaml:"responder_type"`
	CreatedAt     Field `yaml:"created_at"`
}

// DefaultConfig is everything that has a usable default. The base URL and the
// two endpoints have none.
func DefaultConfig() Config {
	endpoint := EndpointConfig{
		Filtering:       filterUpstream,
		Paging:          PagingConfig{Style: "none"},
		OnInvalidRecord: "fail",
		OnForeignRecord: "fail",
	}
	return Config{
		Timeout:          2 * time.Second,
		MaxResponseBytes: 16 << 20,
		MaxRecords:       10_000,
		MaxConcurrent:    64,
		Auth:             AuthConfig{Type: "none"},
		Retry:            RetryConfig{Attempts: 2, Budget: 0.1},
		Breaker: BreakerConfig{
			Window: 10 * time.Second, MinRequests: 20, FailureRatio: 0.5, OpenFor: 5 * time.Second,
		},
		Buyer:  endpoint,
		Seller: endpoint,
	}
}
