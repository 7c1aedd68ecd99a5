//! The default roles and bindings, and the aggregation of cluster roles.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use kindom_api::selector::LabelSelector;
use kindom_api::{Value, json, object};
use kindom_finalizer_actor::{DefaultRoles, RoleTypes, cluster_role_aggregation, default_roles};
use kindom_objects::kinds::namespace::namespaces;
use kindom_objects::kinds::service::ServiceNetwork;
use kindom_objects::kinds::{Profile, built_in};
use kindom_objects::rbac::coverage::{PolicyRule, missing};
use kindom_objects::{Removal, RuleContext, TypeSpec};
use kindom_resource_actor::{Freshness, ResourceHandle, RoleKinds, Target};
use kindom_storage::{Key, Op, Revision, Storage as _, Txn};

use crate::world::{self, World, decoded, options, soon};

const KINDS: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];

fn kinds() -> Vec<TypeSpec> {
    let all = built_in(Profile::ControlPlane, &ServiceNetwork::default());
    let of_roles = all.into_iter().filter(|spec| KINDS.contains(&spec.names.plural.as_str()));
    [namespaces()].into_iter().chain(of_roles).collect()
}

fn run<F: Future<Output = ()>>(seed: u64, pauses: u64, test: impl FnOnce(World, RoleTypes) -> F) {
    world::run(seed, pauses, kinds(), |world| async move {
        let types = types(&world);
        test(world, types).await;
    });
}

fn types(world: &World) -> RoleTypes {
    let handle = |plural: &str| {
        let is_it = |handle: &&ResourceHandle| handle.spec().unwrap().names.plural == plural;
        world.built_in.iter().find(is_it).unwrap().clone()
    };
    RoleTypes {
        kinds: RoleKinds {
            cluster_roles: handle("clusterroles"),
            cluster_bindings: handle("clusterrolebindings"),
            roles: handle("roles"),
            bindings: handle("rolebindings"),
        },
        namespaces: handle("namespaces"),
        object_bytes_max: 1 << 20,
    }
}

/// Starts the loop of the default roles, and stops it when it has made them.
async fn start_once(world: &World, types: &RoleTypes) {
    let DefaultRoles { reconciler, mut are_made } = default_roles(&world.registry, types).unwrap();
    are_made.wait_for(|are_made| *are_made).await.unwrap();
    reconciler.stop().await;
}

async fn names(handle: &ResourceHandle) -> BTreeSet<String> {
    let (snapshot, _) = handle.snapshot(Freshness::Latest, soon()).await.unwrap();
    snapshot.from_key("").map(|object| object.key().to_owned()).collect()
}

async fn read(handle: &ResourceHandle, key: &str) -> Option<Value> {
    let found = handle.get(key, soon()).await.unwrap()?;
    Some(json::parse(found.json()).unwrap())
}

fn place(key: &str) -> Target<'_> {
    let (namespace, name) = key.split_once('/').map_or((None, key), |(space, name)| (Some(space), name));
    Target { version: "v1", subresource: None, namespace, name }
}

async fn make(handle: &ResourceHandle, text: &str) {
    let object = json::parse(text.replace('\'', "\"").as_bytes()).unwrap();
    let mut wanted = |cx: &RuleContext<'_>, _: &Value| decoded(cx, &object);
    handle.create(place(""), &mut wanted, &options()).await.unwrap();
}

/// Sets the field of a path to a value of JSON.
async fn set(handle: &ResourceHandle, key: &str, path: &[&str], text: &str) {
    let value = json::parse(text.replace('\'', "\"").as_bytes()).unwrap();
    let mut wanted = |cx: &RuleContext<'_>, old: &Value| {
        let mut object = old.clone();
        let (field, parents) = path.split_last().unwrap();
        let mut at = &mut object;
        for parent in parents {
            at = at.get_mut(parent).unwrap();
        }
        at.as_object_mut().unwrap().insert(*field, value.clone());
        decoded(cx, &object)
    };
    handle.update(place(key), true, &mut wanted, &options()).await.unwrap();
}

