import mysql from "mysql2/promise";

/** Writes queries; there is no database to connect to. */
export async function queries(): Promise<{ text: string; isPool: boolean }> {
  const pool = mysql.createPool({ host: "127.0.0.1", user: "root", database: "test", connectionLimit: 1 });
  const text = pool.format("SELECT * FROM ?? WHERE name = ? AND age > ?", ["users", "it's", 5]);
  await pool.end();
  return { text, isPool: typeof pool.execute === "function" };
}
