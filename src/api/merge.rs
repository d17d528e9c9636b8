//! JSON Merge Patch (RFC 7396).

use serde_json::{Map, Value};

/// The result of a merge patch. A member that is null in the patch is removed, an object is
/// merged, anything else replaces; a target that is not an object counts as an empty one.
///
/// It does not recurse, so no depth of the patch can end the process.
#[must_use]
pub fn merge_patch(mut target: Value, patch: Value) -> Value {
    let mut work = vec![(&mut target, patch)];
    while let Some((target, patch)) = work.pop() {
        let mut patch = match patch {
            Value::Object(patch) => patch,
            other => {
                *target = other;
                continue;
            }
        };
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        let Value::Object(members) = target else { continue };
        patch.retain(|name, value| {
            if value.is_null() {
                members.remove(name);
            } else if !members.contains_key(name) {
                // Merged below like any other, so that nulls inside a new object are dropped too.
                members.insert(name.clone(), Value::Null);
            }
            !value.is_null()
        });
        for (name, member) in members.iter_mut() {
            if let Some(value) = patch.remove(name) {
                work.push((member, value));
            }
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// The definition of the RFC, word for word and recursive.
    fn by_definition(target: &Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut result = target.as_object().cloned().unwrap_or_default();
        for (name, value) in patch {
            if value.is_null() {
                result.remove(name);
            } else {
                let merged = by_definition(result.get(name).unwrap_or(&Value::Null), value);
                result.insert(name.clone(), merged);
            }
        }
        Value::Object(result)
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), (0..3).prop_map(Value::from)];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::btree_map("[abc]", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_definition_of_the_rfc(target in any_json(), patch in any_json()) {
            prop_assert_eq!(merge_patch(target.clone(), patch.clone()), by_definition(&target, &patch));
        }
    }

    #[test]
    fn members_are_added_replaced_removed_and_merged() {
        let table = [
            (json!({"n": 1}), json!({"n": 2}), json!({"n": 2})),
            (json!({"n": 1}), json!({"m": 2}), json!({"n": 1, "m": 2})),
            (json!({"n": 1}), json!({"n": null}), json!({})),
            (json!({"n": 1, "m": 2}), json!({"n": null}), json!({"m": 2})),
            (json!({"n": 1}), json!({"missing": null}), json!({"n": 1})),
            (json!({"n": 1}), json!({}), json!({"n": 1})),
            (
                json!({"o": {"a": 1, "b": 2}}),
                json!({"o": {"b": null, "c": 3}}),
                json!({"o": {"a": 1, "c": 3}}),
            ),
            (json!({"o": 1}), json!({"o": {"a": 1}}), json!({"o": {"a": 1}})),
            (json!({"o": {"a": 1}}), json!({"o": 1}), json!({"o": 1})),
        ];
        for (target, patch, expected) in table {
            assert_eq!(merge_patch(target.clone(), patch.clone()), expected, "{target} + {patch}");
        }
    }

    #[test]
    fn arrays_are_replaced_whole_and_keep_their_nulls() {
        assert_eq!(
            merge_patch(json!({"l": [1, 2]}), json!({"l": [null, {"a": null}]})),
            json!({"l": [null, {"a": null}]})
        );
        assert_eq!(merge_patch(json!([1]), json!({"a": 1})), json!({"a": 1}));
    }

    #[test]
    fn a_patch_that_is_no_object_is_the_result() {
        for patch in [json!(null), json!("x"), json!([1]), json!(false)] {
            assert_eq!(merge_patch(json!({"a": 1}), patch.clone()), patch);
        }
    }

    #[test]
    fn nulls_inside_new_objects_are_dropped_and_stored_nulls_stay() {
        assert_eq!(merge_patch(json!({}), json!({"a": {"b": {"c": null}}})), json!({"a": {"b": {}}}));
        assert_eq!(merge_patch(Value::Null, json!({"a": null, "b": {"c": null}})), json!({"b": {}}));
        assert_eq!(merge_patch(json!({"kept": null}), json!({"a": 1})), json!({"kept": null, "a": 1}));
    }

    #[test]
    fn merging_twice_changes_nothing_more() {
        let patch = json!({"a": {"b": null, "c": [1]}, "d": null, "e": {"f": {"g": 1}}});
        let once = merge_patch(json!({"a": {"b": 1}, "d": 2, "e": 3}), patch.clone());
        assert_eq!(merge_patch(once.clone(), patch), once);
    }
}
