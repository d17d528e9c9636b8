//! The steps of the gate: one after another, or in two lanes beside each other, and what to say of
//! them in the end.

use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Result, output, process};

/// What ran, and how it ended.
#[derive(Default)]
pub struct Report {
    steps: Vec<(String, Duration, Result)>,
    skipped: Vec<(String, String)>,
    /// Of the first lane: the outputs of steps that ended in the second.
    beside: Option<Receiver<String>>,
    /// Of the second lane: takes the output of a step that ended.
    ended: Option<Sender<String>>,
}

impl Report {
    /// Runs one step. An error only when the user asked to stop.
    pub fn step(&mut self, name: &str, work: impl FnOnce() -> Result) -> Result {
        if self.ended.is_some()
            && let Err(error) = output::keep()
        {
            output::say(format_args!("xtask: {error}: the output of both lanes comes mixed"));
        }
        output::say(format_args!("\n== {name}"));
        let start = Instant::now();
        let result = work();
        if process::stop_requested() {
            self.show();
            return Err("stopped".to_owned());
        }
        if let Err(error) = &result {
            output::say(format_args!("xtask: {name}: {}", first_line(error)));
        }
        self.steps.push((name.to_owned(), start.elapsed(), result));
        self.show();
        Ok(())
    }

    /// Notes a step that this machine cannot run, and why.
    pub fn skip(&mut self, name: &str, cause: String) {
        let line = format!("\n== {name}\nxtask: {name}: SKIPPED: {cause}");
        match &self.ended {
            Some(ended) => drop(ended.send(line + "\n")),
            None => eprintln!("{line}"),
        }
        self.skipped.push((name.to_owned(), cause));
    }

    /// Runs two lanes beside each other. The output of the first is seen as it comes; a step of the
    /// second is shown whole after a step of the first, or when the first lane has ended.
    pub fn beside(
        &mut self,
        first: impl FnOnce(&mut Self) -> Result,
        second: impl FnOnce(&mut Self) -> Result + Send,
    ) -> Result {
        let (ended, beside) = mpsc::channel();
        self.beside = Some(beside);
        let (first, second) = thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut lane = Self { ended: Some(ended), ..Self::default() };
                let result = second(&mut lane);
                (result, lane.steps, lane.skipped)
            });
            let first = first(self);
            // Until the lane is gone.
            for text in self.beside.take().into_iter().flatten() {
                eprint!("{text}");
            }
            (first, second.join())
        });
        let (second, steps, skipped) = second.map_err(|_| "the second lane of steps panicked")?;
        self.steps.extend(steps);
        self.skipped.extend(skipped);
        first.and(second)
    }

    /// Hands on what the second lane kept, or prints what it has handed on.
    fn show(&self) {
        if let Some(ended) = &self.ended {
            let _nobody_waits = ended.send(output::take());
        }
        for text in self.beside.iter().flat_map(Receiver::try_iter) {
            eprint!("{text}");
        }
    }

    /// One line per step, the details of those that failed, and last the count.
    pub fn print(&self) -> ExitCode {
        println!();
        for (name, took, result) in &self.steps {
            let state = if result.is_ok() { "ok    " } else { "FAILED" };
            let cause = result.as_ref().err().map_or("", |error| first_line(error));
            println!("{state} {:>7.1} s  {name}  {cause}", took.as_secs_f64());
        }
        let failed = self.steps.iter().filter(|(_, _, result)| result.is_err()).count();
        for (name, error) in
            self.steps.iter().filter_map(|(name, _, result)| Some((name, result.as_ref().err()?)))
        {
            if let Some((_, details)) = error.split_once('\n') {
                println!("\n== {name}\n{details}");
            }
        }
        for (name, cause) in &self.skipped {
            println!("SKIPPED          {name}  {cause}");
        }
        let skipped = match self.skipped.len() {
            0 => String::new(),
            count => format!(", {count} SKIPPED"),
        };
        println!("{} passed, {failed} failed{skipped}", self.steps.len() - failed);
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_runs_after_a_failure_and_the_gate_fails() {
        let mut report = Report::default();
        report.step("one", || Err("broken\nmore".to_owned())).unwrap();
        report.step("two", || Ok(())).unwrap();
        assert_eq!(report.steps.len(), 2);
        assert_eq!(report.print(), ExitCode::FAILURE);
        report.steps.retain(|(_, _, result)| result.is_ok());
        report.skip("three", "no tool".to_owned());
        assert_eq!(report.print(), ExitCode::SUCCESS);
        assert_eq!(report.skipped, [("three".to_owned(), "no tool".to_owned())]);
    }

    #[test]
    fn lanes_run_at_the_same_time_and_what_fails_in_the_second_fails_the_gate() {
        let mut report = Report::default();
        let (to_first, from_second) = mpsc::channel();
        let (to_second, from_first) = mpsc::channel();
        report
            .beside(
                |report| {
                    report.step("first", || {
                        to_second.send(()).unwrap();
                        from_second.recv().map_err(|error| error.to_string())
                    })
                },
                move |report| {
                    report.skip("none", "no tool".to_owned());
                    report.step("second", || {
                        from_first.recv().unwrap();
                        to_first.send(()).unwrap();
                        Err("broken".to_owned())
                    })?;
                    report.step("third", || Ok(()))
                },
            )
            .unwrap();
        let ended: Vec<(&str, bool)> =
            report.steps.iter().map(|(name, _, result)| (name.as_str(), result.is_ok())).collect();
        assert_eq!(ended, [("first", true), ("second", false), ("third", true)]);
        assert_eq!(report.skipped.len(), 1);
        assert_eq!(report.print(), ExitCode::FAILURE);
    }
}
