// Package print writes objects as JSON, each on a line of its own, so that the difference of two versions can be read.
package print

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// List writes a field with a list of objects.
func List[T any](out io.Writer, name string, objects []T) {
	fmt.Fprintf(out, "%s:[", Line(name))
	for i, one := range objects {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%s", Line(one))
	}
	fmt.Fprint(out, "\n]")
}

// Line is the JSON of a value, in which < and > are themselves.
func Line(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(text.Bytes())
}
