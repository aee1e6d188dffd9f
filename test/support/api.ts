import { setTimeout as sleep } from "node:timers/promises";
import { NODES, type TestBerth } from "./berth.ts";

/** The JSON API of a Berth under test, as a program on this machine uses it. */
export interface Api {
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<ApiReply>;
  /** Saves a text over any existing one, or as new. */
  put(path: string, text: string, headers?: Record<string, string>): Promise<ApiReply>;
  /** Deletes an entry or definition, whoever uses it. */
  remove(path: string): Promise<ApiReply>;
}

export interface ApiReply {
  readonly status: number;
  readonly headers: Headers;
  /** The CID in the ETag. */
  readonly cid: string;
  // An answer has any shape; tests look into it freely.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

export function apiOf(berth: Pick<TestBerth, "url">): Api {
  const api: Api = {
    async send(method, path, body, headers = {}) {
      const isText = typeof body === "string";
      const type = { "Content-Type": isText ? "text/plain" : "application/json" };
      const response = await fetch(`${berth.url}/api${path}`, {
        method,
        headers: { ...(body !== undefined && type), ...headers },
        ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      // The other node, which gets the next request, knows of a change within a second.
      if (NODES === 2 && method !== "GET" && response.ok) await sleep(1_000);
      const isJson = response.headers.get("content-type")?.includes("json");
      const cid = response.headers.get("etag")?.replaceAll('"', "") ?? "";
      return { status: response.status, headers: response.headers, cid, body: isJson ? JSON.parse(text) : text };
    },
    async put(path, text, headers = {}) {
      const { status } = await api.send("GET", path);
      return api.send("PUT", path, text, {
        ...(status === 404 ? { "If-None-Match": "*" } : { "If-Match": "*" }),
        ...headers,
      });
    },
    remove: (path) => api.send("DELETE", path, undefined, { "If-Match": "*", "Berth-Allow-Breaking": "true" }),
  };
  return api;
}

/** Saves an entry with other hosts in its `network`. */
export async function setNetwork(api: Api, server: string, network: readonly string[]): Promise<void> {
  const { body } = await api.send("GET", `/entries/${server}`);
  const entry = JSON.parse(body.files[server] as string) as object;
  const saved = await api.put(`/entries/${server}?allow_breaking=1`, JSON.stringify({ ...entry, network }));
  if (saved.status >= 300) throw new Error(JSON.stringify(saved.body));
}
