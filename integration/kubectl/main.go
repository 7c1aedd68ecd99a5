// Command kubectl is upstream's kubectl, built by ./test where the machine has none that is recent enough.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()))
}
