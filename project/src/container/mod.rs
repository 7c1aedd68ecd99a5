//! `kindom build container`: an image without a container engine (B-47).

use std::io::Write;
use std::path::Path;
use std::process::Command;

use object::Endianness;
use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader as _, ProgramHeader as _};

use crate::arguments::{BuildContainer, Program};
use crate::cargo;
use crate::error::Error;
use crate::manifest::Manifest;
use crate::reference::Reference;
use crate::report::report;

mod image;
mod push;

use image::Image;

/// Builds the programs so that they need no other file, and writes an image of them.
pub(crate) fn run(folder: &Path, options: &BuildContainer, out: &mut dyn Write) -> Result<(), Error> {
    let programs = Manifest::need(folder)?.chosen("targets", &options.targets)?;
    let reference = Reference::parse(&options.image)
        .map_err(|why| Error::refused(format!("--image {:?}: {why}", options.image)))?;
    if reference.has_digest() {
        let why = "an image that is built has no digest yet";
        return Err(Error::refused(format!("--image {:?}: {why}", options.image)));
    }
    let target = match &options.target {
        Some(target) => target.clone(),
        None => host(folder)?,
    };
    let architecture = architecture(&target).ok_or_else(|| {
        Error::refused(format!("--target {target:?}: images have programs for Linux, on 64 bits"))
    })?;
    if options.output.file_name().is_none() {
        return Err(Error::refused(format!("--output {:?}: a file is needed", options.output)));
    }
    let mut image = Image::new(reference, architecture, &options.labels);
    for (name, executable) in build(folder, &programs, &target)? {
        image.add(name, executable);
    }
    let packed = image.pack();
    write(folder, &options.output, &image.layout(&packed))?;
    report(out, &format!("{}: {}", options.output.display(), image.reference()))?;
    if options.push {
        push::push(image.reference(), &packed)?;
        report(out, &format!("pushed {}@{}", image.reference(), packed.manifest.digest()))?;
    }
    Ok(())
}

/// The platform that programs are built for unless another one is asked for.
fn host(folder: &Path) -> Result<String, Error> {
    let failed = |source| Error::Program { program: "rustc".to_owned(), source };
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("-vV").current_dir(folder).output().map_err(failed)?;
    let text = String::from_utf8_lossy(&version.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned);
    host.ok_or_else(|| Error::refused("rustc -vV names no host: it is needed for the platform of the image"))
}

/// The name that images have for the processor of a platform.
fn architecture(target: &str) -> Option<&'static str> {
    let (processor, rest) = target.split_once('-')?;
    if !rest.contains("linux") {
        return None;
    }
    Some(match processor {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "riscv64gc" => "riscv64",
        "powerpc64le" => "ppc64le",
        "s390x" => "s390x",
        _ => return None,
    })
}

fn build(folder: &Path, programs: &[Program], target: &str) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    // Not by RUSTFLAGS, which would take the place of all that the project's .cargo/config.toml says; of that, only [build] rustflags
    // are not used. A static program looks for random numbers in /dev unless the crate getrandom knows that the system has a call for
    // them.
    let random = r#"getrandom_backend="linux_getrandom""#;
    let linked =
        format!("target.{target}.rustflags=['-C', 'target-feature=+crt-static', '--cfg', '{random}']");
    let executables =
        cargo::build(folder, programs, &["--release", "--target", target, "--config", &linked])?;
    let read = |(program, path): (&Program, &std::path::PathBuf)| {
        let executable = std::fs::read(path).map_err(Error::file("read", path))?;
        match is_static(&executable) {
            true => Ok((program.name(), executable)),
            false => Err(Error::refused(format!(
                "{} needs libraries that an empty image does not have: RUSTFLAGS, if it is set, has to hold -C target-feature=+crt-static",
                program.name()
            ))),
        }
    };
    executables.iter().map(read).collect()
}

/// True for an executable that no loader has to complete.
fn is_static(executable: &[u8]) -> bool {
    let interpreted = || {
        let header = FileHeader64::<Endianness>::parse(executable).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, executable).ok()?;
        Some(segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP))
    };
    interpreted() == Some(false)
}

/// Writes a file beside its place, and renames it.
fn write(folder: &Path, path: &Path, content: &[u8]) -> Result<(), Error> {
    let place = folder.join(path);
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let new = place.with_file_name(format!(".{name}.new"));
    let parent = place.parent().unwrap_or(folder);
    let written = std::fs::create_dir_all(parent)
        .and_then(|()| std::fs::write(&new, content))
        .and_then(|()| std::fs::rename(&new, &place));
    written.map_err(|error| {
        // The error that led here is the one to report.
        let _ = std::fs::remove_file(&new);
        Error::file("write", path)(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processors_of_images_are_those_of_go() {
        assert_eq!(architecture("x86_64-unknown-linux-gnu"), Some("amd64"));
        assert_eq!(architecture("aarch64-unknown-linux-musl"), Some("arm64"));
        for target in ["aarch64-apple-darwin", "x86_64-pc-windows-msvc", "x86_64", "mips-unknown-linux-gnu"] {
            assert_eq!(architecture(target), None, "{target}");
        }
    }

    #[test]
    fn a_program_with_a_loader_is_not_static() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&own));
        assert!(!is_static(b""));
        assert!(!is_static(own.get(..100).unwrap()));
        // The same program, whose loader has become another sort of segment.
        let header = FileHeader64::<Endianness>::parse(own.as_slice()).unwrap();
        let endian = header.endian().unwrap();
        let segments = header.program_headers(endian, own.as_slice()).unwrap();
        let at = segments.iter().position(|segment| segment.p_type(endian) == PT_INTERP).unwrap();
        let place =
            usize::try_from(header.e_phoff(endian)).unwrap() + at * usize::from(header.e_phentsize(endian));
        let mut without = own.clone();
        without.get_mut(place..place + 4).unwrap().fill(0);
        assert!(is_static(&without));
    }
}
