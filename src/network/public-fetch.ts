import { fetch as undiciFetch, type RequestInit as UndiciInit } from "undici";
import { openAgent, type Resolve } from "./agent.ts";
import { publicRules } from "./rules.ts";

const CONNECTIONS = 64;

/** `fetch` that reaches hosts with public addresses alone, by redirects too. */
export function openPublicFetch(resolve?: Resolve): typeof fetch {
  const dispatcher = openAgent({ rules: publicRules(), connections: CONNECTIONS, ...(resolve && { resolve }) });
  // The same standard, typed twice.
  return async (url, init) => undiciFetch(url as string, { ...(init as UndiciInit), dispatcher });
}
