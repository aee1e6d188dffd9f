import type { Access } from "../../../access/access.ts";
import type { Cluster } from "../../../cluster/cluster.ts";
import type { Edits } from "../../../edits/edits.ts";
import type { Host } from "../../../host/host.ts";
import type { Catalog } from "../../../host/offers/catalog.ts";
import type { CallViews, SecretNames, SetupsFor } from "../../feature-routes.ts";
import type { OriginOf } from "../../public-origin.ts";
import type { RequestPlace } from "../../request-context.ts";
import type { RoutedContext } from "../../routed.ts";
import type { Page, Pages } from "../pages.ts";
import type { createOffers } from "../parts/offers.ts";

/** The parts that the page of a server is made with. */
export interface ServerPageOptions {
  readonly host: Host;
  readonly edits: Edits;
  readonly cluster: Pick<Cluster, "others">;
  readonly pages: Pages;
  readonly isolation: string;
  readonly originOf: OriginOf;
  readonly access: Pick<Access, "required" | "oauth">;
  /** False on a read-only boot. */
  readonly writable: boolean;
  readonly setups: readonly SetupsFor[];
  readonly calls: CallViews | undefined;
  readonly secrets: SecretNames | undefined;
}

/** The same for one request. */
export interface ServerPageParts extends ServerPageOptions, RequestPlace {
  readonly offersOf: ReturnType<typeof createOffers>;
  readonly styleNonce: string;
}

/** The server, or one release of it, that a page is about. */
export interface ShownServer {
  readonly name: string;
  /** The name in its address: `name`, or `name@<release>`. */
  readonly address: string;
  /** True for an address that serves one release for ever. */
  readonly isPinned: boolean;
  /** Comes with Berth: it has neither a definition nor an entry. */
  readonly isBuiltIn: boolean;
  readonly isUpstream: boolean;
  /** Only its history is left. */
  readonly isDeleted: boolean;
  /** The whole catalog; undefined while nothing is served. */
  readonly served: Catalog | undefined;
  /** The same as far as its reader may use it. */
  readonly catalog: Catalog | undefined;
}

/** One part of a server's page, with an address of its own: `?tab=<id>`. */
export interface ServerTab {
  /** Names its template, too: `views/partials/tab-<id>.hbs`. */
  readonly id: string;
  readonly label: string;
  /** True if there is something to show of this server. */
  isFor(shown: ShownServer): boolean;
  /** The values that its template needs. */
  view(shown: ShownServer, context: RoutedContext, parts: ServerPageParts): Promise<Partial<Page>>;
}
