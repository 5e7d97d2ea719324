package legacy

import _ "embed"

//go:embed mapping.yaml
var mapping string

// Mapping returns the gateway's `upstream:` section that maps this system, as
// YAML with comments. Its base_url is "http://127.0.0.1:9300"; a caller that
// runs the system elsewhere replaces [MappingBaseURL] in it.
func Mapping() []byte { return []byte(mapping) }

// MappingBaseURL is the base_url in [Mapping].
const MappingBaseURL = "http://127.0.0.1:9300"
