// Command etcd is upstream's etcd, built by ./test --full into .test/bin: a newer one than most distributions have.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
