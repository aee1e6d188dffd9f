// Writes a database as SQL, for test/fixtures/schema: node scripts/dump-database.mjs .berth/berth.sqlite > <version>.sql
import Database from "#better-sqlite3";

const [file] = process.argv.slice(2);
const database = new Database(file, { readonly: true, fileMustExist: true });
const version = Number(database.pragma("user_version", { simple: true }));
const objects = database
  .prepare(
    "SELECT name, sql, type FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid",
  )
  .all();

console.log(`-- A database of version ${version}, as the Berth of its time left it.`);
console.log("PRAGMA foreign_keys = OFF;");
for (const { sql } of objects) console.log(`${sql};`);
for (const { name } of objects.filter(({ type }) => type === "table")) {
  for (const row of database.prepare(`SELECT * FROM "${name}"`).iterate()) {
    const columns = Object.keys(row).map((column) => `"${column}"`);
    console.log(
      `INSERT INTO ${name} (${columns.join(", ")}) VALUES (${Object.values(row).map(literalOf).join(", ")});`,
    );
  }
}
database.close();

function literalOf(value) {
  if (value === null) return "NULL";
  if (Buffer.isBuffer(value)) return `x'${value.toString("hex")}'`;
  return typeof value === "number" ? String(value) : `'${value.replaceAll("'", "''")}'`;
}
