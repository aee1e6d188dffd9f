import type { HostPort } from "../executor/executor.ts";
import type { Json, JsonObject } from "../json.ts";
import type { Store } from "../store/store.ts";
import type { Host } from "./host.ts";

/** The variable by which a definition reads what this Berth hosts: a JSON list of servers with their tools. */
const SERVERS_VARIABLE = "berth:servers";

/**
 * What guest code may ask of the host; null is the answer for what is not there. The tenant is fixed here, so that
 * no message can name another one. A rejected request reaches the guest as an error with the same message.
 */
export function guestPort(tenant: string, host: Host, store: Store): HostPort {
  return {
    async request(op, params) {
      switch (op) {
        case "variable":
          return variable(textParam(params, "name"));
        case "cid":
          return content(textParam(params, "cid"));
        case "secret":
          return null;
        case "fetch":
          throw new Error("no network address is granted to this server");
      }
    },
  };

  async function variable(name: string): Promise<Json> {
    if (name === SERVERS_VARIABLE) return JSON.stringify(await describeServers(tenant, host));
    const record = await store.name(tenant, "variable", name);
    return record ? new TextDecoder().decode(await store.content(tenant, record.cid)) : null;
  }

  async function content(cid: string): Promise<Json> {
    const bytes = await store.content(tenant, cid);
    return bytes ? { base64: Buffer.from(bytes).toString("base64") } : null;
  }
}

function textParam(params: JsonObject, name: string): string {
  const value = params[name];
  if (typeof value !== "string") throw new TypeError(`"${name}" must be a text`);
  return value;
}

async function describeServers(tenant: string, host: Host): Promise<unknown[]> {
  const servers = await host.list(tenant);
  return servers.map(({ name, state, description, catalog, problems }) => ({
    name,
    state,
    description: description ?? "",
    url: `/mcp/${encodeURIComponent(name)}`,
    problem: problems[0]?.message,
    tools: (catalog?.contract.tools ?? []).map((tool) => ({
      name: tool.name,
      description: tool.description ?? "",
      inputSchema: tool.inputSchema,
    })),
  }));
}
