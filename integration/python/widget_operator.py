"""An ordinary operator made with kopf: a finalizer, owned objects, a status, events, and a diff of what changed.

For each widget it keeps a ConfigMap that the widget owns, writes status.size, and emits an event for each change.
integration/tests/e2e/operators.rs runs it against kindom alone.
"""

import kopf
import kubernetes


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.posting.level = 20
    kubernetes.config.load_kube_config()


def config_map(name, spec):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"size": str(spec.get("size"))},
    }


@kopf.on.create("shop.example.com", "v1", "widgets")
def created(name, namespace, spec, patch, body, **_):
    owned = config_map(name, spec)
    kopf.adopt(owned)
    kubernetes.client.CoreV1Api().create_namespaced_config_map(namespace, owned)
    kopf.event(body, type="Normal", reason="Made", message=f"the widget has size {spec.get('size')}")
    patch.status["size"] = spec.get("size")


@kopf.on.update("shop.example.com", "v1", "widgets", field="spec.size")
def resized(name, namespace, spec, old, new, patch, body, **_):
    kubernetes.client.CoreV1Api().patch_namespaced_config_map(name, namespace, config_map(name, spec))
    kopf.event(body, type="Normal", reason="Resized", message=f"from {old} to {new}")
    patch.status["size"] = new


@kopf.on.delete("shop.example.com", "v1", "widgets")
def deleted(name, namespace, body, **_):
    kopf.event(body, type="Normal", reason="Removed", message="the widget goes")
