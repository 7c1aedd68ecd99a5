"""The official Python client against one server: registers a type, then creates, lists, watches, patches and deletes.

Run with KUBECONFIG set; prints each step, and "all done" at the end. Any failure is an exception.
"""

import contextlib
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

GROUP, VERSION, PLURAL, KIND, NAMESPACE = "python.example.com", "v1", "snakes", "Snake", "default"
NAME = f"{PLURAL}.{GROUP}"


def step(text):
    print(text, flush=True)


@contextlib.contextmanager
def refused(status, reason):
    try:
        yield
    except ApiException as e:
        assert e.status == status, e
        assert f'"reason":"{reason}"' in e.body.replace(" ", ""), e.body
    else:
        raise AssertionError(f"expected {status} {reason}")


def registration():
    spec = client.V1JSONSchemaProps(
        type="object",
        properties={
            "length": client.V1JSONSchemaProps(type="integer", minimum=1, default=3),
            "colour": client.V1JSONSchemaProps(type="string"),
        },
    )
    schema = client.V1JSONSchemaProps(type="object", properties={"spec": spec})
    return client.V1CustomResourceDefinition(
        metadata=client.V1ObjectMeta(name=NAME),
        spec=client.V1CustomResourceDefinitionSpec(
            group=GROUP,
            scope="Namespaced",
            names=client.V1CustomResourceDefinitionNames(plural=PLURAL, singular="snake", kind=KIND),
            versions=[
                client.V1CustomResourceDefinitionVersion(
                    name=VERSION,
                    served=True,
                    storage=True,
                    schema=client.V1CustomResourceValidation(open_apiv3_schema=schema),
                )
            ],
        ),
    )


def established(crd):
    return any(c.type == "Established" and c.status == "True" for c in crd.status.conditions or [])


def register(api):
    api.create_custom_resource_definition(registration())
    events = watch.Watch()
    for event in events.stream(api.list_custom_resource_definition, field_selector=f"metadata.name={NAME}"):
        if established(event["object"]):
            events.stop()
    step("registered")


def snake(name, **spec):
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": KIND, "metadata": {"name": name}, "spec": spec}


def custom_objects(api):
    where = (GROUP, VERSION, NAMESPACE, PLURAL)
    created = api.create_namespaced_custom_object(*where, snake("adder", colour="grey"))
    assert created["spec"] == {"colour": "grey", "length": 3}, created
    with refused(409, "AlreadyExists"):
        api.create_namespaced_custom_object(*where, snake("adder"))
    with refused(422, "Invalid"):
        api.create_namespaced_custom_object(*where, snake("worm", length=0))

    seen, begun = [], threading.Event()
    start = api.list_namespaced_custom_object(*where)["metadata"]["resourceVersion"]

    def follow():
        events = watch.Watch()
        begun.set()
        for event in events.stream(api.list_namespaced_custom_object, *where, resource_version=start):
            seen.append((event["type"], event["object"]["metadata"]["name"], event["object"]["spec"]["length"]))
            if event["type"] == "DELETED":
                events.stop()

    follower = threading.Thread(target=follow)
    follower.start()
    begun.wait()
    patched = api.patch_namespaced_custom_object(*where, "adder", {"spec": {"length": 7}})
    assert patched["spec"]["length"] == 7 and patched["metadata"]["generation"] == 2, patched
    stale = dict(created, spec={"length": 9})
    with refused(409, "Conflict"):
        api.replace_namespaced_custom_object(*where, "adder", stale)
    patched["spec"]["length"] = 8
    api.replace_namespaced_custom_object(*where, "adder", patched)
    api.delete_namespaced_custom_object(*where, "adder")
    follower.join(60)
    assert seen == [("MODIFIED", "adder", 7), ("MODIFIED", "adder", 8), ("DELETED", "adder", 8)], seen
    with refused(404, "NotFound"):
        api.get_namespaced_custom_object(*where, "adder")
    step("custom objects: created, watched, patched, replaced, deleted")


