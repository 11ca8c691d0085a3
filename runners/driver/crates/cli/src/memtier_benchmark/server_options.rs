//! The options that say which server is loaded, and how it is reached.

use std::net::ToSocketAddrs;

use clap::Args;

use crate::memtier_benchmark::values::{Protocol, TlsProtocols, protocol, tls_protocols};
use crate::uri::{self, Uri};
use text::failure::Failure;

const USUAL_HOST: &str = "localhost";

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerOptions {
    /// host name or address (localhost)
    #[arg(short = 'h', long, short_alias = 's', alias = "server", value_name = "HOST")]
    pub host: Option<String>,
    /// port (6379; memcache_text 11211)
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<u16>,
    /// resolve the host to an IPv4 address
    #[arg(short = '4', long)]
    pub ipv4: bool,
    /// resolve it to an IPv6 address
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// path of a unix socket
    #[arg(short = 'S', long = "unix-socket", value_name = "PATH")]
    pub socket: Option<String>,
    /// redis, resp2, resp3 or memcache_text
    #[arg(short = 'P', long, value_name = "NAME", default_value = "redis", value_parser = protocol)]
    pub protocol: Protocol,
    /// PASSWORD or USER:PASSWORD
    #[arg(short = 'a', long = "authenticate", value_name = "LOGIN")]
    pub login: Option<String>,
    /// redis://user:password@host:port/db; rediss:// for TLS; other options take precedence
    #[arg(short = 'u', long, value_name = "URI", value_parser = uri::parse)]
    pub uri: Option<Uri>,
    /// database (0)
    #[arg(long = "select-db", value_name = "DB")]
    pub database: Option<u32>,
    /// spread the load over the masters of a cluster; keys get a hash tag
    #[arg(long = "cluster-mode")]
    pub cluster: bool,
    /// encrypt
    #[arg(long)]
    pub tls: bool,
    /// certificate to show
    #[arg(long, value_name = "FILE")]
    pub cert: Option<String>,
    /// key of the certificate (in the same file)
    #[arg(long, value_name = "FILE")]
    pub key: Option<String>,
    /// certificates to trust, instead of those of the system
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<String>,
    /// trust any certificate
    #[arg(long = "tls-skip-verify")]
    pub insecure: bool,
    /// server name to ask for
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,
    /// versions of TLS: TLSv1.2, TLSv1.3 or both
    #[arg(long, value_name = "LIST", value_parser = tls_protocols)]
    pub tls_protocols: Option<TlsProtocols>,
}

impl ServerOptions {
    pub fn host(&self) -> &str {
        let of_uri = self.uri.as_ref().and_then(|uri| uri.host.as_deref());
        self.host.as_deref().or(of_uri).unwrap_or(USUAL_HOST)
    }

    /// The family of addresses, as the configuration names it.
    pub fn family(&self) -> &'static str {
        match (self.ipv4, self.ipv6) {
            (true, _) => "AF_INET",
            (_, true) => "AF_INET6",
            _ => "Unspecified",
        }
    }

    /// The name that a certificate should have, when the connection is to an address in its place.
    pub fn name_beside_address(&self) -> Option<String> {
        (self.ipv4 || self.ipv6).then(|| self.host().to_owned())
    }

    /// The host to connect to: the name, or its address if one of a family is asked for.
    pub fn place(&self) -> Result<String, Failure> {
        if !self.ipv4 && !self.ipv6 {
            return Ok(self.host().to_owned());
        }
        let addresses = (self.host(), self.port()).to_socket_addrs().into_iter().flatten();
        let mut fitting = addresses.filter(|address| address.is_ipv4() == self.ipv4);
        let address = fitting.next().ok_or_else(|| {
            let family = if self.ipv4 { "IPv4" } else { "IPv6" };
            Failure::run(format!("{} has no {family} address", self.host()), "leave -4 or -6 out")
        })?;
        Ok(address.ip().to_string())
    }

    pub fn port(&self) -> u16 {
        let of_uri = self.uri.as_ref().and_then(|uri| uri.port);
        self.port.or(of_uri).unwrap_or(self.protocol.name.port())
    }

    pub fn has_login(&self) -> bool {
        self.login.is_some() || self.uri.as_ref().is_some_and(|uri| uri.login.is_some())
    }
}
