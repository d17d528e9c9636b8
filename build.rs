//! Compresses the OpenAPI document that the Worker serves (`src/api/openapi.rs`), and takes the
//! whitespace out of the list of its tools (`src/mcp/tools.rs`).

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;
use std::{env, io::Write};

use flate2::{Compression, GzBuilder};

const DOCUMENT: &str = "src/api/openapi.json";
const TOOLS: &str = "src/mcp/tools.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={DOCUMENT}");
    println!("cargo:rerun-if-changed={TOOLS}");
    println!("cargo:rerun-if-changed=build.rs");
    let text = fs::read_to_string(DOCUMENT)?;
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    fs::write(out.join("tools.json"), minified(&fs::read_to_string(TOOLS)?))?;
    let file = File::create(out.join("openapi.json.gz"))?;
    // Without a time or a name in it: the same document gives the same bytes.
    let mut gzip = GzBuilder::new().write(file, Compression::best());
    gzip.write_all(minified(&text).as_bytes())?;
    gzip.finish()?;
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