def dynamic_client(api_client):
    found = dynamic.DynamicClient(api_client).resources.get(api_version=f"{GROUP}/{VERSION}", kind=KIND)
    assert found.namespaced and found.name == PLURAL
    for name in ("boa", "cobra", "mamba"):
        body = snake(name)
        body["metadata"]["labels"] = {"venom": "no" if name == "boa" else "yes"}
        found.create(body=body, namespace=NAMESPACE)
    listed = found.get(namespace=NAMESPACE, label_selector="venom=yes")
    assert [s.metadata.name for s in listed.items] == ["cobra", "mamba"]
    patch = [{"op": "replace", "path": "/spec/length", "value": 12}]
    found.patch(body=patch, name="boa", namespace=NAMESPACE, content_type="application/json-patch+json")
    assert found.get(name="boa", namespace=NAMESPACE).spec.length == 12
    found.delete(namespace=NAMESPACE, label_selector="venom=yes")
    assert [s.metadata.name for s in found.get(namespace=NAMESPACE).items] == ["boa"]
    step("dynamic client: discovered, created, selected, patched, deleted a collection")


def apply(api_client):
    found = dynamic.DynamicClient(api_client).resources.get(api_version=f"{GROUP}/{VERSION}", kind=KIND)

    def applied(manager, force=False, **spec):
        return found.server_side_apply(
            body=snake("python", **spec),
            name="python",
            namespace=NAMESPACE,
            field_manager=manager,
            force_conflicts=force,
        )

    created = applied("keeper", colour="green", length=4)
    again = applied("keeper", colour="green", length=4)
    assert created.metadata.resourceVersion == again.metadata.resourceVersion, again
    with refused(409, "Conflict"):
        applied("vet", length=5)
    taken = applied("vet", force=True, length=5)
    assert taken.spec.colour == "green" and taken.spec.length == 5, taken
    assert sorted((m.manager, m.operation) for m in taken.metadata.managedFields) == [
        ("keeper", "Apply"),
        ("vet", "Apply"),
    ], taken
    found.delete(name="python", namespace=NAMESPACE)
    step("apply: created, nothing to do, in conflict, by force")


def namespaces(core):
    names = {n.metadata.name for n in core.list_namespace().items}
    assert {"default", "kube-system", "kube-public", "kube-node-lease"} <= names, names
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="pit")))
    api = client.CustomObjectsApi(core.api_client)
    api.create_namespaced_custom_object(GROUP, VERSION, "pit", PLURAL, snake("viper"))
    start = core.list_namespace().metadata.resource_version
    core.delete_namespace("pit")
    events = watch.Watch()
    for event in events.stream(core.list_namespace, field_selector="metadata.name=pit", resource_version=start):
        if event["type"] == "DELETED":
            events.stop()
    with refused(404, "NotFound"):
        api.get_namespaced_custom_object(GROUP, VERSION, "pit", PLURAL, "viper")
    step("namespaces: listed, created, drained")


def unregister(api):
    start = api.list_custom_resource_definition().metadata.resource_version
    api.delete_custom_resource_definition(NAME)
    events = watch.Watch()
    for event in events.stream(
        api.list_custom_resource_definition, field_selector=f"metadata.name={NAME}", resource_version=start
    ):
        if event["type"] == "DELETED":
            events.stop()
    with refused(404, "NotFound"):
        api.read_custom_resource_definition(NAME)
    step("unregistered")


def main():
    config.load_kube_config()
    api_client = client.ApiClient()
    assert client.VersionApi(api_client).get_code().major == "1"
    registrations = client.ApiextensionsV1Api(api_client)
    register(registrations)
    custom_objects(client.CustomObjectsApi(api_client))
    dynamic_client(api_client)
    apply(api_client)
    namespaces(client.CoreV1Api(api_client))
    unregister(registrations)
    step("all done")


main()
