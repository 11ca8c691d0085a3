//! Facts of the machine that influence a result. A fact that cannot be read is `unknown`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const UNKNOWN: &str = "unknown";
const CPUS: &str = "sys/devices/system/cpu";
const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    pub kernel: String,
    pub cpu_model: String,
    /// CPUs on which the driver may run, before any pinning, as in `0-3,8`.
    pub cpus_allowed: String,
    pub clocksource: String,
    /// Of all CPUs; several are joined by commas.
    pub governor: String,
    /// `on` or `off`, like `smt`.
    pub turbo: String,
    pub smt: String,
    /// `none`, the kernel's name for it, or `present`.
    pub hypervisor: String,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: String,
}

/// The clock behind CLOCK_MONOTONIC, as the kernel calls it; none when it cannot be read.
pub fn clocksource() -> Option<String> {
    line(&Path::new("/").join(CLOCKSOURCE))
}

impl Environment {
    /// Of this machine and of the calling thread.
    pub fn read() -> Environment {
        Environment::below(Path::new("/"))
    }

    /// Read from the files of /proc and /sys below `root`.
    fn below(root: &Path) -> Environment {
        let or_unknown = |fact: Option<String>| fact.unwrap_or_else(|| UNKNOWN.to_owned());
        let line = |path: &str| line(&root.join(path));
        let switch = |path: String, on: &str| {
            line(&path).map(|word| if word == on { "on".to_owned() } else { "off".to_owned() })
        };
        let turbo = switch(format!("{CPUS}/cpufreq/boost"), "1")
            .or_else(|| switch(format!("{CPUS}/intel_pstate/no_turbo"), "0"));
        let huge_pages = line("sys/kernel/mm/transparent_hugepage/enabled");
        Environment {
            kernel: or_unknown(line("proc/sys/kernel/osrelease")),
            cpu_model: or_unknown(cpu_model(&root.join("proc/cpuinfo"))),
            cpus_allowed: or_unknown(entry(&root.join("proc/self/status"), "Cpus_allowed_list")),
            clocksource: or_unknown(line(CLOCKSOURCE)),
            governor: or_unknown(governors(&root.join(CPUS))),
            turbo: or_unknown(turbo),
            smt: or_unknown(switch(format!("{CPUS}/smt/active"), "1")),
            hypervisor: or_unknown(hypervisor(root)),
            huge_pages: or_unknown(
                huge_pages.and_then(|modes| Some(modes.split_once('[')?.1.split_once(']')?.0.to_owned())),
            ),
        }
    }
}

/// The first line of a file; none when there is nothing in it.
fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// The value of the first `name: value` line.
fn entry(path: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let value = pairs.into_iter().find(|(key, _)| key.trim() == name)?.1.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// The name of the processor; ARM names its processors by numbers, which are spelled as the runner does.
fn cpu_model(path: &Path) -> Option<String> {
    entry(path, "model name").or_else(|| {
        let (implementer, part) = (entry(path, "CPU implementer")?, entry(path, "CPU part")?);
        Some(format!("implementer {implementer} part {part}"))
    })
}

fn governors(cpus: &Path) -> Option<String> {
    let folders = fs::read_dir(cpus).ok()?.filter_map(|folder| Some(folder.ok()?.path()));
    let file = |folder: PathBuf| line(&folder.join("cpufreq/scaling_governor"));
    let governors: BTreeSet<String> = folders.filter_map(file).collect();
    let joined = governors.into_iter().collect::<Vec<_>>().join(",");
    (!joined.is_empty()).then_some(joined)
}

/// The CPU flags say whether there is one (x86); only some kernels say which one.
fn hypervisor(root: &Path) -> Option<String> {
    let named = line(&root.join("sys/hypervisor/type"));
    named.or_else(|| {
        let flags = entry(&root.join("proc/cpuinfo"), "flags")?;
        let present = flags.split(' ').any(|flag| flag == "hypervisor");
        Some(if present { "present" } else { "none" }.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> Environment {
        let name = format!("speedbench-environment-{}-{}", std::process::id(), files.len());
        let root = std::env::temp_dir().join(name);
        fs::create_dir_all(&root).unwrap();
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let environment = Environment::below(&root);
        fs::remove_dir_all(&root).unwrap();
        environment
    }

    #[test]
    fn what_cannot_be_read_is_unknown() {
        let environment = serde_json::to_value(machine(&[])).unwrap();
        assert!(environment.as_object().unwrap().values().all(|fact| fact == "unknown"), "{environment}");
    }

    #[test]
    fn a_processor_without_a_name_has_its_numbers() {
        let environment =
            machine(&[("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n")]);
        assert_eq!(environment.cpu_model, "implementer 0x41 part 0xd0c");
    }

    #[test]
    fn facts_are_those_of_the_kernel() {
        let environment = machine(&[
            ("proc/sys/kernel/osrelease", "6.1.0-40-amd64\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nmodel name\t: EPYC 9\nflags\t\t: fpu hypervisor lm\nprocessor\t: 1\n",
            ),
            ("proc/self/status", "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"),
            (CLOCKSOURCE, "kvm-clock\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ]);
        let expected = Environment {
            kernel: "6.1.0-40-amd64".into(),
            cpu_model: "EPYC 9".into(),
            cpus_allowed: "0-1".into(),
            clocksource: "kvm-clock".into(),
            governor: "performance,powersave".into(),
            turbo: "on".into(),
            smt: "off".into(),
            hypervisor: "present".into(),
            huge_pages: "madvise".into(),
        };
        assert_eq!(environment, expected);
    }
}
