use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rcgen::KeyPair;
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::ring::default_provider,
    pki_types::{ServerName, UnixTime, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use time::Duration;

use super::names::SHARED_NAMES_MAX;
use super::*;

const FILES: [&str; 6] = ["admin.crt", "admin.key", "apiserver.crt", "apiserver.key", "ca.crt", "ca.key"];

fn names() -> BTreeSet<String> {
    serving_names(IpAddr::from([192, 0, 2, 7]), Some("Box-1"), &[])
}

fn load(dir: &TempDir) -> Result<Pki, PkiError> {
    load_for(dir, Names::Exactly(names()), 0)
}

fn load_in(dir: &TempDir, days: i64) -> Pki {
    load_for(dir, Names::Exactly(names()), days).unwrap()
}

fn load_for(dir: &TempDir, names: Names, days: i64) -> Result<Pki, PkiError> {
    Pki::load_or_create(&dir.path().join("pki"), &names, in_days(days))
}

fn in_days(days: i64) -> OffsetDateTime {
    OffsetDateTime::now_utc() + Duration::days(days)
}

fn contents(dir: &TempDir) -> Vec<String> {
    FILES.map(|file| fs::read_to_string(dir.path().join("pki").join(file)).unwrap()).into()
}

/// The files that differ.
fn changed(before: &[String], dir: &TempDir) -> Vec<&'static str> {
    let after = contents(dir);
    FILES
        .into_iter()
        .zip(before.iter().zip(&after))
        .filter(|(_, (a, b))| a != b)
        .map(|(file, _)| file)
        .collect()
}

fn roots(pki: &Pki) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add(pki.authority()).unwrap();
    Arc::new(roots)
}

fn serves(pki: &Pki, name: &str) -> bool {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(pki), Arc::new(default_provider()))
        .build()
        .unwrap();
    let name = ServerName::try_from(name).unwrap();
    verifier.verify_server_cert(&pki.serving().0[0], &[], &name, &[], UnixTime::now()).is_ok()
}

#[test]
fn a_first_start_makes_what_a_client_and_a_server_need() {
    let dir = TempDir::new().unwrap();
    let pki = load(&dir).unwrap();
    for name in [
        "localhost",
        "127.0.0.1",
        "::1",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "192.0.2.7",
        "box-1",
    ] {
        assert!(serves(&pki, name), "{name}");
    }
    assert!(!serves(&pki, "example.com"));
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(&pki), Arc::new(default_provider()))
        .build()
        .unwrap();
    verifier.verify_client_cert(&pki.admin.certificate, &[], UnixTime::now()).unwrap();
    let admin = pki.admin.x509().unwrap();
    assert_eq!(admin.subject().to_string(), "CN=kubernetes-admin, O=system:masters");
    assert!(default_provider().key_provider.load_private_key(pki.serving().1).is_ok());

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = dir.path().join("pki");
    assert_eq!(mode(&folder), 0o700);
    let mut there: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    assert_eq!(there, FILES);
    for file in FILES.iter().filter(|file| file.ends_with(".key")) {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
}

#[test]
fn later_starts_find_what_the_first_made() {
    let dir = TempDir::new().unwrap();
    load(&dir).unwrap();
    let first = contents(&dir);
    let pki = load(&dir).unwrap();
    assert_eq!(changed(&first, &dir), [""; 0]);
    assert!(serves(&pki, "localhost"));
}

/// fabric8's client reads keys on elliptic curves as SEC 1 alone.
#[test]
fn keys_are_written_as_sec1_and_those_of_older_folders_are_read() {
    let dir = TempDir::new().unwrap();
    let made = load(&dir).unwrap();
    for file in FILES.iter().filter(|file| file.ends_with(".key")) {
        let path = dir.path().join("pki").join(file);
        let sec1 = fs::read_to_string(&path).unwrap();
        assert!(sec1.starts_with("-----BEGIN EC PRIVATE KEY-----\n"), "{file}");
        // As every folder was written before.
        fs::write(&path, sec1::from_pem(&sec1).unwrap().serialize_pem()).unwrap();
    }
    let older = contents(&dir);
    let read = load(&dir).unwrap();
    assert_eq!(changed(&older, &dir), [""; 0]);
    assert_eq!(read.admin.certificate, made.admin.certificate);
    let config = dir.path().join("config");
    Pki::write_kubeconfig(&config, &read.kubeconfig("https://127.0.0.1:6443", &read.trust())).unwrap();
    let key = BASE64.encode(&made.admin.key_pem);
    assert!(fs::read_to_string(&config).unwrap().contains(&key), "the kubeconfig's key is SEC 1");
}

