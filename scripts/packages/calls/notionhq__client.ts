import { Client, isNotionClientError } from "@notionhq/client";

/** Lists the users, and tells an error of the server. */
export async function users(at: string): Promise<{ names: (string | null)[]; isKnown: boolean }> {
  const client = new Client({ auth: "none", baseUrl: `http://${at}`, retry: false });
  const { results } = await client.users.list({});
  const error: unknown = await client.pages.retrieve({ page_id: "none" }).catch((error: unknown) => error);
  return { names: results.map(({ name }) => name), isKnown: isNotionClientError(error) };
}
