// Cel records what Kubernetes' CEL answers.
//
// It reads the tables of cases in `<theme>.yaml`, puts each case to the very
// code that the API server runs, in this process, and writes the answers to
// `<theme>.recorded.json` beside the table.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/util/compatibility"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
)

const command = "go run ./cel -tables ../expectations/cel"

// release is the Kubernetes whose functions are all to be had.
var release = version.MajorMinor(1, 37)

func main() {
	tables := flag.String("tables", "../expectations/cel", "folder with the tables")
	only := flag.String("only", "", "comma-separated themes to record; all if empty")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	if err := record(*tables, *only); err != nil {
		fmt.Fprintln(os.Stderr, "cel:", err)
		os.Exit(1)
	}
}

// allowReleaseFunctions makes new rules see the functions of the release
// itself. A real server keeps those from new rules until its next release, so
// that a rollback finds none.
func allowReleaseFunctions() error {
	effective, ok := compatibility.DefaultComponentGlobalsRegistry.
		EffectiveVersionFor(basecompatibility.DefaultKubeComponent).(basecompatibility.MutableEffectiveVersion)
	if !ok {
		return fmt.Errorf("the effective version cannot be set")
	}
	effective.SetMinCompatibilityVersion(release)
	if got := environment.DefaultCompatibilityVersion(); !got.EqualTo(release) {
		return fmt.Errorf("compatibility version is %s, not %s", got, release)
	}
	return nil
}

func record(tables, only string) error {
	if err := allowReleaseFunctions(); err != nil {
		return err
	}
	paths, err := filepath.Glob(filepath.Join(tables, "*.yaml"))
	if err != nil {
		return err
	}
	total := map[string]int{}
	for _, path := range paths {
		theme := strings.TrimSuffix(filepath.Base(path), ".yaml")
		if only != "" && !strings.Contains(","+only+",", ","+theme+",") {
			continue
		}
		table, err := readTable(path)
		if err != nil {
			return fmt.Errorf("%s: %w", theme, err)
		}
		cases, err := table.record()
		if err != nil {
			return fmt.Errorf("%s: %w", theme, err)
		}
		out := filepath.Join(tables, theme+".recorded.json")
		if err := write(out, table.About, cases); err != nil {
			return err
		}
		for _, c := range cases {
			total[c.Kind]++
		}
		fmt.Printf("%s: %d cases\n", theme, len(cases))
	}
	fmt.Printf("%d expressions, %d registrations, %d of them updates, %d evaluations\n",
		total["expression"], total["registration"]+total["registration-update"], total["registration-update"], total["evaluation"])
	return nil
}

// write puts one case on a line, so that a diff shows the cases that changed.
func write(path, about string, cases []recorded) error {
	var text strings.Builder
	fmt.Fprintf(&text, "{\n \"about\": %s,\n \"upstream\": %s,\n \"command\": %s,\n \"cases\": [",
		compact(about), compact(upstream()), compact(command))
	for i, c := range cases {
		if i > 0 {
			text.WriteString(",")
		}
		text.WriteString("\n  ")
		text.WriteString(compact(c))
	}
	text.WriteString("\n ]\n}\n")
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// upstream names what is linked into this binary.
func upstream() map[string]string {
	made := map[string]string{"environment": release.String()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return made
	}
	for _, dependency := range info.Deps {
		switch dependency.Path {
		case "k8s.io/apiextensions-apiserver", "k8s.io/apiserver", "github.com/google/cel-go":
			made[dependency.Path] = dependency.Version
		}
	}
	return made
}
