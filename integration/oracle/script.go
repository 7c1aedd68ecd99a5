package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
)

// Script is one `<topic>.script.json`. The README of the expectations folder
// describes the format; `integration/src/replay.rs` reads the same files.
type Script struct {
	About             string                     `json:"about"`
	MaskManagedFields *bool                      `json:"maskManagedFields"`
	Vars              map[string]string          `json:"vars"`
	Fixtures          map[string]json.RawMessage `json:"fixtures"`
	Steps             []Step                     `json:"steps"`

	// text is the file as it is.
	text string
}

// Step is one request and what is kept of its answer.
type Step struct {
	Name        string                     `json:"name"`
	Method      string                     `json:"method"`
	Path        string                     `json:"path"`
	Query       map[string]string          `json:"query"`
	RawQuery    string                     `json:"rawQuery"`
	Headers     map[string]Values          `json:"headers"`
	From        string                     `json:"from"`
	Set         map[string]json.RawMessage `json:"set"`
	Remove      []string                   `json:"remove"`
	Body        json.RawMessage            `json:"body"`
	BodyText    *string                    `json:"bodyText"`
	BodyRepeat  *Repeat                    `json:"bodyRepeat"`
	ContentType *string                    `json:"contentType"`
	Accept      *string                    `json:"accept"`
	Capture     map[string]string          `json:"capture"`
	Until       []Condition                `json:"until"`
	Watch       *Watch                     `json:"watch"`
	Select      []string                   `json:"select"`
	Record      string                     `json:"record"`
}

// Values are those of a header: a text or, for one that is sent repeatedly, a list of texts.
type Values []string

// UnmarshalJSON takes both forms.
func (v *Values) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*v = Values{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(v))
}

// Repeat is a body too large to be written down.
type Repeat struct {
	Prefix string `json:"prefix"`
	Unit   string `json:"unit"`
	Count  int    `json:"count"`
	Suffix string `json:"suffix"`
}

// Condition is what a polled answer must satisfy; exactly one kind is given.
type Condition struct {
	Condition string          `json:"condition"`
	Status    int             `json:"status"`
	Pointer   string          `json:"pointer"`
	Equals    json.RawMessage `json:"equals"`
}

// Watch says how much of a stream is read: a number of events, or all of it
// until the server ends it (`"until": "end"`) or until the bookmark that ends
// the initial events (`"until": "initial-events-end"`).
type Watch struct {
	Events int    `json:"events"`
	Until  string `json:"until"`
}

func readScript(path string) (*Script, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	script := &Script{text: string(data)}
	if err := decoder.Decode(script); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	seen := map[string]bool{}
	for _, step := range script.Steps {
		if step.Name == "" || step.Method == "" || step.Path == "" {
			return nil, fmt.Errorf("%s: step %q lacks a name, a method or a path", path, step.Name)
		}
		if seen[step.Name] {
			return nil, fmt.Errorf("%s: two steps are called %q", path, step.Name)
		}
		seen[step.Name] = true
	}
	return script, nil
}

// substitute replaces every `${name}`. A value may hold further references.
func substitute(text string, vars map[string]string) (string, error) {
	for range 8 {
		start := strings.Index(text, "${")
		if start < 0 {
			return text, nil
		}
		var out strings.Builder
		rest := text
		for {
			before, after, found := strings.Cut(rest, "${")
			out.WriteString(before)
			if !found {
				break
			}
			name, tail, closed := strings.Cut(after, "}")
			if !closed {
				return "", fmt.Errorf("unclosed variable in %q", text)
			}
			value, known := vars[name]
			if !known {
				return "", fmt.Errorf("unknown variable %q", name)
			}
			out.WriteString(value)
			rest = tail
		}
		text = out.String()
	}
	return "", fmt.Errorf("variables refer to each other without end: %q", text)
}

