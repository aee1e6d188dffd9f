import fetch, { FormData } from "node-fetch";

/** Posts JSON, follows a redirect, unzips an answer, and sends a form. */
export async function fetched(at: string): Promise<{ echo: unknown; moved: string; text: string; hasForm: boolean }> {
  const url = `http://${at}`;
  const sent = await fetch(`${url}/echo`, { method: "POST", body: '{"a":1}', headers: { "X-Custom": "yes" } });
  const moved = await fetch(`${url}/redirect`);
  const zipped = await fetch(`${url}/gzip`);
  const form = new FormData();
  form.set("name", "value");
  const filled = await (await fetch(`${url}/echo`, { method: "POST", body: form })).text();
  return {
    echo: await sent.json(),
    moved: new URL(moved.url).search,
    text: await zipped.text(),
    hasForm: filled.includes('name=\\"name\\"'),
  };
}
