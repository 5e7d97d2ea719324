package yamlfile

import (
	"strings"
	"time"

	"inquiry-gateway/internal/setting"
)

// fakeEnv is the environment of all tests of this package.
func fakeEnv(name string) (string, bool) {
	v, ok := map[string]string{
		"PORT": "9000", "YES": "true", "NOTHING": "", "SECRET": "hunter2",
		"EVIL": "x\nlisten: 0.0.0.0:1\n&a: [", "TTL": "45s", "DOLLAR": "${PORT}", "NINE": "9", "ONE": "1",
	}[name]
	return v, ok
}

// sample is a configuration of the tests' own, with every type a key may have.
type sample struct {
	Name    string            `yaml:"name"`
	On      bool              `yaml:"on"`
	Count   int               `yaml:"count"`
	Ratio   float64           `yaml:"ratio"`
	Size    int64             `yaml:"size"`
	TTL     time.Duration     `yaml:"ttl"`
	Until   time.Time         `yaml:"until"`
	List    []string          `yaml:"list"`
	Map     map[string]string `yaml:"map"`
	Any     any               `yaml:"any"`
	Pointer *time.Duration    `yaml:"pointer"`
	Either  eitherForm        `yaml:"either" short:"path"`
	Inner   inner             `yaml:"inner"`
	KeyFile setting.File      `yaml:"key_file"`
	Many    []inner           `yaml:"many"`
	Door    door              `yaml:"door"`
	shared
}

type shared struct {
	Shared string `yaml:"shared"`
}

type inner struct {
	Fields  string       `yaml:"fields"`
	Filter  uint16       `yaml:"filter"`
	CAFile  setting.File `yaml:"ca_file"`
	private string
}

// eitherForm is a name alone or a mapping, as fields of a mapping are.
type eitherForm struct {
	Path string `yaml:"path"`
	Max  int    `yaml:"max"`
}

// door is a section with each rule.
type door struct {
	Type  string         `yaml:"type" enum:",none,key,code"`
	Lock  lock           `yaml:",inline" with:"type=key!"`
	Digit []int          `yaml:"digit" min:"0" max:"9" with:"type=key,code!"`
	Wait  *time.Duration `yaml:"wait" above:"0s" max:"1m"`
	Rate  float64        `yaml:"rate" min:"0.5" max:"2" zero:"no limit"`
	Zone  string         `yaml:"zone" form:"zone"`
	Name  []string       `yaml:"name" short:"list" required:"what the door is called"`
}

type lock struct {
	File string `yaml:"file"`
}

// decodeSection decodes the text of a file gateway.yaml into the tests' own section.
func decodeSection(text string) (sample, error) {
	s := sample{Name: "default", List: []string{"a", "b"}, Inner: inner{Filter: 7, private: "kept"}}
	doc := Parse("gateway.yaml", []byte(text), fakeEnv)
	doc.Decode(&s)
	return s, doc.Err()
}

// lines gives an error line by line.
func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}
