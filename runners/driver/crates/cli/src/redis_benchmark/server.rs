//! What is asked of the servers before a test.

use engine::node::Node;
use network::target::Target;
use protocol::reply::Reply;
use text::failure::Failure;

/// The settings that a report names, per node; none of a node that does not tell.
#[derive(Default)]
pub struct Configured(Vec<Option<Persistence>>);

struct Persistence {
    save: String,
    appendonly: String,
}

pub fn configuration(nodes: &[Node]) -> Result<Configured, Failure> {
    nodes.iter().map(|node| persistence(&node.target)).collect::<Result<_, _>>().map(Configured)
}

fn persistence(target: &Target) -> Result<Option<Persistence>, Failure> {
    let told = match (setting(target, "save")?, setting(target, "appendonly")?) {
        (Some(save), Some(appendonly)) => Some(Persistence { save, appendonly }),
        _ => None,
    };
    if told.is_none() {
        eprintln!("WARNING: Could not fetch server CONFIG");
    }
    Ok(told)
}

fn setting(target: &Target, name: &str) -> Result<Option<String>, Failure> {
    let answer = target.query(&["CONFIG", "GET", name])?;
    Ok(answer.list().get(1).and_then(Reply::text))
}

impl Configured {
    pub fn text(&self, cluster: bool) -> String {
        let known = self.0.iter().enumerate().filter_map(|(at, told)| told.as_ref().map(|told| (at, told)));
        let line = |(at, told): (usize, &Persistence)| match cluster {
            false => format!(
                "  host configuration \"save\": {}\n  host configuration \"appendonly\": {}\n",
                told.save, told.appendonly
            ),
            true => {
                let save = if told.save.is_empty() { "NONE" } else { &told.save };
                format!(
                    "  node [{at}] configuration:\n    save: {save}\n    appendonly: {}\n",
                    told.appendonly
                )
            }
        };
        let head =
            if cluster { format!("  cluster mode: yes ({} masters)\n", self.0.len()) } else { String::new() };
        head + &known.map(line).collect::<String>()
    }
}
