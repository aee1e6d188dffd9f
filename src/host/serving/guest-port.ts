import type { Principal } from "../../access/principal.ts";
import type { ToolContract } from "../../contract/contract.ts";
import { findUriFault, URI_UNITS_MAX } from "../../discover/uri-template.ts";
import { DeferredAnswer, type HostAnswer, type HostPort } from "../../executor/executor.ts";
import type { HostOperation } from "../../executor/host-operations.ts";
import { createYielder } from "../../lib/event-loop.ts";
import type { JsonObject } from "../../lib/json.ts";
import { tenantBasePath } from "../../lib/tenant-name.ts";
import type { Store } from "../../store/store.ts";
import type { ServerSummary } from "../catalog/overview.ts";
import { permittedCatalog } from "../catalog/permitted.ts";
import type { Catalog } from "../offers/catalog.ts";
import { UPDATES_MAX } from "./watchers.ts";

/** Definitions read this variable to get a JSON list of the hosted servers and their tools. */
const SERVERS_VARIABLE = "berth:servers";

/**
 * Answers requests of guest code; null means "not found". Tenant and server are bound here, so that no message can
 * address others. The guest receives a rejection as an error with the same message.
 */
export function createGuestPort(
  tenant: string,
  server: string,
  host: PortHost,
  store: Store,
  requests: GuestRequests,
): HostPort {
  const requester = { tenant, server, store };
  return {
    async request(op, params, { caller }) {
      switch (op) {
        case "variable":
          // Only run.ts sets `caller`.
          return variable(textParam(params, "name"), caller as Principal | undefined);
        case "cid": {
          const cid = textParam(params, "cid");
          return new DeferredAnswer("bytes", () => store.content(tenant, cid));
        }
        case "secret":
          throw new Error(
            'this server has no access to secrets; list the secrets it needs as "secrets" in its entry in mcps',
          );
        case "fetch":
        case "fetchWrite":
        case "fetchRead":
        case "fetchAbort":
          throw new Error(
            'this server has no network access; list the hosts it may reach as "network" in its entry in mcps',
          );
        case "resourceUpdated":
          if (host.resourceUpdated(tenant, server, uriParam(params))) return null;
          throw new Error(`${UPDATES_MAX} resource updates of this server are already pending; try again later`);
        case "offers":
          return new DeferredAnswer("json", offers);
        case "hide":
        case "show":
          await host.setVisible(tenant, server, textParam(params, "name"), op === "show");
          return null;
        default: {
          const answer = requests[op];
          if (answer) return answer(requester, params);
          throw new Error(`"${op}" is unavailable: this Berth was built without the feature that answers it`);
        }
      }
    },
  };

  async function variable(name: string, caller: Principal | undefined): Promise<HostAnswer> {
    if (name === SERVERS_VARIABLE) return new DeferredAnswer("text", () => describeServers(tenant, host, caller));
    const record = await store.name(tenant, "variable", name);
    return record ? new DeferredAnswer("text", () => store.content(tenant, record.cid), record.cid) : null;
  }

  async function offers(): Promise<Uint8Array> {
    const { contract, hidden } = await host.server(tenant, server);
    const offered = [
      ...contract.tools.map(({ name }) => ({ kind: "tool", name, visible: true })),
      ...contract.prompts.map(({ name }) => ({ kind: "prompt", name, visible: true })),
      ...hidden.map(({ kind, name }) => ({ kind, name, visible: false })),
    ];
    return Buffer.from(JSON.stringify(offered));
  }
}

/** Handlers of guest requests that features add, by operation. */
export type GuestRequests = Readonly<
  Partial<Record<HostOperation, (requester: Requester, params: JsonObject) => Promise<HostAnswer>>>
>;

/** The server whose code sends a request. */
export interface Requester {
  readonly tenant: string;
  readonly server: string;
  readonly store: Store;
}

