// What a migration may do, so that the release before works on its schema: add, and nothing that the
// release before would have to fill, name or know.

/** What may be in a migration; everything else changes or removes what the release before uses. */
const ADDS = /^(CREATE (UNIQUE )?INDEX|CREATE TABLE|ALTER TABLE \w+ ADD COLUMN) /;

/** The statements of a migration that do more than add, each after its reason; none when it may be deployed. */
export function objections(sql) {
  const statements = sql.replace(/--.*$/gm, "").split(";").map((statement) => statement.trim().replace(/\s+/g, " "));
  return statements.filter(Boolean).flatMap((statement) => {
    const reason = objection(statement);
    return reason ? [`${reason}: ${statement}`] : [];
  });
}

function objection(statement) {
  if (!ADDS.test(statement)) return "it does not only add";
  if (statement.startsWith("ALTER") && /NOT NULL/.test(statement) && !/DEFAULT/.test(statement)) {
    return "the release before does not fill the column";
  }
  if (statement.startsWith("ALTER") && /\b(CHECK|REFERENCES|UNIQUE)\b/.test(statement)) {
    return "the release before may be refused for the column";
  }
  if (/^CREATE UNIQUE INDEX/.test(statement) && !/ WHERE \w+ IS NOT NULL$/.test(statement)) {
    return "the release before may be refused for the index";
  }
  return undefined;
}
