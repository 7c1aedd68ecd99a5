package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// masker replaces what differs from run to run by symbols. Equal values get
// equal symbols within one script, so that a comparer can still tell whether a
// uid or a resourceVersion stayed or changed, and a later resourceVersion gets
// a greater number.
type masker struct {
	managedFields bool
	// script is the text of the script: a time that stands in it is the
	// client's and no accident of the run.
	script    string
	numbers   map[string]map[string]int
	generated []rename
	// bookmark is set while a BOOKMARK is walked: all it says is how far the server is.
	bookmark bool
}

type rename struct{ from, to string }

func newMasker(maskManagedFields bool, script string) *masker {
	return &masker{managedFields: maskManagedFields, script: script, numbers: map[string]map[string]int{}}
}

var (
	digits      = regexp.MustCompile(`^[1-9][0-9]*$`)
	uuid        = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timestamp   = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)
	messageRV   = regexp.MustCompile(`(ResourceVersion in precondition: |ResourceVersion in object meta: )(\d+)`)
	recordRV    = regexp.MustCompile(`(the ResourceVersion in record )\(\d+\)`)
	quotedObj   = regexp.MustCompile(`"\{\\"(?:apiVersion|kind|metadata)(?:[^"\\]|\\.)*\}"`)
	singleObj   = regexp.MustCompile(`'\{"(?:apiVersion|kind|metadata).*\}'`)
	messageNow  = regexp.MustCompile(`(, current: |too old resource version: \d+ \()(\d+)`)
	hash        = regexp.MustCompile(`hash=[0-9A-F]{64,}`)
	marked      = regexp.MustCompile(`<rv([#@])(\d+)>`)
	jwt         = regexp.MustCompile(`\beyJ[\w-]+\.[\w-]+\.[\w-]+`)
	clusterIP   = regexp.MustCompile(`\b10\.0\.0\.\d+\b`)
	nodePort    = regexp.MustCompile(`:3[0-2]\d{3}/`)
	age         = regexp.MustCompile(`^(\d+[smhdy])+$`)
	textRV      = regexp.MustCompile(`(resourceVersion"?: ?")(\d+)"`)
	textTime    = regexp.MustCompile(`((?:creationTimestamp|deletionTimestamp|lastTransitionTime)"?: ?"?)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	entryTime   = regexp.MustCompile(`(\btime"?: ?"?)20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	yamlManaged = regexp.MustCompile(`(?m)^( *)managedFields:\n`)
	jsonManaged = regexp.MustCompile(`"managedFields": ?\[`)
)

// symbol numbers the distinct values of one kind by first appearance.
func (m *masker) symbol(kind, value string) string {
	known := m.numbers[kind]
	if known == nil {
		known = map[string]int{}
		m.numbers[kind] = known
	}
	number, found := known[value]
	if !found {
		number = len(known) + 1
		known[value] = number
	}
	return fmt.Sprintf("<%s-%d>", kind, number)
}

// versionMark marks a resourceVersion: one that belongs to an object, or one that
// says how far the server is, which other writers move. `settle` names both.
func versionMark(value string, loose bool) string {
	if loose {
		return "<rv@" + value + ">"
	}
	return "<rv#" + value + ">"
}

// settle names the marked resourceVersions of a whole file: `<rv-3>` is the
// third of those that belong to objects, by value, and `<rv-3+>` is none older
// than the third.
func settle(text string) string {
	found := marked.FindAllStringSubmatch(text, -1)
	var values []string
	for _, match := range found {
		if match[1] == "#" {
			values = append(values, match[2])
		}
	}
	sort.Slice(values, func(i, j int) bool { return less(values[i], values[j]) })
	values = slices.Compact(values)
	return marked.ReplaceAllStringFunc(text, func(found string) string {
		match := marked.FindStringSubmatch(found)
		upto := sort.Search(len(values), func(i int) bool { return less(match[2], values[i]) })
		switch {
		case match[1] == "#":
			return fmt.Sprintf("<rv-%d>", upto)
		case upto == 0:
			return "<rv>"
		}
		return fmt.Sprintf("<rv-%d+>", upto)
	})
}

