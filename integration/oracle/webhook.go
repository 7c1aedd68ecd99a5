package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"
)

var undecodable = regexp.MustCompile(`not decodable revision=\d+`)

// conversionWebhook is a webhook for scripts, which converts and admits. It converts: v1 has `spec.size.width`
// where v1beta1 has `spec.width`. `spec.note` of the first object of a review says
// how the webhook lies about it (`integration/tests/e2e/webhook.rs`, `by_note`, is
// the same).
type conversionWebhook struct {
	address     string
	authorities string
	stop        func()
}

func startConversionWebhook() (*conversionWebhook, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "webhook"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(convertReview)}
	go server.Serve(listener)
	return &conversionWebhook{
		address:     listener.Addr().String(),
		authorities: base64.StdEncoding.EncodeToString(certificate),
		stop:        func() { server.Close() },
	}, nil
}

// mask hides what differs from run to run.
func (w *conversionWebhook) mask(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, w.address, "<webhook>"), w.authorities, "<authorities>")
	return undecodable.ReplaceAllString(text, "not decodable revision=<revision>")
}

type object = map[string]any

func convertReview(writer http.ResponseWriter, request *http.Request) {
	var review object
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	asked := review["request"].(object)
	if review["kind"] == "AdmissionReview" {
		admitReview(writer, request.URL.Path, review)
		return
	}
	wanted := asked["desiredAPIVersion"].(string)
	var converted []any
	note := ""
	for i, item := range asked["objects"].([]any) {
		each := item.(object)
		if spec, ok := each["spec"].(object); ok && i == 0 {
			note, _ = spec["note"].(string)
		}
		converted = append(converted, convertObject(each, wanted))
	}
	response := object{"uid": asked["uid"], "result": object{"status": "Success"}, "convertedObjects": converted}
	answer := object{"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
	first := converted[0].(object)
	metadata := first["metadata"].(object)
	switch note {
	case "uid":
		response["uid"] = "other"
	case "failure":
		response["result"] = object{"status": "Failure", "message": "not today"}
	case "no status":
		response["result"] = object{}
	case "no response":
		delete(answer, "response")
	case "other kind":
		answer["kind"] = "Conversion"
	case "no objects":
		response["convertedObjects"] = []any{}
	case "same version":
		first["apiVersion"] = "other.example.com/v1"
	case "other object":
		first["kind"] = "Other"
	case "other name":
		metadata["name"] = "two"
	case "other namespace":
		metadata["namespace"] = "kube-system"
	case "other uid":
		metadata["uid"] = "u"
	case "no metadata":
		delete(first, "metadata")
	case "text for metadata":
		first["metadata"] = "x"
	case "number in labels":
		metadata["labels"] = object{"a": 1}
	case "text for labels":
		metadata["labels"] = "x"
	case "list for annotations":
		metadata["annotations"] = []any{}
	case "no label":
		metadata["labels"] = object{"a": "not a label!"}
	case "no annotation":
		metadata["annotations"] = object{"not an annotation!": "x"}
	case "more metadata":
		metadata["labels"] = object{"by": "webhook"}
		metadata["annotations"] = object{"by": "webhook"}
		metadata["finalizers"] = []any{"example.com/none"}
		metadata["generation"] = 77
	case "text for an object":
		response["convertedObjects"] = []any{"x"}
	case "500":
		http.Error(writer, "boom", http.StatusInternalServerError)
		return
	case "404":
		http.Error(writer, "gone", http.StatusNotFound)
		return
	case "503":
		http.Error(writer, "busy", http.StatusServiceUnavailable)
		return
	case "end":
		panic(http.ErrAbortHandler)
	}
	writer.Header().Set("Content-Type", "application/json")
	json.NewEncoder(writer).Encode(answer)
}

// admitReview answers an admission review as an annotation of its object wants it:
// that by the name of the path, whose text is JSON. Without one, it allows.
//
//	response, answer   fields of the response, and of the whole answer
//	patch              the operations of a JSON patch
//	echo               true for a refusal with the request as its message
//	code, text         a status code and a body instead of an answer; "end" ends the connection
func admitReview(writer http.ResponseWriter, path string, review object) {
	asked := review["request"].(object)
	said := object{}
	for _, field := range []string{"object", "oldObject"} {
		of, _ := asked[field].(object)
		metadata, _ := of["metadata"].(object)
		annotations, _ := metadata["annotations"].(object)
		if text, ok := annotations[strings.TrimPrefix(path, "/")].(string); ok {
			if err := json.Unmarshal([]byte(text), &said); err != nil {
				http.Error(writer, err.Error(), http.StatusBadRequest)
				return
			}
			break
		}
	}
	if text, ok := said["text"].(string); ok {
		if text == "end" {
			panic(http.ErrAbortHandler)
		}
		code, ok := said["code"].(float64)
		if !ok {
			code = 200
		}
		writer.Header().Set("Content-Type", "text/plain")
		writer.WriteHeader(int(code))
		writer.Write([]byte(text))
		return
	}
	response := object{"uid": asked["uid"], "allowed": true}
	answer := object{"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
	if patch, ok := said["patch"]; ok {
		operations, _ := json.Marshal(patch)
		response["patch"], response["patchType"] = operations, "JSONPatch"
	}
	if said["echo"] == true {
		message, _ := json.Marshal(steady(asked, ""))
		response["allowed"], response["status"] = false, object{"message": string(message)}
	}
	over(response, said["response"])
	over(answer, said["answer"])
	writer.Header().Set("Content-Type", "application/json")
	json.NewEncoder(writer).Encode(answer)
}

// over puts fields over those that are there; null removes one.
func over(of object, fields any) {
	fieldsOf, _ := fields.(object)
	for field, value := range fieldsOf {
		if value == nil {
			delete(of, field)
		} else {
			of[field] = value
		}
	}
}

// steady is a value without what differs from run to run and from server to server.
func steady(value any, field string) any {
	switch value := value.(type) {
	case object:
		fields := object{}
		for name, each := range value {
			switch name {
			case "managedFields", "userInfo":
			default:
				fields[name] = steady(each, name)
			}
		}
		return fields
	case []any:
		items := []any{}
		for _, each := range value {
			items = append(items, steady(each, ""))
		}
		return items
	case string:
		switch field {
		case "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp":
			return "(" + field + ")"
		}
	}
	return value
}

func convertObject(each object, wanted string) object {
	each["apiVersion"] = wanted
	spec, ok := each["spec"].(object)
	if !ok {
		return each
	}
	if strings.HasSuffix(wanted, "/v1") {
		if width, found := spec["width"]; found {
			delete(spec, "width")
			spec["size"] = object{"width": width}
		}
	} else if size, found := spec["size"].(object); found {
		delete(spec, "size")
		spec["width"] = size["width"]
	}
	return each
}
