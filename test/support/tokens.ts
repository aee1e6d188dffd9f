import { readTokenRequest } from "../../src/access/token-request.ts";
import { Tokens } from "../../src/access/tokens.ts";
import type { TestBerth } from "./berth.ts";
import { onStoreOf } from "./tenants.ts";

/** Does what `berth token` does, as another process on the same data folder; `expires` is a time from now. */
export function makeToken(
  berth: Pick<TestBerth, "folder">,
  wish: Record<string, unknown>,
  { tenant = "default", now = Date.now() } = {},
): Promise<{ token: string; id: string }> {
  return onStoreOf(berth, async (store) => {
    const tokens = new Tokens(store.tokens, {
      databaseOutageMs: 0,
      onRevoked: () => {},
    });
    const { token, id } = await tokens.create(tenant, readTokenRequest(wish, now), "test");
    tokens.close();
    return { token, id };
  });
}

export function revoke(berth: Pick<TestBerth, "folder">, id: string, tenant = "default"): Promise<boolean> {
  return onStoreOf(berth, (store) => store.tokens.revoke(tenant, id, "test"));
}

/** Signs in, and returns the headers that a browser sends with the cookie from a page of the same origin. */
export async function signIn(
  url: string,
  token: string,
): Promise<Record<"Cookie" | "Origin" | "Sec-Fetch-Site", string>> {
  const own = { Origin: url, "Sec-Fetch-Site": "same-origin" };
  const headers = { "Content-Type": "application/json", ...own };
  const signedIn = await fetch(`${url}/sign-in`, { method: "POST", headers, body: JSON.stringify({ token }) });
  return { Cookie: signedIn.headers.get("set-cookie")!.split(";")[0]!, ...own };
}

export const bearer = (token: string): { Authorization: string } => ({ Authorization: `Bearer ${token}` });