// less compares whole numbers without leading zeros.
func less(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

// time masks a time unless the script gave it.
func (m *masker) time(text string) string {
	if strings.Contains(m.script, text) {
		return text
	}
	return "<time>"
}

// times masks the times of a map.
func (m *masker) times(of map[string]any) map[string]any {
	out := map[string]any{}
	for _, key := range sortedKeys(of) {
		if text, ok := of[key].(string); ok && timestamp.MatchString(text) {
			out[key] = m.time(text)
			continue
		}
		out[key] = m.walk(of[key])
	}
	return out
}

// body masks one JSON document.
func (m *masker) body(value any) any {
	m.learnNames(value)
	return m.walk(value)
}

// event masks the object of a watch event.
func (m *masker) event(kind, object any) any {
	m.bookmark = kind == "BOOKMARK"
	defer func() { m.bookmark = false }()
	return m.body(object)
}

// learnNames finds names made from generateName, so that they are masked
// wherever they appear, also in messages.
func (m *masker) learnNames(value any) {
	switch node := value.(type) {
	case map[string]any:
		prefix, _ := node["generateName"].(string)
		name, _ := node["name"].(string)
		if suffix, ok := strings.CutPrefix(name, prefix); ok && prefix != "" && len(suffix) == 5 {
			symbol := prefix + m.symbol("suffix", suffix)
			m.generated = append(m.generated, rename{name, symbol})
		}
		for _, key := range sortedKeys(node) {
			m.learnNames(node[key])
		}
	case []any:
		for _, item := range node {
			m.learnNames(item)
		}
	}
}

func (m *masker) walk(value any) any {
	switch node := value.(type) {
	case map[string]any:
		return m.object(node)
	case []any:
		out := make([]any, len(node))
		for i, item := range node {
			out[i] = m.walk(item)
		}
		return out
	case string:
		return m.text(node)
	}
	return value
}

func (m *masker) object(node map[string]any) map[string]any {
	kind, _ := node["kind"].(string)
	_, list := node["items"].([]any)
	// What background writes of the server move has no identity to compare.
	loose := m.bookmark || list || kind == "Table"
	out := map[string]any{}
	for _, key := range sortedKeys(node) {
		child := node[key]
		switch key {
		case "metadata":
			if metadata, ok := child.(map[string]any); ok {
				out[key] = m.metadata(metadata, loose)
				continue
			}
		case "nodePort", "healthCheckNodePort":
			// A port that the server chose; one that stands in the script is the client's.
			if text := string(encode(child)); digits.MatchString(text) && !strings.Contains(m.script, text) {
				out[key] = m.symbol("port", text)
				continue
			}
		case "disruptedPods":
			// The names of pods, each with the time of its eviction.
			if pods, ok := child.(map[string]any); ok {
				out[key] = m.times(pods)
				continue
			}
		case "annotations":
			// An audit event has them if its request was slow.
			if annotations, ok := child.(map[string]any); ok && node["auditID"] != nil {
				maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, "apiserver.latency.k8s.io/") })
			}
		case "resourceVersion":
			// Of the object that an audit event is about.
			if text, ok := child.(string); ok && digits.MatchString(text) && node["resource"] != nil {
				out[key] = versionMark(text, true)
				continue
			}
		case "lastTransitionTime", "lastPhaseTransitionTime", "expirationTimestamp", "requestReceivedTimestamp", "stageTimestamp":
			if text, ok := child.(string); ok && timestamp.MatchString(text) {
				out[key] = m.time(text)
				continue
			}
		}
		out[key] = m.walk(child)
	}
	if kind == "Table" {
		maskAges(node, out)
	}
	if kind == "Status" {
		sortCauses(out)
	}
	return out
}

