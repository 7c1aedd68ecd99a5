//! An image as an OCI layout (opencontainers/image-spec 1.1): the same programs give the same bytes.
//!
//! Its four documents are written here: the labels of the types of crate oci-spec are hash maps, in another order each time.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use crate::reference::Reference;

/// A user that no system has.
const USER: &str = "65532:65532";
/// The time of everything in the image, so that a build at another time gives the same.
const CREATED: &str = "1970-01-01T00:00:00Z";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Programs that run alone.
pub(super) struct Image {
    reference: Reference,
    architecture: &'static str,
    labels: Value,
    programs: Vec<(&'static str, Vec<u8>)>,
}

impl Image {
    pub(super) fn new(reference: Reference, architecture: &'static str, labels: &[(String, String)]) -> Self {
        let title = ("org.opencontainers.image.title", reference.title());
        let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let labels: std::collections::BTreeMap<&str, &str> = std::iter::once(title).chain(labels).collect();
        let labels = json!(labels);
        Self { reference, architecture, labels, programs: Vec::new() }
    }

    /// Puts a program at the root. The first one is what the image runs.
    pub(super) fn add(&mut self, name: &'static str, executable: Vec<u8>) {
        self.programs.push((name, executable));
    }

    pub(super) fn reference(&self) -> &Reference {
        &self.reference
    }

    /// The documents of the image.
    pub(super) fn pack(&self) -> Packed {
        let files = self.programs.iter().map(|(name, executable)| (*name, 0o755, executable.as_slice()));
        let plain = archive(&[], files);
        let layer = Blob::new(LAYER, compressed(&plain));
        let config = Blob::new(CONFIG, bytes(&self.config(&digest(&plain))));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.descriptor(),
            "layers": [layer.descriptor()],
        });
        Packed { manifest: Blob::new(MANIFEST, bytes(&manifest)), layer, config }
    }

    /// The layout of a packed image, a tar.
    pub(super) fn layout(&self, packed: &Packed) -> Vec<u8> {
        let mut entry = packed.manifest.descriptor();
        if let Some(entry) = entry.as_object_mut() {
            let platform = json!({ "architecture": self.architecture, "os": "linux" });
            // The first is what skopeo and podman ask for, the other what containerd loads the image as.
            let annotations = json!({
                "io.containerd.image.name": self.reference.whole(),
                "org.opencontainers.image.ref.name": self.reference.tag(),
            });
            entry.extend([("platform".to_owned(), platform), ("annotations".to_owned(), annotations)]);
        }
        let index = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [entry],
        });
        let documents = [
            ("oci-layout".to_owned(), bytes(&json!({ "imageLayoutVersion": "1.0.0" }))),
            ("index.json".to_owned(), bytes(&index)),
        ];
        let blobs = [&packed.layer, &packed.config, &packed.manifest];
        let mut blobs = blobs.map(|blob| (format!("blobs/sha256/{}", blob.digest), blob.content.clone()));
        blobs.sort();
        let files = documents.iter().chain(&blobs);
        let files = files.map(|(name, content)| (name.as_str(), 0o644, &content[..]));
        archive(&["blobs/", "blobs/sha256/"], files)
    }

    fn config(&self, layer: &str) -> Value {
        let (entrypoint, command) = match self.programs.first() {
            Some(("apiserver", _)) => (json!(["/apiserver"]), json!(["serve"])),
            Some((name, _)) => (json!([format!("/{name}")]), Value::Null),
            None => (Value::Null, Value::Null),
        };
        json!({
            "architecture": self.architecture,
            "os": "linux",
            "created": CREATED,
            "config": { "User": USER, "Entrypoint": entrypoint, "Cmd": command, "WorkingDir": "/", "Labels": self.labels },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
            "history": [{ "created": CREATED, "created_by": "kindom build container" }],
        })
    }
}

