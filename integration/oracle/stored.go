package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// storedSetup says what is in the prefix that is recorded.
type storedSetup struct {
	// Raw is put into etcd before the server starts, as an older one left it.
	Raw []struct {
		Key   string          `json:"key"`
		Value json.RawMessage `json:"value"`
		Text  string          `json:"text"`
	} `json:"raw"`
	// Namespaces are put as kube-apiserver stores them, in protobuf.
	Namespaces []struct {
		Object json.RawMessage `json:"object"`
		// Unknown is appended to the object's bytes.
		Unknown []byte `json:"unknown"`
	} `json:"namespaces"`
	// Requests are sent one after the other; each has to succeed.
	Requests []struct {
		Method      string          `json:"method"`
		Path        string          `json:"path"`
		ContentType string          `json:"contentType"`
		Body        json.RawMessage `json:"body"`
		// Until names a condition of the object that has to be True, or False where it starts with "!".
		Until string `json:"until"`
	} `json:"requests"`
	// Read is what is asked of the server at last.
	Read []string `json:"read"`
}

type storedKey struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Base64 string `json:"base64,omitempty"`
}

type storedAnswer struct {
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

// recordStored fills a prefix, by hand and through the real server, and writes
// down every key and value of it with what that server answers of them.
func recordStored(folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, "setup.json"))
	if err != nil {
		return err
	}
	var setup storedSetup
	if err := json.Unmarshal(text, &setup); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "oracle-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	endpoint, stopEtcd, err := startEtcd(dir)
	if err != nil {
		return err
	}
	defer stopEtcd()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return err
	}
	defer etcd.Close()
	answers, err := putStored(etcd, &setup)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	base, client, ended, err := startServer(ctx, endpoint, dir)
	if err != nil {
		stop()
		return err
	}
	defer func() {
		client.CloseIdleConnections()
		stop()
		<-ended
	}()
	for _, request := range setup.Requests {
		body, err := send(client, request.Method, base+request.Path, request.ContentType, request.Body)
		if err != nil {
			return err
		}
		if request.Until != "" {
			if err := until(client, base, request.Path, body, request.Until); err != nil {
				return err
			}
		}
	}
	for _, path := range setup.Read {
		body, err := send(client, http.MethodGet, base+path, "", nil)
		if err != nil {
			return err
		}
		answers = append(answers, storedAnswer{path, body})
	}
	keys, err := dump(etcd)
	if err != nil {
		return err
	}
	made := header()
	made["command"] = "go run . -stored ../expectations/stored"
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(map[string]any{"oracle": made, "keys": keys, "answers": answers}); err != nil {
		return err
	}
	fmt.Printf("%d keys, %d answers\n", len(keys), len(answers))
	return os.WriteFile(filepath.Join(folder, "prefix.json"), out.Bytes(), 0o644)
}

// putStored puts what is there before the server, and gives what kube-apiserver
// would answer of the namespaces.
func putStored(etcd *clientv3.Client, setup *storedSetup) ([]storedAnswer, error) {
	var answers []storedAnswer
	for _, raw := range setup.Raw {
		value := raw.Text
		if raw.Value != nil {
			// As Go's encoder ends it.
			value = string(raw.Value) + "\n"
		}
		if _, err := etcd.Put(context.Background(), raw.Key, value); err != nil {
			return nil, err
		}
	}
	stored := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for _, of := range setup.Namespaces {
		var namespace corev1.Namespace
		if err := json.Unmarshal(of.Object, &namespace); err != nil {
			return nil, err
		}
		// As the codec of a version does.
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		var value []byte
		if len(of.Unknown) == 0 {
			var out bytes.Buffer
			if err := stored.Encode(&namespace, &out); err != nil {
				return nil, err
			}
			value = out.Bytes()
		} else {
			raw, err := namespace.Marshal()
			if err != nil {
				return nil, err
			}
			unknown := runtime.Unknown{
				TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
				Raw:      append(raw, of.Unknown...),
			}
			envelope, err := unknown.Marshal()
			if err != nil {
				return nil, err
			}
			value = append([]byte("k8s\x00"), envelope...)
		}
		if _, err := etcd.Put(context.Background(), "/registry/namespaces/"+namespace.Name, string(value)); err != nil {
			return nil, err
		}
		read, _, err := stored.Decode(value, &schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, nil)
		if err != nil {
			return nil, err
		}
		scheme.Scheme.Default(read)
		read.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
		body, err := json.Marshal(read)
		if err != nil {
			return nil, err
		}
		answers = append(answers, storedAnswer{"/api/v1/namespaces/" + namespace.Name, body})
	}
	return answers, nil
}

// send sends a request, again while the server rebuilds a type's storage.
func send(client *http.Client, method, url, contentType string, body []byte) (json.RawMessage, error) {
	for {
		request, err := http.NewRequest(method, url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if contentType == "" {
			contentType = "application/json"
		}
		request.Header.Set("Content-Type", contentType)
		request.Header.Set("User-Agent", "kubectl/v1.37.2")
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return nil, err
		}
		if response.StatusCode == http.StatusTooManyRequests {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if response.StatusCode/100 != 2 {
			return nil, fmt.Errorf("%s %s: %d %s", method, url, response.StatusCode, answer)
		}
		return answer, nil
	}
}

// until waits for a condition of the object that was written.
func until(client *http.Client, base, path string, written []byte, condition string) error {
	var object struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(written, &object); err != nil {
		return err
	}
	if !strings.HasSuffix(path, "/"+object.Metadata.Name) {
		path += "/" + object.Metadata.Name
	}
	kind, want := condition, "True"
	if rest, ok := strings.CutPrefix(condition, "!"); ok {
		kind, want = rest, "False"
	}
	for deadline := time.Now().Add(stepLimit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		body, err := send(client, http.MethodGet, base+path, "", nil)
		if err != nil {
			return err
		}
		var now struct {
			Status struct {
				Conditions []struct{ Type, Status string } `json:"conditions"`
			} `json:"status"`
		}
		if err := json.Unmarshal(body, &now); err != nil {
			return err
		}
		for _, c := range now.Status.Conditions {
			if c.Type == kind && c.Status == want {
				return nil
			}
		}
	}
	return fmt.Errorf("%s: no condition %s", path, condition)
}

func dump(etcd *clientv3.Client) ([]storedKey, error) {
	found, err := etcd.Get(context.Background(), "/registry/", clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	keys := make([]storedKey, 0, len(found.Kvs))
	for _, kv := range found.Kvs {
		key := storedKey{Key: string(kv.Key)}
		if utf8.Valid(kv.Value) {
			key.Value = string(kv.Value)
		} else {
			key.Base64 = base64.StdEncoding.EncodeToString(kv.Value)
		}
		keys = append(keys, key)
	}
	return keys, nil
}
