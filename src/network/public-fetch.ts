import { fetch as undiciFetch, type RequestInit as UndiciInit } from "undici";
import type { AllowedHost } from "./allow-list.ts";
import { openAgent, type Resolve } from "./agent.ts";
import { publicRules } from "./rules.ts";

const CONNECTIONS = 64;

/** `fetch` that reaches hosts with public addresses alone, by redirects too; and the addresses that `besides` names. */
export function openPublicFetch(besides: readonly AllowedHost[] = [], resolve?: Resolve): typeof fetch {
  const dispatcher = openAgent({ rules: publicRules(besides), connections: CONNECTIONS, ...(resolve && { resolve }) });
  // The same standard, typed twice.
  return async (url, init) => undiciFetch(url as string, { ...(init as UndiciInit), dispatcher });
}
