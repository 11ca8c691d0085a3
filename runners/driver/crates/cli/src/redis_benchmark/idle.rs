//! `-I`: connections that are opened and held.

use std::io::IsTerminal;

use crate::redis_benchmark::options::Options;
use engine::node::Node;
use engine::resources;
use modes::idle::IdleConnections;
use text::failure::Failure;
use text::output::print;
use text::units::NS_PER_MS;

/// The number of clients is shown this often.
const SHOWN_EVERY_NS: u64 = 250 * NS_PER_MS;

/// Open the connections and wait until a server closes one.
pub fn hold(options: &Options, nodes: &[Node]) -> Result<(), Failure> {
    let mut held = IdleConnections::open(nodes, options.load.clients, &mut |_| ())?;
    print(&format!(
        "Creating {} idle connections and waiting forever (Ctrl+C when done)\n",
        options.load.clients
    ))?;
    let is_terminal_output = std::io::stdout().is_terminal();
    loop {
        resources::check_signals()?;
        held.watch(SHOWN_EVERY_NS, &mut Err)?;
        if is_terminal_output {
            print(&format!("clients: {}\r", options.load.clients))?;
        }
    }
}
