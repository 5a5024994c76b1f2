//! Where the team's answers come from, checked: one server or several, by addresses that hold no
//! secret, and what a million tokens cost.

use super::TeamSection;
use super::plan::ConfigError;

/// Refuses a team without answers, an address that is none, and a price that is no number.
pub(super) fn check(team: &TeamSection) -> Result<(), ConfigError> {
    if team.base_url.is_some() && !team.base_urls.is_empty() {
        return Err(ConfigError(
            "team.base_url and team.base_urls are both given; keep one of the two (--set team.base_urls=[] drops the list)"
                .into(),
        ));
    }
    let servers = team.servers();
    if team.local.is_some() && !servers.is_empty() {
        return Err(ConfigError(
            "team.local (a model in this process) and a server are both given; keep one of the two".into(),
        ));
    }
    if team.cassette.is_none() && team.local.is_none() && servers.is_empty() {
        return Err(ConfigError(
            "team has neither cassette (recorded answers) nor base_url (a server) nor local (a model in this process); \
             give one"
                .into(),
        ));
    }
    for (at, url) in servers.iter().enumerate() {
        let key = if team.base_url.is_some() { "team.base_url".into() } else { format!("team.base_urls[{at}]") };
        address(&key, url)?;
        if let Some(first) = servers[..at].iter().position(|earlier| trimmed(earlier) == trimmed(url)) {
            return Err(ConfigError(format!("{key} is team.base_urls[{first}] again: {url}; name each server once")));
        }
    }
    let price = team.price.map(|price| [("prompt", price.prompt), ("completion", price.completion)]);
    for (key, value) in price.into_iter().flatten() {
        if !(value.is_finite() && value >= 0.0) {
            return Err(ConfigError(format!("team.price.{key} is {value}; expected 0 or more, for a million tokens")));
        }
    }
    Ok(())
}

fn trimmed(url: &str) -> &str {
    url.trim_end_matches('/')
}

/// An address is `http(s)://host[:port][/path]`. The message does not repeat one that holds a
/// password.
pub(super) fn address(key: &str, url: &str) -> Result<(), ConfigError> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some(rest) = rest else {
        let shown = url.rsplit('@').next().unwrap_or_default();
        return Err(ConfigError(format!("{key} is \"{shown}\"; expected an address such as http://127.0.0.1:8071/v1")));
    };
    let host = rest.split('/').next().unwrap_or_default();
    if host.contains('@') {
        return Err(ConfigError(format!(
            "{key} holds a user name or password, which would be shown wherever the address is; keep the secret in the \
             variable that team.api_key_env names, or in team.api_key_file"
        )));
    }
    if host.is_empty() || host.starts_with(':') || url.contains(['?', '#']) || url.contains(char::is_whitespace) {
        return Err(ConfigError(format!("{key} is \"{url}\"; expected an address such as http://127.0.0.1:8071/v1")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_path() {
        for good in
            ["http://127.0.0.1:8071/v1", "https://api.example.com/v1/", "http://[::1]:80", "http://gpu-3:8000/v1"]
        {
            address("k", good).unwrap();
        }
        for bad in [
            "",
            "127.0.0.1:80",
            "ftp://a/v1",
            "http://",
            "http:///v1",
            "http://:80/v1",
            "http://a/v1?key=x",
            "http://a b/",
        ] {
            let said = address("team.base_url", bad).unwrap_err().to_string();
            assert!(
                said.starts_with("team.base_url is ") && said.contains("expected an address such as"),
                "{bad}: {said}"
            );
        }
    }

    #[test]
    fn a_password_in_an_address_is_refused_and_not_repeated() {
        for bad in ["http://me:hunter2@a/v1", "https://hunter2@a:1/v1", "me:hunter2@a"] {
            let said = address("team.base_url", bad).unwrap_err().to_string();
            assert!(!said.contains("hunter2"), "{said}");
        }
    }
}
