//! Where the steps of a thread print: this terminal, or a file, so that what runs beside another
//! step is shown whole when it ends.

use std::cell::RefCell;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::tools;

thread_local! {
    static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
}

/// A file and not a pipe: a child never waits for a reader.
struct Kept {
    file: File,
    path: PathBuf,
}

/// Prints a line.
pub fn say(line: impl Display) {
    KEPT.with_borrow_mut(|kept| match kept {
        // What cannot be kept is shown at once.
        Some(kept) => writeln!(kept.file, "{line}").unwrap_or_else(|_| eprintln!("{line}")),
        None => eprintln!("{line}"),
    });
}

/// Lets a command print where [`say`] does.
pub fn attach(command: &mut Command) -> io::Result<()> {
    KEPT.with_borrow(|kept| {
        if let Some(kept) = kept {
            command.stdin(Stdio::null()).stdout(kept.file.try_clone()?).stderr(kept.file.try_clone()?);
        }
        Ok(())
    })
}

/// From now on this thread's output is kept, below `target/`, in a file of this name.
pub fn keep(name: &str) -> io::Result<()> {
    let folder = tools::root().join("target").join("xtask");
    fs::create_dir_all(&folder)?;
    let path = folder.join(name);
    let file = File::create(&path)?;
    KEPT.set(Some(Kept { file, path }));
    Ok(())
}

/// Ends that, and answers what was kept.
pub fn take() -> String {
    let text = KEPT.take().and_then(|kept| fs::read(kept.path).ok()).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn what_is_said_and_what_children_print_is_kept_in_order_until_it_is_taken() {
        keep("output-test.txt").unwrap();
        say("before");
        process::run(Command::new("sh").args(["-c", "echo out; cat; echo err >&2"])).unwrap();
        say("after");
        assert_eq!(take(), "before\nout\nerr\nafter\n");
        assert_eq!(take(), "");
    }
}
