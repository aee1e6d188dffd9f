import got, { HTTPError } from "got";

/** Posts JSON, follows a redirect, unzips an answer, and tells an error of the server. */
export async function request(at: string): Promise<{ echo: unknown; moved: unknown; text: string; status?: number }> {
  const client = got.extend({ prefixUrl: `http://${at}`, headers: { "X-Custom": "yes" }, retry: { limit: 0 } });
  const echo: unknown = await client.post("echo", { json: { a: 1 }, searchParams: { q: "a b" } }).json();
  const moved = await client("redirect").json<{ query: unknown }>();
  const text = await client("gzip").text();
  const error: unknown = await client("none").then(undefined, (error: unknown) => error);
  return { echo, moved: moved.query, text, ...(error instanceof HTTPError && { status: error.response.statusCode }) };
}
