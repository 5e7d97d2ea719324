package yamlfile

import (
	"errors"
	"math"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/internal/setting"
)

var (
	errNoSize    = errors.New("wants a size such as 16MiB, 4KiB or a number of bytes (units B, KiB, MiB, GiB, kB, MB, GB)")
	errNegative  = errors.New("wants a size of 0 or more")
	errSizeRange = errors.New("wants a size below 8 EiB")
)

// units from the largest; each name is taken as written, for b is a bit and
// m a thousandth.
var units = []struct {
	name string
	size uint64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// parseBytes reads a size: a whole number, then optionally a unit.
func parseBytes(text string) (int64, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "-") {
		return 0, errNegative
	}
	number, unit := text, uint64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			number, unit = strings.TrimRight(n, " "), u.size
			break
		}
	}
	count, err := strconv.ParseUint(number, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, errSizeRange
	}
	if err != nil {
		return 0, errNoSize
	}
	high, size := bits.Mul64(count, unit)
	if high > 0 || size > math.MaxInt64 {
		return 0, errSizeRange
	}
	return int64(size), nil
}

// formatBytes writes a size with the largest binary unit that leaves no rest.
func formatBytes(size int64) any {
	for _, u := range units[:3] {
		if rest := uint64(size) % u.size; size > 0 && rest == 0 {
			return strconv.FormatUint(uint64(size)/u.size, 10) + u.name
		}
	}
	return size
}

// Format gives a single value as the file would hold it. Others are given as they are.
func Format(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case int64:
		return formatBytes(x)
	case time.Duration: // 10m where Go writes 10m0s
		text := strings.Replace(x.String(), "m0s", "m", 1)
		return strings.Replace(text, "h0m", "h", 1)
	case setting.File:
		return x.Path()
	}
	return v.Interface()
}
