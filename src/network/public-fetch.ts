import { fetch as undiciFetch, type Agent, type RequestInit as UndiciInit } from "undici";
import { openAgent, openAgentToAnywhere, type Resolve } from "./agent.ts";
import type { AllowedHost } from "./allow-list.ts";
import { publicRules } from "./network-rules.ts";

const CONNECTIONS = 64;

/** `fetch` that reaches only hosts with public addresses, redirects included, and the addresses in `besides`. */
export function openPublicFetch(besides: readonly AllowedHost[] = [], resolve?: Resolve): typeof fetch {
  return fetchBy(openAgent({ rules: publicRules(besides), connections: CONNECTIONS, ...(resolve && { resolve }) }));
}

/** `fetch` that reaches any host that the machine can reach, with the same bounds on what hosts send. */
export function openFetch(): typeof fetch {
  return fetchBy(openAgentToAnywhere());
}

function fetchBy(dispatcher: Agent): typeof fetch {
  // The same standard, typed twice.
  return async (url, init) => undiciFetch(url as string, { ...(init as UndiciInit), dispatcher });
}
