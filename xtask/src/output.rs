//! Where the steps of a thread print: this terminal, or a file, so that what runs beside another
//! step is shown whole when it ends.

use std::cell::RefCell;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// From now on this thread's output is kept, in a file below `target/`.
pub fn keep() -> io::Result<()> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let folder = tools::root().join("target").join("xtask");
    fs::create_dir_all(&folder)?;
    // The gate runs the tests of this crate: they keep output while it does.
    let name = format!("output-{}-{}.txt", process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let path = folder.join(name);
    let file = File::create(&path)?;
    KEPT.set(Some(Kept { file, path }));
    Ok(())
}

/// Ends that, and answers what was kept.
pub fn take() -> String {
    let Some(Kept { file, path }) = KEPT.take() else { return String::new() };
    drop(file);
    let text = fs::read(&path).unwrap_or_default();
    let _left = fs::remove_file(&path);
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::process::run;

    #[test]
    fn what_is_said_and_what_children_print_is_kept_in_order_until_it_is_taken() {
        keep().unwrap();
        say("before");
        run(Command::new("sh").args(["-c", "echo out; cat; echo err >&2"])).unwrap();
        say("after");
        assert_eq!(take(), "before\nout\nerr\nafter\n");
        assert_eq!(take(), "");
    }
}
