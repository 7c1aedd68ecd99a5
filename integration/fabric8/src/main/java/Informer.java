import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.ObjectMetaBuilder;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinition;
import io.fabric8.kubernetes.api.model.apiextensions.v1.CustomResourceDefinitionBuilder;
import io.fabric8.kubernetes.api.model.apiextensions.v1.JSONSchemaPropsBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Uses a type as any Java program does: with fabric8's client, made from KUBECONFIG and nothing else. */
public final class Informer {
    private static final BlockingQueue<String> EVENTS = new LinkedBlockingQueue<>();

    private static void expect(String wanted) throws InterruptedException {
        String event = EVENTS.poll(60, TimeUnit.SECONDS);
        if (!wanted.equals(event)) {
            throw new IllegalStateException("expected " + wanted + ", saw " + event);
        }
    }

    private static GenericKubernetesResource gear(String name, int size) {
        GenericKubernetesResource gear = new GenericKubernetesResource();
        gear.setApiVersion("java.example.com/v1");
        gear.setKind("Gear");
        gear.setMetadata(new ObjectMetaBuilder().withName(name).withNamespace("default").build());
        gear.setAdditionalProperty("spec", Map.of("size", size));
        return gear;
    }

    public static void main(String[] args) throws Exception {
        try (KubernetesClient client = new KubernetesClientBuilder().build()) {
            CustomResourceDefinition definition = new CustomResourceDefinitionBuilder()
                .withNewMetadata().withName("gears.java.example.com").endMetadata()
                .withNewSpec()
                .withGroup("java.example.com")
                .withScope("Namespaced")
                .withNewNames().withPlural("gears").withKind("Gear").endNames()
                .addNewVersion()
                .withName("v1").withServed(true).withStorage(true)
                .withNewSchema()
                .withOpenAPIV3Schema(new JSONSchemaPropsBuilder()
                    .withType("object").withXKubernetesPreserveUnknownFields(true).build())
                .endSchema()
                .endVersion()
                .endSpec()
                .build();
            client.apiextensions().v1().customResourceDefinitions().resource(definition).create();
            client.apiextensions().v1().customResourceDefinitions().withName("gears.java.example.com")
                .waitUntilCondition(found -> found != null && found.getStatus() != null
                    && found.getStatus().getConditions().stream()
                        .anyMatch(c -> "Established".equals(c.getType()) && "True".equals(c.getStatus())),
                    60, TimeUnit.SECONDS);

            var gears = client.genericKubernetesResources(new ResourceDefinitionContext.Builder()
                .withGroup("java.example.com").withVersion("v1").withKind("Gear").withPlural("gears")
                .withNamespaced(true).build()).inNamespace("default");
            gears.resource(gear("before", 1)).create();
            var informer = gears.inform(new ResourceEventHandler<GenericKubernetesResource>() {
                @Override
                public void onAdd(GenericKubernetesResource object) {
                    EVENTS.add("add " + object.getMetadata().getName());
                }

                @Override
                public void onUpdate(GenericKubernetesResource old, GenericKubernetesResource object) {
                    EVENTS.add("update " + object.getMetadata().getName() + " " + object.<Integer>get("spec", "size"));
                }

                @Override
                public void onDelete(GenericKubernetesResource object, boolean finalStateUnknown) {
                    EVENTS.add("delete " + object.getMetadata().getName());
                }
            });
            expect("add before");
            if (!informer.hasSynced() || !informer.isWatching()) {
                throw new IllegalStateException("the informer does not watch");
            }
            gears.resource(gear("one", 1)).create();
            expect("add one");
            gears.withName("one").edit(object -> {
                object.setAdditionalProperty("spec", Map.of("size", 2));
                return object;
            });
            expect("update one 2");
            gears.withName("one").delete();
            expect("delete one");
            informer.close();
            client.apiextensions().v1().customResourceDefinitions().withName("gears.java.example.com").delete();
        }
        System.out.println("all done");
    }
}
