//! Addresses of servers, looked up once a minute: ureq's own resolver starts a thread for every
//! request, even where an open connection is used again.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// How long an address is taken for known: a server that moved is found again after that.
const KNOWN_FOR: Duration = Duration::from_secs(60);

/// When a name was looked up, and what was found.
type Found = (Instant, Vec<SocketAddr>);

/// Remembers what names stand for; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    known: Arc<Mutex<HashMap<String, Found>>>,
    asked: Arc<DefaultResolver>,
}

impl Resolver for Names {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let place = uri.scheme().zip(uri.authority());
        let Some(place) = place.and_then(|(scheme, authority)| DefaultResolver::host_and_port(scheme, authority))
        else {
            return self.asked.resolve(uri, config, timeout);
        };
        let known = |found: &Found| (found.0.elapsed() < KNOWN_FOR).then(|| found.1.clone());
        let addresses = super::locked(&self.known).get(&place).and_then(known);
        if let Some(addresses) = addresses {
            let mut resolved = self.empty();
            addresses.into_iter().for_each(|address| resolved.push(address));
            return Ok(resolved);
        }
        let resolved = self.asked.resolve(uri, config, timeout)?;
        super::locked(&self.known).insert(place, (Instant::now(), resolved.to_vec()));
        Ok(resolved)
    }
}
