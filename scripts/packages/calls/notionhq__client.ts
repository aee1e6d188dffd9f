import { Client, isNotionClientError } from "@notionhq/client";

/** Asks a function of the definition's own for the users. */
export async function users(): Promise<{ names: (string | null)[]; url: string; isKnown: boolean }> {
  let url = "";
  const client = new Client({
    auth: "none",
    fetch: async (input) => {
      url = input;
      return new Response(JSON.stringify({ object: "list", results: [{ object: "user", id: "1", name: "Ada" }] }));
    },
  });
  const { results } = await client.users.list({});
  return { names: results.map(({ name }) => name), url, isKnown: isNotionClientError(new Error("x")) };
}
