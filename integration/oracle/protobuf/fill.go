package main

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// depthMax bounds how deep schemas nest within schemas.
const depthMax = 9

func newRandom(seed int64) *rand.Rand { return rand.New(rand.NewSource(seed)) }

type filler struct{ random *rand.Rand }

func (f filler) pick(n int) int { return f.random.Intn(n) }

var texts = []string{"", "a", "b/c", "widgets.example.com", "<é&\u2028>", "a\nb\t\"c\"", "日本", "0"}

// raw is JSON as the API server stores it: compact, with its keys sorted.
func (f filler) raw() []byte {
	values := []any{
		true, 5, -7.25, 1e30, "x<y>", []any{}, []any{1, "a", nil}, map[string]any{},
		map[string]any{"a": 1, "b": map[string]any{"c": []any{false}}, "é": "日"},
	}
	return must(json.Marshal(values[f.pick(len(values))]))
}

func (f filler) fields() []byte {
	values := []any{map[string]any{}, map[string]any{"f:metadata": map[string]any{"f:labels": map[string]any{".": map[string]any{}, "f:a": map[string]any{}}}}}
	return must(json.Marshal(values[f.pick(len(values))]))
}

func (f filler) time() time.Time {
	seconds := []int64{0, 1, -1, 1_700_000_000, 253_402_300_799, -62_135_596_800}
	return time.Unix(seconds[f.pick(len(seconds))], 0).UTC()
}

func (f filler) value(v reflect.Value, depth int) {
	switch p := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		p.Time = f.time()
		return
	case *metav1.MicroTime:
		p.Time = f.time()
		if !p.IsZero() {
			p.Time = p.Add(time.Duration(f.pick(1_000_000)) * time.Microsecond)
		}
		return
	case *resource.Quantity:
		*p = resource.MustParse([]string{"0", "1", "100m", "5Gi", "1e3", "-2500"}[f.pick(6)])
		return
	case *intstr.IntOrString:
		*p = []intstr.IntOrString{intstr.FromInt32(0), intstr.FromInt32(-5), intstr.FromString(""), intstr.FromString("http")}[f.pick(4)]
		return
	case *metav1.FieldsV1:
		p.Raw = f.fields()
		return
	case *runtime.RawExtension:
		p.Raw = f.raw()
		return
	case *apiextensionsv1.JSON:
		p.Raw = f.raw()
		return
	case *apiextensionsv1beta1.JSON:
		p.Raw = f.raw()
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(texts[f.pick(len(texts))])
	case reflect.Bool:
		v.SetBool(f.pick(2) == 0)
	case reflect.Int32:
		v.SetInt([]int64{0, 1, -1, 300, 1<<31 - 1, -1 << 31}[f.pick(6)])
	case reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 300, 1<<53 + 1, 1<<63 - 1, -1 << 63}[f.pick(7)])
	case reflect.Float64:
		v.SetFloat([]float64{0, 1, -1, 0.1, 1e21, -2.5e-9, 1 << 60}[f.pick(7)])
	case reflect.Pointer:
		if f.pick(3) > 0 || depth > depthMax {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		f.value(v.Elem(), depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([][]byte{nil, {0}, {1, 2, 255}}[f.pick(3)])
			return
		}
		if f.pick(2) > 0 || depth > depthMax {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1+f.pick(2), 3))
		for i := range v.Len() {
			f.value(v.Index(i), depth+1)
		}
	case reflect.Map:
		if f.pick(2) > 0 || depth > depthMax {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range 1 + f.pick(3) {
			key, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.value(key, depth+1)
			f.value(item, depth+1)
			if item.Kind() == reflect.Slice && item.Type().Elem().Kind() != reflect.Uint8 && item.IsNil() {
				// A list in a map is a message of its own, which is there though it is empty.
				item.Set(reflect.MakeSlice(item.Type(), 0, 0))
			}
			v.SetMapIndex(key, item)
		}
	case reflect.Struct:
		switch {
		case v.FieldByName("Allows").IsValid():
			if f.pick(2) == 0 {
				v.FieldByName("Allows").SetBool(f.pick(2) == 0)
				return
			}
			v.FieldByName("Allows").SetBool(true)
			f.schema(v.FieldByName("Schema"), depth)
			return
		case v.FieldByName("JSONSchemas").IsValid(), v.FieldByName("Property").IsValid():
			list := v.FieldByName("Property")
			if !list.IsValid() {
				list = v.FieldByName("JSONSchemas")
			}
			if f.pick(2) == 0 && depth <= depthMax {
				list.Set(reflect.MakeSlice(list.Type(), 1, 1))
				f.value(list.Index(0), depth+1)
			} else {
				f.schema(v.FieldByName("Schema"), depth)
			}
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				f.value(v.Field(i), depth+1)
			}
		}
	}
}

// schema sets a pointer that must not stay nil.
func (f filler) schema(v reflect.Value, depth int) {
	v.Set(reflect.New(v.Type().Elem()))
	if depth <= depthMax {
		f.value(v.Elem(), depth+1)
	}
}
