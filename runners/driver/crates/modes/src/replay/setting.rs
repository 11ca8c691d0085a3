//! Which recording is played, and how fast.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use recording::digest;
use recording::format::Format;
use text::checks::require;
use text::failure::Failure;

const HIGHEST_SPEED: f64 = 1e6;

/// How fast a recording is played.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a number above 0, or \"fast\"")]
pub enum Speed {
    /// So many times as fast as it was recorded: requests are due by their times.
    Times(f64),
    /// As fast as the server answers.
    Fast(Fast),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fast {
    Fast,
}

impl Default for Speed {
    fn default() -> Self {
        Speed::Times(1.0)
    }
}

impl Speed {
    /// Usage failures, in which it is called `name`.
    pub fn check(self, name: &str) -> Result<Speed, Failure> {
        let Speed::Times(times) = self else { return Ok(self) };
        require(
            times > 0.0 && times <= HIGHEST_SPEED,
            &format!("{name} cannot be {times}"),
            "give a number above 0, at most 10^6, or fast",
        )?;
        Ok(self)
    }

    /// The factor; none when times have no part in it.
    pub fn times(self) -> Option<f64> {
        match self {
            Speed::Times(times) => Some(times),
            Speed::Fast(_) => None,
        }
    }
}

/// Which recording is played, and how fast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// In a workload file the path from the folder of recordings on; else the name of the file.
    pub file: String,
    /// Told by how the file begins unless it is given.
    pub format: Option<Format>,
    #[serde(default)]
    pub speed: Speed,
    /// `sha256:` and the digest of the file, which must be this one if it is given.
    pub digest: Option<String>,
    /// Where the file is.
    #[serde(skip)]
    pub path: PathBuf,
}

impl Setting {
    /// Of the file at `path`, which may be anywhere.
    pub fn of(path: &str, format: Option<Format>, speed: Speed) -> Result<Setting, Failure> {
        let path = PathBuf::from(path);
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Setting { file: name, format, speed, digest: None, path }.identified()
    }

    /// The same of a workload file whose recordings are in `folder`, below which this one must be.
    pub fn in_folder(self, folder: &Path) -> Result<Setting, Failure> {
        let inner = Path::new(&self.file).components().all(|part| matches!(part, Component::Normal(_)));
        let path = folder.join(&self.file);
        let real = |path: &Path| path.canonicalize();
        let is_below = match (real(&path), real(folder)) {
            (Ok(path), Ok(folder)) => path.starts_with(folder),
            // What cannot be read is refused below.
            _ => true,
        };
        require(
            inner && is_below,
            &format!("replay.file {} is not below the folder of recordings", self.file),
            "put it beside the workload file or into the folder of --recordings, and give its path from there",
        )?;
        Setting { path, ..self }.identified()
    }

    /// The same with the digest of its file.
    fn identified(self) -> Result<Setting, Failure> {
        let file = &self.file;
        let digest = digest::of(&self.path).map_err(|error| {
            Failure::usage(
                format!("cannot read the recording {file} ({error})"),
                "name a file that can be read",
            )
        })?;
        require(
            self.digest.as_ref().is_none_or(|expected| *expected == digest),
            &format!("the recording {file} is another than the workload file says: its digest is {digest}"),
            "fetch the file that was meant, or correct replay.digest",
        )?;
        Ok(Setting { digest: Some(digest), ..self })
    }

    pub fn check(&self) -> Result<(), Failure> {
        self.speed.check("replay.speed").map(drop)
    }
}
