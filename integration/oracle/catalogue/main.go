// Command catalogue writes the table of built-in kinds that objects/src/catalogue reads: the Go types of Kubernetes as
// JSON, protobuf, strategic merge and OpenAPI see them, read from their source. From integration/oracle:
//
//	go run ./catalogue > ../../objects/src/catalogue/kubernetes.tsv
//
// The packages' documentation is Kubernetes', under the Apache License 2.0.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// The kinds of the table, by their packages.
var kinds = []struct {
	pkg, apiVersion string
	names           []string
}{
	{"k8s.io/api/core/v1", "v1", []string{
		"Binding", "ConfigMap", "Endpoints", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume",
		"PersistentVolumeClaim", "Pod", "PodTemplate", "ReplicationController", "ResourceQuota", "Secret", "Service",
		"ServiceAccount"}},
	{"k8s.io/api/admissionregistration/v1", "admissionregistration.k8s.io/v1", []string{
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"}},
	{"k8s.io/api/apps/v1", "apps/v1", []string{
		"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"}},
	{"k8s.io/api/authentication/v1", "authentication.k8s.io/v1", []string{"SelfSubjectReview", "TokenRequest", "TokenReview"}},
	{"k8s.io/api/authorization/v1", "authorization.k8s.io/v1", []string{
		"LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"}},
	{"k8s.io/api/autoscaling/v1", "autoscaling/v1", []string{
		"HorizontalPodAutoscaler", "HorizontalPodAutoscalerCondition", "MetricSpec", "MetricStatus", "Scale"}},
	{"k8s.io/api/autoscaling/v2", "autoscaling/v2", []string{"HorizontalPodAutoscaler"}},
	{"k8s.io/api/batch/v1", "batch/v1", []string{"CronJob", "Job"}},
	{"k8s.io/api/certificates/v1", "certificates.k8s.io/v1", []string{"CertificateSigningRequest"}},
	{"k8s.io/api/coordination/v1", "coordination.k8s.io/v1", []string{"Lease"}},
	{"k8s.io/api/discovery/v1", "discovery.k8s.io/v1", []string{"EndpointSlice"}},
	{"k8s.io/api/events/v1", "events.k8s.io/v1", []string{"Event"}},
	{"k8s.io/api/flowcontrol/v1", "flowcontrol.apiserver.k8s.io/v1", []string{"FlowSchema", "PriorityLevelConfiguration"}},
	{"k8s.io/api/networking/v1", "networking.k8s.io/v1", []string{
		"IPAddress", "Ingress", "IngressClass", "NetworkPolicy", "ServiceCIDR"}},
	{"k8s.io/api/node/v1", "node.k8s.io/v1", []string{"RuntimeClass"}},
	{"k8s.io/api/policy/v1", "policy/v1", []string{"Eviction", "PodDisruptionBudget"}},
	{"k8s.io/api/rbac/v1", "rbac.authorization.k8s.io/v1", []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}},
	{"k8s.io/api/resource/v1", "resource.k8s.io/v1", []string{
		"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}},
	{"k8s.io/api/scheduling/v1", "scheduling.k8s.io/v1", []string{"PriorityClass"}},
	{"k8s.io/api/storage/v1", "storage.k8s.io/v1", []string{
		"CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"}},
	{"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1", "apiregistration.k8s.io/v1", []string{"APIService"}},
}

// Types that encode themselves, by what the table calls them.
var special = map[string]string{
	"meta/v1.Time":             "time",
	"meta/v1.MicroTime":        "microtime",
	"meta/v1.Duration":         "duration",
	"meta/v1.FieldsV1":         "json",
	"api/resource.Quantity":    "quantity",
	"util/intstr.IntOrString":  "intorstring",
	"pkg/runtime.RawExtension": "raw",
}

// A package: its types by name, with the imports of the file of each.
type pkg struct {
	path  string
	types map[string]typeSpec
	// The literals of its constants, by name.
	constants map[string]string
}

func (p *pkg) addConstants(group *ast.GenDecl) {
	for _, spec := range group.Specs {
		spec := spec.(*ast.ValueSpec)
		for i, name := range spec.Names {
			if i < len(spec.Values) {
				if literal, is := spec.Values[i].(*ast.BasicLit); is {
					p.constants[name.Name] = literal.Value
				}
			}
		}
	}
}

type typeSpec struct {
	*ast.TypeSpec
	doc     *ast.CommentGroup
	imports map[string]string
}

type table struct {
	packages map[string]*pkg
	done     map[string]bool
	pending  []string
	out      *bufio.Writer
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "catalogue: "+format+"\n", args...)
	os.Exit(1)
}

func list(args ...string) string {
	out, err := exec.Command("go", append([]string{"list"}, args...)...).Output()
	if err != nil {
		fail("go list %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// load parses a package.
func (t *table) load(of string) *pkg {
	if known, is := t.packages[of]; is {
		return known
	}
	p := &pkg{path: of, types: map[string]typeSpec{}, constants: map[string]string{}}
	t.packages[of] = p
	files, err := filepath.Glob(filepath.Join(list("-f", "{{.Dir}}", of), "*.go"))
	if err != nil {
		fail("%v", err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			fail("%v", err)
		}
		imports := map[string]string{}
		for _, imported := range file.Imports {
			target, _ := strconv.Unquote(imported.Path.Value)
			alias := path.Base(target)
			if imported.Name != nil {
				alias = imported.Name.Name
			}
			imports[alias] = target
		}
		for _, decl := range file.Decls {
			group, is := decl.(*ast.GenDecl)
			if is && group.Tok == token.CONST {
				p.addConstants(group)
			}
			if !is || group.Tok != token.TYPE {
				continue
			}
			for _, spec := range group.Specs {
				spec := spec.(*ast.TypeSpec)
				doc := spec.Doc
				if doc == nil {
					doc = group.Doc
				}
				p.types[spec.Name.Name] = typeSpec{spec, doc, imports}
			}
		}
	}
	return p
}

// short is the end of a package's path, by which the table knows it: core/v1.
func short(of string) string {
	return path.Join(path.Base(path.Dir(of)), path.Base(of))
}

// shape writes a type in the table's form.
func (t *table) shape(in *pkg, imports map[string]string, of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return "*" + t.shape(in, imports, of.X)
	case *ast.ArrayType:
		if ident, is := of.Elt.(*ast.Ident); is && ident.Name == "byte" {
			return "bytes"
		}
		return "[]" + t.shape(in, imports, of.Elt)
	case *ast.MapType:
		return "map:" + t.shape(in, imports, of.Value)
	case *ast.Ident:
		switch of.Name {
		case "string", "bool", "int32", "int64", "float64":
			return of.Name
		}
		return t.named(in, of.Name)
	case *ast.SelectorExpr:
		return t.named(t.load(imports[of.X.(*ast.Ident).Name]), of.Sel.Name)
	}
	fail("%s: a type of an unknown form: %T", in.path, of)
	return ""
}

// named writes a type that has a name: a struct by it, another one with what it is.
func (t *table) named(in *pkg, name string) string {
	key := short(in.path) + "." + name
	if text, is := special[key]; is {
		return text
	}
	spec, is := in.types[name]
	if !is {
		fail("%s has no type %s", in.path, name)
	}
	if _, is := spec.Type.(*ast.StructType); is {
		t.pending = append(t.pending, in.path+"."+name)
		return "@" + key
	}
	return "=" + path.Base(in.path) + "." + name + "=" + t.shape(in, spec.imports, spec.Type)
}

// doc is a comment as kube-openapi publishes it (pkg/generators, generateDescription), and its markers.
func doc(comment *ast.CommentGroup) (string, []string) {
	var out strings.Builder
	var markers []string
	if comment == nil {
		return "", nil
	}
	text := ""
	chop := func() {
		if len(text) > 0 {
			text = text[:len(text)-1]
		}
	}
	lines := strings.Split(strings.TrimRight(raw(comment), "\n"), "\n")
	for i, line := range lines {
		if line == "---" {
			for _, line := range lines[i:] {
				if marker, is := strings.CutPrefix(strings.TrimSpace(line), "+"); is {
					markers = append(markers, marker)
				}
			}
			break
		}
		line = strings.TrimRight(line, " ")
		leading := strings.TrimLeft(line, " ")
		switch {
		case line == "":
			chop()
			text += "\n\n"
		case strings.HasPrefix(leading, "TODO"):
		case strings.HasPrefix(leading, "+"):
			markers = append(markers, strings.TrimSpace(leading[1:]))
		case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
			chop()
			text += "\n" + line + "\n"
		default:
			text += line + " "
		}
	}
	out.WriteString(strings.TrimSpace(strings.TrimRight(text, "\n")))
	return out.String(), markers
}

// raw is a comment without its slashes.
func raw(comment *ast.CommentGroup) string {
	var lines []string
	for _, c := range comment.List {
		text := c.Text
		if rest, is := strings.CutPrefix(text, "//"); is {
			lines = append(lines, strings.TrimPrefix(rest, " "))
			continue
		}
		text = strings.TrimSuffix(strings.TrimPrefix(text, "/*"), "*/")
		for _, line := range strings.Split(text, "\n") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

func escaped(text string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`).Replace(text)
}

// marker finds the value of a marker, the last one if there are several: +listType=map.
func marker(markers []string, name string) (string, bool) {
	for _, m := range slices.Backward(markers) {
		if m == name {
			return "", true
		}
		if value, is := strings.CutPrefix(m, name+"="); is {
			return value, true
		}
	}
	return "", false
}

// structure writes a struct and notes those that it refers to.
func (t *table) structure(in *pkg, name string) {
	spec := in.types[name]
	text, markers := doc(spec.doc)
	atomic := ""
	if value, is := marker(markers, "structType"); is {
		atomic = value
	}
	fmt.Fprintf(t.out, "struct\t%s.%s\t%s\t%s\n", short(in.path), name, atomic, escaped(text))
	for _, field := range spec.Type.(*ast.StructType).Fields.List {
		tag := reflect.StructTag("")
		if field.Tag != nil {
			text, _ := strconv.Unquote(field.Tag.Value)
			tag = reflect.StructTag(text)
		}
		options := strings.Split(tag.Get("json"), ",")
		json, options := options[0], options[1:]
		shape := t.shape(in, spec.imports, field.Type)
		if json == "-" || shape == "@meta/v1.TypeMeta" {
			continue
		}
		number := "0"
		if parts := strings.Split(tag.Get("protobuf"), ","); len(parts) > 1 {
			number = parts[1]
		}
		text, markers := doc(field.Doc)
		flags := ""
		for flag, is := range map[string]bool{
			"o": slices.Contains(options, "omitempty"),
			"z": slices.Contains(options, "omitzero"),
		} {
			if is {
				flags += flag
			}
		}
		for _, of := range []string{"optional", "required", "nullable"} {
			if _, is := marker(markers, of); is {
				flags += map[string]string{"optional": "p", "required": "r", "nullable": "n"}[of]
			}
		}
		letters := strings.Split(flags, "")
		slices.Sort(letters)
		goName := ""
		if len(field.Names) > 0 {
			goName = field.Names[0].Name
		}
		patch := tag.Get("patchStrategy")
		if key := tag.Get("patchMergeKey"); key != "" {
			patch += ":" + key
		}
		items, _ := marker(markers, "listType")
		var keys []string
		for _, m := range markers {
			if key, is := strings.CutPrefix(m, "listMapKey="); is {
				keys = append(keys, key)
			}
		}
		if of, is := marker(markers, "mapType"); is {
			items = "map-" + of
		}
		if of, is := marker(markers, "structType"); is {
			items = "struct-" + of
		}
		if len(keys) > 0 {
			items += ":" + strings.Join(keys, ",")
		}
		preset, _ := marker(markers, "default")
		if constant, is := strings.CutPrefix(preset, "ref("); is {
			preset = in.constants[strings.TrimSuffix(constant, ")")]
		}
		columns := []string{"", json, goName, number, strings.Join(letters, ""), shape, patch, items, preset, escaped(text)}
		fmt.Fprintln(t.out, strings.Join(columns, "\t"))
	}
}

func main() {
	t := &table{packages: map[string]*pkg{}, done: map[string]bool{}, out: bufio.NewWriter(os.Stdout)}
	defer t.out.Flush()
	var versions []string
	for _, module := range []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/kube-aggregator"} {
		versions = append(versions, list("-m", "-f", "{{.Path}} {{.Version}}", module))
	}
	fmt.Fprintf(t.out, "# Written by \"go run ./catalogue\" in integration/oracle, from the source of %s.\n", strings.Join(versions, ", "))
	fmt.Fprintln(t.out, "# Its documentation is Kubernetes', under the Apache License 2.0. Do not edit.")
	for _, group := range kinds {
		for _, kind := range group.names {
			t.load(group.pkg)
			t.pending = append(t.pending, group.pkg+"."+kind)
			fmt.Fprintf(t.out, "kind\t%s\t%s\t%s\t%s.%s\n", group.apiVersion, kind, group.pkg, short(group.pkg), kind)
		}
	}
	for len(t.pending) > 0 {
		next := t.pending[0]
		t.pending = t.pending[1:]
		if t.done[next] {
			continue
		}
		t.done[next] = true
		dot := strings.LastIndex(next, ".")
		in, name := t.packages[next[:dot]], next[dot+1:]
		if key := short(in.path); key == "meta/v1" && (name == "TypeMeta" || name == "ListMeta") {
			continue
		}
		t.structure(in, name)
	}
}
