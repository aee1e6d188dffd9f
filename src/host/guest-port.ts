import type { Principal } from "../access/principal.ts";
import { faultOfUri } from "../discover/uri-template.ts";
import type { HostPort } from "../executor/executor.ts";
import type { Json, JsonObject } from "../json.ts";
import type { Store } from "../store/store.ts";
import { basePathOf } from "../tenant-name.ts";
import { mapInTurns } from "../turns.ts";
import type { Host, ServerSummary } from "./host.ts";
import { permittedCatalog } from "./permitted.ts";

/** The variable by which a definition reads what this Berth hosts: a JSON list of servers with their tools. */
const SERVERS_VARIABLE = "berth:servers";

/**
 * What guest code may ask of the host; null is the answer for what is not there. The tenant is fixed here, so that
 * no message can name another one. A rejected request reaches the guest as an error with the same message.
 */
export function guestPort(tenant: string, server: string, host: PortHost, store: Store): HostPort {
  return {
    async request(op, params, { caller }) {
      switch (op) {
        case "variable":
          // Calls are given their callers by run-function.ts alone.
          return variable(textParam(params, "name"), caller as Principal | undefined);
        case "cid":
          return content(textParam(params, "cid"));
        case "secret":
          throw new Error(
            'this server is given no secret; "secrets" of its entry in mcps lists those that it is given',
          );
        case "fetch":
        case "fetchWrite":
        case "fetchRead":
        case "fetchAbort":
          throw new Error('this server has no network; "network" of its entry in mcps lists what it may reach');
        case "resourceUpdated":
          host.resourceUpdated(tenant, server, uriParam(params));
          return null;
        case "offers":
          return offers();
        case "hide":
        case "show":
          await host.setVisible(tenant, server, textParam(params, "name"), op === "show");
          return null;
      }
    },
  };

  async function variable(name: string, caller: Principal | undefined): Promise<Json> {
    if (name === SERVERS_VARIABLE) return JSON.stringify(await describeServers(tenant, host, caller));
    const record = await store.name(tenant, "variable", name);
    return record ? new TextDecoder().decode(await store.content(tenant, record.cid)) : null;
  }

  async function offers(): Promise<Json> {
    const { contract, hidden } = await host.server(tenant, server);
    return [
      ...contract.tools.map(({ name }) => ({ kind: "tool", name, visible: true })),
      ...contract.prompts.map(({ name }) => ({ kind: "prompt", name, visible: true })),
      ...hidden.map(({ kind, name }) => ({ kind, name, visible: false })),
    ];
  }

  async function content(cid: string): Promise<Json> {
    const bytes = await store.content(tenant, cid);
    return bytes ? { base64: Buffer.from(bytes).toString("base64") } : null;
  }
}

/** What a server's functions may do to the server itself. */
export interface PortHost extends Host {
  resourceUpdated(tenant: string, server: string, uri: string): void;
  /** Rejects when the server offers no tool and no prompt of that name. */
  setVisible(tenant: string, server: string, name: string, visible: boolean): Promise<void>;
}

const URI_UNITS_MAX = 8_192;

function uriParam(params: JsonObject): string {
  const uri = textParam(params, "uri");
  const fault = uri.length > URI_UNITS_MAX ? `it is longer than ${URI_UNITS_MAX} characters` : faultOfUri(uri);
  if (fault !== undefined) throw new TypeError(`"${uri.slice(0, 100)}" cannot be a resource: ${fault}`);
  return uri;
}

function textParam(params: JsonObject, name: string): string {
  const value = params[name];
  if (typeof value !== "string") throw new TypeError(`"${name}" must be a text`);
  return value;
}

/** What of all servers whose call it is may use: a server that may be asked tells nobody of what they may not. */
async function describeServers(tenant: string, host: Host, caller: Principal | undefined): Promise<unknown[]> {
  const described = await mapInTurns(host.names(tenant), async (name) => {
    if (caller && !caller.permits("call", name) && !caller.permits("read", name)) return [];
    const summary = await host.summary(tenant, name);
    return summary ? [await describeServer(tenant, summary, caller)] : [];
  });
  return described.flat();
}

async function describeServer(
  tenant: string,
  { name, state, description, catalog, problems }: ServerSummary,
  caller: Principal | undefined,
): Promise<unknown> {
  const { tools } = catalog ? (await permittedCatalog(catalog, caller)).contract : { tools: [] };
  return {
    name,
    state,
    description: description ?? "",
    url: `${basePathOf(tenant)}/mcp/${encodeURIComponent(name)}`,
    problem: problems[0]?.message,
    tools: tools.map((tool) => ({
      name: tool.name,
      description: tool.description ?? "",
      inputSchema: tool.inputSchema,
    })),
  };
}
