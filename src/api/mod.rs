//! HTTP decisions: which endpoint, who is asking, what exactly they ask, and how a refusal looks.
//!
//! Everything here maps text and bytes to values. It reads no clock (`now` is an argument), draws
//! no random number, and knows neither the platform nor the database: a shell calls it with what
//! the request says and acts on the answer. Limits are checked before work (R4).

pub mod accept;
pub mod auth;
pub mod content;
pub mod credentials;
pub mod edit;
pub mod idempotency;
pub mod json;
pub mod jwks;
pub mod jwt;
pub mod limits;
pub mod media;
pub mod op;
pub mod openapi;
pub mod origin;
pub mod path;
pub mod precondition;
pub mod presence;
pub mod problem;
pub mod query;
pub mod refusal;
pub mod request;
pub mod resource;
pub mod role;
pub mod route;
pub mod signal;
pub mod telemetry;
pub mod token;
pub mod upgrade;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::query::Query;

    /// Text that is likely to reach beyond the first check of a parser.
    fn hostile() -> impl Strategy<Value = String> {
        let fragments = r#"/ /api /workspaces /ws /w /docs /nodes /updates %2F % %E2 .. ? token= & = # eyJ . , ; q= 0.5
            */* text/ " \ "10" W/ [ { } ] {"ops":[ {"op":"put","path":"a","value": Bearer yrelay, é 😀"#;
        let mut fragments: Vec<&str> = fragments.split_whitespace().collect();
        fragments.extend([" ", "\u{0}"]);
        let fragment = prop_oneof![proptest::sample::select(fragments).prop_map(str::to_owned), ".{0,4}"];
        proptest::collection::vec(fragment, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn p8_no_text_of_a_peer_ends_the_process(text in hostile(), other in hostile()) {
            let secret = super::auth::ApiSecret::new(&[1; 32]).unwrap();
            let _ = super::route::route("POST", &text);
            let _ = super::accept::negotiate(Some(&text));
            let _ = super::auth::verify_api_token(&secret, None, &text, 0);
            let _ = super::jwks::UnverifiedApiToken::open(&text, None, 0);
            let _ = super::jwks::parse_jwks(text.as_bytes());
            let _ = super::jwks::JwksUrl::parse(&text);
            let _ = super::token::open_scope_token(&text, super::token::Purpose::Relay, 0);
            let _ = super::credentials::bearer(Some(&text));
            let _ = super::edit::parse_edits(text.as_bytes());
            let _ = super::edit::parse_content(text.as_bytes(), None);
            let _ = super::idempotency::IdempotencyKey::parse(Some(&text));
            let _ = super::media::require_media(Some(&text), &super::media::JSON_TYPES);
            let _ = super::op::parse_ops(text.as_bytes());
            let _ = super::origin::OriginList::parse(&text);
            let _ = super::precondition::Precondition::from_headers(Some(&text), None);
            let _ = super::precondition::not_modified(Some(&text), 1);
            let _ = super::presence::parse_presence(text.as_bytes());
            let _ = super::request::parse_create_workspace(text.as_bytes());
            let _ = super::request::parse_token_request(text.as_bytes());
            let _ = super::signal::parse_signal(text.as_bytes());
            let _ = super::telemetry::parse_telemetry(text.as_bytes());
            if let Ok(query) = Query::parse(&text) {
                let _ = super::signal::parse_inbox(&query);
                let _ = super::credentials::upgrade_credentials(&query, Some(&other));
            }
        }

        #[test]
        fn a3_no_token_survives_redaction(before in hostile(), token in "[A-Za-z0-9_-]{20,40}", after in hostile()) {
            let url = format!("/ws/w?a={}&token={token}&b={after}", before.replace('#', ""));
            prop_assert!(!super::credentials::redact_url(&url).contains(&token));
        }

        #[test]
        fn a_decoded_path_routes_back_to_itself(segments in proptest::collection::vec("[^/\\p{Cc}]{1,8}", 1..6)) {
            let path = segments.join("/");
            let escaped: String = path.bytes().map(|b| match b {
                b'/' => "/".to_owned(),
                b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
                b => format!("%{b:02X}"),
            }).collect();
            let routed = super::route::route("GET", &format!("/api/workspaces/w/nodes/{escaped}"));
            match super::path::NodePath::parse(&path) {
                Ok(path) => {
                    let id = super::path::WorkspaceId::parse("w").unwrap();
                    prop_assert_eq!(routed, Ok(super::route::Route::ReadNode(id, path)));
                }
                Err(problem) => prop_assert_eq!(routed, Err(problem)),
            }
        }
    }
}
