//! Who may use whom: the part of the architecture that features cannot enforce (docs/ARCHITECTURE.md).
//! The compiler keeps platform crates out of the core; this keeps the layers of the core apart, keeps
//! yrs, SQL and `Env` where they belong, and files short.

use crate::source::Source;

/// Longer than this a file holds two things.
const MAX_LINES: usize = 500;

/// A top-level module, the modules it may name besides itself, and whether it belongs to the core.
struct Layer {
    name: &'static str,
    uses: &'static [&'static str],
    core: bool,
}

const LAYERS: [Layer; 10] = [
    // A constant, unless the simulator asks for bugs; what may have one names it.
    Layer { name: "planted", uses: &[], core: false },
    Layer { name: "protocol", uses: &[], core: true },
    Layer { name: "document", uses: &["protocol"], core: true },
    Layer { name: "room", uses: &["document", "planted", "protocol"], core: true },
    Layer { name: "feed", uses: &["planted", "protocol"], core: true },
    Layer { name: "api", uses: &["document", "feed", "protocol"], core: true },
    Layer { name: "mcp", uses: &["api", "document", "feed", "protocol"], core: true },
    Layer { name: "edge", uses: &["api", "document", "feed", "planted", "protocol", "room"], core: false },
    Layer { name: "lazy_module", uses: &["api", "document", "mcp", "protocol"], core: false },
    Layer { name: "relay_deno", uses: &["api", "document", "protocol", "room"], core: false },
];

/// Crates that only a shell may name.
const PLATFORM: [&str; 7] = [
    "js_sys",
    "serde_wasm_bindgen",
    "wasm_bindgen",
    "wasm_bindgen_futures",
    "web_sys",
    "worker",
    "futures_util",
];
/// How a string literal gives itself away as SQL: two words that its statement must have.
const SQL: [(&str, &str); 7] = [
    ("SELECT ", " FROM "),
    ("INSERT ", "INTO "),
    ("UPDATE ", " SET "),
    ("DELETE ", "FROM "),
    ("CREATE ", "TABLE "),
    ("CREATE ", "INDEX "),
    ("PRAGMA ", ""),
];

/// What is wrong with one file of `src/`, given its path below the repository (`src/room/mod.rs`).
pub fn check(path: &str, text: &str) -> Vec<String> {
    let source = Source::new(text);
    let mut problems = Vec::new();
    if !is_test_file(path) && source.tests_from > MAX_LINES {
        problems.push(format!("{path}: {} lines before its tests, at most {MAX_LINES}", source.tests_from));
    }
    let module = module_path(path);
    let Some(layer) = module.first().and_then(|name| LAYERS.iter().find(|layer| layer.name == *name)) else {
        if module.first().is_some_and(|name| *name != "lib") {
            problems.push(format!("{path}: belongs to no layer; name it in xtask/src/layering.rs"));
        }
        return problems;
    };
    let file = File { path, layer, depth: module.len(), tests: is_test_file(path) };
    for (index, line) in source.code.iter().enumerate() {
        let in_tests = file.tests || index >= source.tests_from;
        let found = file.check_line(line, in_tests);
        problems.extend(found.into_iter().map(|problem| format!("{path}:{}: {problem}", index + 1)));
    }
    problems.extend(file.check_groups(&source));
    problems.extend(file.check_sql(&source));
    problems
}

struct File<'a> {
    path: &'a str,
    layer: &'static Layer,
    depth: usize,
    tests: bool,
}

