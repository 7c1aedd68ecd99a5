//! One registration after another.

use kindom_api::{Value, meta, object};
use kindom_storage::Storage as _;
use tokio::time::Instant;

use crate::world::*;
use crate::{LEDGER, run};

const ACCEPTED: [&str; 2] = ["NamesAccepted=True NoConflicts", "Established=True InitialNamesAccepted"];

/// T-40, T-41: served without a sleep, by one status write.
#[test]
fn a_registration_is_established_at_once() {
    run(1, 2, |world| async move {
        let start = Instant::now();
        let posted = world.post(&crd("widgets")).await.unwrap();
        world.until_shown("widgets.g.io", "Established=True").await;
        assert_eq!(world.conditions("widgets.g.io").await, ACCEPTED);
        let widgets = world.routed("g.io", "widgets").await.unwrap();
        create(&widgets, "ns", "a", &[], None).await.unwrap();
        assert_eq!(Instant::now(), start, "nothing waited for a timer");
        // Names, both conditions and the ledger are one transaction.
        let spec = widgets.spec().unwrap();
        let registration = spec.registration.as_ref().unwrap().object.revision();
        assert_eq!(registration, posted.object.revision().next());
        assert_eq!(world.keys(LEDGER), [format!("{LEDGER}g.io")]);
    });
}

/// T-12: plural, singular and short names share one space of values. T-13: so do kind and list kind.
#[test]
fn names_share_their_spaces_across_roles() {
    run(2, 1, |world| async move {
        world.post(&crd_named("foos", "foo", "Foo", "FooList", &["f"])).await.unwrap();
        world.until_shown("foos.g.io", "Established=True").await;
        let cases = [
            (crd_named("f", "a", "A", "AList", &[]), "PluralConflict"),
            (crd_named("bs", "foos", "B", "BList", &[]), "SingularConflict"),
            (crd_named("cs", "c", "C", "CList", &["foo"]), "ShortNamesConflict"),
            (crd_named("ds", "d", "FooList", "DList", &[]), "KindConflict"),
            (crd_named("es", "e", "E", "Foo", &[]), "ListKindConflict"),
        ];
        for (crd, reason) in &cases {
            let plural = crd.at(&["spec", "names", "plural"]).and_then(Value::as_str).unwrap();
            let name = format!("{plural}.g.io");
            world.post(crd).await.unwrap();
            world.until_shown(&name, "NamesAccepted=False").await;
            let want = [format!("NamesAccepted=False {reason}"), "Established=False NotAccepted".to_owned()];
            assert_eq!(world.conditions(&name).await, want);
            assert!(world.routed("g.io", plural).await.is_none(), "T-14: {plural}");
        }
        // T-20: the holder is not touched.
        assert_eq!(world.conditions("foos.g.io").await, ACCEPTED);
        let foos = world.routed("g.io", "foos").await.unwrap().spec().unwrap();
        assert_eq!(
            (foos.names.kind.as_str(), foos.names.short_names.as_slice()),
            ("Foo", &["f".to_owned()][..])
        );
    });
}

/// T-18, T-35, T-49: whoever waits is judged again when names are freed, oldest first.
#[test]
fn freed_names_go_to_who_waited_longest() {
    run(3, 1, |world| async move {
        for (plural, singular) in [("ones", "x"), ("twos", "x"), ("threes", "x")] {
            let kind = singular.to_uppercase() + plural;
            world.post(&crd_named(plural, singular, &kind, &format!("{kind}List"), &[])).await.unwrap();
        }
        world.until_shown("ones.g.io", "Established=True").await;
        for waiting in ["twos", "threes"] {
            world.until_shown(&format!("{waiting}.g.io"), "NamesAccepted=False SingularConflict").await;
        }
        world.remove(&format!("{CRDS}ones.g.io"));
        world.until_shown("twos.g.io", "Established=True").await;
        world.registry.fresh(soon()).await.unwrap();
        assert_eq!(
            world.conditions("threes.g.io").await,
            ["NamesAccepted=False SingularConflict", "Established=False NotAccepted"]
        );
        // Giving a name up frees it as well.
        let rename = |crd: &mut Value| {
            let names = crd.get_mut("spec").unwrap().get_mut("names").unwrap().as_object_mut().unwrap();
            names.insert("singular", "y");
        };
        world.edit("twos.g.io", None, rename).await.unwrap();
        world.until_shown("threes.g.io", "Established=True").await;
    });
}

