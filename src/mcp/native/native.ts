import { isCid } from "../../lib/cid.ts";
import type { Catalog } from "../../host/catalog.ts";
import { ALL_SERVERS } from "../../host/aggregate.ts";
import type { Host } from "../../host/host.ts";
import { permittedCatalog } from "../../host/permitted.ts";
import { BerthError } from "../../lib/errors.ts";
import { nearNames } from "../../lib/near-names.ts";
import type { Method, Place } from "../protocol.ts";
import { callNatively } from "./call.ts";

/**
 * Native calls: every tool is a JSON-RPC method of its own, `server.tool` or `server_tool`, beside MCP on the same
 * endpoints (seed 004, "Method Resolution"). It owns which tool a method's name means. It needs no handshake and no
 * header, and knows nothing of eras: MCP's own methods have been looked for before it is asked.
 */
export interface Native {
  /**
   * The method of this name at this place; undefined when no server's name begins it. Throws or rejects with
   * `method_not_found` when its server has no such tool, and as the host does for a server that is not served.
   */
  methodFor(place: Place, name: string): Promise<Method | undefined>;
}

/** The longest name of a server, a separator, the longest name of a tool, and some to spare for a release. */
const NAME_CHARACTERS_MAX = 320;

/** A separator tells native methods from those of MCP, which have none in any revision. */
export function isNativeName(method: string): boolean {
  return /[._]/.test(method);
}

export function createNative(host: Host): Native {
  return {
    async methodFor(place, name) {
      if (!isNativeName(name) || name.length > NAME_CHARACTERS_MAX) return undefined;
      const found = place.server === ALL_SERVERS ? await amongAll(place, name) : inOne(place.catalog, name);
      if (!found) return undefined;
      const { catalog, toolName } = found;
      const tool = catalog.tool(toolName);
      if (tool) return callNatively(catalog, tool);
      if (!mayKnow(place, catalog.server)) return undefined;
      const [near] = await nearNames(
        toolName,
        catalog.contract.tools.map((each) => each.name),
      );
      const suggestion = near === undefined ? "" : `; did you mean ${catalog.server}.${near}?`;
      const message = `${name}; the server "${catalog.server}" has no tool "${toolName}"${suggestion}`;
      throw new BerthError("method_not_found", message);
    },
  };

  /**
   * The dot goes before the underscore, and of several servers the one with the longest name has the method, whether
   * it has the tool or not: what a method means does not change with the tools that happen to be shown.
   */
  async function amongAll(place: Place, name: string): Promise<Found | undefined> {
    for (const separator of SEPARATORS) {
      for (let at = name.lastIndexOf(separator); at > 0; at = name.lastIndexOf(separator, at - 1)) {
        const address = name.slice(0, at);
        const server = withoutRelease(address);
        // A server is asked for only where there is one: a name may have hundreds of separators.
        const catalog = server !== undefined && host.has(place.tenant, server) && (await served(place, address));
        if (catalog) return { catalog, toolName: name.slice(at + 1) };
      }
    }
    return undefined;
  }

  /** To whom may not use a server, its tools are like those that it has not. */
  async function served(place: Place, server: string): Promise<Catalog | undefined> {
    const { tenant, principal } = place;
    try {
      return await permittedCatalog(await host.server(tenant, server), principal);
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
      if (error.code === "server_not_found" || !mayKnow(place, server)) return undefined;
      throw error;
    }
  }
}

/** The name of the server at an address such as `server` or `server@CID`; undefined where what follows is no CID. */
function withoutRelease(address: string): string | undefined {
  const at = address.indexOf("@");
  if (at < 0) return address;
  return isCid(address.slice(at + 1)) ? address.slice(0, at) : undefined;
}

/** Whoever may use nothing of a server does not hear that it is there. */
function mayKnow({ principal }: Pick<Place, "principal">, server: string): boolean {
  return !principal || principal.permits("call", server) || principal.permits("read", server);
}

interface Found {
  readonly catalog: Catalog;
  readonly toolName: string;
}

const SEPARATORS = [".", "_"] as const;

/** At the address of one server there is no other whose name could be meant. */
function inOne(catalog: Catalog, name: string): Found | undefined {
  const { server } = catalog;
  const isOwn = name.startsWith(server) && SEPARATORS.some((separator) => name[server.length] === separator);
  return isOwn ? { catalog, toolName: name.slice(server.length + 1) } : undefined;
}
