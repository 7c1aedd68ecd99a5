// Program go-clients uses types as any Go program does: with upstream's clientset for registrations, made from a
// kubeconfig and nothing else. integration/tests/e2e/go_clients.rs builds it with two versions of the clientset and runs it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"sort"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func expect(holds bool, what string, args ...any) {
	if !holds {
		panic(fmt.Sprintf(what, args...))
	}
}

// listener notes which media types are sent and answered; it changes nothing.
type listener struct {
	next  http.RoundTripper
	mutex *sync.Mutex
	seen  map[string]bool
}

func (l listener) RoundTrip(request *http.Request) (*http.Response, error) {
	sent := request.Header.Get("Content-Type")
	response, err := l.next.RoundTrip(request)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if sent != "" {
		l.seen["sent "+sent] = true
	}
	if err == nil {
		l.seen["answered "+response.Header.Get("Content-Type")] = true
	}
	return response, err
}

func pointer[T any](value T) *T { return &value }

func definition(plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	spec := apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"size":   {Type: "integer", Minimum: pointer(1.0), Maximum: pointer(100.0), Default: &apiextensionsv1.JSON{Raw: []byte(`5`)}},
			"ratio":  {Type: "number", Maximum: pointer(99.5), Minimum: pointer(-1e-9)},
			"colour": {Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"red"`)}, {Raw: []byte(`"blue"`)}}},
			"parts":  {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: pointer(int64(9))}}},
			"labels": {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
			"open":   {XPreserveUnknownFields: pointer(true), XIntOrString: false, Type: "object"},
		},
		XValidations: apiextensionsv1.ValidationRules{{Rule: "self.size < 99", Message: "too large"}},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".go.example.com", Labels: map[string]string{"b": "2", "a": "1"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "go.example.com",
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind, ShortNames: []string{plural[:2]}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
				}},
				Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Size", Type: "integer", JSONPath: ".spec.size"}},
			}},
		},
	}
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return true
		}
	}
	return false
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	config := must(clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG")))
	heard := listener{mutex: &sync.Mutex{}, seen: map[string]bool{}}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { heard.next = next; return heard })
	client := must(clientset.NewForConfig(rest.CopyConfig(config)))
	crds := client.ApiextensionsV1().CustomResourceDefinitions()

	// Watch from the present on, and keep an informer beside.
	listed := must(crds.List(ctx, metav1.ListOptions{}))
	events := must(crds.Watch(ctx, metav1.ListOptions{ResourceVersion: listed.ResourceVersion}))
	next := func(wanted watch.EventType, holds func(*apiextensionsv1.CustomResourceDefinition) bool) *apiextensionsv1.CustomResourceDefinition {
		for event := range events.ResultChan() {
			crd, is := event.Object.(*apiextensionsv1.CustomResourceDefinition)
			expect(is, "an event of type %s with %#v", event.Type, event.Object)
			if event.Type == wanted && holds(crd) {
				return crd
			}
		}
		panic("the watch has ended before " + wanted)
	}
	anything := func(*apiextensionsv1.CustomResourceDefinition) bool { return true }
	factory := externalversions.NewSharedInformerFactory(client, 0)
	informer := factory.Apiextensions().V1().CustomResourceDefinitions()
	gone := make(chan string, 16)
	must(informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(object interface{}) {
		if crd, is := object.(*apiextensionsv1.CustomResourceDefinition); is {
			gone <- crd.Name
		}
	}}))
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		expect(synced, "the informer of %s does not sync", kind)
	}

	// Register.
	wanted := definition("widgets", "Widget")
	dry := must(crds.Create(ctx, wanted, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
	expect(dry.UID != "" && dry.ResourceVersion == "", "a dry run gives %q %q", dry.UID, dry.ResourceVersion)
	created := must(crds.Create(ctx, wanted, metav1.CreateOptions{FieldManager: "go-clients", FieldValidation: metav1.FieldValidationStrict}))
	expect(next(watch.Added, anything).UID == created.UID, "another object was added")
	ready := next(watch.Modified, established)
	got := must(crds.Get(ctx, created.Name, metav1.GetOptions{}))
	expect(reflect.DeepEqual(got.Spec, ready.Spec), "get and watch differ: %v, %v", got.Spec, ready.Spec)
	want := wanted.DeepCopy()
	want.Spec.Names.Singular, want.Spec.Names.ListKind = "widget", "WidgetList"
	want.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	expect(reflect.DeepEqual(got.Spec, want.Spec), "what was sent is not what is there:\n%#v\n%#v", want.Spec, got.Spec)
	expect(reflect.DeepEqual(got.Labels, wanted.Labels), "labels are %v", got.Labels)
	expect(len(got.ManagedFields) > 0 && got.ManagedFields[0].FieldsV1 != nil, "managedFields are %v", got.ManagedFields)
	expect(!got.CreationTimestamp.IsZero(), "there is no creationTimestamp")
	// client-go's informers set no kind, its typed lists neither.
	for cached, err := informer.Lister().Get(got.Name); err != nil || !established(cached); cached, err = informer.Lister().Get(got.Name) {
		expect(err == nil || apierrors.IsNotFound(err), "%v", err)
		select {
		case <-ctx.Done():
			panic("the informer does not see the registration")
		case <-time.After(10 * time.Millisecond):
		}
	}

	// List, by page and by label.
	must(crds.Create(ctx, definition("gadgets", "Gadget"), metav1.CreateOptions{}))
	names := []string{}
	for options := (metav1.ListOptions{Limit: 1, LabelSelector: "a=1"}); ; {
		page := must(crds.List(ctx, options))
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	expect(reflect.DeepEqual(names, []string{"gadgets.go.example.com", "widgets.go.example.com"}), "the list has %v", names)

	// Update, patch, and write the status.
	got = must(crds.Get(ctx, got.Name, metav1.GetOptions{}))
	got.Annotations = map[string]string{"note": "<changed>"}
	got.Spec.Versions = append(got.Spec.Versions, *got.Spec.Versions[0].DeepCopy())
	got.Spec.Versions[1].Name, got.Spec.Versions[1].Storage = "v2", false
	updated := must(crds.Update(ctx, got, metav1.UpdateOptions{}))
	expect(updated.Generation == got.Generation+1 && len(updated.Spec.Versions) == 2, "updated to %v", updated)
	_, err := crds.Update(ctx, got, metav1.UpdateOptions{})
	expect(apierrors.IsConflict(err), "a stale update gives %v", err)
	patched := must(crds.Patch(ctx, got.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"c":"3"}}}`), metav1.PatchOptions{}))
	expect(patched.Labels["c"] == "3", "patched to %v", patched.Labels)
	status := must(crds.UpdateStatus(ctx, patched, metav1.UpdateOptions{}))
	expect(status.ResourceVersion != "" && established(status), "the status is %v", status.Status)

	// Errors are Statuses.
	_, err = crds.Create(ctx, wanted, metav1.CreateOptions{})
	expect(apierrors.IsAlreadyExists(err), "creating it twice gives %v", err)
	_, err = crds.Get(ctx, "none.go.example.com", metav1.GetOptions{})
	expect(apierrors.IsNotFound(err), "getting none gives %v", err)
	bad := definition("bad", "Bad")
	bad.Spec.Versions[0].Schema = nil
	_, err = crds.Create(ctx, bad, metav1.CreateOptions{})
	expect(apierrors.IsInvalid(err) && len(err.(apierrors.APIStatus).Status().Details.Causes) > 0, "an invalid one gives %v", err)

	// Only metadata, of registrations and of the objects of their types.
	objects := must(metadata.NewForConfig(rest.CopyConfig(config)))
	of := apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	partial := must(objects.Resource(of).List(ctx, metav1.ListOptions{}))
	expect(len(partial.Items) == 2 && partial.Items[1].UID == created.UID, "the metadata is %v", partial.Items)
	of = of.GroupResource().WithVersion("v1")
	of.Group, of.Resource = "go.example.com", "widgets"
	none := must(objects.Resource(of).Namespace("default").List(ctx, metav1.ListOptions{}))
	expect(len(none.Items) == 0 && none.ResourceVersion != "", "the metadata is %v", none)

	// The older face.
	older := must(client.ApiextensionsV1beta1().CustomResourceDefinitions().Get(ctx, got.Name, metav1.GetOptions{}))
	expect(older.UID == created.UID && older.Spec.Version == "v1" && older.Spec.Validation != nil, "as v1beta1 it is %v", older.Spec)
	olderMade := must(client.ApiextensionsV1beta1().CustomResourceDefinitions().Create(ctx, &apiextensionsv1beta1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "olds.go.example.com"},
		Spec: apiextensionsv1beta1.CustomResourceDefinitionSpec{
			Group: "go.example.com", Version: "v1", Scope: apiextensionsv1beta1.ClusterScoped,
			Names: apiextensionsv1beta1.CustomResourceDefinitionNames{Plural: "olds", Kind: "Old"},
		},
	}, metav1.CreateOptions{}))
	expect(olderMade.UID != "", "v1beta1 gives %v", olderMade)

	// Delete.
	uid := types.UID("not-it")
	err = crds.Delete(ctx, got.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	expect(apierrors.IsConflict(err), "deleting another gives %v", err)
	check(crds.Delete(ctx, got.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &created.UID}, PropagationPolicy: pointer(metav1.DeletePropagationBackground)}))
	next(watch.Deleted, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.UID == created.UID })
	check(crds.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	for left := map[string]bool{"widgets.go.example.com": true, "gadgets.go.example.com": true, "olds.go.example.com": true}; len(left) > 0; {
		select {
		case name := <-gone:
			delete(left, name)
		case <-ctx.Done():
			panic(fmt.Sprintf("the informer still has %v", left))
		}
	}

	leases(ctx, config, "application/json")
	leases(ctx, config, "application/vnd.kubernetes.protobuf")
	reconciles(ctx, config, "application/json")
	reconciles(ctx, config, "application/vnd.kubernetes.protobuf")

	seen := []string{}
	for media := range heard.seen {
		seen = append(seen, media)
	}
	sort.Strings(seen)
	fmt.Println(strings.Join(seen, "\n"))
	fmt.Println("all done")
}
