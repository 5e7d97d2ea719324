package setting

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNearestKey(t *testing.T) {
	known := []string{"listen", "ops", "tls", "request_timeout", "shutdown_grace", "trusted_proxies"}
	for key, want := range map[string]string{
		"lisen": "listen", "listne": "listen", "LISTEN": "listen", "op": "ops", "osp": "ops", "ssl": "tls",
		"requesttimeout": "request_timeout", "request-timeout": "request_timeout", "RequestTimeout": "request_timeout",
		"zzz": "", "": "", "a": "", "proxies": "", strings.Repeat("x", 10_000): "",
	} {
		if got := Nearest(key, known); got != want {
			t.Errorf("Nearest(%.20q) = %q, want %q", key, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]struct {
		size int64
		err  error
	}{
		" 4KiB ": {4096, nil}, "16 MiB": {16 << 20, nil}, "1GiB": {1 << 30, nil}, "1kB": {1000, nil}, "2MB": {2e6, nil}, "3GB": {3e9, nil},
		"-1KiB": {0, errNegative}, "": {0, errNoSize}, "KiB": {0, errNoSize}, "1.5MiB": {0, errNoSize}, "16M": {0, errNoSize},
		"16mib": {0, errNoSize}, "1 KiB B": {0, errNoSize}, "+1": {0, errNoSize}, "1_000": {0, errNoSize}, "0x10": {0, errNoSize}, "010": {0, errNoSize}, "0": {0, nil},
	} {
		if got, err := ParseBytes(text); got != want.size || !errors.Is(err, want.err) {
			t.Errorf("%q is read as %d, %v; want %d, %v", text, got, err, want.size, want.err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		count, u := rapid.Uint64().Draw(t, "count"), rapid.SampledFrom(units).Draw(t, "unit")
		exact := new(big.Int).Mul(new(big.Int).SetUint64(count), new(big.Int).SetUint64(u.size))
		got, err := ParseBytes(fmt.Sprint(count, u.name))
		if exact.IsInt64() != (err == nil) || err == nil && got != exact.Int64() || err != nil && !errors.Is(err, errSizeRange) {
			t.Fatalf("%d%s is read as %d, %v; want %s", count, u.name, got, err, exact)
		}
		size := int64(count>>1) &^ (1<<rapid.IntRange(0, 40).Draw(t, "zero bits") - 1)
		written := Format(reflect.ValueOf(size))
		if got, err := ParseBytes(fmt.Sprint(written)); err != nil || got != size || Format(reflect.ValueOf(int64(math.MaxInt64))) != any(int64(math.MaxInt64)) {
			t.Fatalf("%d is written as %s and read as %d, %v", size, written, got, err)
		}
	})
}
