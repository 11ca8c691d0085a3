//! The local addresses that connections come from: one address has no more ports than the kernel gives it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use socket2::{SockAddr, Socket};

use machine::socket;
use text::failure::Failure;

/// No list is longer.
const MOST: u32 = 4096;

/// Local addresses, which connections take in turn; none: the kernel chooses.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    addresses: Arc<[IpAddr]>,
    next: Arc<AtomicUsize>,
}

impl Sources {
    /// Addresses and ranges of them, as in `127.0.0.1-127.0.0.8,127.0.1.1`.
    pub fn parse(list: &str) -> Result<Sources, Failure> {
        let wrong = || {
            let cause = format!("--source cannot be '{list}'");
            Failure::usage(cause, "give up to 4096 addresses, as in 127.0.0.1-127.0.0.8,127.0.1.1")
        };
        let parts: Option<Vec<Vec<IpAddr>>> = list.split(',').map(addresses).collect();
        let addresses: Vec<IpAddr> = parts.ok_or_else(wrong)?.into_iter().flatten().collect();
        if addresses.len() > MOST as usize {
            return Err(wrong());
        }
        Ok(Sources { addresses: addresses.into(), next: Arc::default() })
    }

    /// The same addresses for another server, whose connections begin with the first one, too.
    pub fn from_first(&self) -> Sources {
        Sources { addresses: self.addresses.clone(), next: Arc::default() }
    }

    /// How many addresses share the connections.
    pub fn count(&self) -> usize {
        self.addresses.len().max(1)
    }

    pub fn is_chosen_by_kernel(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Give `socket` the next address; the kernel still chooses the port when it connects.
    pub fn bind(&self, socket: &Socket) -> io::Result<()> {
        if self.addresses.is_empty() {
            return Ok(());
        }
        let address = self.addresses[self.next.fetch_add(1, Ordering::Relaxed) % self.addresses.len()];
        socket::bind_address_only(socket)?;
        socket.bind(&SockAddr::from(SocketAddr::new(address, 0)))
    }
}

/// One address, or those from the first to the last of a range of IPv4.
fn addresses(text: &str) -> Option<Vec<IpAddr>> {
    let Some((first, last)) = text.split_once('-') else { return Some(vec![text.parse().ok()?]) };
    let number = |text: &str| text.parse::<Ipv4Addr>().ok().map(u32::from);
    let (first, last) = (number(first)?, number(last)?);
    let is_range = first <= last && last - first < MOST;
    is_range.then(|| (first..=last).map(|number| Ipv4Addr::from(number).into()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    #[test]
    fn a_range_has_all_its_addresses() {
        let sources = Sources::parse("127.0.0.254-127.0.1.1,::1").unwrap();
        let texts: Vec<String> = sources.addresses.iter().map(IpAddr::to_string).collect();
        assert_eq!(texts, ["127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1", "::1"]);
        assert_eq!((sources.count(), Sources::default().count()), (5, 1));
    }

    #[test]
    fn each_server_is_reached_from_all_addresses_in_turn() {
        let base = Sources::parse("127.0.0.2-127.0.0.3").unwrap();
        let head = base.from_first();
        let bound = |sources: &Sources| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            sources.bind(&socket).unwrap();
            socket.local_addr().unwrap().as_socket_ipv4().unwrap().ip().to_string()
        };
        let addresses = [&base, &head, &base, &head, &base].map(bound);
        assert_eq!(addresses, ["127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.2"]);
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        for list in
            ["", "localhost", "127.0.0.8-127.0.0.1", "127.0.0.1-8", "10.0.0.0-10.255.255.255", "::1-::2"]
        {
            let message = Sources::parse(list).err().unwrap().to_string();
            assert!(message.starts_with("--source cannot be"), "{message}");
        }
    }
}
