//! One registration after another.

use kindom_api::{Value, object};
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

/// What others add to a registration's status is kept by our writes.
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
        world.edit("bars.g.io", Some("status"), foreign).await.unwrap();
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
