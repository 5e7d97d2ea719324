package mapping

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"inquiry-gateway/internal/invalid"
)

// Field says where a public field comes from. In YAML it is a GJSON path alone
// (`title: subject`) or a mapping with any of the keys below.
type Field struct {
	Path   Paths  `yaml:"path"`
	Values Values `yaml:"values"` // legacy value -> public value; filters look up the legacy values of a public one
	// Default is used for a missing or null value. Not set is different from
	// set to null.
	Default Default `yaml:"default"`
	Format  string  `yaml:"format"` // of a time: rfc3339 (default), unix, unix_ms, odata or a Go layout
	// Ambiguous says which time is meant where clocks are put back and show it twice, or
	// are put forward and never show it: earlier, later, or fail for an invalid record.
	// Left out, that is not the same in all zones.
	Ambiguous string `yaml:"ambiguous" enum:",earlier,later,fail"`
	// NullValues are values of the legacy that mean null: the field is missing then. A
	// null under values says the same.
	NullValues []string `yaml:"null_values"`
	Zone       string   `yaml:"zone"` // of a time whose layout holds none: an IANA name; UTC when empty

	// Lookup finds the field in a table of the reply, such as the included objects of
	// JSON:API; instead of a path.
	Lookup LookupConfig `yaml:"lookup"`

	Const Default `yaml:"const"` // the field's value in every record; instead of a path
	// Join puts the values of all paths, and the elements of arrays, into one
	// text with this between them. Without it the first present path counts.
	Join          Default `yaml:"join"`
	TrimHTML      bool    `yaml:"trim_html"`                        // the legacy stores HTML: keep its text
	Empty         string  `yaml:"empty" enum:",keep,missing"`       // keep (default) or missing: an empty string counts as missing
	UnknownValues string  `yaml:"unknown_values" enum:",fail,keep"` // of a field with values: fail (default) or keep
	// ValuesJoin says how a filter names several legacy values of one public
	// value: joined by this text, or each as a parameter or list element of its own
	// if it is "repeat". Empty: "repeat" where a body has the placeholder in a list;
	// else it does not, and the gateway filters.
	ValuesJoin string `yaml:"values_join"`
}

// set tells whether the field is mapped at all.
func (f Field) set() bool {
	return len(f.Path) > 0 || f.Const.Set || f.Default.Set || invalid.Says(f.Lookup)
}

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
	if v, ok := keys["default"]; ok && v == nil {
		f.Default = Default{Set: true, Null: true}
	}
	f.takeNulls(keys["values"])
	if v, ok := keys["const"]; ok && v == nil {
		f.Const = Default{Set: true, Null: true}
	}
	return nil
}

// Values are public values by those of the legacy. In YAML null is one, too, and goes
// to NullValues.
type Values map[string]Public

// Public is a public value. It decodes itself so that null may stand in its place.
type Public string

// UnmarshalYAML accepts any scalar.
func (p *Public) UnmarshalYAML(unmarshal func(any) error) error {
	var raw any
	if err := unmarshal(&raw); err != nil || raw == nil {
		return err
	}
	s, err := scalar(raw)
	*p = Public(s)
	return err
}

// texts are the values as texts; nil if there are none.
func (v Values) texts() map[string]string {
	if v == nil {
		return nil
	}
	texts := make(map[string]string, len(v))
	for legacy, public := range v {
		texts[legacy] = string(public)
	}
	return texts
}

func (f *Field) takeNulls(values any) {
	raw, _ := values.(map[string]any)
	for _, legacy := range slices.Sorted(maps.Keys(raw)) {
		if raw[legacy] == nil {
			delete(f.Values, legacy)
			f.NullValues = append(f.NullValues, legacy)
		}
	}
	if len(f.Values) == 0 && len(raw) > 0 {
		f.Values = nil
	}
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

// scalar writes a YAML scalar as the text that it stands for, because paths,
// defaults and values are often numbers.
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