/// The three files of an image.
pub(super) struct Packed {
    pub(super) layer: Blob,
    pub(super) config: Blob,
    pub(super) manifest: Blob,
}

/// A file that is called by its content.
pub(super) struct Blob {
    media_type: &'static str,
    digest: String,
    pub(super) content: Bytes,
}

impl Blob {
    fn new(media_type: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        Self { media_type, digest: digest(&content), content }
    }

    /// `sha256:…`
    pub(super) fn digest(&self) -> String {
        format!("sha256:{}", self.digest)
    }

    pub(super) fn media_type(&self) -> &'static str {
        self.media_type
    }

    fn descriptor(&self) -> Value {
        json!({
            "mediaType": self.media_type,
            "digest": self.digest(),
            "size": self.content.len(),
        })
    }
}

fn bytes(document: &Value) -> Bytes {
    document.to_string().into()
}

fn digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A tar of folders, and files with their modes, all of them root's and of one time.
fn archive<'a>(folders: &[&str], files: impl Iterator<Item = (&'a str, u32, &'a [u8])>) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    let header = |kind, mode, size: usize| {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header.set_size(size.try_into().unwrap_or(u64::MAX));
        header
    };
    // Writing to memory does not fail, nor do names as short as these.
    for folder in folders {
        let _ = tar.append_data(&mut header(EntryType::Directory, 0o755, 0), folder, std::io::empty());
    }
    for (name, mode, content) in files {
        let _ = tar.append_data(&mut header(EntryType::Regular, mode, content.len()), name, content);
    }
    tar.into_inner().unwrap_or_default()
}

fn compressed(content: &[u8]) -> Vec<u8> {
    // Its header has neither a time nor a name.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let _ = gzip.write_all(content);
    gzip.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::*;

    fn image() -> Vec<u8> {
        let labels = [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())];
        let reference = Reference::parse("registry.example.com/shipyard:v1").unwrap();
        let mut image = Image::new(reference, "amd64", &labels);
        image.add("apiserver", b"first".to_vec());
        image.add("controller-manager", vec![7; 100_000]);
        image.layout(&image.pack())
    }

    fn files(tar: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
        let mut archive = Archive::new(tar);
        let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let (path, mode) = (entry.path().unwrap().display().to_string(), entry.header().mode().unwrap());
            assert_eq!((entry.header().uid().unwrap(), entry.header().mtime().unwrap()), (0, 0));
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            (path, (mode, content))
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn the_same_programs_give_the_same_image() {
        assert_eq!(image(), image());
    }

    /// B-47.
    #[test]
    fn every_document_is_called_by_its_content() {
        let files = files(&image());
        let document = |name: &str| -> Value { serde_json::from_slice(&files.get(name).unwrap().1).unwrap() };
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let content = files.get(&format!("blobs/sha256/{digest}")).unwrap().1.clone();
            assert_eq!(super::digest(&content), digest);
            assert_eq!(descriptor["size"], content.len());
            content
        };
        assert_eq!(document("oci-layout"), json!({ "imageLayoutVersion": "1.0.0" }));
        let entry = &document("index.json")["manifests"][0];
        assert_eq!(entry["annotations"]["org.opencontainers.image.ref.name"], "v1");
        let manifest: Value = serde_json::from_slice(&blob(entry)).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!(["/apiserver"]));
        let labels = json!({ "a": "1", "b": "2", "org.opencontainers.image.title": "shipyard" });
        assert_eq!(config["config"]["Labels"], labels);
        let mut plain = Vec::new();
        let layer = blob(&manifest["layers"][0]);
        GzDecoder::new(layer.as_slice()).read_to_end(&mut plain).unwrap();
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", super::digest(&plain))]));
        let programs = super::tests::files(&plain);
        let expected = [("apiserver", b"first".to_vec()), ("controller-manager", vec![7; 100_000])];
        assert_eq!(programs, expected.map(|(name, content)| (name.to_owned(), (0o755, content))).into());
    }
}