async fn remove(handle: &ResourceHandle, key: &str) {
    handle.delete(place(key), &Removal::default(), &options()).await.unwrap();
}

/// The store's revision when everything that runs has come to rest: the time, which is virtual, passes only then.
async fn at_rest(world: &World) -> Revision {
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.store.published()
}

fn role(name: &str, labels: &str, verb: &str) -> String {
    format!(
        "{{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRole',\
          'metadata':{{'name':'{name}','labels':{{{labels}}}}},\
          'rules':[{{'verbs':['{verb}'],'apiGroups':['g.io'],'resources':['widgets']}}]}}"
    )
}

/// A role that selects those of a label, and has this label itself.
fn aggregating(name: &str, own: &str, selects: &str) -> String {
    format!(
        "{{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRole',\
          'metadata':{{'name':'{name}','labels':{{'{own}':'true'}}}},\
          'aggregationRule':{{'clusterRoleSelectors':[{{'matchLabels':{{'{selects}':'true'}}}}]}}}}"
    )
}

/// The first verb of each rule.
async fn verbs(types: &RoleTypes, name: &str) -> Vec<String> {
    let role = read(&types.kinds.cluster_roles, name).await.unwrap_or_default();
    PolicyRule::list(&role).into_iter().filter_map(|rule| rule.verbs.into_iter().next()).collect()
}

async fn until_verbs(world: &World, types: &RoleTypes, name: &str, want: &[&str]) {
    world.until(&types.kinds.cluster_roles, async || verbs(types, name).await == want).await;
}

#[test]
fn an_empty_store_gets_all_roles_and_bindings() {
    run(1, 0, |world, types| async move {
        start_once(&world, &types).await;
        let handles = [
            &types.kinds.cluster_roles,
            &types.kinds.cluster_bindings,
            &types.kinds.roles,
            &types.kinds.bindings,
        ];
        let mut counts = Vec::new();
        for handle in handles {
            counts.push(names(handle).await.len());
        }
        assert_eq!(counts, [73, 54, 7, 7]);
        assert_eq!(
            names(&types.namespaces).await,
            BTreeSet::from(["kube-public", "kube-system"].map(str::to_owned))
        );
        let admin = read(&types.kinds.cluster_roles, "cluster-admin").await.unwrap();
        let rules = r#"[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]},{"nonResourceURLs":["*"],"verbs":["*"]}]"#;
        assert_eq!(admin.get("rules").unwrap().to_string(), rules);
        assert_eq!(admin.text_at(&["metadata", "labels", "kubernetes.io/bootstrapping"]), "rbac-defaults");
        let binding = read(&types.kinds.cluster_bindings, "system:public-info-viewer").await.unwrap();
        let subjects: Vec<&str> = binding
            .get("subjects")
            .unwrap()
            .as_array()
            .unwrap()
            .iter()
            .map(|subject| subject.text_at(&["name"]))
            .collect();
        assert_eq!(subjects, ["system:authenticated", "system:unauthenticated"]);
        let reader = read(&types.kinds.roles, "kube-system/extension-apiserver-authentication-reader").await;
        assert_eq!(PolicyRule::list(&reader.unwrap()).len(), 1);
        // Without subjects, for those who add some.
        assert!(read(&types.kinds.cluster_bindings, "system:node").await.is_some());
        // Each object is written once, and so is each namespace.
        assert_eq!(at_rest(&world).await, Revision(73 + 54 + 7 + 7 + 2));
    });
}

#[test]
fn a_second_start_writes_nothing() {
    run(2, 2, |world, types| async move {
        start_once(&world, &types).await;
        cluster_role_aggregation(&world.registry, &types).unwrap();
        let before = at_rest(&world).await;
        start_once(&world, &types).await;
        assert_eq!(at_rest(&world).await, before);
    });
}