#[test]
fn many_that_start_at_once_have_one_authority() {
    let dir = TempDir::new().unwrap();
    let all = std::thread::scope(|scope| {
        let start = || load(&dir).unwrap();
        let started: Vec<_> = (0..8).map(|_| scope.spawn(start)).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for pki in &all {
        assert_eq!(pki.authority(), all[0].authority());
        assert_eq!(pki.serving().0, all[0].serving().0);
        assert_eq!(pki.admin.certificate, all[0].admin.certificate);
    }
}

#[test]
fn other_names_make_only_the_serving_certificate_anew() {
    let dir = TempDir::new().unwrap();
    load(&dir).unwrap();
    let first = contents(&dir);
    let other = serving_names(IpAddr::from([192, 0, 2, 8]), None, &[]);
    let pki = load_for(&dir, Names::Exactly(other), 0).unwrap();
    assert_eq!(changed(&first, &dir), ["apiserver.crt", "apiserver.key"]);
    assert!(serves(&pki, "192.0.2.8") && !serves(&pki, "192.0.2.7"));
}

fn at_least(names: &[&str]) -> Names {
    Names::AtLeast(names.iter().map(|&name| name.to_owned()).collect())
}

#[test]
fn servers_that_share_a_folder_come_to_serve_one_certificate() {
    let dir = TempDir::new().unwrap();
    let (one, other) = (at_least(&["a", "all"]), at_least(&["b", "all"]));
    load_for(&dir, one, 0).unwrap();
    let both = load_for(&dir, other, 0).unwrap();
    assert!(serves(&both, "a") && serves(&both, "b") && serves(&both, "all"));
    let settled = contents(&dir);
    for names in [at_least(&["a", "all"]), at_least(&["b", "all"])] {
        let again = Pki::reload(&dir.path().join("pki"), &names, in_days(0)).unwrap().unwrap();
        assert!(!again.differs(&both));
    }
    assert_eq!(changed(&settled, &dir), [""; 0]);
}

#[test]
fn machines_that_come_and_go_do_not_make_a_shared_certificate_grow_for_ever() {
    let mut had = BTreeSet::new();
    for machine in 0..1000 {
        let name = format!("machine-{machine}");
        had = at_least(&[&name]).of_new(had);
        assert!(had.contains(&name) && had.len() <= SHARED_NAMES_MAX, "{machine}");
    }
}

#[test]
fn a_folder_that_takes_nothing_goes_on_as_long_as_its_certificates_are_valid() {
    let dir = TempDir::new().unwrap();
    let first = load(&dir).unwrap();
    let before = contents(&dir);
    let in_the_way = |name: &str| dir.path().join("pki").join(format!("{name}.unfinished/in the way"));
    // Both steps may fail: writing the key, and writing the certificate behind it.
    for file in ["apiserver.key", "admin.crt"] {
        fs::create_dir_all(in_the_way(file)).unwrap();
    }
    let there = load_in(&dir, 401);
    assert!(!there.differs(&first));
    assert_eq!(there.overdue().len(), 2, "{:?}", there.overdue());
    assert_eq!(changed(&before, &dir), [""; 0], "nothing was taken away");
    let reloaded = Pki::reload(&dir.path().join("pki"), &Names::Exactly(names()), in_days(401)).unwrap();
    assert!(!reloaded.unwrap().differs(&first));
    assert!(load_for(&dir, Names::Exactly(names()), 801).is_err(), "an expired one is not served");
}

#[test]
fn the_authority_is_never_made_anew_while_it_serves() {
    let dir = TempDir::new().unwrap();
    load(&dir).unwrap();
    let before = contents(&dir);
    let reload = |days| Pki::reload(&dir.path().join("pki"), &Names::Exactly(names()), in_days(days));
    let error = reload(3651).err().unwrap().to_string();
    assert!(error.contains("ca.crt cannot be used: it has expired"), "{error}");
    fs::rename(dir.path().join("pki/ca.crt"), dir.path().join("pki/away")).unwrap();
    assert!(reload(0).err().unwrap().to_string().contains("ca.crt cannot be used: it is missing"));
    fs::rename(dir.path().join("pki/away"), dir.path().join("pki/ca.crt")).unwrap();
    assert_eq!(changed(&before, &dir), [""; 0]);
    // `reload` does not wait for the process that has the lock.
    let folder = File::open(dir.path().join("pki")).unwrap();
    folder.lock().unwrap();
    assert!(reload(401).unwrap().is_none());
    folder.unlock().unwrap();
    assert!(reload(401).unwrap().is_some());
}

#[test]
fn what_vouches_for_a_certificate_from_elsewhere_is_found_in_its_file() {
    let key = KeyPair::generate().unwrap();
    let root = authority_params(in_days(0)).self_signed(&key).unwrap();
    let issuer = Issuer::from_ca_cert_der(root.der(), &key).unwrap();
    let leaf = |names: &[&str]| {
        let names = names.iter().map(|&name| name.to_owned()).collect();
        serving_params(&names, in_days(0)).unwrap().signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap()
    };
    let url = "https://127.0.0.1:6443";
    let trust = |chain: &[&rcgen::Certificate]| {
        let chain: Vec<_> = chain.iter().map(|certificate| certificate.der().clone()).collect();
        let Trust { authorities_pem, server_name } = Trust::of_chain(&chain, url);
        (authorities_pem.map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()), server_name)
    };
    let (local, named) = (leaf(&["127.0.0.1", "a.example.com"]), leaf(&["*.example.com"]));
    assert_eq!(trust(&[&local, &root]), (Some(root.der().clone()), None));
    assert_eq!(trust(&[&local]), (None, None), "the system's authorities");
    assert_eq!(trust(&[&named, &root]).1.as_deref(), Some("kindom.example.com"));
    let own = serving_params(&["b.example.com".to_owned()].into(), in_days(0)).unwrap();
    let own = own.self_signed(&KeyPair::generate().unwrap()).unwrap();
    assert_eq!(trust(&[&own]), (Some(own.der().clone()), Some("b.example.com".to_owned())));
}

#[test]
fn certificates_are_made_anew_before_they_end() {
    let dir = TempDir::new().unwrap();
    load(&dir).unwrap();
    let first = contents(&dir);
    load_in(&dir, 399);
    assert_eq!(changed(&first, &dir), [""; 0]);
    load_in(&dir, 401);
    assert_eq!(changed(&first, &dir), ["admin.crt", "admin.key", "apiserver.crt", "apiserver.key"]);
    load_in(&dir, 3649);
    assert_eq!(changed(&first, &dir), ["admin.crt", "admin.key", "apiserver.crt", "apiserver.key"]);
    load_in(&dir, 3651);
    assert_eq!(changed(&first, &dir), FILES);
    // And when a clock that was far ahead is set right again.
    let ahead = contents(&dir);
    load_in(&dir, 0);
    assert_eq!(changed(&ahead, &dir), ["admin.crt", "admin.key", "apiserver.crt", "apiserver.key"]);
}

#[test]
fn another_authority_signs_everything_anew() {
    let dir = TempDir::new().unwrap();
    load(&dir).unwrap();
    let first = contents(&dir);
    fs::remove_file(dir.path().join("pki/ca.crt")).unwrap();
    let pki = load(&dir).unwrap();
    assert_eq!(changed(&first, &dir), FILES);
    assert!(serves(&pki, "localhost"));
}

#[test]
fn a_start_that_was_cut_off_is_made_good() {
    let dir = TempDir::new().unwrap();
    load(&dir).unwrap();
    for left in [&["ca.key"][..], &["ca.key", "ca.crt", "apiserver.key"], &["ca.key", "ca.crt"]] {
        for file in FILES.into_iter().filter(|file| !left.contains(file)) {
            fs::remove_file(dir.path().join("pki").join(file)).unwrap();
        }
        fs::write(dir.path().join("pki/apiserver.key.unfinished"), "half a k").unwrap();
        assert!(serves(&load(&dir).unwrap(), "localhost"), "{left:?}");
    }
}

#[test]
fn unusable_files_are_named_and_kept() {
    let dir = TempDir::new().unwrap();
    load(&dir).unwrap();
    let folder = dir.path().join("pki");
    for file in FILES {
        let path = folder.join(file);
        let good = fs::read(&path).unwrap();
        let half = good.split_at(good.len() / 2).0.to_vec();
        let other =
            if file.ends_with(".key") { KeyPair::generate().unwrap().serialize_pem() } else { String::new() };
        for bad in [b"".to_vec(), b"\xff\xfe".to_vec(), half, other.into_bytes()] {
            fs::write(&path, &bad).unwrap();
            let error = load(&dir).err().unwrap().to_string();
            assert!(error.contains(&*path.to_string_lossy()), "{file}: {error}");
            assert_eq!(fs::read(&path).unwrap(), bad, "{file}");
        }
        fs::write(&path, good).unwrap();
    }
    fs::remove_file(folder.join("ca.key")).unwrap();
    let error = load(&dir).err().unwrap().to_string();
    assert!(
        error.ends_with("ca.key cannot be used: it is missing; without it, remove ca.crt as well"),
        "{error}"
    );
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("pki"), "in the way").unwrap();
    let error = load(&dir).err().unwrap().to_string();
    assert!(error.starts_with("cannot write ") && error.contains("/pki: "), "{error}");
}