// requestBody gives the bytes to send, nil for none.
func (s *Step) requestBody(script *Script, vars map[string]string) ([]byte, error) {
	switch {
	case s.BodyRepeat != nil:
		r := s.BodyRepeat
		return []byte(r.Prefix + strings.Repeat(r.Unit, r.Count) + r.Suffix), nil
	case s.BodyText != nil:
		text, err := substitute(*s.BodyText, vars)
		return []byte(text), err
	}
	body := s.Body
	if s.From != "" {
		fixture, found := script.Fixtures[s.From]
		if !found {
			return nil, fmt.Errorf("no fixture %q", s.From)
		}
		body = fixture
	}
	if body == nil {
		return nil, nil
	}
	value, err := decode(body)
	if err != nil {
		return nil, err
	}
	// Sorted, so that a parent is set before its child.
	pointers := make([]string, 0, len(s.Set))
	for pointer := range s.Set {
		pointers = append(pointers, pointer)
	}
	sort.Strings(pointers)
	for _, pointer := range pointers {
		child, err := decode(s.Set[pointer])
		if err != nil {
			return nil, err
		}
		if value, err = setPointer(value, segments(pointer), child); err != nil {
			return nil, fmt.Errorf("set %s: %w", pointer, err)
		}
	}
	for _, pointer := range s.Remove {
		if err := removePointer(value, segments(pointer)); err != nil {
			return nil, fmt.Errorf("remove %s: %w", pointer, err)
		}
	}
	text, err := substitute(string(encode(value)), vars)
	return []byte(text), err
}

// queryString joins the encoded parameters and the raw query.
func (s *Step) queryString(vars map[string]string) (string, error) {
	values := url.Values{}
	for key, value := range s.Query {
		text, err := substitute(value, vars)
		if err != nil {
			return "", err
		}
		values.Set(key, text)
	}
	raw, err := substitute(s.RawQuery, vars)
	if err != nil {
		return "", err
	}
	if encoded := values.Encode(); encoded != "" {
		if raw != "" {
			raw += "&"
		}
		raw += encoded
	}
	return raw, nil
}

func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	// Keeps 1, 1.0 and 1e0 apart.
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if decoder.More() {
		return nil, errors.New("more than one JSON value")
	}
	return value, nil
}

func encode(value any) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // only trees made by decode come here
	}
	return bytes.TrimRight(out.Bytes(), "\n")
}

func segments(pointer string) []string {
	if pointer == "" {
		return nil
	}
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, part := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
	}
	return parts
}

// lookup follows a JSON pointer, whose segments may also be `[key=value]`: the
// first element of an array whose member at the dotted key has that text.
func lookup(value any, path []string) (any, bool) {
	for _, segment := range path {
		switch node := value.(type) {
		case map[string]any:
			child, found := node[segment]
			if !found {
				return nil, false
			}
			value = child
		case []any:
			if selector, ok := strings.CutPrefix(segment, "["); ok {
				key, wanted, _ := strings.Cut(strings.TrimSuffix(selector, "]"), "=")
				found := false
				for _, item := range node {
					if member, ok := lookup(item, strings.Split(key, ".")); ok && member == wanted {
						value, found = item, true
						break
					}
				}
				if !found {
					return nil, false
				}
				continue
			}
			index, err := strconv.Atoi(segment)
			if err != nil || index < 0 || index >= len(node) {
				return nil, false
			}
			value = node[index]
		default:
			return nil, false
		}
	}
	return value, true
}

// setPointer sets a member, making the objects on the way; `-` appends.
func setPointer(value any, path []string, child any) (any, error) {
	if len(path) == 0 {
		return child, nil
	}
	switch node := value.(type) {
	case nil:
		return setPointer(map[string]any{}, path, child)
	case map[string]any:
		inner, err := setPointer(node[path[0]], path[1:], child)
		if err != nil {
			return nil, err
		}
		node[path[0]] = inner
		return node, nil
	case []any:
		if path[0] == "-" {
			inner, err := setPointer(nil, path[1:], child)
			if err != nil {
				return nil, err
			}
			return append(node, inner), nil
		}
		index, err := strconv.Atoi(path[0])
		if err != nil || index < 0 || index >= len(node) {
			return nil, fmt.Errorf("no element %q", path[0])
		}
		inner, err := setPointer(node[index], path[1:], child)
		if err != nil {
			return nil, err
		}
		node[index] = inner
		return node, nil
	}
	return nil, fmt.Errorf("cannot set %q in a scalar", path[0])
}

// removePointer removes a member of an object; arrays are set whole instead.
func removePointer(value any, path []string) error {
	if len(path) == 0 {
		return errors.New("cannot remove the whole body")
	}
	parent, found := lookup(value, path[:len(path)-1])
	if !found {
		return errors.New("nothing there")
	}
	node, ok := parent.(map[string]any)
	if !ok {
		return errors.New("not a member of an object")
	}
	delete(node, path[len(path)-1])
	return nil
}
