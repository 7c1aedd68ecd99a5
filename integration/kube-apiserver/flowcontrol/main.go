// Command flowcontrol prints the FlowSchemas and PriorityLevelConfigurations that upstream's server keeps, as JSON. From the folder
// above:
//
//	go run ./flowcontrol >../../objects/src/kinds/flow_control/defaults.json
package main

import (
	"bufio"
	"fmt"
	"os"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"kindom.dev/integration/kube-apiserver/print"
)

const source = "staging/src/k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap of Kubernetes 1.37"
const command = "go run ./flowcontrol >../../objects/src/kinds/flow_control/defaults.json, in integration/kube-apiserver"

// object is one of them without the fields that a server sets.
type object struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Spec       any      `json:"spec"`
}

type metadata struct {
	Name        string            `json:"name"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func levels(all []*flowcontrolv1.PriorityLevelConfiguration) (bare []object) {
	for _, full := range all {
		meta := metadata{full.Name, full.Annotations}
		bare = append(bare, object{flowcontrolv1.SchemeGroupVersion.String(), "PriorityLevelConfiguration", meta, full.Spec})
	}
	return bare
}

func schemas(all []*flowcontrolv1.FlowSchema) (bare []object) {
	for _, full := range all {
		meta := metadata{full.Name, full.Annotations}
		bare = append(bare, object{flowcontrolv1.SchemeGroupVersion.String(), "FlowSchema", meta, full.Spec})
	}
	return bare
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintf(out, "{\n\"source\":%s,\n\"command\":%s,\n", print.Line(source), print.Line(command))
	print.List(out, "suggestedLevels", levels(bootstrap.SuggestedPriorityLevelConfigurations))
	out.WriteString(",\n")
	print.List(out, "suggestedSchemas", schemas(bootstrap.SuggestedFlowSchemas))
	out.WriteString(",\n")
	print.List(out, "mandatoryLevels", levels(bootstrap.MandatoryPriorityLevelConfigurations))
	out.WriteString(",\n")
	print.List(out, "mandatorySchemas", schemas(bootstrap.MandatoryFlowSchemas))
	out.WriteString("\n}\n")
	if err := out.Flush(); err != nil {
		panic(err)
	}
}