#[test]
fn the_kubeconfig_carries_everything_and_is_private() {
    let dir = TempDir::new().unwrap();
    let pki = load(&dir).unwrap();
    let file = dir.path().join("admin.kubeconfig");
    for port in [6443, 6444] {
        let url = server_url(SocketAddr::from(([0, 0, 0, 0], port)));
        Pki::write_kubeconfig(&file, &pki.kubeconfig(&url, &pki.trust())).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(&format!("    server: https://127.0.0.1:{port}\n")), "{text}");
        let data = |key: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap();
            String::from_utf8(BASE64.decode(line.trim_start_matches(": ")).unwrap()).unwrap()
        };
        let made = contents(&dir);
        assert_eq!(data("client-certificate-data"), made[0]);
        assert_eq!(data("client-key-data"), made[1]);
        assert_eq!(data("certificate-authority-data"), made[4]);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn urls_and_names_are_those_that_clients_can_use() {
    let url = |text: &str| server_url(text.parse().unwrap());
    assert_eq!(url("127.0.0.1:1"), "https://127.0.0.1:1");
    assert_eq!(url("[::]:6443"), "https://[::1]:6443");
    assert_eq!(url("192.0.2.1:6443"), "https://192.0.2.1:6443");
    let any = serving_names(IpAddr::from([0, 0, 0, 0]), Some("not a name"), &[]);
    assert_eq!(any.len(), 6, "{any:?}");
    assert_eq!(serving_names(Ipv6Addr::LOCALHOST.into(), Some(""), &[]), any);
}

#[test]
fn files_of_ones_own_are_read_and_named() {
    let dir = TempDir::new().unwrap();
    let pki = load(&dir).unwrap();
    let bundle = dir.path().join("bundle.pem");
    let text = format!("{}\n# a comment\n{}", pki.authority.certificate_pem, pki.admin.certificate_pem);
    fs::write(&bundle, text).unwrap();
    assert_eq!(read_certificates(&bundle).unwrap(), [pki.authority(), pki.admin.certificate.clone()]);
    assert!(read_private_key(&dir.path().join("pki/admin.key")).is_ok());
    assert!(read_private_key(&bundle).unwrap_err().to_string().contains("bundle.pem cannot be used"));
    fs::write(&bundle, &pki.admin.key_pem).unwrap();
    let empty = read_certificates(&bundle).unwrap_err().to_string();
    assert!(empty.ends_with("bundle.pem cannot be used: it holds no certificate"), "{empty}");
    let missing = read_certificates(&dir.path().join("none.pem")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot read ") && missing.contains("none.pem"), "{missing}");
}
