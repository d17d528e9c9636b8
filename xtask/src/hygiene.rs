//! What must not be in any file of the repository: secrets, hosts of package registries (a lock file
//! or a text that names one ties the project to it), paths of one machine, notes of unfinished work.

const REGISTRY_HOSTS: [&str; 8] = [
    concat!("registry.", "npmjs.org"),
    concat!("static.", "crates.io"),
    concat!("index.", "crates.io"),
    concat!("py", "pi.org"),
    concat!("files.", "pythonhosted.org"),
    concat!("deb.", "debian.org"),
    concat!("proxy.", "golang.org"),
    concat!("npm.", "jsr.io"),
];
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];
/// How secrets of well-known issuers begin, and how many characters follow at least.
const SECRET_PREFIXES: [(&str, usize); 7] = [
    ("AKIA", 16),
    ("ghp_", 30),
    ("github_pat_", 30),
    ("npm_", 36),
    ("sk-ant-", 20),
    ("xoxb-", 20),
    (concat!("PRIVATE ", "KEY-----"), 0),
];
/// Our own secrets must not be given a value in a file.
const OWN_SECRETS: [&str; 2] = ["API_JWT_SECRET", "SCOPE_SIGNING_KEY"];
const MIN_SECRET: usize = 16;

/// What is wrong with one text file.
pub fn check(path: &str, text: &str) -> Vec<String> {
    // Cargo writes its index's address into every entry, and npm an integrity value per package.
    if path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let found = check_line(line);
        problems.extend(found.map(|problem| format!("{path}:{}: {problem}", index + 1)));
    }
    problems
}

fn check_line(line: &str) -> Option<String> {
    if let Some(host) = REGISTRY_HOSTS.iter().find(|host| line.contains(*host)) {
        return Some(format!("names the registry host {host}"));
    }
    if MACHINE_PATHS.iter().any(|path| starts_a_path(line, path)) {
        return Some("names a path of one machine".to_owned());
    }
    if let Some(word) = UNFINISHED.iter().find(|word| has_word(line, word)) {
        return Some(format!("{word}: finish it, or write an issue"));
    }
    if SECRET_PREFIXES.iter().any(|(prefix, length)| has_secret(line, prefix, *length)) {
        return Some("looks like a secret".to_owned());
    }
    OWN_SECRETS.iter().find(|name| is_assigned(line, name)).map(|name| format!("gives {name} a value"))
}

/// At the start of a path, so that `src/work/` is none.
fn starts_a_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line.split_at(at).0.chars().last();
        before.is_none_or(|character| !character.is_alphanumeric() && !"_-.)}/".contains(character))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let (before, rest) = line.split_at(at);
        let joined = |character: Option<char>| character.is_some_and(char::is_alphanumeric);
        !joined(before.chars().last()) && !joined(rest.chars().nth(word.len()))
    })
}

fn has_secret(line: &str, prefix: &str, length: usize) -> bool {
    line.split(prefix).skip(1).any(|rest| token_length(rest) >= length)
}

/// `NAME = "value"`, `NAME: 'value'`, `NAME=value` with a value long enough to be real.
fn is_assigned(line: &str, name: &str) -> bool {
    line.split(name).skip(1).any(|rest| {
        let rest = rest.trim_start_matches(['"', '\'', ' ']);
        let value = rest.strip_prefix(['=', ':']).map(|rest| rest.trim_start_matches(['"', '\'', ' ']));
        value.is_some_and(|value| token_length(value) >= MIN_SECRET)
    })
}

fn token_length(text: &str) -> usize {
    text.chars()
        .take_while(|character| character.is_ascii_alphanumeric() || "-_+/=".contains(*character))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_paths_and_notes_are_reported_with_their_line() {
        let host = format!("a\nhttps://{}/x", REGISTRY_HOSTS[0]);
        assert_eq!(check("a.md", &host), [format!("a.md:2: names the registry host {}", REGISTRY_HOSTS[0])]);
        assert_eq!(check("Cargo.lock", &host).len(), 0);
        assert_eq!(check("a.md", &format!("see {}main", MACHINE_PATHS[0])).len(), 1);
        assert_eq!(check("a.md", &format!("src{}main", MACHINE_PATHS[0])).len(), 0);
        assert_eq!(check("a.rs", &format!("// {}: later", UNFINISHED[0])).len(), 1);
        assert_eq!(check("a.rs", &format!("let {}S = 1;", UNFINISHED[0])).len(), 0);
    }

    #[test]
    fn secrets_are_reported_and_names_of_secrets_are_not() {
        let key = "q".repeat(40);
        assert_eq!(check("a.ts", &format!("const a = \"{}{key}\";", SECRET_PREFIXES[1].0)).len(), 1);
        assert_eq!(check("a.pem", SECRET_PREFIXES[6].0).len(), 1);
        for line in [format!("{}={key}", OWN_SECRETS[0]), format!("\"{}\": \"{key}\"", OWN_SECRETS[1])] {
            assert_eq!(check("a", &line).len(), 1, "{line}");
        }
        for line in
            ["API_JWT_SECRET: key(),", "wrangler secret put API_JWT_SECRET", "API_JWT_SECRET=<random>"]
        {
            assert_eq!(check("a", line).len(), 0, "{line}");
        }
    }
}
