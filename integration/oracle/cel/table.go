package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	apijson "k8s.io/apimachinery/pkg/util/json"
)

// A table is a file of cases about one theme.
type table struct {
	About         string         `json:"about"`
	Expressions   []group        `json:"expressions"`
	Registrations []registration `json:"registrations"`
	Evaluations   []evaluation   `json:"evaluations"`
}

// A group is some expressions over one `self`.
type group struct {
	About string `json:"about"`
	scope
	// One expression a line.
	Lines string `json:"lines"`
	// Every way to fill the gaps of a pattern, in turn, with one of each row.
	Product struct {
		Pattern string     `json:"pattern"`
		With    [][]string `json:"with"`
	} `json:"product"`
	// Texts, or expressions with a scope of their own.
	Exprs []json.RawMessage `json:"exprs"`
}

// A scope declares and binds the variables of an expression.
type scope struct {
	// The schema of self; without one there is no self.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Whether that schema is the root of a resource.
	Root            bool            `json:"root,omitempty"`
	OptionalOldSelf bool            `json:"optionalOldSelf,omitempty"`
	Self            json.RawMessage `json:"self,omitempty"`
	OldSelf         json.RawMessage `json:"oldSelf,omitempty"`
}

type expression struct {
	Name string `json:"name"`
	Expr string `json:"expr"`
	scope
}

// A registration is a schema that a CRD brings.
type registration struct {
	Name string `json:"name"`
	// The whole openAPIV3Schema, or what its one property `value` has.
	Schema json.RawMessage `json:"schema"`
	Value  json.RawMessage `json:"value"`
	// Likewise what the CRD had before, if this is an update of it.
	OldSchema json.RawMessage `json:"oldSchema"`
	OldValue  json.RawMessage `json:"oldValue"`
}

// An evaluation is a schema and objects that it judges.
type evaluation struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Value  json.RawMessage `json:"value"`
	Tests  []struct {
		Name string `json:"name"`
		// The whole object, or what its member `value` has.
		Object    json.RawMessage `json:"object"`
		OldObject json.RawMessage `json:"oldObject"`
		Value     json.RawMessage `json:"value"`
		OldValue  json.RawMessage `json:"oldValue"`
	} `json:"tests"`
}

// recorded is a case with its answer.
type recorded struct {
	Name            string          `json:"name"`
	Kind            string          `json:"kind"`
	Expr            *string         `json:"expr,omitempty"`
	Schema          json.RawMessage `json:"schema,omitempty"`
	OldSchema       json.RawMessage `json:"oldSchema,omitempty"`
	Root            bool            `json:"root,omitempty"`
	OptionalOldSelf bool            `json:"optionalOldSelf,omitempty"`
	Self            json.RawMessage `json:"self,omitempty"`
	OldSelf         json.RawMessage `json:"oldSelf,omitempty"`
	Object          json.RawMessage `json:"object,omitempty"`
	OldObject       json.RawMessage `json:"oldObject,omitempty"`
	Want            any             `json:"want"`
}

func readTable(path string) (*table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	// Again, for a text without the escapes that are for HTML.
	var plain any
	numbers := json.NewDecoder(bytes.NewReader(asJSON))
	numbers.UseNumber()
	if err := numbers.Decode(&plain); err != nil {
		return nil, err
	}
	var t table
	strict := json.NewDecoder(strings.NewReader(compact(plain)))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&t); err != nil {
		return nil, err
	}
	for i := range t.Expressions {
		g := &t.Expressions[i]
		for line := range strings.Lines(g.Lines) {
			if line = strings.TrimSuffix(line, "\n"); line != "" {
				g.Exprs = append(g.Exprs, json.RawMessage(compact(line)))
			}
		}
		if g.Product.Pattern != "" {
			for _, text := range product(g.Product.Pattern, g.Product.With) {
				g.Exprs = append(g.Exprs, json.RawMessage(compact(text)))
			}
		}
	}
	return &t, nil
}

func product(pattern string, rows [][]string) []string {
	if len(rows) == 0 {
		return []string{pattern}
	}
	var made []string
	for _, text := range rows[0] {
		made = append(made, product(strings.Replace(pattern, "_", text, 1), rows[1:])...)
	}
	return made
}

