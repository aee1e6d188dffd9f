import initSqlJs from "sql.js";
import wasmBinary from "sql.js/dist/sql-wasm.wasm";

/** Asks a database in memory. */
export async function asked(): Promise<unknown[]> {
  const SQL = await initSqlJs({ wasmBinary: wasmBinary.slice().buffer });
  const db = new SQL.Database();
  db.run(
    "CREATE TABLE hello (a int, b char); INSERT INTO hello VALUES (0, 'hello'); INSERT INTO hello VALUES (1, 'world');",
  );
  return db.exec("SELECT * FROM hello WHERE a = 1")[0]?.values ?? [];
}