impl File<'_> {
    fn check_line(&self, line: &str, in_tests: bool) -> Vec<String> {
        let words = words(line);
        let mut problems = Vec::new();
        if self.layer.core {
            let banned = PLATFORM.iter().filter(|name| uses_crate(&words, name));
            problems.extend(banned.map(|name| format!("the core does not know `{name}`")));
        }
        if in_tests {
            return problems;
        }
        if self.layer.core && words.iter().any(|word| matches!(*word, "async" | "await")) {
            problems.push("the core does not wait: no `async`".to_owned());
        }
        if self.layer.core && words.contains(&"cfg") && words.contains(&"feature") {
            problems.push("the core is the same with every feature".to_owned());
        }
        if self.layer.name != "document" && uses_crate(&words, "yrs") {
            problems.push("yrs stays inside `document`".to_owned());
        }
        if self.path != "src/edge/config.rs" && reads_env(&words) {
            problems.push("only edge::config reads `Env`".to_owned());
        }
        problems
    }

    /// Paths to other modules: `crate::x`, `crate::{x::…, y}` and enough `super`s, over several lines too.
    fn check_groups(&self, source: &Source) -> Vec<String> {
        let shipped: Vec<&str> = source.code.iter().take(source.tests_from).map(String::as_str).collect();
        if self.tests {
            return Vec::new();
        }
        let text = shipped.join("\n");
        let words = words(&text);
        let mut problems = Vec::new();
        for (at, _) in words.iter().enumerate().filter(|(_, word)| matches!(**word, "crate" | "super")) {
            let climbs = words.iter().skip(at).step_by(2).take_while(|word| **word == "super").count();
            let first = at.checked_sub(2).and_then(|before| words.get(before)) != Some(&"super");
            let rest = match words.get(at) {
                Some(&"crate") => words.iter().skip(at + 1),
                _ if first && climbs >= self.depth => words.iter().skip(at + 2 * climbs - 1),
                _ => continue,
            };
            let rest: Vec<&str> = rest.copied().collect();
            problems.extend(named(&rest).into_iter().filter(|name| !self.may_use(name)).map(|name| {
                let line = line_of(&shipped, &words, at);
                format!("{}:{line}: `{}` must not use `{name}`", self.path, self.layer.name)
            }));
        }
        problems
    }

    /// Names that are no layer are macros and constants of the crate root.
    fn may_use(&self, name: &str) -> bool {
        name == self.layer.name
            || self.layer.uses.contains(&name)
            || !LAYERS.iter().any(|layer| layer.name == name)
    }

    fn check_sql(&self, source: &Source) -> Vec<String> {
        if self.tests || self.path.starts_with("src/edge/db") {
            return Vec::new();
        }
        let shipped = source.literals.iter().filter(|(line, _)| *line < source.tests_from);
        let statements = shipped.filter(|(_, text)| is_sql(text));
        statements.map(|(line, _)| format!("{}:{}: SQL stays in edge::db", self.path, line + 1)).collect()
    }
}

fn is_sql(text: &str) -> bool {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    SQL.iter().any(|(verb, then)| flat.starts_with(verb) && flat.contains(then))
}

/// `env.d1(…)` and the like; handing it on or cloning it is what shells do.
fn reads_env(words: &[&str]) -> bool {
    words.windows(3).any(|three| matches!(three, ["env", ".", name] if *name != "clone"))
}

/// `name::` in a path, or `use name` and `extern crate name` alone; not a module of ours called the same.
fn uses_crate(words: &[&str], name: &str) -> bool {
    words.iter().enumerate().any(|(at, word)| {
        let before = at.checked_sub(1).and_then(|before| words.get(before));
        let after = words.get(at + 1);
        *word == name
            && before != Some(&"::")
            && (after == Some(&"::") || before == Some(&"use") || before == Some(&"crate"))
    })
}

/// The first names after `crate` or `super`: one, or those at the top of a group.
fn named<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    match rest {
        ["::", "{", group @ ..] => {
            let mut depth = 1_usize;
            let mut names = Vec::new();
            let mut expect = true;
            for word in group {
                match *word {
                    "{" => depth += 1,
                    "}" if depth == 1 => break,
                    "}" => depth -= 1,
                    "," if depth == 1 => expect = true,
                    name if depth == 1 && expect => {
                        names.push(name);
                        expect = false;
                    }
                    _ => {}
                }
            }
            names
        }
        ["::", name, ..] => vec![name],
        _ => Vec::new(),
    }
}

/// Names, `::` and single punctuation characters.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_name = |character: char| character.is_alphanumeric() || character == '_';
        let length = if is_name(first) {
            rest.find(|character| !is_name(character)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(length);
        words.push(word);
        rest = after.trim_start();
    }
    words
}

/// The line, counted from 1, of the word with this index.
fn line_of(lines: &[&str], all: &[&str], at: usize) -> usize {
    let mut seen = 0;
    let found = lines.iter().position(|line| {
        seen += words(line).len();
        seen > at.min(all.len())
    });
    found.map_or(0, |line| line + 1)
}

