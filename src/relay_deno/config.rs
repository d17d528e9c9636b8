//! The room's configuration from JSON.

use serde_json::Value;

use crate::room::RoomConfig;

/// Reads `RoomConfig` from an object with its members in camelCase; those that are not there have
/// their defaults.
pub(super) fn read_config(text: &str) -> Result<RoomConfig, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let members = value.as_object().ok_or("the room's configuration is not an object")?;
    let mut config = RoomConfig::default();
    for (name, value) in members {
        set(&mut config, name, value).ok_or_else(|| {
            format!("the room's configuration: `{name}` is not a member, or not of its type")
        })?;
    }
    Ok(config)
}

fn set(config: &mut RoomConfig, name: &str, value: &Value) -> Option<()> {
    let count = || usize::try_from(value.as_u64()?).ok();
    match name {
        "aloneAfter" => config.alone_after = Some(value.as_u64()?),
        "awarenessWindow" => config.awareness_window = value.as_u64()?,
        "flushAfter" => config.flush_after = value.as_u64()?,
        "followsFeed" => config.follows_feed = value.as_bool()?,
        "hibernates" => config.hibernates = value.as_bool()?,
        "hotDeliveries" => config.hot_deliveries = value.as_u64()?,
        "label" => config.label = value.as_str()?.to_owned(),
        "lease" => config.lease = value.as_u64()?,
        "maxCachedBytes" => config.max_cached_bytes = count()?,
        "maxPendingBytes" => config.max_pending_bytes = count()?,
        "maxQueuedBytes" => config.max_queued_bytes = value.as_u64()?,
        "maxSessions" => config.max_sessions = count()?,
        "maxSessionsPerSubject" => config.max_sessions_per_subject = count()?,
        "neverHot" => config.never_hot = count()?,
        "retryMax" => config.retry_max = value.as_u64()?,
        "retryMin" => config.retry_min = value.as_u64()?,
        "spool" => config.spool = value.as_bool()?,
        "storageTimeout" => config.storage_timeout = value.as_u64()?,
        "updateWindow" => config.update_window = value.as_u64()?,
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_replace_defaults() {
        let config = read_config(r#"{"label":"deno","spool":true,"maxSessions":3}"#).unwrap();
        let expected =
            RoomConfig { label: "deno".to_owned(), spool: true, max_sessions: 3, ..RoomConfig::default() };
        assert_eq!(config, expected);
    }

    #[test]
    fn what_is_no_member_is_named() {
        for (text, named) in
            [(r#"{"labels":"x"}"#, "labels"), (r#"{"spool":1}"#, "spool"), ("[]", "object"), ("{", "EOF")]
        {
            assert!(read_config(text).unwrap_err().contains(named), "{text}");
        }
    }
}
