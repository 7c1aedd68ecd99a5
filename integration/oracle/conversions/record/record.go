// Package record writes down what conversions between two versions of a kind,
// written in Go, make of random objects. It depends on nothing, so that modules
// whose dependencies are of different years can use it.
package record

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Objects is the number of objects that are made of each version.
const Objects = 16

// Version is a version of a kind.
type Version struct {
	Name string
	// New makes an empty object.
	New func() any
}

// Pair is a kind with two versions.
type Pair struct {
	// Source is the module and the function that convert.
	Source              string
	Group, Kind, Plural string
	// Hub is what Other is converted to and from.
	Hub, Other Version
	// Convert fills an object of one version with one of the other.
	ToHub, ToOther func(from, to any) error
	// Texts are those of a field, by its path without indices, which may be only
	// these; others are any words. Bounds are part of the schema of a field.
	Texts  map[string][]string
	Bounds map[string]map[string]any
	// Required are the fields that every object has.
	Required []string
}

type conversion struct {
	From      string          `json:"from"`
	To        string          `json:"to"`
	Object    json.RawMessage `json:"object"`
	Converted json.RawMessage `json:"converted"`
}

// Write records a pair in a folder.
func Write(folder string, pair Pair) error {
	var conversions []conversion
	ways := []struct {
		from, to Version
		convert  func(from, to any) error
	}{{pair.Other, pair.Hub, pair.ToHub}, {pair.Hub, pair.Other, pair.ToOther}}
	for _, way := range ways {
		for seed := range Objects {
			from, to := way.from.New(), way.to.New()
			fill := filler{rand.New(rand.NewSource(int64(seed))), pair}
			fill.struct_(reflect.ValueOf(from).Elem(), "")
			object, err := whole(from, pair, way.from.Name, fmt.Sprintf("made-%d", seed))
			if err != nil {
				return err
			}
			if err := way.convert(from, to); err != nil {
				return fmt.Errorf("%s %s to %s: %w: %s", pair.Kind, way.from.Name, way.to.Name, err, object)
			}
			converted, err := whole(to, pair, way.to.Name, fmt.Sprintf("made-%d", seed))
			if err != nil {
				return err
			}
			conversions = append(conversions, conversion{way.from.Name, way.to.Name, object, converted})
		}
	}
	head := map[string]any{
		"source": pair.Source, "group": pair.Group, "kind": pair.Kind, "plural": pair.Plural, "hub": pair.Hub.Name,
		"schemas": map[string]any{
			pair.Hub.Name:   pair.schema(reflect.TypeOf(pair.Hub.New()).Elem(), ""),
			pair.Other.Name: pair.schema(reflect.TypeOf(pair.Other.New()).Elem(), ""),
		},
	}
	text, err := json.MarshalIndent(head, "", " ")
	if err != nil {
		return err
	}
	// A line for each conversion.
	text = append(text[:len(text)-2], ",\n \"conversions\": ["...)
	for i, conversion := range conversions {
		line, err := json.Marshal(conversion)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, "\n  "...), line...)
	}
	text = append(text, "\n ]\n}"...)
	name := strings.ToLower(pair.Kind) + "." + pair.Group + ".expected.json"
	return os.WriteFile(filepath.Join(folder, name), append(text, '\n'), 0o644)
}

// whole is the JSON of an object, with its version and a name of its own.
func whole(object any, pair Pair, version, name string) (json.RawMessage, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	tree["apiVersion"] = pair.Group + "/" + version
	tree["kind"] = pair.Kind
	tree["metadata"] = map[string]any{"name": name}
	return json.Marshal(tree)
}

func (pair Pair) requires(path string) bool { return slices.Contains(pair.Required, path) }

// ofType is whether each object has a field by itself.
func ofType(path string) bool {
	return path == "apiVersion" || path == "kind" || path == "metadata"
}

// The types that are no structs to whoever reads their JSON.
func special(of reflect.Type) string {
	switch path := of.PkgPath() + "." + of.Name(); path {
	case "k8s.io/apimachinery/pkg/apis/meta/v1.Time",
		"k8s.io/apimachinery/pkg/apis/meta/v1.Duration",
		"k8s.io/apimachinery/pkg/util/intstr.IntOrString",
		"k8s.io/apimachinery/pkg/api/resource.Quantity":
		return of.Name()
	}
	return ""
}

type field struct {
	reflect.StructField
	name   string
	inline bool
}

