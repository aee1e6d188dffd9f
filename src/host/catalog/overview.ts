import type { Cid } from "../../lib/cid.ts";
import { listedProblems, type Problem } from "../../lib/problem.ts";
import { mapInTurns } from "../../lib/event-loop.ts";
import type { Catalog } from "./catalog.ts";
import type { DirectoryEntry } from "./directory.ts";
import type { ServerSummary } from "../host.ts";

/** A server in a few words, for long lists. */
export interface Overview {
  readonly name: string;
  readonly state: ServerSummary["state"];
  readonly description?: string;
  readonly problems: readonly Problem[];
  /** The names of its tools, in the order of the contract. */
  readonly tools: readonly string[];
  /** The tools that start programs. */
  readonly starting?: Catalog["starting"];
}

interface Known {
  readonly overview: Overview;
  readonly release: Cid;
  readonly contract: Cid;
}

interface Servers {
  /** The catalog if it is loaded now. */
  readonly loaded: (name: string) => Catalog | undefined;
  readonly summarize: (name: string, listed: DirectoryEntry) => Promise<ServerSummary>;
}

/**
 * Overviews of servers that serve, kept while their definition and entry stand: every look at the list would otherwise
 * load again the servers whose catalogs do not fit in memory.
 */
export class Overviews {
  readonly #known = new WeakMap<DirectoryEntry, Known>();

  async read(
    servers: readonly { readonly name: string; readonly listed: DirectoryEntry }[],
    { loaded, summarize }: Servers,
  ): Promise<Overview[]> {
    return mapInTurns(servers, async ({ name, listed }) => {
      const known = this.#known.get(listed);
      const catalog = known && loaded(name);
      const isSame = !catalog || (catalog.release === known.release && catalog.contractCid === known.contract);
      return known && isSame ? known.overview : this.#note(listed, await summarize(name, listed));
    });
  }

  /** The server may have changed under the same entry. */
  forget(listed: DirectoryEntry): void {
    this.#known.delete(listed);
  }

  /** Keeps the overviews of entries that say the same in the new directory. */
  follow(before: ReadonlyMap<string, DirectoryEntry> | undefined, now: ReadonlyMap<string, DirectoryEntry>): void {
    for (const [name, listed] of now) {
      const earlier = before?.get(name);
      if (earlier === listed) continue;
      const known = earlier && this.#known.get(earlier);
      if (known && JSON.stringify(earlier) === JSON.stringify(listed)) this.#known.set(listed, known);
    }
  }

  #note(listed: DirectoryEntry, { catalog, ...summary }: ServerSummary): Overview {
    const tools = catalog?.contract.tools ?? [];
    const about = summary.description ?? (tools.length === 1 ? tools[0]!.description : undefined);
    const overview = {
      ...summary,
      problems: listedProblems(summary.problems),
      ...(about !== undefined && { description: about }),
      tools: tools.map(({ name }) => name),
      starting: catalog?.starting,
    };
    // A server refused now may be served next time.
    if (catalog) this.#known.set(listed, { overview, release: catalog.release, contract: catalog.contractCid });
    return overview;
  }
}
