//! Batches that are run again because nobody knows whether they were committed (R2).

use super::DbError;

/// Runs a batch, again if it failed in a way that passes and leaves open whether it was committed. Only
/// under a key, which makes the second run harmless. `pause` waits before a try, which it is told the
/// number of, with the cause.
pub async fn retried<T, F, P>(
    has_key: bool,
    mut run: impl FnMut() -> F,
    mut pause: impl FnMut(u32, String) -> P,
) -> Result<T, DbError>
where
    F: Future<Output = Result<T, DbError>>,
    P: Future<Output = ()>,
{
    let mut attempt = 1;
    loop {
        match run().await {
            Err(DbError::Unavailable(cause)) if has_key && attempt < MAX_ATTEMPTS => {
                attempt += 1;
                pause(attempt, cause).await;
            }
            result => return result,
        }
    }
}

/// The wait before a try, in ms, with `random` from 0 to 1. Full jitter: of many that failed at once, few
/// come back at once.
#[must_use]
pub fn pause_ms(attempt: u32, random: f64) -> u64 {
    (random * f64::from(PAUSE_MS << attempt.saturating_sub(2))) as u64
}

/// Times that an ambiguous batch is run, the first included (R2). A caller waits for them all.
const MAX_ATTEMPTS: u32 = 3;

/// The longest wait before the second try; each later one may be twice as long. A reset of D1 takes about
/// as long.
const PAUSE_MS: u32 = 100;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// What a batch that fails some times comes to: whether it succeeded, its runs, and the tries that were waited for.
    fn outcome(has_key: bool, failures: u32, error: fn() -> DbError) -> (bool, u32, Vec<u32>) {
        let (runs, pauses) = (RefCell::new(0), RefCell::new(Vec::new()));
        let run = || {
            *runs.borrow_mut() += 1;
            let fails = *runs.borrow() <= failures;
            async move { if fails { Err(error()) } else { Ok(()) } }
        };
        let pause = |attempt, _| {
            pauses.borrow_mut().push(attempt);
            async {}
        };
        let result = pin!(retried(has_key, run, pause)).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(result) = result else { panic!("it waits for nothing") };
        (result.is_ok(), runs.take(), pauses.take())
    }

    #[test]
    fn a10_what_passes_is_run_three_times_at_most_and_only_under_a_key() {
        let lost = || DbError::Unavailable("Network connection lost".to_owned());
        assert_eq!(outcome(true, 0, lost), (true, 1, vec![]));
        assert_eq!(outcome(true, 1, lost), (true, 2, vec![2]));
        assert_eq!(outcome(true, 2, lost), (true, 3, vec![2, 3]));
        assert_eq!(outcome(true, 3, lost), (false, 3, vec![2, 3]));
        assert_eq!(outcome(false, 1, lost), (false, 1, vec![]));
    }

    #[test]
    fn a10_what_does_not_pass_is_run_once() {
        let broken = || DbError::Permanent("no such table".to_owned());
        assert_eq!(outcome(true, 1, broken), (false, 1, vec![]));
        assert_eq!(outcome(true, 1, || DbError::Precondition), (false, 1, vec![]));
        assert_eq!(outcome(true, 1, || DbError::Duplicate), (false, 1, vec![]));
    }

    #[test]
    fn a10_waits_are_drawn_between_nothing_and_a_bound_that_doubles() {
        let almost = 1.0 - f64::EPSILON;
        assert_eq!([2, 3].map(|attempt| pause_ms(attempt, 0.0)), [0, 0]);
        assert_eq!([2, 3].map(|attempt| pause_ms(attempt, 0.5)), [50, 100]);
        assert_eq!([2, 3].map(|attempt| pause_ms(attempt, almost)), [99, 199]);
    }
}
