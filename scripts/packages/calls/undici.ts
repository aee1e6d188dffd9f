import { Pool, request } from "undici";

/** Two requests over one pool, and one alone. */
export async function asked(at: string): Promise<{ status: number; echo: unknown; texts: string[] }> {
  const { statusCode, body } = await request(`http://${at}/echo?a=b`, { method: "POST", body: "text" });
  const pool = new Pool(`http://${at}`, { connections: 1 });
  const texts = await Promise.all(
    ["1", "2"].map(async (q) => {
      const { body } = await pool.request({ method: "GET", path: "/echo", query: { q } });
      return ((await body.json()) as { query: { q: string } }).query.q;
    }),
  );
  await pool.close();
  return { status: statusCode, echo: await body.json(), texts };
}
