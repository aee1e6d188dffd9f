import mysql, { type RowDataPacket } from "mysql2/promise";

/** Sends a query with parameters over a pool; the server tells what it was asked. */
export async function queries(at: string): Promise<{ asked: string; again: string }> {
  const [host, port] = at.split(":") as [string, string];
  const pool = mysql.createPool({ host, port: Number(port), user: "root", connectionLimit: 1 });
  const sql = "SELECT * FROM ?? WHERE name = ? AND age > ?";
  const [[first]] = await pool.query<RowDataPacket[]>(sql, ["users", "it's", 5]);
  const [[second]] = await pool.query<RowDataPacket[]>("SELECT 1");
  await pool.end();
  return { asked: String(first?.["asked"]), again: String(second?.["asked"]) };
}