/** The part of the host that guest code can use: reading servers, and changing its own one. */
export interface PortHost {
  server(tenant: string, name: string): Catalog | Promise<Catalog>;
  /** The names of all servers, sorted. */
  names(tenant: string): readonly string[];
  summary(tenant: string, name: string): Promise<ServerSummary | undefined>;
  /** False when too many updates are pending. */
  resourceUpdated(tenant: string, server: string, uri: string): boolean;
  /** Rejects when the server has no tool or prompt of that name. */
  setVisible(tenant: string, server: string, name: string, visible: boolean): Promise<void>;
}

function uriParam(params: JsonObject): string {
  const uri = textParam(params, "uri");
  const fault = uri.length > URI_UNITS_MAX ? `it is longer than ${URI_UNITS_MAX} characters` : findUriFault(uri);
  if (fault !== undefined) throw new TypeError(`"${uri.slice(0, 100)}" cannot be a resource: ${fault}`);
  return uri;
}

function textParam(params: JsonObject, name: string): string {
  const value = params[name];
  if (typeof value !== "string") throw new TypeError(`"${name}" must be a string`);
  return value;
}

/** Lists what the caller may use on all servers. Servers beyond the size limit are listed in less detail. */
async function describeServers(tenant: string, host: PortHost, caller: Principal | undefined): Promise<Uint8Array> {
  const budget = { all: new TextBudget(DETAILS_LENGTH_MAX), names: new TextBudget(NAMES_LENGTH_MAX) };
  const pieces: Uint8Array[] = [];
  const yieldIfDue = createYielder();
  // Sequential, so that the first servers get the budget.
  for (const name of host.names(tenant)) {
    await yieldIfDue();
    if (caller && !caller.permits("call", name) && !caller.permits("read", name)) continue;
    const summary = await host.summary(tenant, name);
    if (summary) pieces.push(COMMA, Buffer.from(await describeServer(tenant, summary, caller, budget)));
  }
  return Buffer.concat([Buffer.from("["), ...pieces.slice(1), Buffer.from("]")]);
}

const COMMA = Buffer.from(",");

async function describeServer(
  tenant: string,
  { name, state, description = "", catalog, problems }: ServerSummary,
  caller: Principal | undefined,
  budget: { readonly all: TextBudget; readonly names: TextBudget },
): Promise<string> {
  const { tools } = catalog ? (await permittedCatalog(catalog, caller)).contract : { tools: [] };
  const url = `${tenantBasePath(tenant)}/mcp/${encodeURIComponent(name)}`;
  const details = JSON.stringify({ name, state, description, url, problem: problems[0]?.message });
  const all = budget.all.take(details.length) ? await budget.all.stringify(tools, describeTool) : undefined;
  if (all !== undefined) return `${details.slice(0, -1)},"tools":${all}}`;
  const names = (await budget.names.stringify(tools, ({ name }) => ({ name }))) ?? "[]";
  return `${JSON.stringify({ name, state, url, cut: true }).slice(0, -1)},"tools":${names}}`;
}

function describeTool({ name, description = "", inputSchema }: ToolContract): object {
  return { name, description, inputSchema };
}

/** Character budgets: for full descriptions, and for the tool names of servers that exceed it. */
const DETAILS_LENGTH_MAX = 2 * 1024 * 1024;
const NAMES_LENGTH_MAX = 1024 * 1024;

/** A character budget. Limits the work on lists that turn out not to fit to the same amount. */
class TextBudget {
  #units: number;
  #wasteLeft: number;
  readonly #yieldIfDue = createYielder();

  constructor(units: number) {
    this.#units = this.#wasteLeft = units;
  }

  take(units: number): boolean {
    if (units > this.#units || this.#wasteLeft < 0) return false;
    this.#units -= units;
    return true;
  }

  /** The tools as a JSON array; undefined when it exceeds the budget. */
  async stringify(
    tools: readonly ToolContract[],
    describe: (tool: ToolContract) => object,
  ): Promise<string | undefined> {
    const texts: string[] = [];
    let units = 0;
    for (const tool of this.#wasteLeft < 0 ? [] : tools) {
      await this.#yieldIfDue();
      if (units > this.#units) break;
      const text = JSON.stringify(describe(tool));
      texts.push(text);
      units += text.length + 1;
    }
    if (this.take(units)) return `[${texts.join(",")}]`;
    this.#wasteLeft -= units;
    return undefined;
  }
}