/// `src/room/tail.rs` → `[room, tail]`, `src/room/mod.rs` → `[room]`.
fn module_path(path: &str) -> Vec<&str> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    inner.split('/').filter(|part| *part != "mod").collect()
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> String {
        check(path, text).join("\n")
    }

    #[test]
    fn a_layer_uses_only_those_below_it() {
        assert_eq!(
            problems("src/room/mod.rs", "use crate::protocol::Change;\nuse crate::room::tail::Tail;"),
            ""
        );
        assert_eq!(
            problems("src/room/mod.rs", "\nfn a() { crate::feed::cursor() }"),
            "src/room/mod.rs:2: `room` must not use `feed`"
        );
        assert!(problems("src/feed/sse.rs", "use crate::room::Room;").contains("`feed` must not use `room`"));
        assert!(problems("src/edge/mod.rs", "use crate::relay_deno;").contains("must not use `relay_deno`"));
        assert!(problems("src/relay_deno.rs", "use crate::feed::Cursor;").contains("must not use `feed`"));
        assert_eq!(problems("src/edge/mod.rs", "use crate::{api, document, feed, room};"), "");
        // It would weigh on the module that starts with the Worker.
        assert!(problems("src/edge/mcp.rs", "use crate::mcp::open;").contains("must not use `mcp`"));
    }

    #[test]
    fn groups_and_supers_are_seen_through() {
        let group = "use crate::{\n    protocol::{Change, feed},\n    api::Route,\n};";
        assert_eq!(problems("src/room/mod.rs", group), "src/room/mod.rs:1: `room` must not use `api`");
        assert!(problems("src/room/tail.rs", "use super::super::api::Route;").contains("must not use `api`"));
        assert!(problems("src/room/mod.rs", "use super::api::Route;").contains("must not use `api`"));
        assert_eq!(problems("src/room/tail.rs", "use super::api::Route;"), "");
    }

    #[test]
    fn the_core_knows_no_platform_not_even_in_tests() {
        for line in ["use worker::Env;", "use js_sys::Date;", "fn a(x: &wasm_bindgen::JsValue) {}"] {
            assert!(problems("src/api/mod.rs", line).contains("the core does not know"), "{line}");
            assert!(
                !problems("src/api/mod.rs", &format!("#[cfg(test)]\nmod tests {{\n{line}\n}}")).is_empty(),
                "{line}"
            );
            assert_eq!(problems("src/edge/mod.rs", line), "", "{line}");
        }
        assert_eq!(problems("src/api/mod.rs", "let worker = crate::api::worker::x(1);"), "");
    }

    #[test]
    fn the_core_does_not_wait_and_has_no_features() {
        assert!(problems("src/feed/mod.rs", "pub async fn a() {}").contains("no `async`"));
        assert!(
            problems("src/feed/mod.rs", "#[cfg(feature = \"edge\")]\nfn a() {}").contains("every feature")
        );
        assert_eq!(problems("src/edge/mod.rs", "pub async fn a() {}"), "");
        assert_eq!(problems("src/feed/mod.rs", "// async\nlet a = \"async\";"), "");
    }

    #[test]
    fn yrs_sql_and_env_stay_where_they_belong() {
        assert!(problems("src/room/mod.rs", "use yrs::Doc;").contains("yrs stays"));
        assert_eq!(problems("src/document/mod.rs", "use yrs::Doc;"), "");
        assert_eq!(problems("src/room/mod.rs", "#[cfg(test)]\nmod tests {\nuse yrs::Doc;\n}"), "");
        let sql = "const A: &str = \"SELECT clock\n FROM change_log\";";
        assert_eq!(problems("src/edge/mutate.rs", sql), "src/edge/mutate.rs:1: SQL stays in edge::db");
        assert_eq!(problems("src/edge/db/rows.rs", sql), "");
        assert_eq!(problems("src/edge/mod.rs", "const A: &str = \"SELECT a relay\";"), "");
        assert!(problems("src/edge/mod.rs", "let db = self.env.d1(\"DB\")?;").contains("edge::config"));
        assert_eq!(problems("src/edge/config.rs", "let db = env.d1(\"DB\")?;"), "");
        assert_eq!(problems("src/edge/mod.rs", "fn new(env: Env) { Config::new(&env, env.clone()) }"), "");
    }

    #[test]
    fn only_shipped_lines_count_for_the_length_of_a_file() {
        let code = "fn a() {}\n".repeat(MAX_LINES);
        assert_eq!(problems("src/api/mod.rs", &format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}")), "");
        assert!(problems("src/api/mod.rs", &format!("{code}\n\n")).contains("at most 500"));
    }

    #[test]
    fn a_folder_that_is_no_layer_is_reported() {
        assert!(problems("src/misc/mod.rs", "").contains("belongs to no layer"));
        assert_eq!(problems("src/lib.rs", "pub mod api;"), "");
    }
}
