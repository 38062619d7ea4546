// Package budget parses and prints sizes, and measures the memory of the process against its budget.
package budget

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"diskgnn/internal/fault"
)

// Unit is the unit of a Size.
type Unit int

// Units in which a size can be written.
const (
	UnitBytes   Unit = iota // 512MiB, 2GB, 4096B
	UnitPercent             // 10%, of a reference that the context gives
	UnitTimes               // 3x, a multiple of a reference that the context gives
	UnitUnlimited
)

// Size is a parsed size in one of the units. Bytes and Rows resolve it.
type Size struct {
	Value float64
	Unit  Unit
}

var suffixes = []struct {
	text  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40},
	{"B", 1},
}

// ParseSize parses a size such as "512MiB", "2GB", "7B", "10%", "3x", "unlimited" or "0". Any other number
// without a unit is an error of kind fault.ErrUsage, which suggests the accepted units, or all units if
// none is given.
func ParseSize(s string, accepted ...Unit) (Size, error) {
	bad := fault.New(fault.ErrUsage, "%q is no size: write bytes (512MiB, 2GB), a share (10%%), a multiple (3x) or unlimited", s)
	text := strings.TrimSpace(s)
	if strings.EqualFold(text, "unlimited") {
		return Size{Unit: UnitUnlimited}, nil
	}
	unit, scale, bare := UnitBytes, 1.0, false
	switch {
	case strings.HasSuffix(text, "%"):
		unit, text = UnitPercent, strings.TrimSuffix(text, "%")
	case strings.HasSuffix(text, "x"):
		unit, text = UnitTimes, strings.TrimSuffix(text, "x")
	default:
		bare = true
		for _, u := range suffixes {
			if len(text) > len(u.text) && strings.EqualFold(text[len(text)-len(u.text):], u.text) {
				text, scale, bare = text[:len(text)-len(u.text)], u.bytes, false
				break
			}
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) || v*scale > 1<<62 {
		return Size{}, bad
	}
	if bare && v != 0 {
		return Size{}, fault.New(fault.ErrUsage, "%q has no unit: did you mean %s?", s, withUnits(text, v, accepted))
	}
	if unit == UnitPercent && v > 100 {
		return Size{}, fault.New(fault.ErrUsage, "%q is more than 100%%", s)
	}
	return Size{v * scale, unit}, nil
}

// withUnits lists the possible meanings of a number, in the accepted units.
func withUnits(text string, v float64, accepted []Unit) string {
	var list []string
	for _, u := range []struct {
		unit   Unit
		suffix string
		likely bool
	}{
		{UnitPercent, "%", v <= 100},
		{UnitTimes, "x", v <= 100},
		{UnitBytes, "GiB", v < 100},
		{UnitBytes, "MiB", v >= 100 && v < 1<<20},
		{UnitBytes, "B", v >= 1<<10},
	} {
		if u.likely && (len(accepted) == 0 || slices.Contains(accepted, u.unit)) {
			list = append(list, text+u.suffix)
		}
	}
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// Bytes returns the bytes of a size in bytes. Other units are an error.
func (s Size) Bytes() (int64, error) {
	if s.Unit != UnitBytes {
		return 0, fault.New(fault.ErrUsage, "%s: give this size in bytes, like 512MiB", s)
	}
	return int64(s.Value), nil
}

// Rows returns the size as a number of rows of rowBytes bytes each. A percentage is a share of total
// rows; bytes are rounded down to whole rows; unlimited is all rows. Multiples are an error.
func (s Size) Rows(total int64, rowBytes int) (int64, error) {
	switch s.Unit {
	case UnitPercent:
		return int64(s.Value / 100 * float64(total)), nil
	case UnitBytes:
		return min(total, int64(s.Value)/int64(rowBytes)), nil
	case UnitUnlimited:
		return total, nil
	}
	return 0, fault.New(fault.ErrUsage, "%s: give a share of the rows (10%%) or bytes (2GiB)", s)
}

// String returns the size in a form that ParseSize reads.
func (s Size) String() string {
	v := strconv.FormatFloat(s.Value, 'f', -1, 64)
	switch s.Unit {
	case UnitPercent:
		return v + "%"
	case UnitTimes:
		return v + "x"
	case UnitUnlimited:
		return "unlimited"
	}
	return FormatBytes(int64(s.Value))
}

// FormatBytes returns a number of bytes for people, in binary units: 1.50 GiB.
func FormatBytes(n int64) string {
	switch {
	case n >= 1<<40:
		return fmt.Sprintf("%.2f TiB", float64(n)/(1<<40))
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}

// FormatNeed is FormatBytes rounded up: the number printed is never less than n.
func FormatNeed(n int64) string {
	text := FormatBytes(n)
	written, err := ParseSize(text)
	if err != nil || int64(written.Value) >= n {
		return text
	}
	half := int64(1<<10) / 20
	for _, unit := range []int64{1 << 20, 1 << 30, 1 << 40} {
		if n >= unit {
			half = unit / 20
			if unit > 1<<20 {
				half = unit / 200
			}
		}
	}
	return FormatBytes(n + half)
}