func (m *masker) metadata(node map[string]any, loose bool) map[string]any {
	out := map[string]any{}
	for _, key := range sortedKeys(node) {
		child := node[key]
		text, _ := child.(string)
		switch {
		case key == "managedFields" && m.managedFields:
			continue
		case key == "managedFields":
			child = m.managers(child)
		case key == "resourceVersion" && digits.MatchString(text):
			child = versionMark(text, loose)
		case key == "continue" && text != "":
			child = "<continue>"
		case (key == "creationTimestamp" || key == "deletionTimestamp") && timestamp.MatchString(text):
			child = m.time(text)
		default:
			child = m.walk(child)
		}
		out[key] = child
	}
	return out
}

// scripted ends the times that a script may give an entry of managedFields; a
// later one is the server's own.
const scripted = "2020"

// managers masks the times of managedFields that the server set and keeps
// those that a script gave. Entries are ordered by operation and whole second
// first: of those the server wrote in one run it depends on its speed which
// share a second, so they get one order here.
func (m *masker) managers(value any) any {
	entries, ok := m.walk(value).([]any)
	if !ok {
		return value
	}
	place := func(entry any) string {
		var place strings.Builder
		for _, key := range []string{"operation", "time", "manager", "apiVersion", "subresource"} {
			part, _ := lookup(entry, []string{key})
			text, _ := part.(string)
			place.WriteString(text + "\x00")
		}
		return place.String()
	}
	for _, entry := range entries {
		member, _ := entry.(map[string]any)
		if text, _ := member["time"].(string); timestamp.MatchString(text) && text >= scripted {
			// Sorts behind every digit.
			member["time"] = "<time>"
		}
	}
	sort.SliceStable(entries, func(i, j int) bool { return place(entries[i]) < place(entries[j]) })
	return entries
}

// text masks what is recognisable in any string: a message, a name, a body.
func (m *masker) text(text string) string {
	// A message may quote the whole object, times, managedFields and all.
	text = quotedObj.ReplaceAllString(text, `"<object>"`)
	text = singleObj.ReplaceAllString(text, `'<object>'`)
	text = uuid.ReplaceAllStringFunc(text, func(found string) string { return m.symbol("uid", found) })
	text = messageRV.ReplaceAllStringFunc(text, func(found string) string {
		parts := messageRV.FindStringSubmatch(found)
		return parts[1] + versionMark(parts[2], false)
	})
	text = recordRV.ReplaceAllString(text, "${1}(<rv>)")
	text = messageNow.ReplaceAllString(text, "${1}<rv>")
	text = hash.ReplaceAllString(text, "hash=<hash>")
	text = jwt.ReplaceAllString(text, "<token>")
	text = clusterIP.ReplaceAllStringFunc(text, func(found string) string { return m.chosen("ip", found) })
	text = nodePort.ReplaceAllStringFunc(text, func(found string) string {
		return ":" + m.chosen("port", strings.Trim(found, ":/")) + "/"
	})
	for _, generated := range m.generated {
		text = strings.ReplaceAll(text, generated.from, generated.to)
	}
	return text
}

// chosen masks an address or a port that the server chose from a range, which
// is one that does not stand in the script.
func (m *masker) chosen(kind, value string) string {
	if strings.Contains(m.script, value) {
		return value
	}
	return m.symbol(kind, value)
}

// document masks a body that is kept as text: YAML, or JSON compared to the byte.
func (m *masker) document(text string) string {
	if m.managedFields {
		text = stripManagedFields(text)
	}
	text = textRV.ReplaceAllStringFunc(text, func(found string) string {
		parts := textRV.FindStringSubmatch(found)
		return parts[1] + versionMark(parts[2], false) + `"`
	})
	text = textTime.ReplaceAllString(text, "${1}<time>")
	if !m.managedFields {
		text = entryTime.ReplaceAllString(text, "${1}<time>")
	}
	return m.text(text)
}

