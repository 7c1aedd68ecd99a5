// Command strategic records what upstream's strategic merge patch makes of random patches:
// ../expectations/strategic/patches.recorded.json. From integration/oracle: go run ./strategic
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// Port and Type have every kind of list and map, which no type that kindom serves has.
type Port struct {
	Number int64             `json:"number,omitempty"`
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Inner  []Port            `json:"inner,omitempty" patchStrategy:"merge" patchMergeKey:"number"`
}

// Type is what most patches are for.
type Type struct {
	Set         []string          `json:"set,omitempty" patchStrategy:"merge"`
	Atomic      []string          `json:"atomic,omitempty"`
	Ports       []Port            `json:"ports,omitempty" patchStrategy:"merge" patchMergeKey:"number"`
	AtomicPorts []Port            `json:"atomicPorts,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	ByName      map[string]Port   `json:"byName,omitempty"`
	Port        *Port             `json:"port,omitempty"`
}

type expected struct {
	Object  json.RawMessage `json:"object,omitempty"`
	Unknown []string        `json:"unknown,omitempty"`
	Error   string          `json:"error,omitempty"`
	Panics  bool            `json:"panics,omitempty"`
}

type recorded struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
	Patch  json.RawMessage `json:"patch"`
	Want   expected        `json:"want"`
}

func parse(text string) map[string]interface{} {
	out := map[string]interface{}{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &out); err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	return out
}

// Upstream appends to the lists of the object, and then changes both. What that does to the order depends on the room
// behind a list, of which there shall be none.
func clip(value interface{}) interface{} {
	switch value := value.(type) {
	case map[string]interface{}:
		for key, field := range value {
			value[key] = clip(field)
		}
	case []interface{}:
		for i, item := range value {
			value[i] = clip(item)
		}
		return slices.Clip(value)
	}
	return value
}

// Upstream goes through the keys of maps at random: what does not come out the same every time is left out.
func run(kind, object, patch string) (want expected) {
	defer func() {
		if recover() != nil {
			want = expected{Panics: true}
		}
	}()
	var of interface{}
	switch kind {
	case "Type":
		of = &Type{}
	case "Namespace":
		of = &corev1.Namespace{}
	case "v1":
		of = &apiextensionsv1.CustomResourceDefinition{}
	case "v1beta1":
		of = &apiextensionsv1beta1.CustomResourceDefinition{}
	}
	current := parse(object)
	clip(current)
	merged, err := strategicpatch.StrategicMergeMapPatch(current, parse(patch), of)
	if err != nil {
		return expected{Error: err.Error()}
	}
	text, err := json.Marshal(merged)
	if err != nil {
		panic(err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, of, true)
	if strict, is := runtime.AsStrictDecodingError(err); is {
		want.Unknown = []string{}
		for _, unknown := range strict.Errors() {
			want.Unknown = append(want.Unknown, unknown.Error())
		}
	} else if err != nil {
		return expected{Error: err.Error()}
	}
	want.Object = text
	return want
}

type maker struct{ *rand.Rand }

func (m maker) chance(percent int) bool { return m.Intn(100) < percent }

func (m maker) text() string { return fmt.Sprintf("%q", string(rune('a'+m.Intn(6)))) }

func list(n int, item func() string) string {
	items := []string{}
	for range n {
		items = append(items, item())
	}
	return "[" + strings.Join(items, ",") + "]"
}

func (m maker) texts(odd bool) string {
	if odd && m.chance(4) {
		return []string{"1", "\"a\"", "{}", "[1]", "[null]", "[[\"a\"]]", "[{}]", "null"}[m.Intn(8)]
	}
	if odd {
		// An empty one makes of equal items of the object an order that nobody relies on.
		return list(1+m.Intn(5), m.text)
	}
	return list(m.Intn(6), m.text)
}

func object(fields map[string]string) string {
	parts := []string{}
	for key, value := range fields {
		parts = append(parts, fmt.Sprintf("%q:%s", key, value))
	}
	sort.Strings(parts)
	return "{" + strings.Join(parts, ",") + "}"
}

func (m maker) directive(fields map[string]string, patch bool) {
	if patch && m.chance(10) {
		fields["$patch"] = []string{"\"replace\"", "\"delete\"", "\"merge\"", "\"other\"", "5", "null"}[m.Intn(20)%6]
	}
}

func (m maker) labels(patch bool) string {
	fields := map[string]string{}
	for range m.Intn(4) {
		value := m.text()
		if patch && m.chance(25) {
			value = "null"
		}
		fields[string(rune('a'+m.Intn(5)))] = value
	}
	m.directive(fields, patch)
	if patch && m.chance(8) {
		fields["$retainKeys"] = m.texts(true)
	}
	return object(fields)
}

func (m maker) port(depth int, patch bool) string {
	fields := map[string]string{"number": fmt.Sprint(m.Intn(5))}
	if patch && m.chance(3) {
		fields["number"] = []string{"null", "\"1\"", "[]", "1.0"}[m.Intn(4)]
	}
	if patch && m.chance(3) {
		delete(fields, "number")
	}
	if m.chance(60) {
		fields["name"] = m.text()
	}
	if patch && m.chance(10) {
		fields["name"] = "null"
	}
	if m.chance(25) {
		fields["labels"] = m.labels(patch)
	}
	if depth > 0 && m.chance(25) {
		fields["inner"] = m.ports(depth-1, patch)
	}
	if patch && m.chance(5) {
		fields["$retainKeys"] = []string{`["number","name"]`, `["number"]`}[m.Intn(2)]
	}
	m.directive(fields, patch)
	return object(fields)
}

func (m maker) ports(depth int, patch bool) string {
	if patch && m.chance(4) {
		return []string{"1", "[1]", "[null]", "{}", "null", "[[]]"}[m.Intn(6)]
	}
	return list(m.Intn(5), func() string { return m.port(depth, patch) })
}

func (m maker) any(patch bool) string {
	fields := map[string]string{}
	for _, set := range []string{"set", "atomic"} {
		if m.chance(45) {
			fields[set] = m.texts(patch)
		}
		if patch && m.chance(15) {
			fields["$setElementOrder/"+set] = m.texts(true)
		}
		if patch && m.chance(12) {
			fields["$deleteFromPrimitiveList/"+set] = m.texts(true)
			delete(fields, set) // which of both comes first is left to chance
		}
	}
	for _, ports := range []string{"ports", "atomicPorts"} {
		if m.chance(40) {
			fields[ports] = m.ports(1, patch)
		}
		if patch && m.chance(15) {
			fields["$setElementOrder/"+ports] = list(m.Intn(4), func() string { return fmt.Sprintf(`{"number":%d}`, m.Intn(5)) })
		}
	}
	if m.chance(30) {
		fields["labels"] = m.labels(patch)
	}
	if m.chance(20) {
		fields["byName"] = object(map[string]string{m.text()[1:2]: m.port(0, patch)})
	}
	if m.chance(25) {
		fields["port"] = m.port(1, patch)
	}
	if patch && m.chance(5) {
		fields["extra"] = "1"
	}
	if patch && m.chance(3) {
		fields["$retainKeys"] = `["set","ports","labels"]`
	}
	return object(fields)
}

func (m maker) owner(patch bool) string {
	fields := map[string]string{"uid": fmt.Sprintf("\"%d\"", m.Intn(5)), "name": m.text(), "kind": "\"K\"", "apiVersion": "\"v1\""}
	if patch && m.chance(50) {
		fields = map[string]string{"uid": fields["uid"], "controller": "true"}
	}
	m.directive(fields, patch)
	return object(fields)
}

func (m maker) metadata(patch bool) string {
	fields := map[string]string{"labels": m.labels(patch)}
	if m.chance(60) {
		fields["finalizers"] = m.texts(patch)
	}
	if m.chance(60) {
		fields["ownerReferences"] = list(m.Intn(4), func() string { return m.owner(patch) })
	}
	if patch && m.chance(20) {
		fields["$setElementOrder/finalizers"] = m.texts(true)
	}
	return object(fields)
}

func (m maker) namespace(patch bool) string {
	condition := func() string {
		fields := map[string]string{"type": m.text(), "status": `"True"`, "lastTransitionTime": `"2020-01-01T00:00:00Z"`}
		m.directive(fields, patch)
		return object(fields)
	}
	status := map[string]string{"conditions": list(m.Intn(4), condition)}
	if patch && m.chance(20) {
		status["$setElementOrder/conditions"] = list(m.Intn(4), func() string { return object(map[string]string{"type": m.text()}) })
	}
	spec := object(map[string]string{"finalizers": m.texts(patch)})
	return object(map[string]string{"metadata": m.metadata(patch), "spec": spec, "status": object(status)})
}

func (m maker) schema(depth int, patch bool) string {
	fields := map[string]string{"type": `"object"`}
	if m.chance(30) {
		fields["required"] = m.texts(patch)
	}
	if m.chance(40) {
		fields["x-kubernetes-validations"] = list(m.Intn(3), func() string {
			rule := map[string]string{"rule": m.text(), "message": m.text()}
			m.directive(rule, patch)
			return object(rule)
		})
	}
	if depth > 0 && m.chance(40) {
		fields["properties"] = object(map[string]string{m.text()[1:2]: m.schema(depth-1, patch)})
	}
	if depth > 0 && m.chance(30) {
		fields["items"] = m.schema(depth-1, patch)
	}
	if depth > 0 && m.chance(20) {
		fields["additionalProperties"] = []string{"true", m.schema(depth-1, patch)}[m.Intn(2)]
	}
	if m.chance(20) {
		fields["default"] = []string{"1", `{"a":{"b":1}}`, `[1,{}]`, "null", "1.5"}[m.Intn(5)]
	}
	if patch && m.chance(10) {
		fields["maximum"] = []string{"1", "1.5", "\"x\"", "true"}[m.Intn(4)]
	}
	if patch && m.chance(8) {
		fields["maxLength"] = []string{"1", "1.5", "2.0", "\"x\"", "true"}[m.Intn(5)]
	}
	if patch && m.chance(8) {
		fields["extra"] = "{}"
	}
	return object(fields)
}

func (m maker) registration(kind string, patch bool) string {
	version := func() string {
		fields := map[string]string{"name": m.text(), "served": "true", "storage": "true"}
		if m.chance(50) {
			fields["schema"] = `{"openAPIV3Schema":` + m.schema(2, patch) + "}"
		}
		m.directive(fields, patch)
		return object(fields)
	}
	spec := map[string]string{"names": object(map[string]string{"plural": `"p"`, "kind": `"K"`, "shortNames": m.texts(patch)})}
	if m.chance(60) {
		spec["versions"] = list(m.Intn(3), version)
	}
	if kind == "v1beta1" && m.chance(70) {
		spec["validation"] = `{"openAPIV3Schema":` + m.schema(2, patch) + "}"
	}
	if patch && m.chance(10) {
		spec["$deleteFromPrimitiveList/versions"] = list(1, version)
		delete(spec, "versions")
	}
	return object(map[string]string{"metadata": m.metadata(patch), "spec": object(spec)})
}

func main() {
	out := flag.String("out", "../expectations/strategic", "folder of what is recorded")
	cases := flag.Int("cases", 1000, "how many cases")
	seed := flag.Int64("seed", 1, "what they are drawn with")
	flag.Parse()
	m := maker{rand.New(rand.NewSource(*seed))}
	lines := []string{}
	for len(lines) < *cases {
		kind := []string{"Type", "Type", "Type", "Namespace", "v1", "v1beta1"}[m.Intn(6)]
		make := func(patch bool) string {
			switch kind {
			case "Type":
				return m.any(patch)
			case "Namespace":
				return m.namespace(patch)
			}
			return m.registration(kind, patch)
		}
		object, patch := make(false), make(true)
		want, _ := json.Marshal(run(kind, object, patch))
		same := true
		for range 400 {
			again, _ := json.Marshal(run(kind, object, patch))
			same = same && string(again) == string(want)
		}
		if !same {
			continue
		}
		line, err := json.Marshal(recorded{kind, json.RawMessage(object), json.RawMessage(patch), run(kind, object, patch)})
		if err != nil {
			panic(err)
		}
		lines = append(lines, string(line))
	}
	text := "[\n" + strings.Join(lines, ",\n") + "\n]\n"
	if err := os.WriteFile(*out+"/patches.recorded.json", []byte(text), 0o644); err != nil {
		panic(err)
	}
	fmt.Printf("%d cases\n", len(lines))
}
