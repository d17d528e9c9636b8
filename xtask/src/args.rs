//! Command line options: `--name value`, `--name=value` and flags, in any order.

use std::str::FromStr;

use crate::Result;

/// The arguments not yet taken.
pub struct Args {
    rest: Vec<String>,
}

impl Args {
    /// Takes over the arguments after the program's name.
    pub fn new(rest: impl Iterator<Item = String>) -> Self {
        Self { rest: rest.collect() }
    }

    /// Takes the command, which comes first.
    pub fn command(&mut self) -> Option<String> {
        if self.rest.is_empty() { None } else { Some(self.rest.remove(0)) }
    }

    /// Takes a flag; false when it is absent.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.rest.len();
        self.rest.retain(|arg| arg != name);
        self.rest.len() != before
    }

    /// Takes the value of an option; `None` when it is absent.
    pub fn value(&mut self, name: &str) -> Result<Option<String>> {
        let joined = format!("{name}=");
        let Some(at) = self.rest.iter().position(|arg| arg == name || arg.starts_with(&joined)) else {
            return Ok(None);
        };
        let arg = self.rest.remove(at);
        if let Some(value) = arg.strip_prefix(&joined) {
            return Ok(Some(value.to_owned()));
        }
        if at < self.rest.len() {
            Ok(Some(self.rest.remove(at)))
        } else {
            Err(format!("{name} needs a value"))
        }
    }

    /// Takes the value of an option as a number or another type; `default` when it is absent.
    pub fn parsed<T: FromStr>(&mut self, name: &str, default: T) -> Result<T> {
        match self.value(name)? {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("{name} does not take `{text}`")),
        }
    }

    /// Everything that is left, for a command that hands its options on.
    pub fn take_rest(&mut self) -> Vec<String> {
        std::mem::take(&mut self.rest)
    }

    /// An error when something is left that no option took.
    pub fn finish(&self) -> Result {
        match self.rest.first() {
            None => Ok(()),
            Some(arg) => Err(format!("`{arg}` is not understood; `cargo xtask` lists the options")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Args {
        Args::new(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_come_in_any_order_and_both_spellings() {
        let mut args = args("dev --port=1 --no-relay --data d");
        assert_eq!(args.command().as_deref(), Some("dev"));
        assert_eq!(args.value("--data"), Ok(Some("d".to_owned())));
        assert_eq!(args.parsed("--port", 8787_u16), Ok(1));
        assert!(args.flag("--no-relay"));
        assert!(!args.flag("--no-relay"));
        assert_eq!(args.finish(), Ok(()));
    }

    #[test]
    fn what_no_option_took_and_what_is_no_number_are_errors() {
        assert!(args("--bogus").finish().is_err());
        assert!(args("--port").value("--port").is_err());
        assert!(args("--port 99999").parsed("--port", 1_u16).is_err());
    }
}