// stripManagedFields cuts the member out of a JSON or YAML text without
// touching a byte of the rest.
func stripManagedFields(text string) string {
	for {
		at := yamlManaged.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		indent, end := text[at[2]:at[3]], at[1]
		for end < len(text) {
			line, _, _ := strings.Cut(text[end:], "\n")
			if !strings.HasPrefix(line, indent+"- ") && !strings.HasPrefix(line, indent+"  ") {
				break
			}
			end = min(end+len(line)+1, len(text))
		}
		text = text[:at[0]] + text[end:]
	}
	for {
		at := jsonManaged.FindStringIndex(text)
		if at == nil {
			return text
		}
		end, depth, quoted := at[1], 1, false
		for ; end < len(text) && depth > 0; end++ {
			switch c := text[end]; {
			case quoted && c == '\\':
				end++
			case c == '"':
				quoted = !quoted
			case !quoted && c == '[':
				depth++
			case !quoted && c == ']':
				depth--
			}
		}
		// With a neighbour goes a comma: the one behind, or else the one before.
		before, after := strings.TrimRight(text[:at[0]], " \n"), text[end:]
		if rest, ok := strings.CutPrefix(after, ","); ok {
			text = text[:at[0]] + strings.TrimLeft(rest, " \n")
		} else {
			text = strings.TrimSuffix(before, ",") + after
		}
	}
}

// maskAges hides the cells of date columns: they say how long ago.
func maskAges(table, masked map[string]any) {
	columns, _ := table["columnDefinitions"].([]any)
	rows, _ := masked["rows"].([]any)
	for i, column := range columns {
		if kind, _ := lookup(column, []string{"type"}); kind != "date" {
			continue
		}
		for _, row := range rows {
			cells, _ := lookup(row, []string{"cells"})
			list, _ := cells.([]any)
			if i < len(list) {
				text, _ := list[i].(string)
				switch {
				case age.MatchString(text):
					list[i] = "<age>"
				case timestamp.MatchString(text):
					list[i] = "<time>"
				}
			}
		}
	}
}

// sortCauses gives a Status with several causes one order: upstream's own
// differs from run to run, and with it the message that joins them.
func sortCauses(status map[string]any) {
	found, _ := lookup(status, []string{"details", "causes"})
	causes, _ := found.([]any)
	if len(causes) < 2 {
		return
	}
	sort.SliceStable(causes, func(i, j int) bool { return string(encode(causes[i])) < string(encode(causes[j])) })
	if message, ok := status["message"].(string); ok {
		if head, _, found := strings.Cut(message, " is invalid: ["); found {
			status["message"] = head + " is invalid: <causes>"
		}
	}
}

func sortedKeys[V any](node map[string]V) []string {
	keys := make([]string, 0, len(node))
	for key := range node {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// layout prints JSON with whatever fits on a line on one line, so that the
// files stay short and their diffs readable.
func layout(out *strings.Builder, value any, indent, used int) {
	const width = 140
	flat := encode(value)
	if indent+used+len(flat) <= width {
		out.Write(flat)
		return
	}
	pad := strings.Repeat(" ", indent+1)
	switch node := value.(type) {
	case map[string]any:
		out.WriteString("{\n")
		for i, key := range sortedKeys(node) {
			if i > 0 {
				out.WriteString(",\n")
			}
			name := string(encode(key)) + ": "
			out.WriteString(pad + name)
			layout(out, node[key], indent+1, len(name)+1)
		}
		out.WriteString("\n" + pad[1:] + "}")
	case []any:
		out.WriteString("[\n")
		for i, item := range node {
			if i > 0 {
				out.WriteString(",\n")
			}
			out.WriteString(pad)
			layout(out, item, indent+1, 1)
		}
		out.WriteString("\n" + pad[1:] + "]")
	default:
		out.Write(flat)
	}
}

// tree turns tagged structs into the maps that layout prints.
func tree(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // our own types only
	}
	out, err := decode(data)
	if err != nil {
		panic(err)
	}
	return out
}