func (t *table) record() ([]recorded, error) {
	var cases []recorded
	seen := map[string]bool{}
	add := func(c recorded) error {
		if seen[c.Name] {
			return fmt.Errorf("two cases have the name %q", c.Name)
		}
		seen[c.Name] = true
		cases = append(cases, c)
		return nil
	}
	for _, g := range t.Expressions {
		for _, text := range g.Exprs {
			e := expression{scope: g.scope}
			if text[0] == '"' {
				if err := json.Unmarshal(text, &e.Expr); err != nil {
					return nil, err
				}
			} else if err := json.Unmarshal(text, &e); err != nil {
				return nil, fmt.Errorf("%s: %w", g.About, err)
			}
			if e.Name == "" {
				e.Name = e.Expr
			}
			if g.About != "" {
				e.Name = g.About + ": " + e.Name
			}
			want, err := e.record()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name, err)
			}
			if err := add(recorded{
				Name: e.Name, Kind: "expression", Expr: &e.Expr, Schema: e.Schema, Root: e.Root,
				OptionalOldSelf: e.OptionalOldSelf, Self: e.Self, OldSelf: e.OldSelf, Want: want,
			}); err != nil {
				return nil, err
			}
		}
	}
	for _, r := range t.Registrations {
		schema := rootSchema(r.Schema, r.Value)
		kind := "registration"
		var oldSchema json.RawMessage
		if r.OldSchema != nil || r.OldValue != nil {
			kind, oldSchema = "registration-update", rootSchema(r.OldSchema, r.OldValue)
		}
		want, err := recordRegistration(schema, oldSchema)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		if err := add(recorded{Name: r.Name, Kind: kind, Schema: schema, OldSchema: oldSchema, Want: want}); err != nil {
			return nil, err
		}
	}
	for _, e := range t.Evaluations {
		schema := rootSchema(e.Schema, e.Value)
		for _, test := range e.Tests {
			name := e.Name + ": " + test.Name
			object, err := wholeObject(test.Object, test.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			oldObject, err := wholeObject(test.OldObject, test.OldValue)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			want, err := recordEvaluation(schema, object, oldObject)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if err := add(recorded{
				Name: name, Kind: "evaluation", Schema: schema, Object: object, OldObject: oldObject, Want: want,
			}); err != nil {
				return nil, err
			}
		}
	}
	return cases, nil
}

// rootSchema puts the schema of `value` under the root that it needs.
func rootSchema(schema, value json.RawMessage) json.RawMessage {
	if schema != nil {
		return schema
	}
	return json.RawMessage(compact(map[string]any{
		"type": "object", "properties": map[string]json.RawMessage{"value": value},
	}))
}

// wholeObject adds what the table leaves out: the members that every object has.
func wholeObject(object, value json.RawMessage) (json.RawMessage, error) {
	members := map[string]json.RawMessage{
		"apiVersion": json.RawMessage(`"` + apiGroup + `/v1"`),
		"kind":       json.RawMessage(`"` + apiKind + `"`),
		"metadata":   json.RawMessage(`{"name":"a","resourceVersion":"1"}`),
	}
	switch {
	case object != nil:
		given := map[string]json.RawMessage{}
		if err := json.Unmarshal(object, &given); err != nil {
			return nil, err
		}
		maps.Copy(members, given)
	case value != nil:
		members["value"] = value
	default:
		return nil, nil
	}
	return json.RawMessage(compact(members)), nil
}

// read turns JSON into the values that the API server has after decoding it,
// with every `$repeat` written out.
func read(text json.RawMessage) (any, error) {
	var value any
	if err := apijson.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	return expand(value)
}

// expand writes out `{"$repeat": {"count": n, "item": v}}`, a list, and
// `{"$repeat": {"count": n, "text": t}}`, a string. In an item, the text `$i`
// stands for the index.
func expand(value any) (any, error) {
	switch v := value.(type) {
	case []any:
		for i := range v {
			item, err := expand(v[i])
			if err != nil {
				return nil, err
			}
			v[i] = item
		}
	case map[string]any:
		if repeat, ok := v["$repeat"].(map[string]any); ok {
			count, ok := repeat["count"].(int64)
			if !ok {
				return nil, fmt.Errorf("$repeat without a count")
			}
			if text, ok := repeat["text"].(string); ok {
				return strings.Repeat(text, int(count)), nil
			}
			item, err := json.Marshal(repeat["item"])
			if err != nil {
				return nil, err
			}
			list := make([]any, 0, count)
			for i := range count {
				one, err := read(bytes.ReplaceAll(item, []byte("$i"), fmt.Append(nil, i)))
				if err != nil {
					return nil, err
				}
				list = append(list, one)
			}
			return list, nil
		}
		for key := range v {
			member, err := expand(v[key])
			if err != nil {
				return nil, err
			}
			v[key] = member
		}
	}
	return value, nil
}

func compact(value any) string {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// Types of rules are named after the nanosecond of their compilation.
var selfType = regexp.MustCompile(`selfType\d+`)

func mask(text string) string {
	return selfType.ReplaceAllString(text, "selfType*")
}
