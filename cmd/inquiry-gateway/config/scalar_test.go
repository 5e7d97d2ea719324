package config

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestParseBytes(t *testing.T) {
	tests := []struct {
		text string
		want int64
		err  error
	}{
		{"0", 0, nil}, {"1", 1, nil}, {"1B", 1, nil}, {" 4KiB ", 4096, nil}, {"16 MiB", 16 << 20, nil},
		{"1GiB", 1 << 30, nil}, {"1kB", 1000, nil}, {"2MB", 2e6, nil}, {"3GB", 3e9, nil},
		{"9223372036854775807", math.MaxInt64, nil}, {"9223372036854775808", 0, errSizeRange},
		{"8589934592GiB", 0, errSizeRange}, {"8589934591GiB", 8589934591 << 30, nil},
		{"99999999999999999999", 0, errSizeRange}, {"18446744073709551615GiB", 0, errSizeRange},
		{"-1", 0, errNegative}, {"-1KiB", 0, errNegative},
		{"", 0, errNoSize}, {"KiB", 0, errNoSize}, {"1.5MiB", 0, errNoSize}, {"16M", 0, errNoSize},
		{"16mib", 0, errNoSize}, {"1 KiB B", 0, errNoSize}, {"+1", 0, errNoSize}, {"1_000", 0, errNoSize}, {"0x10", 0, errNoSize},
	}
	for _, tt := range tests {
		got, err := parseBytes(tt.text)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("parseBytes(%q) = %d, %v; want %d, %v", tt.text, got, err, tt.want, tt.err)
		}
	}
}

func TestBytesAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(0, math.MaxInt64).Draw(t, "size")
		size &^= 1<<rapid.IntRange(0, 40).Draw(t, "zero bits") - 1
		if got, err := parseBytes(formatBytes(size)); err != nil || got != size {
			t.Fatalf("%d was written as %s and read as %d, %v", size, formatBytes(size), got, err)
		}
	})
}

func TestBytesAgreeWithExactArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.Uint64().Draw(t, "count")
		u := rapid.SampledFrom(units).Draw(t, "unit")
		exact := new(big.Int).Mul(new(big.Int).SetUint64(count), new(big.Int).SetUint64(u.size))
		got, err := parseBytes(fmt.Sprint(count, u.name))
		if !exact.IsInt64() {
			if !errors.Is(err, errSizeRange) {
				t.Fatalf("%d%s: got %d, %v; want the range error", count, u.name, got, err)
			}
		} else if err != nil || got != exact.Int64() {
			t.Fatalf("%d%s: got %d, %v; want %s", count, u.name, got, err, exact)
		}
	})
}

func FuzzParseBytes(f *testing.F) {
	f.Add("16MiB")
	f.Add("-1 B")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := parseBytes(text); got < 0 || (err != nil && got != 0) {
			t.Errorf("parseBytes(%q) = %d, %v", text, got, err)
		}
	})
}