/// A change of names in conflict leaves an established type serving under those it holds.
#[test]
fn an_established_type_keeps_what_it_holds() {
    run(4, 1, |world| async move {
        world.post(&crd_named("foos", "foo", "Foo", "FooList", &["f"])).await.unwrap();
        world.post(&crd_named("bars", "bar", "Bar", "BarList", &["b"])).await.unwrap();
        world.until_shown("bars.g.io", "Established=True").await;
        let short = |crd: &mut Value| {
            let names = crd.get_mut("spec").unwrap().get_mut("names").unwrap().as_object_mut().unwrap();
            names.insert("shortNames", vec!["f", "bb"]);
        };
        world.edit("bars.g.io", None, short).await.unwrap();
        world.until_shown("bars.g.io", "NamesAccepted=False ShortNamesConflict").await;
        let bars = world.routed("g.io", "bars").await.unwrap();
        assert_eq!(bars.spec().unwrap().names.short_names, ["b"]);
        create(&bars, "ns", "a", &[], None).await.unwrap();
    });
}

/// Our writes keep the conditions that others add to a registration's status.
#[test]
fn foreign_conditions_survive_a_verdict() {
    run(5, 1, |world| async move {
        world.post(&crd("foos")).await.unwrap();
        world.post(&crd_named("bars", "foo", "Bar", "BarList", &[])).await.unwrap();
        world.until_shown("bars.g.io", "NamesAccepted=False").await;
        let foreign = |crd: &mut Value| {
            let condition = object! {
                "type": "Foreign", "status": "True", "reason": "Own", "message": "",
                "lastTransitionTime": "2023-11-14T22:13:20Z"
            };
            let conditions = crd.get_mut("status").unwrap().get_mut("conditions").unwrap();
            conditions.as_array_mut().unwrap().push(condition);
        };
        world.edit("bars.g.io", Some(kindom_objects::Subresource::Status), foreign).await.unwrap();
        world.remove(&format!("{CRDS}foos.g.io"));
        world.until_shown("bars.g.io", "Established=True").await;
        assert!(world.conditions("bars.g.io").await.contains(&"Foreign=True Own".to_owned()));
    });
}

/// One that is being deleted gets no more, and keeps what it has until it is gone.
#[test]
fn a_registration_that_is_going_is_not_judged() {
    run(6, 1, |world| async move {
        world.post(&crd_named("foos", "foo", "Foo", "FooList", &[])).await.unwrap();
        world.until_shown("foos.g.io", "Established=True").await;
        world.delete("foos.g.io").await.unwrap();
        world.post(&crd_named("bars", "foo", "Bar", "BarList", &[])).await.unwrap();
        world.until_shown("bars.g.io", "NamesAccepted=False SingularConflict").await;
        world.delete("bars.g.io").await.unwrap();
        world.remove(&format!("{CRDS}foos.g.io"));
        world.post(&crd_named("bazs", "foo", "Baz", "BazList", &[])).await.unwrap();
        world.until_shown("bazs.g.io", "Established=True").await;
    });
}

#[test]
fn groups_do_not_wait_for_each_other() {
    run(7, 1, |world| async move {
        for i in 0..40 {
            let mut crd = crd("widgets");
            let group = format!("g{i}.io");
            *crd.get_mut("metadata").unwrap() = object! { "name": format!("widgets.{group}") };
            crd.get_mut("spec").unwrap().as_object_mut().unwrap().insert("group", group);
            world.post(&crd).await.unwrap();
        }
        for i in 0..40 {
            world.until_shown(&format!("widgets.g{i}.io"), "Established=True").await;
        }
        assert_eq!(world.keys(LEDGER).len(), 40);
    });
}

/// `Type=Status Reason since minute` of each condition, and every other fact of T-37 checked on the way.
async fn timed(world: &World, name: &str, began: i64) -> Vec<String> {
    let crd = world.crd(name).await.unwrap();
    let conditions = crd.at(&["status", "conditions"]).and_then(Value::as_array).unwrap();
    let shown = conditions.iter().map(|condition| {
        let text = |field| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        let reason = text("reason");
        assert!(reason.starts_with(|c: char| c.is_ascii_uppercase()), "{reason}");
        assert!(reason.bytes().all(|b| b.is_ascii_alphanumeric()), "one word: {reason}");
        assert!(!text("message").is_empty());
        let minutes = (meta::time::parse(text("lastTransitionTime")).unwrap() - began) / 60;
        format!("{}={} {reason} {minutes}", text("type"), text("status"))
    });
    shown.collect()
}

