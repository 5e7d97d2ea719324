package setting

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var (
	errNoSize    = errors.New("wants a size such as 16MiB, 4KiB or a number of bytes (units B, KiB, MiB, GiB, kB, MB, GB)")
	errNegative  = errors.New("wants a size of 0 or more")
	errSizeRange = errors.New("wants a size below 8 EiB")
)

// units from the largest; each name is taken as written, for b is a bit and m a thousandth.
var units = []struct {
	name string
	size uint64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// ParseBytes reads a size: a whole number, then optionally a unit.
func ParseBytes(text string) (int64, error) {
	number, unit := strings.TrimSpace(text), uint64(1)
	for _, u := range units {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimRight(n, " "), u.size
			break
		}
	}
	count, err := strconv.ParseUint(number, 10, 64)
	switch {
	case strings.HasPrefix(number, "-"):
		return 0, errNegative
	case errors.Is(err, strconv.ErrRange) || err == nil && count > math.MaxInt64/unit:
		return 0, errSizeRange
	case err != nil || len(number) > 1 && number[0] == '0':
		return 0, errNoSize
	}
	return int64(count * unit), nil
}

// Format gives a single value as the file would hold it: a size with the largest binary unit that
// leaves no rest. Others are given as they are.
func Format(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case int64:
		for _, u := range units[:3] {
			if x > 0 && uint64(x)%u.size == 0 {
				return strconv.FormatUint(uint64(x)/u.size, 10) + u.name
			}
		}
	case time.Duration: // 10m where Go writes 10m0s
		text := strings.Replace(x.String(), "m0s", "m", 1)
		return strings.Replace(text, "h0m", "h", 1)
	case File:
		return x.Path()
	}
	return v.Interface()
}
