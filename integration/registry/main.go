// Command registry is a registry of images in memory, on a free port of this machine, which takes what one user pushes.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	user, password := os.Getenv("REGISTRY_USER"), os.Getenv("REGISTRY_PASSWORD")
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if given, secret, _ := r.BasicAuth(); given != user || secret != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}`, http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	})
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, handler))
}