#[test]
fn a_start_gives_back_what_is_missing_and_takes_nothing() {
    run(3, 2, |world, types| async move {
        let (roles, bindings) = (&types.kinds.cluster_roles, &types.kinds.cluster_bindings);
        start_once(&world, &types).await;
        let own = "[{'verbs':['get'],'apiGroups':['g.io'],'resources':['widgets']}]";
        let discovery = read(roles, "system:discovery").await.unwrap();
        set(roles, "system:discovery", &["rules"], own).await;
        set(roles, "system:discovery", &["metadata", "labels"], "{'kubernetes.io/bootstrapping':'mine'}")
            .await;
        set(roles, "system:basic-user", &["rules"], "[]").await;
        set(
            roles,
            "system:basic-user",
            &["metadata", "annotations"],
            "{'rbac.authorization.kubernetes.io/autoupdate':'false'}",
        )
        .await;
        set(roles, "view", &["aggregationRule", "clusterRoleSelectors"], "[{'matchLabels':{'mine':'true'}}]")
            .await;
        let mine = "[{'kind':'User','apiGroup':'rbac.authorization.k8s.io','name':'me'}]";
        set(bindings, "cluster-admin", &["subjects"], mine).await;
        set(bindings, "system:basic-user", &["subjects"], "[]").await;
        set(
            bindings,
            "system:basic-user",
            &["metadata", "annotations"],
            "{'rbac.authorization.kubernetes.io/autoupdate':'false'}",
        )
        .await;
        let discoverer = read(bindings, "system:discovery").await.unwrap();
        remove(bindings, "system:discovery").await;
        let other = "{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRoleBinding',\
                     'metadata':{'name':'system:discovery'},\
                     'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'ClusterRole','name':'view'}}";
        make(bindings, other).await;
        remove(roles, "edit").await;
        // Until the next start, a user's will is done.
        let before = at_rest(&world).await;
        assert_eq!((world.store.published(), read(roles, "edit").await), (before, None));

        start_once(&world, &types).await;
        let role = read(roles, "system:discovery").await.unwrap();
        let (has, wanted) = (PolicyRule::list(&role), PolicyRule::list(&discovery));
        assert_eq!(missing(&has, &wanted), Ok(Vec::new()));
        assert!(has.iter().any(|rule| rule.api_groups == ["g.io"]), "a user's rule stays");
        let rules =
            PolicyRule::list(&discovery).iter().map(|rule| rule.non_resource_urls.len()).sum::<usize>();
        assert_eq!(has.len(), 1 + rules, "each missing permission is a rule");
        assert_eq!(role.text_at(&["metadata", "labels", "kubernetes.io/bootstrapping"]), "mine");
        let protected = read(roles, "system:basic-user").await.unwrap();
        assert_eq!(PolicyRule::list(&protected), []);
        let view = read(roles, "view").await.unwrap();
        let selectors = view.at(&["aggregationRule", "clusterRoleSelectors"]).unwrap().as_array().unwrap();
        assert_eq!(selectors.len(), 2);
        assert!(read(roles, "edit").await.is_some());
        let subjects = async |name: &str| {
            let binding = read(bindings, name).await.unwrap();
            let subjects = binding.get("subjects").and_then(Value::as_array).unwrap_or_default().iter();
            subjects.map(|subject| subject.text_at(&["name"]).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(subjects("cluster-admin").await, ["me", "system:masters"]);
        assert_eq!(subjects("system:basic-user").await, [""; 0]);
        let again = read(bindings, "system:discovery").await.unwrap();
        assert_eq!(again.get("roleRef"), discoverer.get("roleRef"));
        assert_eq!(again.get("subjects"), discoverer.get("subjects"));
        let after = at_rest(&world).await;
        start_once(&world, &types).await;
        assert_eq!(at_rest(&world).await, after);
    });
}

/// Rules that users gave to `view` before it was made of others stay in it; upstream's first servers had such roles.
#[test]
fn rules_of_a_role_that_becomes_aggregated_are_kept() {
    run(4, 2, |world, types| async move {
        make(&types.kinds.cluster_roles, &role("view", "'a':'b'", "mine")).await;
        let binding = "{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRoleBinding',\
                       'metadata':{'name':'system:discovery',\
                       'annotations':{'rbac.authorization.kubernetes.io/autoupdate':'false'}},\
                       'subjects':[{'kind':'User','apiGroup':'rbac.authorization.k8s.io','name':'me'}],\
                       'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'ClusterRole','name':'system:discovery'}}";
        make(&types.kinds.cluster_bindings, binding).await;
        start_once(&world, &types).await;
        cluster_role_aggregation(&world.registry, &types).unwrap();
        at_rest(&world).await;
        assert!(verbs(&types, "system:aggregate-to-view").await.contains(&"mine".to_owned()));
        assert!(verbs(&types, "view").await.contains(&"mine".to_owned()));
        let split = read(&types.kinds.cluster_bindings, "system:public-info-viewer").await.unwrap();
        assert_eq!(split.get("subjects").unwrap().to_string().matches("\"name\"").count(), 1);
        assert_eq!(split.text_at(&["roleRef", "name"]), "system:public-info-viewer");
    });
}

#[test]
fn objects_that_cannot_be_put_right_hold_up_nothing() {
    run(5, 2, |world, types| async move {
        let large = "x".repeat(200 << 10);
        let large = format!(
            "{{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRole',\
            'metadata':{{'name':'system:discovery','annotations':{{'a':'{large}'}}}},'rules':[]}}"
        );
        make(&types.kinds.cluster_roles, &large).await;
        world.put(&format!("{}system:basic-user", types.kinds.cluster_roles.prefix()), "no object");
        let held = "{'apiVersion':'rbac.authorization.k8s.io/v1','kind':'ClusterRoleBinding',\
                    'metadata':{'name':'cluster-admin','finalizers':['g.io/x']},\
                    'roleRef':{'apiGroup':'rbac.authorization.k8s.io','kind':'ClusterRole','name':'other'}}";
        make(&types.kinds.cluster_bindings, held).await;
        let small = RoleTypes { object_bytes_max: 100 << 10, ..types.clone() };
        start_once(&world, &small).await;
        assert_eq!(names(&types.kinds.cluster_roles).await.len(), 73);
        assert_eq!(verbs(&types, "system:discovery").await, [""; 0]);
        let held = read(&types.kinds.cluster_bindings, "cluster-admin").await.unwrap();
        assert!(held.at(&["metadata", "deletionTimestamp"]).is_some());
    });
}

#[test]
fn replicas_and_kills_make_everything_once() {
    for seed in 0..6 {
        run(seed, 3, |world, types| async move {
            let replica = world.replica(3, 2, kinds());
            let (others, fall) = (self::types(&replica), world.entropy.below(300));
            let DefaultRoles { mut are_made, .. } = default_roles(&world.registry, &types).unwrap();
            let killed = async {
                for _ in 0..5 {
                    world.yields(fall).await;
                    world.table.kill("default-roles");
                }
                are_made.wait_for(|are_made| *are_made).await.unwrap();
            };
            tokio::join!(killed, start_once(&replica, &others));
            assert_eq!(names(&types.kinds.cluster_roles).await.len(), 73);
            assert_eq!(names(&types.kinds.cluster_bindings).await.len(), 54);
            assert_eq!(names(&types.kinds.bindings).await, names(&others.kinds.bindings).await);
            assert_eq!(at_rest(&world).await, Revision(73 + 54 + 7 + 7 + 2));
        });
    }
}

#[test]
fn default_roles_get_the_rules_of_others() {
    run(7, 2, |world, types| async move {
        let aggregation = cluster_role_aggregation(&world.registry, &types).unwrap();
        start_once(&world, &types).await;
        at_rest(&world).await;
        let mut counts = Vec::new();
        for name in ["view", "edit", "admin"] {
            let role = read(&types.kinds.cluster_roles, name).await.unwrap();
            counts.push(PolicyRule::list(&role).len());
            let managers = role.at(&["metadata", "managedFields"]).unwrap().to_string();
            assert!(managers.contains("clusterrole-aggregation-controller"), "{managers}");
        }
        let aggregated =
            async |name: &str| PolicyRule::list(&read(&types.kinds.cluster_roles, name).await.unwrap()).len();
        let view = aggregated("system:aggregate-to-view").await;
        let edit = view + aggregated("system:aggregate-to-edit").await;
        let admin = edit + aggregated("system:aggregate-to-admin").await;
        assert_eq!(counts, [view, edit, admin]);

        let label = "'rbac.authorization.k8s.io/aggregate-to-view':'true'";
        make(&types.kinds.cluster_roles, &role("mine", label, "mine")).await;
        let has = async |name: &str| verbs(&types, name).await.contains(&"mine".to_owned());
        world
            .until(&types.kinds.cluster_roles, async || {
                has("view").await && has("edit").await && has("admin").await
            })
            .await;
        remove(&types.kinds.cluster_roles, "mine").await;
        world.until(&types.kinds.cluster_roles, async || !has("view").await && !has("admin").await).await;
        assert_eq!(aggregated("admin").await, admin);

        // What a user writes into the rules goes again.
        set(&types.kinds.cluster_roles, "view", &["rules"], "[]").await;
        world.until(&types.kinds.cluster_roles, async || aggregated("view").await == view).await;
        // A role that matters to none wakes up nothing that writes.
        at_rest(&world).await;
        let before = make_and_rest(&world, &types).await;
        assert_eq!(world.store.published(), before);
        aggregation.stop().await;
    });
}

async fn make_and_rest(world: &World, types: &RoleTypes) -> Revision {
    make(&types.kinds.cluster_roles, &role("unrelated", "'a':'b'", "get")).await;
    let made = world.store.published();
    at_rest(world).await;
    made
}

#[test]
fn roles_that_select_each_other_end() {
    run(8, 2, |world, types| async move {
        let cluster_roles = &types.kinds.cluster_roles;
        cluster_role_aggregation(&world.registry, &types).unwrap();
        make(cluster_roles, &role("x", "'x':'true'", "x")).await;
        make(cluster_roles, &aggregating("a", "x", "y")).await;
        make(cluster_roles, &aggregating("b", "y", "x")).await;
        make(cluster_roles, &role("y", "'y':'true'", "y")).await;
        until_verbs(&world, &types, "a", &["x", "y"]).await;
        until_verbs(&world, &types, "b", &["y", "x"]).await;
        let rest = at_rest(&world).await;
        assert_eq!(at_rest(&world).await, rest);
        // A circle keeps no rule alive.
        remove(cluster_roles, "x").await;
        until_verbs(&world, &types, "a", &["y"]).await;
        until_verbs(&world, &types, "b", &["y"]).await;
        remove(cluster_roles, "y").await;
        until_verbs(&world, &types, "a", &[]).await;
        until_verbs(&world, &types, "b", &[]).await;
        let rest = at_rest(&world).await;
        assert_eq!(at_rest(&world).await, rest);
    });
}

#[test]
fn rules_that_do_not_fit_are_left_and_others_go_on() {
    run(9, 2, |world, types| async move {
        let small = RoleTypes { object_bytes_max: 2000, ..types.clone() };
        cluster_role_aggregation(&world.registry, &small).unwrap();
        make(&types.kinds.cluster_roles, &aggregating("all", "none", "large")).await;
        make(&types.kinds.cluster_roles, &aggregating("few", "none", "small")).await;
        make(&types.kinds.cluster_roles, &role("a", "'large':'true'", "a")).await;
        until_verbs(&world, &types, "all", &["a"]).await;
        make(&types.kinds.cluster_roles, &role("b", "'large':'true'", &"b".repeat(1500))).await;
        make(&types.kinds.cluster_roles, &role("c", "'large':'true'", &"c".repeat(3000))).await;
        make(&types.kinds.cluster_roles, &role("d", "'small':'true'", "d")).await;
        until_verbs(&world, &types, "few", &["d"]).await;
        let rest = at_rest(&world).await;
        assert_eq!(at_rest(&world).await, rest);
        assert_eq!(verbs(&types, "all").await, ["a"]);
        remove(&types.kinds.cluster_roles, "c").await;
        remove(&types.kinds.cluster_roles, "b").await;
        make(&types.kinds.cluster_roles, &role("e", "'large':'true'", "e")).await;
        until_verbs(&world, &types, "all", &["a", "e"]).await;
    });
}

/// Many changes while the loop falls: in the end everything is as one look at the end would have it.
#[test]
fn a_killed_loop_resumes() {
    for seed in 0..8 {
        run(seed, 3, |world, types| async move {
            let cluster_roles = &types.kinds.cluster_roles;
            cluster_role_aggregation(&world.registry, &types).unwrap();
            make(cluster_roles, &aggregating("outer", "none", "mid")).await;
            make(cluster_roles, &aggregating("inner", "mid", "leaf")).await;
            let changes = async {
                for i in 0..40 {
                    make(cluster_roles, &role(&format!("r{i:02}"), "'leaf':'true'", &format!("v{i}"))).await;
                    if i % 3 == 0 {
                        remove(cluster_roles, &format!("r{:02}", i / 2)).await;
                        make(cluster_roles, &role(&format!("r{:02}", i / 2), "'leaf':'false'", "z")).await;
                    }
                }
            };
            let falls = async {
                for i in 0..20 {
                    world.yields(200).await;
                    world.table.kill(if i % 4 == 3 {
                        "resource/clusterroles.rbac.authorization.k8s.io"
                    } else {
                        "cluster-role-aggregation"
                    });
                }
            };
            tokio::join!(changes, falls);
            at_rest(&world).await;
            let (all, _) = cluster_roles.snapshot(Freshness::Latest, soon()).await.unwrap();
            let leaf =
                LabelSelector::of_object(&object! { "matchLabels": object! { "leaf": "true" } }).unwrap();
            let selected = all.from_key("").filter(|role| leaf.matches(|key| role.label(key)));
            let want: Vec<String> =
                selected.map(|role| format!("v{}", role.name()[1..].parse::<u32>().unwrap())).collect();
            assert_eq!((verbs(&types, "outer").await, verbs(&types, "inner").await), (want.clone(), want));
        });
    }
}

/// A role that goes while its rules are applied is not made again.
#[test]
fn an_aggregating_role_that_goes_stays_away() {
    run(10, 2, |world, types| async move {
        let cluster_roles = &types.kinds.cluster_roles;
        cluster_role_aggregation(&world.registry, &types).unwrap();
        make(cluster_roles, &aggregating("all", "none", "leaf")).await;
        let key = Key::from(format!("{}all", cluster_roles.prefix()));
        let puts = Arc::new(AtomicUsize::new(0));
        let (counted, deleted) = (Arc::clone(&puts), key.clone());
        *world.store.before_txn.lock() = Some(Box::new(move |store, txn| {
            let is_put = txn.ops.iter().any(|op| matches!(op, Op::Put(key, _) if *key == deleted));
            if is_put && counted.fetch_add(1, Ordering::SeqCst) == 0 {
                let ops = vec![Op::Delete(deleted.clone())];
                store.txn(Txn { compares: Vec::new(), ops }).now_or_never().unwrap().unwrap();
            }
        }));
        make(cluster_roles, &role("leaf", "'leaf':'true'", "get")).await;
        at_rest(&world).await;
        assert_eq!((puts.load(Ordering::SeqCst), read(cluster_roles, "all").await), (1, None));
    });
}
