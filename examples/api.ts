import type { ToolContext } from "berth";

/**
 * Asks the API of a service with a key that no client sees. What this server is given stands in its entry: the secret, and
 * the one host that it may reach.
 */

/** API_URL is for tests, and for servers of one's own. */
const { API_URL = "https://api.github.com" } = process.env;

/** An account. */
interface Account {
  name: string;
  repositories: number;
}

/**
 * Tells whose key it is.
 *
 * @readOnly
 * @openWorld
 */
export async function account({ secret, fetch, signal }: ToolContext): Promise<Account> {
  const key = await secret("API_TOKEN");
  if (!key) throw new Error("The secret API_TOKEN is not set: set it at /secrets");
  const headers = { Authorization: `Bearer ${key}`, Accept: "application/json", "User-Agent": "berth" };
  const response = await fetch(`${API_URL}/user`, { headers, signal });
  if (!response.ok) throw new Error(`The service answered ${response.status} ${response.statusText}`.trim());
  const { login, public_repos } = (await response.json()) as { login: string; public_repos: number };
  return { name: login, repositories: public_repos };
}
