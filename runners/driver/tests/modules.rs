//! A file of tests without its `mod` line is compiled by nobody, and its tests do not run: nothing else tells.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders of which each is one program.
const PROGRAMS: [&str; 3] = ["tests", "crates/engine/tests", "crates/workload/tests"];
/// A program of its own, which Cargo.toml names.
const APART: &str = "counters";

/// The files in `folder` and below it that `root`, its file of `mod` lines, does not lead to.
fn unnamed(folder: &Path, root: &str) -> Vec<PathBuf> {
    let lines = fs::read_to_string(folder.join(root)).unwrap();
    let is_named =
        |name: &str| lines.lines().any(|line| line.trim_start_matches("pub ") == format!("mod {name};"));
    let mut missing = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_folder = path.join("mod.rs").exists();
        let is_module = is_folder || path.extension().is_some_and(|extension| extension == "rs");
        if is_module && !is_named(name) && !path.ends_with(root) && name != APART {
            missing.push(path.clone());
        }
        if is_folder {
            missing.extend(unnamed(&path, "mod.rs"));
        }
    }
    missing
}

#[test]
fn every_file_of_tests_is_part_of_its_program() {
    for folder in PROGRAMS {
        let missing = unnamed(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), "main.rs");
        assert!(missing.is_empty(), "write a mod line for each of {missing:?}");
    }
}
