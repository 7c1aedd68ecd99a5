package main

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	apiservercel "k8s.io/apiserver/pkg/cel"
)

// notation writes a value down; ../../expectations/cel/README.md describes it.
func notation(value ref.Val) string {
	switch v := value.(type) {
	case types.Bool:
		return strconv.FormatBool(bool(v))
	case types.Int:
		return strconv.FormatInt(int64(v), 10)
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10) + "u"
	case types.Double:
		return double(float64(v))
	case types.String:
		return quote(string(v))
	case types.Bytes:
		return `b"` + hex.EncodeToString(v) + `"`
	case types.Null:
		return "null"
	case types.Timestamp:
		return "timestamp(" + quote(v.Time.UTC().Format(time.RFC3339Nano)) + ")"
	case types.Duration:
		return "duration(" + strconv.FormatInt(int64(v.Duration), 10) + ")"
	case *types.Type:
		return "type(" + v.String() + ")"
	case *types.Optional:
		if !v.HasValue() {
			return "optional.none"
		}
		return "optional(" + notation(v.GetValue()) + ")"
	case apiservercel.URL:
		return "url(" + quote(v.URL.String()) + ")"
	case apiservercel.IP:
		return "ip(" + quote(v.Addr.String()) + ")"
	case apiservercel.CIDR:
		return "cidr(" + quote(v.Prefix.String()) + ")"
	case apiservercel.Quantity:
		return "quantity(" + quote(v.Quantity.String()) + ")"
	case *apiservercel.Quantity:
		return notation(*v)
	case apiservercel.Semver:
		return "semver(" + quote(v.Version.String()) + ")"
	case apiservercel.Format:
		return "format(" + quote(v.Name) + ")"
	case *apiservercel.Format:
		return notation(*v)
	case *types.Err:
		return "error(" + quote(v.String()) + ")"
	case traits.Mapper:
		var members []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			if key == nil {
				continue // of an object, a member that rules do not see
			}
			if member, found := v.Find(key); found {
				members = append(members, notation(key)+": "+notation(member))
			}
		}
		slices.Sort(members)
		return "{" + strings.Join(members, ", ") + "}"
	case traits.Lister:
		var items []string
		for it := v.Iterator(); it.HasNext() == types.True; {
			items = append(items, notation(it.Next()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	if value != nil && value.Type() == types.UnknownType {
		return "unknown"
	}
	panic(noNotation(fmt.Sprintf("no notation for %T %v", value, value)))
}

// noNotation is our own bug, unlike what else may panic.
type noNotation string

// double writes the shortest digits that read back the same: `1.5e0`.
func double(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	power, err := strconv.Atoi(exponent)
	if err != nil {
		panic(err)
	}
	return digits + "e" + strconv.Itoa(power)
}

// quote writes a string as JSON does, escaping only what has to be.
func quote(v string) string {
	var text strings.Builder
	text.WriteByte('"')
	for _, c := range v {
		switch c {
		case '"', '\\':
			text.WriteByte('\\')
			text.WriteRune(c)
		case '\b':
			text.WriteString(`\b`)
		case '\f':
			text.WriteString(`\f`)
		case '\n':
			text.WriteString(`\n`)
		case '\r':
			text.WriteString(`\r`)
		case '\t':
			text.WriteString(`\t`)
		default:
			if c < 0x20 {
				fmt.Fprintf(&text, `\u%04x`, c)
			} else {
				text.WriteRune(c)
			}
		}
	}
	text.WriteByte('"')
	return text.String()
}
