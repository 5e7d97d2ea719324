package mapping

import (
	"encoding/json"
	"fmt"
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

// Values are public values by those of the legacy. One that is not set is null.
type Values map[string]Default

// MarshalJSON writes texts and null. Lists in Redis are found by a hash of it: what is
// written for a value must stay, or a new version finds none of them.
func (v Values) MarshalJSON() ([]byte, error) {
	var public map[string]*string
	if v != nil {
		public = make(map[string]*string, len(v))
	}
	for legacy, value := range v {
		if public[legacy] = nil; value.Set && !value.Null {
			public[legacy] = &value.Value
		}
	}
	return json.Marshal(public)
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
