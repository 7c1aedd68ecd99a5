package main

import (
	"fmt"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// reference is a TypeRef: a name, or what may be there.
type reference struct {
	Named  string  `json:"named,omitempty"`
	Scalar string  `json:"scalar,omitempty"`
	List   *list   `json:"list,omitempty"`
	Map    *fields `json:"map,omitempty"`
	// Relation is what the field says of a map, other than the named type.
	Relation schema.ElementRelationship `json:"relation,omitempty"`
}

type list struct {
	Relation schema.ElementRelationship `json:"relation"`
	Keys     []string                   `json:"keys,omitempty"`
	Element  reference                  `json:"element"`
}

type fields struct {
	Atomic bool             `json:"atomic,omitempty"`
	Fields map[string]field `json:"fields,omitempty"`
	// Element is absent where there may be no other fields.
	Element *reference `json:"element,omitempty"`
	// Deduced is what isUntypedDeducedMap says.
	Deduced bool `json:"deduced,omitempty"`
}

type field struct {
	Type    reference `json:"type"`
	Default any       `json:"default,omitempty"`
}

func ref(of schema.TypeRef) reference {
	if of.NamedType != nil {
		out := reference{Named: *of.NamedType}
		if of.ElementRelationship != nil {
			out.Relation = *of.ElementRelationship
		}
		return out
	}
	return atom(of.Inlined)
}

func atom(of schema.Atom) reference {
	out := reference{}
	if of.Scalar != nil {
		out.Scalar = string(*of.Scalar)
	}
	if l := of.List; l != nil {
		out.List = &list{Relation: l.ElementRelationship, Keys: l.Keys, Element: ref(l.ElementType)}
	}
	if m := of.Map; m != nil {
		out.Map = &fields{Atomic: m.ElementRelationship == schema.Atomic, Fields: map[string]field{}, Deduced: deduced(m)}
		for _, f := range m.Fields {
			out.Map.Fields[f.Name] = field{Type: ref(f.Type), Default: plain(f.Default)}
		}
		if (m.ElementType != schema.TypeRef{}) {
			element := ref(m.ElementType)
			out.Map.Element = &element
		}
	}
	return out
}

// deduced is whether ReconcileFieldSetWithSchema leaves a map alone.
func deduced(m *schema.Map) bool {
	element := m.ElementType
	if element.NamedType != nil {
		return len(m.Fields) == 0 && *element.NamedType == "__untyped_deduced_"
	}
	return len(m.Fields) == 0 && element.Inlined.Scalar != nil && *element.Inlined.Scalar == schema.Untyped
}

// plain is a default as JSON has it: a schema read from YAML has maps of
// anything.
func plain(value any) any {
	read, ok := value.(map[any]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	for key, item := range read {
		out[fmt.Sprint(key)] = plain(item)
	}
	return out
}
