/**
 * Asks the API of a service with a key that no client sees. It is given the key, and the one host that it may reach, once
 * its entry grants what these tags request.
 *
 * @secret API_TOKEN the key of the service
 * @network api.github.com
 */

import type { ToolContext } from "berth";

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
  if (!key) throw new Error("The secret API_TOKEN is not set: set it on the page Secrets");
  const headers = { Authorization: `Bearer ${key}`, Accept: "application/json", "User-Agent": "berth" };
  const response = await fetch(`${API_URL}/user`, { headers, signal });
  if (!response.ok) throw new Error(`The service answered ${response.status} ${response.statusText}`.trim());
  const { login, public_repos } = (await response.json()) as { login: string; public_repos: number };
  return { name: login, repositories: public_repos };
}
