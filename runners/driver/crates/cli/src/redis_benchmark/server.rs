//! What the servers are asked before a test.

use engine::cluster::Roles;
use engine::node::Node;
use network::target::Target;
use protocol::reply::Reply;
use text::failure::Failure;
use text::output;

/// The settings that a report names, per node; none of a node that does not tell.
#[derive(Default)]
pub struct ServerSettings(Vec<Option<Persistence>>);

struct Persistence {
    save: String,
    appendonly: String,
}

pub fn configuration(nodes: &[Node]) -> Result<ServerSettings, Failure> {
    nodes.iter().map(|node| persistence(&node.target)).collect::<Result<_, _>>().map(ServerSettings)
}

fn persistence(target: &Target) -> Result<Option<Persistence>, Failure> {
    let persistence = match (setting(target, "save")?, setting(target, "appendonly")?) {
        (Some(save), Some(appendonly)) => Some(Persistence { save, appendonly }),
        _ => None,
    };
    if persistence.is_none() {
        output::warn("Could not fetch server CONFIG");
    }
    Ok(persistence)
}

fn setting(target: &Target, name: &str) -> Result<Option<String>, Failure> {
    let answer = target.query(&["CONFIG", "GET", name])?;
    Ok(answer.list().get(1).and_then(Reply::text))
}

impl ServerSettings {
    /// The lines about a server, or about the nodes of these roles in a cluster.
    pub fn text(&self, cluster: Option<Roles>) -> String {
        let known = self
            .0
            .iter()
            .enumerate()
            .filter_map(|(at, persistence)| persistence.as_ref().map(|persistence| (at, persistence)));
        let line = |(at, persistence): (usize, &Persistence)| match cluster {
            None => format!(
                "  host configuration \"save\": {}\n  host configuration \"appendonly\": {}\n",
                persistence.save, persistence.appendonly
            ),
            Some(_) => {
                let save = if persistence.save.is_empty() { "NONE" } else { &persistence.save };
                format!(
                    "  node [{at}] configuration:\n    save: {save}\n    appendonly: {}\n",
                    persistence.appendonly
                )
            }
        };
        let head = cluster.map(|roles| {
            let kind = if roles == Roles::Masters { "masters" } else { "nodes" };
            format!("  cluster mode: yes ({} {kind})\n", self.0.len())
        });
        head.unwrap_or_default() + &known.map(line).collect::<String>()
    }
}