func fields(of reflect.Type) []field {
	var all []field
	for i := range of.NumField() {
		structField := of.Field(i)
		if !structField.IsExported() {
			continue
		}
		tag, _, _ := strings.Cut(structField.Tag.Get("json"), ",")
		if tag == "-" {
			continue
		}
		inline := structField.Anonymous && tag == ""
		if tag == "" {
			tag = structField.Name
		}
		all = append(all, field{structField, tag, inline})
	}
	return all
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (pair Pair) schema(of reflect.Type, path string) map[string]any {
	schema := pair.unbounded(of, path)
	for name, bound := range pair.Bounds[path] {
		schema[name] = bound
	}
	return schema
}

func (pair Pair) unbounded(of reflect.Type, path string) map[string]any {
	switch special(of) {
	case "Time":
		return map[string]any{"type": "string", "format": "date-time"}
	case "Duration":
		return map[string]any{"type": "string"}
	case "IntOrString", "Quantity":
		return map[string]any{"x-kubernetes-int-or-string": true}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return pair.schema(of.Elem(), path)
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		for _, field := range fields(of) {
			if field.inline {
				inner, _ := pair.schema(field.Type, path)["properties"].(map[string]any)
				for name, schema := range inner {
					properties[name] = schema
				}
			} else if at := join(path, field.name); !ofType(at) {
				properties[field.name] = pair.schema(field.Type, at)
				if pair.requires(at) {
					required = append(required, field.name)
				}
			}
		}
		schema := map[string]any{"type": "object"}
		if len(properties) > 0 {
			schema["properties"] = properties
		}
		if len(required) > 0 {
			schema["required"] = required
		}
		return schema
	case reflect.Slice:
		return map[string]any{"type": "array", "items": pair.schema(of.Elem(), path)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": pair.schema(of.Elem(), path)}
	case reflect.String:
		if texts, bounded := pair.Texts[path]; bounded {
			return map[string]any{"type": "string", "enum": texts}
		}
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}
	}
	panic(fmt.Sprintf("%s has type %s, which is not known here", path, of))
}

// filler fills objects by chance.
type filler struct {
	chance *rand.Rand
	pair   Pair
}

var words = []string{"a", "web", "example.com", "10.0.0.1", "Ready", "x/y", "zürich", "1"}

func (fill filler) value(value reflect.Value, path string) {
	of := value.Type()
	parse := func(text string) {
		if err := json.Unmarshal([]byte(text), value.Addr().Interface()); err != nil {
			panic(fmt.Sprintf("%s of %s: %v", text, path, err))
		}
	}
	pick := func(texts ...string) string { return texts[fill.chance.Intn(len(texts))] }
	switch special(of) {
	case "Time":
		parse(pick(`"2026-01-02T03:04:05Z"`, `"1999-12-31T23:59:59Z"`))
		return
	case "Duration":
		parse(pick(`"1s"`, `"59s"`, `"1m0s"`, `"1m30s"`, `"1h0m0s"`, `"2h3m4s"`, `"240h0m0s"`))
		return
	case "IntOrString":
		parse(pick(`3`, `"40%"`))
		return
	case "Quantity":
		parse(pick(`"100m"`, `"2"`, `"1Gi"`))
		return
	}
	switch of.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(of.Elem()))
		fill.value(value.Elem(), path)
	case reflect.Struct:
		fill.struct_(value, path)
	case reflect.Slice:
		count := 1 + fill.chance.Intn(3)
		value.Set(reflect.MakeSlice(of, count, count))
		for i := range count {
			fill.value(value.Index(i), path)
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(of))
		for range 1 + fill.chance.Intn(2) {
			item := reflect.New(of.Elem()).Elem()
			fill.value(item, path)
			value.SetMapIndex(reflect.ValueOf(pick(words...)).Convert(of.Key()), item)
		}
	case reflect.String:
		texts, bounded := fill.pair.Texts[path]
		if !bounded {
			texts = words
		}
		value.SetString(pick(texts...))
	case reflect.Bool:
		value.SetBool(fill.chance.Intn(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(1 + fill.chance.Int63n(100_000))
	default:
		panic(fmt.Sprintf("%s has type %s, which is not known here", path, of))
	}
}

// struct_ fills about two thirds of the fields.
func (fill filler) struct_(value reflect.Value, path string) {
	for _, field := range fields(value.Type()) {
		at := join(path, field.name)
		if field.inline {
			at = path
		}
		always := path == "" || field.inline || fill.pair.requires(at)
		if !ofType(at) && (always || fill.chance.Intn(3) > 0) {
			fill.value(value.FieldByIndex(field.Index), at)
		}
	}
}
