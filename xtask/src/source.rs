//! Rust source as the checkers see it: code without comments and literals, the literals apart, and
//! where the tests begin. A line scanner, not a parser: enough for names and paths.

/// One file, prepared.
pub struct Source {
    /// The code, line by line, with comments and literals blanked out.
    pub code: Vec<String>,
    /// String literals with the index of the line they start on.
    pub literals: Vec<(usize, String)>,
    /// The index of the first line of the tests: what follows ships nowhere.
    pub tests_from: usize,
}

impl Source {
    /// Scans a file.
    pub fn new(text: &str) -> Self {
        let mut scanner = Scanner { code: String::new(), literals: Vec::new(), line: 0 };
        scanner.scan(text);
        let code: Vec<String> = scanner.code.lines().map(str::to_owned).collect();
        let tests_from = tests_from(&code);
        Self { code, literals: scanner.literals, tests_from }
    }
}

/// `#[cfg(test)]` before a module: by convention the last item of a file.
fn tests_from(code: &[String]) -> usize {
    let starts_tests = |(index, line): &(usize, &String)| {
        line.trim_start().starts_with("#[cfg(") && line.contains("test") && {
            let next =
                code.iter().skip(index + 1).map(|line| line.trim()).find(|line| !line.starts_with('#'));
            next.is_some_and(|line| line.starts_with("mod ") || line.starts_with("pub mod "))
        }
    };
    code.iter().enumerate().find(starts_tests).map_or(code.len(), |(index, _)| index)
}

struct Scanner {
    code: String,
    literals: Vec<(usize, String)>,
    line: usize,
}

impl Scanner {
    fn scan(&mut self, text: &str) {
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let before = rest;
            rest = if rest.starts_with("//") {
                self.blank(rest, rest.find('\n').unwrap_or(rest.len()))
            } else if rest.starts_with("/*") {
                self.blank(rest, block_comment(rest))
            } else if let Some((open, close)) = string_start(rest, self.code.chars().last()) {
                self.literal(rest, open, &close)
            } else if first == '\'' && is_char_literal(rest) {
                self.blank(rest, char_literal(rest))
            } else {
                self.keep(rest, first)
            };
            debug_assert!(rest.len() < before.len());
        }
    }

    fn keep<'a>(&mut self, rest: &'a str, first: char) -> &'a str {
        self.line += usize::from(first == '\n');
        self.code.push(first);
        rest.split_at(first.len_utf8()).1
    }

    fn blank<'a>(&mut self, rest: &'a str, length: usize) -> &'a str {
        let (gone, rest) = rest.split_at(length);
        for character in gone.chars() {
            self.line += usize::from(character == '\n');
            self.code.push(if character == '\n' { '\n' } else { ' ' });
        }
        rest
    }

    fn literal<'a>(&mut self, rest: &'a str, open: usize, close: &str) -> &'a str {
        let body = rest.split_at(open).1;
        let length = if close == "\"" { escaped_end(body) } else { body.find(close).unwrap_or(body.len()) };
        self.literals.push((self.line, body.split_at(length).0.to_owned()));
        self.blank(rest, (open + length + close.len()).min(rest.len()))
    }
}

/// The length of the opening of a string literal (`"`, `b"`, `r#"`, …), and what closes it.
fn string_start(rest: &str, before: Option<char>) -> Option<(usize, String)> {
    if rest.starts_with('"') {
        return Some((1, "\"".to_owned()));
    }
    if before.is_some_and(|character| character.is_alphanumeric() || character == '_') {
        return None;
    }
    let prefix = rest.len() - rest.trim_start_matches(['b', 'c', 'r']).len();
    let body = rest.split_at(prefix).1;
    if prefix == 0 || prefix > 2 {
        return None;
    }
    if !rest.split_at(prefix).0.contains('r') {
        return body.starts_with('"').then(|| (prefix + 1, "\"".to_owned()));
    }
    let hashes = body.len() - body.trim_start_matches('#').len();
    let quoted = body.split_at(hashes).1.starts_with('"');
    quoted.then(|| (prefix + hashes + 1, format!("\"{}", "#".repeat(hashes))))
}

fn escaped_end(body: &str) -> usize {
    let mut escaped = false;
    for (at, character) in body.char_indices() {
        match character {
            '"' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    body.len()
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let tail = rest.as_bytes().split_at(at).1;
        if tail.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if tail.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// `'x'` or `'\n'`, not the lifetime `'x`.
fn is_char_literal(rest: &str) -> bool {
    let mut characters = rest.chars().skip(1);
    match (characters.next(), characters.next()) {
        (Some('\\'), Some(_)) => true,
        (Some(_), Some(next)) => next == '\'',
        _ => false,
    }
}

fn char_literal(rest: &str) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            '\'' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_lines_stay() {
        let text = "a // b\n/* c /* d */\n e */ f \"g \\\" h\" 'i' '\\'' &'j k\nr#\"l \" m\"# bar\"n\" o";
        let source = Source::new(text);
        let words: Vec<&str> = source.code.iter().flat_map(|line| line.split_whitespace()).collect();
        assert_eq!(words, ["a", "f", "&'j", "k", "bar", "o"]);
        let literals: Vec<&str> = source.literals.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(literals, ["g \\\" h", "l \" m", "n"]);
        assert_eq!(source.literals[1].0, 3);
        assert_eq!(source.code.len(), 4);
    }

    #[test]
    fn tests_begin_at_the_cfg_before_a_module() {
        let source = Source::new(
            "fn a() {}\n#[cfg(test)]\nfn b() {}\n#[cfg(all(test, unix))]\n#[x]\nmod tests {\n}\n",
        );
        assert_eq!(source.tests_from, 3);
        assert_eq!(Source::new("fn a() {}\n").tests_from, 1);
    }

    #[test]
    fn an_unfinished_literal_or_comment_ends_with_the_file() {
        for text in ["\"abc", "/* abc", "r#\"abc\"", "'\\x", "b\"", "// x"] {
            assert_eq!(Source::new(text).code.concat().trim(), "", "{text}");
        }
    }
}
