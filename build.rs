//! Takes the whitespace out of the list of tools that MCP answers (`src/mcp/tools.rs`).

use std::error::Error;
use std::path::Path;
use std::{env, fs};

const TOOLS: &str = "src/mcp/tools.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={TOOLS}");
    println!("cargo:rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("tools.json"), minified(&fs::read_to_string(TOOLS)?))?;
    Ok(())
}

/// JSON without the whitespace between its tokens; the order of members stays.
fn minified(json: &str) -> String {
    let (mut in_text, mut escaped) = (false, false);
    let mut keep = |c: char| {
        let kept = in_text || !c.is_ascii_whitespace();
        if c == '"' && !escaped {
            in_text = !in_text;
        }
        escaped = c == '\\' && !escaped;
        kept
    };
    json.chars().filter(|c| keep(*c)).collect()
}