/// T-37: over a registration's life, a condition's time is that of its last change of status, whatever else changes.
#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    run(8, 1, |world| async move {
        let began = world.deps.clock.unix_seconds();
        let minute = || world.deps.clock.sleep(std::time::Duration::from_secs(60));
        let rename = async |name: &str, to: &str| {
            let rename = |crd: &mut Value| {
                let names = crd.get_mut("spec").unwrap().get_mut("names").unwrap().as_object_mut().unwrap();
                names.insert("singular", to);
            };
            world.edit(name, None, rename).await.unwrap();
        };
        world.post(&crd_named("foos", "x", "Foo", "FooList", &[])).await.unwrap();
        world.until_shown("foos.g.io", "Established=True").await;
        assert_eq!(
            timed(&world, "foos.g.io", began).await,
            ["NamesAccepted=True NoConflicts 0", "Established=True InitialNamesAccepted 0"]
        );
        minute().await;
        world.post(&crd_named("bars", "x", "Bar", "BarList", &[])).await.unwrap();
        world.until_shown("bars.g.io", "NamesAccepted=False").await;
        let waiting = ["NamesAccepted=False SingularConflict 1", "Established=False NotAccepted 1"];
        assert_eq!(timed(&world, "bars.g.io", began).await, waiting);

        // Another holder, so another message, but the same status.
        minute().await;
        world.post(&crd_named("cars", "c", "Car", "CarList", &["y"])).await.unwrap();
        world.until_shown("cars.g.io", "Established=True").await;
        rename("bars.g.io", "y").await;
        world.until_told("bars.g.io", "in use by cars.g.io (short name, since 2023-11-14T22:15:20Z)").await;
        assert_eq!(timed(&world, "bars.g.io", began).await, waiting);

        minute().await;
        rename("bars.g.io", "bar").await;
        world.until_shown("bars.g.io", "Established=True").await;
        let accepted = ["NamesAccepted=True NoConflicts 3", "Established=True InitialNamesAccepted 3"];
        assert_eq!(timed(&world, "bars.g.io", began).await, accepted);

        // A change of names without a conflict changes no condition; one with a conflict changes one.
        minute().await;
        rename("bars.g.io", "barn").await;
        world
            .until(&world.registrations, async || {
                let crd = world.crd("bars.g.io").await.unwrap();
                crd.at(&["status", "acceptedNames", "singular"]).and_then(Value::as_str) == Some("barn")
            })
            .await;
        assert_eq!(timed(&world, "bars.g.io", began).await, accepted);
        minute().await;
        rename("bars.g.io", "x").await;
        world.until_shown("bars.g.io", "NamesAccepted=False").await;
        let kept = ["NamesAccepted=False SingularConflict 5", "Established=True InitialNamesAccepted 3"];
        assert_eq!(timed(&world, "bars.g.io", began).await, kept);

        minute().await;
        world.delete("bars.g.io").await.unwrap();
        let [names, established] = kept;
        assert_eq!(
            timed(&world, "bars.g.io", began).await,
            [names, established, "Terminating=True InstanceDeletionPending 6"]
        );
    });
}

/// T-18: what a condition tells of the holder follows the holder, also one that is being deleted.
#[test]
fn a_message_follows_the_holder() {
    run(9, 2, |world| async move {
        world.post(&crd_named("foos", "x", "Foo", "FooList", &[])).await.unwrap();
        world.post(&crd_named("bars", "x", "Bar", "BarList", &[])).await.unwrap();
        world.post(&crd_named("cars", "x", "Car", "CarList", &[])).await.unwrap();
        let first = "\"x\" is already in use by foos.g.io (singular, since 2023-11-14T22:13:20Z); choose another singular, \
                     or delete or rename foos.g.io";
        world.until_told("bars.g.io", first).await;
        world.until_told("cars.g.io", first).await;
        world.delete("foos.g.io").await.unwrap();
        world
            .until_told(
                "cars.g.io",
                "being deleted); choose another singular, or wait until foos.g.io is gone",
            )
            .await;
        world.remove(&format!("{CRDS}foos.g.io"));
        world.until_told("cars.g.io", "in use by bars.g.io (singular").await;
        assert_eq!(world.conditions("bars.g.io").await, ACCEPTED);
        // Nothing is written once all is told.
        world.registry.fresh(soon()).await.unwrap();
        let at = world.store.published();
        world.deps.clock.sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(world.store.published(), at);
    });
}
